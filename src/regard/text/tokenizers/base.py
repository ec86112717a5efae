"""The base class of tokenizers, their registry and training, and the detected format of the training text.

Tokenization has two stages. `pretokenize` splits a line into units; it depends on the whole line. `segment`
splits each unit into tokens; it depends on the unit only. Preprocessing therefore segments each distinct unit
of a corpus only once.

If the training text is tokenized (`Der Hund schläft .`), its vocabulary contains `.` but not `schläft.`. If
it is lowercased, its vocabulary contains `hund` but not `Hund`. The format of the training text is stored
with the vocabularies, and `regard.text.tokenizers.moses.convert_format` converts input lines to it.
"""

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from regard.config import configclass, option
from regard.config.registry import PartConfig, Registry, subclass_of
from regard.errors import DataError
from regard.text.compression import remove_suffix
from regard.text.files import write_atomic
from regard.text.reading import read_bytes
from regard.text.words import split_whitespace

STOPS = frozenset(".,。、؟،।॥۔")
"""Punctuation marks that never follow a space in plain text, in any script."""
_MIN_LOWERCASE_WORDS = 100
"""Number of words in lower case, without a capital letter among them, from which a text is lowercased."""


@configclass
class TextFormat:
    """Format of the training text of one language."""

    tokenized: bool = option(default=False, help="Whether punctuation is separated from words.")
    escaped: bool = option(
        default=False, help="Whether quotes and brackets are escaped as in Moses, such as &quot;."
    )
    lowercase: bool = option(default=False, help="Whether the text contains no capital letters.")
    language: str | None = option(
        default=None, help="Language as a two-letter code, or null if unknown.", pattern="^[a-z]{2,3}$"
    )


PLAIN_TEXT = TextFormat()
"""Plain text in an unknown language."""


@dataclass
class TextFormatDetector:
    """Counts words by their punctuation marks and their case, to detect the format of a text.

    Attributes:
        separate: The number of full stops and commas that are separate words.
        attached: The number of words that end in one.
        escapes: The number of words that start with an escape of Moses.
        lower: The number of words in lower case.
        capitalized: The number of words with a capital letter.
    """

    separate: int = 0
    attached: int = 0
    escapes: int = 0
    lower: int = 0
    capitalized: int = 0

    def add(self, line: str) -> None:
        """Count the words of a line."""
        for word in split_whitespace(line):
            if word in STOPS:
                self.separate += 1
            elif word[-1] in STOPS:
                self.attached += 1
            elif word.startswith(("&apos;", "&quot;")):
                self.escapes += 1
            self.capitalized += word != word.lower()
            self.lower += word.islower()

    def detect(self, language: str | None) -> TextFormat:
        """Return the format: tokenized if most full stops and commas are separate words."""
        return TextFormat(
            tokenized=self.separate > self.attached,
            escaped=self.escapes > 0,
            lowercase=not self.capitalized and self.lower >= _MIN_LOWERCASE_WORDS,
            language=language,
        )


