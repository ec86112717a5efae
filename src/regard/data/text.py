"""Text processing of a model: a tokenizer and a vocabulary for the source and for the target language.

`TextProcessor.save` writes it to a directory: `text.json` (tokenizer types, settings, checksums),
`SIDE.vocabulary` (one token per line), and the learned parameters of the tokenizers (`SIDE.bpe`,
`SIDE.sentencepiece`) or the files of a Hugging Face tokenizer (`SIDE.pretrained`).
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from regard.config import configclass, option, to_dict
from regard.data.batch import Batch, collate
from regard.data.fertility import (
    Budget,
    ConstantFertilityConfig,
    Fertilities,
    FertilityConfig,
    GuidedFertilityConfig,
    PredictedFertilityConfig,
)
from regard.text.files import write_atomic
from regard.text.reading import checked_file, compute_checksums, read_expected_json, verify_checksums
from regard.text.tokenizers.base import PLAIN_TEXT, TOKENIZERS, TextFormat, Tokenizer, TokenizerConfig
from regard.text.tokenizers.moses import convert_format
from regard.text.tokenizers.words import SPACE_MARK, WordsConfig
from regard.text.vocabulary import BOS, EOS, PAD, SINK, SPECIAL_TOKENS, TokenIds, Vocabulary
from regard.text.words import ASCII_WHITESPACE, split_whitespace

TEXT_FILE = "text.json"


@dataclass(frozen=True)
class TextSide:
    """Text processing of one language.

    Attributes:
        tokenizer: Converts text to tokens and back.
        vocabulary: Converts tokens to ids and back.
        source_prefixes: Words that become a single token at the start of a line (`<2de>`). Source side only.
        tokens_are_words: Whether every token counts as a word, regardless of `Tokenizer.word_ids`.
        text_format: The format of the training text; input text is converted to it.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    source_prefixes: tuple[str, ...] = ()
    tokens_are_words: bool = False
    text_format: TextFormat = PLAIN_TEXT

    def tokenize(self, line: str) -> list[str]:
        """Return the tokens of a line.

        A source prefix at the start of the line is kept as one token. All input text passes through this
        method. The line is first converted to the format of the training text, see `convert_format`.
        """
        prefix, rest = self._split_prefix(line)
        line = convert_format(
            rest,
            self.text_format,
            lambda word: word in self.vocabulary or SPACE_MARK + word in self.vocabulary,
        )
        tokens = self.tokenizer.encode(line)
        return [*prefix, *(part for token in tokens for part in self.split_unknown(token))]

    def split_unknown(self, token: str) -> Sequence[str]:
        """Return the token, or smaller tokens for the same text if it is not in the vocabulary."""
        # A subword token may be missing from the vocabulary if it is too rare in the training text.
        return (token,) if token in self.vocabulary else self.tokenizer.split_unknown(token)

    def format_error(self, line: str) -> str | None:
        """Return the reason why a line does not have the tokenizer's format, or None if it does."""
        return self.tokenizer.format_error(self._split_prefix(line)[1])

    def encode(self, line: str) -> list[int]:
        """Return the ids of a line, without `BOS`, `EOS` and padding."""
        return self.vocabulary.to_ids(self.tokenize(line))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; `PAD`, `BOS`, `EOS` and `SINK` are dropped, `UNK` becomes `<unk>`."""
        # The text contains `<unk>`, so that an omission is visible.
        words = [number for number in ids if number not in (PAD, BOS, EOS, SINK)]
        return self.tokenizer.decode(self.vocabulary.to_tokens(words))

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the word index, from 0, of each token of `tokenize`; a source prefix counts as a word."""
        if self.tokens_are_words:
            return list(range(len(tokens)))
        if tokens and tokens[0] in self.source_prefixes:
            # The prefix is word 0, and the words of the sentence follow.
            return [0, *(word + 1 for word in self.tokenizer.word_ids(tokens[1:]))]
        return self.tokenizer.word_ids(tokens)

    def _split_prefix(self, line: str) -> tuple[list[str], str]:
        if self.source_prefixes:
            first, *_ = split_whitespace(line) or [""]
            if first in self.source_prefixes:
                return [first], line.lstrip(ASCII_WHITESPACE).removeprefix(first).lstrip(ASCII_WHITESPACE)
        return [], line


