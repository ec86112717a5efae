"""The base class of tokenizers.

Tokenization has two stages. `pretokenize` splits a line into units; it depends on the whole line. `segment`
splits each unit into tokens; it depends on the unit only. Preprocessing therefore segments each distinct unit
of a corpus only once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.data.punctuation import TextFormat, TextFormatDetector

__all__ = ["Tokenizer"]


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
        subword: Whether words are split into subword tokens, so that no unknown token need be generated.
        libraries: Python packages that determine the tokens; their versions are recorded with the data.
        config: The configuration.
    """

    inventory: frozenset[str] | None = None
    required_tokens: tuple[str, ...] = ()
    pretrained_tokens: tuple[str, ...] | None = None
    special_tokens: tuple[str, ...] = ()
    tokens_are_words: bool = False
    subword: bool = False
    libraries: ClassVar[tuple[str, ...]] = ()
    config: Any

    def __init__(self, config: Any) -> None:
        """Store the configuration."""
        self.config = config

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

    def with_config(self, config: Any) -> "Tokenizer":
        """Return a tokenizer with the same learned parameters and another configuration.

        A joint tokenizer (option `joint`) is trained on both sides, whose languages may differ.
        """
        return type(self)(config)

    @classmethod
    def load(cls, config: Any, directory: Path, side: str) -> "Tokenizer":
        """Load a tokenizer that was written by `save`.

        Raises:
            DataError: if a file is missing or invalid.
        """
        return cls(config)

    @classmethod
    def detect_format(cls, config: Any, detector: TextFormatDetector, language: str | None) -> TextFormat:
        """Return the format of the training text, by which input is converted before it is tokenized.

        A tokenizer that separates punctuation itself returns `TextFormat(language=language)`: its text counts
        as plain.

        Args:
            config: The configuration.
            detector: The punctuation counts of the text.
            language: The two-letter code in the names of the text files, if there is one.
        """
        return detector.detect(language)

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

    def symbols(self, tokens: Sequence[str]) -> Sequence[str]:
        """Return the tokens that belong to a closed set of symbols, such as morphological features.

        Such a token that is not in the vocabulary is more likely an error than a rare word.
        """
        return ()

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index of each token: from 0, non-decreasing, equal for subwords of a word."""
        return list(range(len(tokens)))

    def save(self, directory: Path, side: str) -> None:  # noqa: B027  most tokenizers have nothing to write
        """Write the learned parameters, if there are any, to files `SIDE.*` in `directory`.

        Raises:
            DataError: if the file cannot be written.
        """