class Tokenizer(ABC):
    """Abstract base class of tokenizers, which convert text to tokens and back.

    Lines contain no line breaks, and a run of ASCII white space is equivalent to one space. Tokens are not
    empty and contain no line breaks.

    Attributes:
        inventory: The set of possible tokens, if the tokenizer has a closed inventory, else None.
        required_tokens: Tokens that are always in the vocabulary, with the first ids after the special
            symbols.
        pretrained_tokens: All tokens of a pre-trained tokenizer in the order of their ids, else None.
        special_tokens: Names of the special tokens that a pre-trained tokenizer adds around every source
            line.
        tokens_are_words: If this is the source tokenizer, whether each target token counts as a word in
            alignments and attention maps.
        word_start: Pattern of the tokens that start a word, except at the start of a line; None if all do.
        subword: Whether words are split into subword tokens, so that no unknown token need be generated.
        has_vocabulary: Whether the tokenizer is pre-trained and has its own vocabulary.
        serves_both_sides: Whether the source tokenizer is also that of the target, with the same options.
        extension: Extension of the file of the learned parameters; empty if there are none.
        plain_text: Whether the tokenizer takes plain text, so that the punctuation of input is not separated.
            Text with the option `tokenized` of the configuration is never plain.
        config: The configuration.
        learned: The learned parameters. With `config`, they determine the tokens. Empty if there are none.
    """

    inventory: frozenset[str] | None = None
    required_tokens: tuple[str, ...] = ()
    pretrained_tokens: tuple[str, ...] | None = None
    special_tokens: tuple[str, ...] = ()
    tokens_are_words: bool = False
    word_start: ClassVar[re.Pattern[str] | None] = None
    subword: bool = False
    has_vocabulary: ClassVar[bool] = False
    serves_both_sides: ClassVar[bool] = False
    extension: ClassVar[str] = ""
    plain_text: ClassVar[bool] = False
    config: Any
    learned: bytes

    def __init__(self, config: Any, learned: bytes = b"") -> None:
        """Store the configuration and the learned parameters.

        Raises:
            ValueError: if the parameters, which may come from a file, are invalid.
        """
        self.config, self.learned = config, learned

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor, without compiled patterns and caches."""
        return type(self), (self.config, self.learned) if self.extension else (self.config,)

    @classmethod
    def create(cls, config: Any, text: Iterable[str], side: str) -> Self:
        """Create a tokenizer that can `pretokenize`; a tokenizer that is trained on raw text is trained here.

        Args:
            config: The configuration. If it has an option `max_training_lines`, `text` consists of
                that many evenly spaced lines of the training text, otherwise it is empty.
            text: Lines of the training text.
            side: `source` or `target`.
        """
        return cls(config)

    def learn(self, counts: Mapping[str, int]) -> "Tokenizer":
        """Return a tokenizer that can also `segment`, trained on the frequencies of the units of the text."""
        return self

    @classmethod
    def load(cls, config: Any, directory: Path, side: str) -> "Tokenizer":
        """Load a tokenizer that was written by `save`.

        Raises:
            DataError: if a file is missing or invalid.
        """
        path = directory / f"{side}.{cls.extension}"
        try:
            return cls(config, read_bytes(path)) if cls.extension else cls(config)
        except ValueError as error:
            raise DataError(f"{path}: not the parameters of a tokenizer: {error}") from None

    @classmethod
    def input_files(cls, config: Any) -> Sequence[Path]:
        """Return the files of a pre-trained tokenizer, whose content determines the prepared data."""
        return ()

    @abstractmethod
    def pretokenize(self, line: str) -> list[str]:
        """Split a line into units; an empty line has none."""

    def segment(self, unit: str) -> Sequence[str]:
        """Split a unit into tokens; by default, the unit is one token."""
        return (unit,)

    def encode(self, line: str) -> list[str]:
        """Return the tokens of a line."""
        return [token for unit in self.pretokenize(line) for token in self.segment(unit)]

    def encode_inside(self, words: str) -> list[str] | None:
        """Return the tokens of words after other words; None if they are those at the start of a line."""
        return None

    def split_unknown(self, token: str) -> Sequence[str]:
        """Return smaller tokens for the text of a token that is not in the vocabulary.

        By default, this is the token itself.
        """
        return (token,)

    @abstractmethod
    def decode(self, tokens: Sequence[str]) -> str:
        """Convert tokens to text."""

    def to_plain_text(self, line: str) -> str:
        """Return a line of a text file in the form in which `decode` returns text."""
        return line

    def format_error(self, line: str) -> str | None:
        """Return the reason why a line does not have the tokenizer's format; None if it does."""
        return None

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token: from 0, non-decreasing, equal for subwords of a word."""
        starts = (self.word_start is None or self.word_start.match(token) for token in tokens)
        return list(accumulate(int(place > 0 and bool(start)) for place, start in enumerate(starts)))

    def save(self, directory: Path, side: str) -> None:
        """Write the learned parameters, if there are any, to the file `SIDE.EXTENSION` in `directory`.

        Raises:
            DataError: if the file cannot be written.
        """
        if self.extension:
            write_atomic(directory / f"{side}.{self.extension}", self.learned)


TOKENIZERS: Registry[type[Tokenizer]] = Registry(
    "tokenizer", default="words", packages=["regard.text.tokenizers"], contract=subclass_of(Tokenizer)
)
register_tokenizer = TOKENIZERS.register

TokenizerConfig = Annotated[PartConfig, TOKENIZERS]


def joint_option() -> bool:
    """Return the option of a configuration for a subword model of both sides."""
    return option(
        default=True,
        help="Learn one subword model from the source and target text of all training corpora; both "
        "tokenizer tables must then be equal, except for `language`. false: one model per side.",
    )


def detect_text_format(
    counter: TextFormatDetector, config: TokenizerConfig, files: Sequence[str | None]
) -> TextFormat:
    """Return the format of the training text of one side, by which input is converted.

    Args:
        counter: The counts of the text.
        config: The configuration of the tokenizer.
        files: The files of the text. Their extensions (`train.de`, `train.de.gz`) give the language, unless
            the tokenizer separates the punctuation of a language itself.
    """
    extensions = {Path("" if name is None else remove_suffix(name)).suffix for name in files}
    # Corpora in several languages have no common extension, and so no known language.
    extension = extensions.pop().removeprefix(".") if len(extensions) == 1 else ""
    plain = TOKENIZERS.part_of(config).plain_text and not getattr(config, "tokenized", False)
    language = extension if re.fullmatch("[a-z]{2}", extension) else None
    detected = counter.detect((plain and getattr(config, "language", None)) or language)
    # With any tokenizer, capital letters are unknown if the training text has none.
    return dataclasses.replace(detected, tokenized=False, escaped=False) if plain else detected


def check_joint_tokenizers(source: TokenizerConfig, target: TokenizerConfig) -> None:
    """Check that a joint tokenizer has the same settings on both sides, except for the language.

    Raises:
        ValueError: if the settings differ.
    """
    if getattr(source, "joint", False) or getattr(target, "joint", False):
        # The subword model is shared, but each side keeps the punctuation rules of its language.
        settings = [{**vars(side), "language": None} for side in (source, target)]
        if settings[0] != settings[1]:
            raise ValueError(
                "a joint tokenizer is trained on both sides with the same settings, except for the language: "
                "use equal settings for source_tokenizer and target_tokenizer, or set joint = false"
            )


def create_tokenizers(
    source: TokenizerConfig, target: TokenizerConfig, texts: tuple[Iterable[str], Iterable[str]]
) -> tuple[Tokenizer, Tokenizer]:
    """Return tokenizers that can `pretokenize`, trained on raw text if they need it.

    Args:
        source: Configuration of the source tokenizer.
        target: Configuration of the target tokenizer.
        texts: The training lines of each side, which are consumed only if needed.
    """
    if getattr(source, "joint", False):
        # Trained once, on the text of both sides.
        first = TOKENIZERS.part_of(source).create(source, chain.from_iterable(texts), "source")
        return first, type(first)(target, first.learned)
    return (
        TOKENIZERS.part_of(source).create(source, texts[0], "source"),
        TOKENIZERS.part_of(target).create(target, texts[1], "target"),
    )


def learn_tokenizers(
    tokenizers: tuple[Tokenizer, Tokenizer], counts: tuple[Mapping[str, int], Mapping[str, int]]
) -> tuple[Tokenizer, Tokenizer]:
    """Return tokenizers that can also `segment`, trained on unit counts if they need it.

    Args:
        tokenizers: The source and the target tokenizer of `create_tokenizers`.
        counts: The frequency of each unit in the training text of each side.
    """
    source, target = tokenizers
    if getattr(source.config, "joint", False):
        # A joint model sees each word as often as both sides together.
        units = {unit: counts[0].get(unit, 0) + counts[1].get(unit, 0) for side in counts for unit in side}
        learned = source.learn(units)
        return learned, type(learned)(target.config, learned.learned)
    return source.learn(counts[0]), target.learn(counts[1])