@configclass
class _TextConfig:
    """The content of `text.json`."""

    source_tokenizer: TokenizerConfig = option(default=WordsConfig, help="The source tokenizer.")
    target_tokenizer: TokenizerConfig = option(default=WordsConfig, help="The target tokenizer.")
    source_prefixes: tuple[str, ...] = option(default=(), help="Prefix tokens of source sentences.")
    source_format: TextFormat = option(default=TextFormat, help="Format of the source training text.")
    target_format: TextFormat = option(default=TextFormat, help="Format of the target training text.")
    fertility: FertilityConfig | None = option(default=None, help="Fertility of the source tokens.")
    sha256: dict[str, str] = option(default=dict, help="SHA-256 checksums of the other files.")


@dataclass(frozen=True)
class TextProcessor:
    """Text processing of a source and a target language.

    A fertility predictor is a model and not part of this class: see `regard.runs.fertility_predictor`.

    Attributes:
        source: The source side.
        target: The target side. If each source token counts as a word, as in inflection, so does each target
            token.
        budget: Fertilities of the source tokens, or None if attention is not limited.
    """

    source: TextSide
    target: TextSide
    budget: Budget | None = None

    def __post_init__(self) -> None:
        """Count each target token as a word if the source tokenizer requires it."""
        if self.source.tokenizer.tokens_are_words and not self.target.tokens_are_words:
            # The dataclass is frozen.
            object.__setattr__(self, "target", dataclasses.replace(self.target, tokens_are_words=True))

    @property
    def sink_tokens(self) -> tuple[str, ...]:
        """The tokens that the model attends to in addition to the source tokens: `<sink>`, or none.

        If the tokenizer adds symbols of its own around a line, these serve as sinks: they may receive any
        amount of attention. Here they all follow the line.
        """
        if self.source.tokenizer.special_tokens:
            return self.source.tokenizer.special_tokens
        return SPECIAL_TOKENS[SINK : SINK + 1] if self.budget is not None and self.budget.config.sink else ()

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 checksum of everything that determines the tokens of a line and their ids.

        The format of the lines is left out: converted text has the same tokens as text in the format of the
        training text.
        """
        total = hashlib.sha256()
        for side in (self.source, self.target):
            settings = [to_dict(side.tokenizer.config), side.source_prefixes]
            # The files of a pre-trained tokenizer are part of `learned`; their path has no effect.
            settings[0].pop("path", None)
            for part in (json.dumps(settings).encode(), side.tokenizer.learned, side.vocabulary.to_bytes()):
                # With the length, no two different sequences of parts are equal.
                total.update(len(part).to_bytes(8, "little") + part)
        return total.hexdigest()

    def vocabulary_difference(self, other: "TextProcessor", name: str) -> str | None:
        """Return which vocabulary differs from that of another model, or None if both are equal.

        Args:
            other: The text processing of the other model.
            name: Name of the other model, for the message.
        """
        for side in ("target", "source"):
            vocabulary, its = getattr(self, side).vocabulary, getattr(other, side).vocabulary
            if vocabulary != its:
                counts = f"{len(vocabulary)} tokens, not {len(its)}"
                return f"its {side} vocabulary ({counts}) differs from that of {name}"
        return None

    def difference(self, other: "TextProcessor", name: str) -> str | None:
        """Return which part of the text processing differs from that of another model, or None if none does.

        Models with equal vocabularies may have learned other merges, and then split words into other tokens.
        For the arguments, see `vocabulary_difference`.
        """
        if (reason := self.vocabulary_difference(other, name)) is not None:
            return reason
        for side in ("target", "source"):
            parts = [
                {
                    "tokenizer": (text.tokenizer.config, text.tokenizer.learned),
                    "prefixes": text.source_prefixes,
                    # The language, from the names of the training files, does not change the training text.
                    "text format": dataclasses.replace(text.text_format, language=None),
                }
                for text in (getattr(self, side), getattr(other, side))
            ]
            for part, value in parts[0].items():
                if value != parts[1][part]:
                    return f"its {side} {part} differs from that of {name}"
        if self.budget != other.budget:
            return f"its fertilities (data.fertility) differ from those of {name}"
        return None

    def without_conversion(self) -> "TextProcessor":
        """Return a copy for text in the format of the training text, which is not converted."""
        source, target = (
            dataclasses.replace(side, text_format=TextFormat(language=side.text_format.language))
            for side in (self.source, self.target)
        )
        return TextProcessor(source, target, self.budget)

    def batch(
        self,
        sources: Sequence[TokenIds],
        targets: Sequence[TokenIds] | None,
        rows: TokenIds,
        fertilities: Sequence[Fertilities | None] | None = None,
    ) -> Batch:
        """Return sentences as a padded batch, with sinks and attention bounds if there is a budget.

        Args:
            sources: The ids of each source sentence.
            targets: The ids of each target sentence, ending in `EOS`. None in translation.
            rows: The index of each sentence.
            fertilities: User-specified bounds per sentence; None entries use the budget.
        """
        num_sinks = len(self.sink_tokens)
        sink_ids = np.full(num_sinks, SINK, dtype=np.int64)
        # Sinks follow the tokens, so that positions in the text are the same with and without sinks.
        with_sinks = [np.concatenate([np.asarray(ids, dtype=np.int64), sink_ids]) for ids in sources]
        if self.budget is None:
            return collate(with_sinks, targets, rows)
        return collate(with_sinks, targets, rows, *self.budget.bounds(sources, fertilities, num_sinks))

    def save(self, directory: Path | str) -> None:
        """Write the text processing to an existing directory.

        `text.json`, which contains the checksums of the other files, is written last.

        Raises:
            DataError: if a file cannot be written.
        """
        directory = Path(directory)
        for name, side in (("source", self.source), ("target", self.target)):
            side.vocabulary.save(directory / f"{name}.vocabulary")
            side.tokenizer.save(directory, name)
        if self.budget is not None and isinstance(self.budget.config, GuidedFertilityConfig):
            self.budget.save(directory / "source.fertility", self.source.vocabulary)
        content = _TextConfig(
            source_tokenizer=self.source.tokenizer.config,
            target_tokenizer=self.target.tokenizer.config,
            source_prefixes=self.source.source_prefixes,
            source_format=self.source.text_format,
            target_format=self.target.text_format,
            fertility=None if self.budget is None else self.budget.config,
            sha256=compute_checksums(directory, _files(directory)),
        )
        text = json.dumps(to_dict(content), indent=2, ensure_ascii=False) + "\n"
        write_atomic(directory / TEXT_FILE, text.encode())

    @classmethod
    def load(cls, directory: Path | str) -> "TextProcessor":
        """Load text processing that was written by `save`.

        Raises:
            DataError: if a file is missing, truncated or altered. The message names the file.
        """
        directory = Path(directory)
        path = checked_file(directory, TEXT_FILE)
        settings = read_expected_json(path, _TextConfig, "the description of text processing")
        verify_checksums(directory, settings.sha256, _files(directory), TEXT_FILE)
        sides = [
            TextSide(
                TOKENIZERS.part_of(config).load(config, directory, name),
                Vocabulary.load(directory / f"{name}.vocabulary"),
            )
            for name, config in (("source", settings.source_tokenizer), ("target", settings.target_tokenizer))
        ]
        source = dataclasses.replace(
            sides[0], source_prefixes=settings.source_prefixes, text_format=settings.source_format
        )
        target = dataclasses.replace(sides[1], text_format=settings.target_format)
        return cls(source, target, _budget(settings.fertility, directory, source.vocabulary))


def _files(directory: Path) -> list[str]:
    """Return the names of the existing files of `save`, except `text.json`."""
    return sorted(path.name for side in ("source", "target") for path in directory.glob(f"{side}.*"))


def _budget(config: FertilityConfig | None, directory: Path, vocabulary: Vocabulary) -> Budget | None:
    if config is None:
        return None
    if isinstance(config, ConstantFertilityConfig):
        return Budget.constant(config, len(vocabulary))
    if isinstance(config, PredictedFertilityConfig):
        return Budget(config)
    return Budget.load(directory / "source.fertility", config, vocabulary)
