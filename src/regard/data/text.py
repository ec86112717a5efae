"""Everything a model needs to read and write text: a tokenizer and a vocabulary for each side.

`TextPair.save` puts it into a folder as plain files that a person can read: `text.json` (kinds, settings,
checksums), `SIDE.vocabulary` (a token a line) and what a tokenizer learned
(`SIDE.bpe`, `SIDE.sentencepiece`), or the files of a tokenizer of another library (`SIDE.pretrained`).
"""

import dataclasses
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from regard.config import config, option, to_dict
from regard.data.batch import Batch, collate
from regard.data.fertility import (
    Budget,
    ConstantFertilityConfig,
    Fertilities,
    FertilityConfig,
    GuidedFertilityConfig,
    PredictedFertilityConfig,
)
from regard.data.files import write_atomic
from regard.data.punctuation import PLAIN, TextForm, set_apart
from regard.data.reading import NotJson, read_json
from regard.data.sealed import check_seal, own_file, seal
from regard.data.spacing import SPACES, split_at_spaces
from regard.data.tokenizer import Tokenizer, TokenizerConfig, WordsConfig, load_tokenizer
from regard.data.tokenizers.words import SPACE
from regard.data.vocabulary import BOS, EOS, PAD, SINK, SPECIALS, UNK, Ids, Vocabulary
from regard.errors import DataError

__all__ = ["Side", "TextPair"]

FILE = "text.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Side:
    """The text handling of one language.

    Attributes:
        tokenizer: Text to tokens.
        vocabulary: Tokens to ids.
        tags: Words that, at the start of a line, are tokens as they stand (`<2de>`); source side only.
        apart: Whether every token counts as a word, whatever the tokenizer says.
        form: How its training text is written; plain text that comes in is written so, too.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    tags: tuple[str, ...] = ()
    apart: bool = False
    form: TextForm = PLAIN

    def tokenize(self, line: str) -> list[str]:
        """The tokens of a line, its tag kept whole; symbols that are not known are told of, once each.

        The one place where text comes in: where the training text is tokenised, the punctuation of a plain
        line is set apart before; see `regard.data.punctuation`.
        """
        tag, rest = self._tag(line)
        tokens = self.tokenizer.encode(set_apart(rest, self.form, self._known))
        self.tell_unknown(tokens)
        return [*tag, *(part for token in tokens for part in self.spell(token))]

    def spell(self, token: str) -> Sequence[str]:
        """Return the token, or smaller tokens for the same text where the vocabulary lacks it."""
        return (token,) if token in self.vocabulary else self.tokenizer.spell(token)

    def _known(self, word: str) -> bool:
        return word in self.vocabulary or SPACE + word in self.vocabulary

    def problem(self, line: str) -> str | None:
        """Why a line is not text of the tokenizer's form; none where it is."""
        return self.tokenizer.problem(self._tag(line)[1])

    def tell_unknown(self, tokens: Sequence[str]) -> None:
        """Warn of the tokenizer's symbols that the vocabulary lacks, of each once."""
        for symbol in self.tokenizer.symbols(tokens):
            if symbol not in self.vocabulary:
                _tell_unknown(symbol)

    def encode(self, line: str) -> list[int]:
        """The ids of a line: neither start, nor end, nor padding."""
        return self.vocabulary.ids(self.tokenize(line))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; padding, start, end and sink are dropped, an unknown token stays as `<unk>`."""
        words = [number for number in ids if number not in (PAD, BOS, EOS, SINK)]
        return self.tokenizer.decode(self.vocabulary.strings(words))

    def word_ids(self, tokens: Sequence[str]) -> list[int]:
        """Which word each token of `tokenize` belongs to, counted from 0; a tag is a word."""
        if self.apart:
            return list(range(len(tokens)))
        if tokens and tokens[0] in self.tags:
            return [0, *(word + 1 for word in self.tokenizer.word_ids(tokens[1:]))]
        return self.tokenizer.word_ids(tokens)

    def _tag(self, line: str) -> tuple[list[str], str]:
        if self.tags:
            first, *_ = split_at_spaces(line) or [""]
            if first in self.tags:
                return [first], line.lstrip(SPACES).removeprefix(first).lstrip(SPACES)
        return [], line


@lru_cache(maxsize=10_000)
def _tell_unknown(symbol: str) -> None:
    _log.warning("%s: not known from the training text; read as %s", symbol, SPECIALS[UNK])


@config
class _TextConfig:
    """The content of `text.json`."""

    source: TokenizerConfig = option(default=WordsConfig, help="The source tokenizer.")
    target: TokenizerConfig = option(default=WordsConfig, help="The target tokenizer.")
    tags: tuple[str, ...] = option(default=(), help="Tag words of the source side.")
    source_form: TextForm = option(default=TextForm, help="How the source training text is written.")
    target_form: TextForm = option(default=TextForm, help="How the target training text is written.")
    fertility: FertilityConfig | None = option(default=None, help="What source tokens may receive.")
    sha256: dict[str, str] = option(default=dict, help="The checksum of each file beside this one.")


@dataclass(frozen=True)
class TextPair:
    """The text handling of a source and a target language.

    What predicts fertilities is a model and none of it: see `regard.training.fertility`.

    Attributes:
        source: The source side.
        target: The target side; every token of it a word where every one of the source is (inflection).
        budget: What source tokens may receive of attention; none: any amount.
    """

    source: Side
    target: Side
    budget: Budget | None = None

    def __post_init__(self) -> None:
        """Characters that stand over against characters are not put together to words."""
        if self.source.tokenizer.apart and not self.target.apart:
            object.__setattr__(self, "target", dataclasses.replace(self.target, apart=True))

    @property
    def sink(self) -> tuple[str, ...]:
        """What a model reads beside the source tokens: `<sink>`, or nothing.

        Where its tokenizer puts symbols of its own around a line, these are what may receive any amount of
        attention, each a sink that stands after the line here.
        """
        if self.source.tokenizer.around:
            return self.source.tokenizer.around
        return SPECIALS[SINK : SINK + 1] if self.budget is not None and self.budget.config.sink else ()

    @property
    def sink_words(self) -> tuple[int, ...]:
        """The word that each token of `sink` is part of: -1 for `<sink>`, -2 for a symbol around the line."""
        return (-2 if self.source.tokenizer.around else -1,) * len(self.sink)

    def as_written(self) -> "TextPair":
        """The same for text that is written as the training text is: its lines are taken as they stand."""
        source, target = (
            dataclasses.replace(side, form=dataclasses.replace(side.form, tokenized=False))
            for side in (self.source, self.target)
        )
        return TextPair(source, target, self.budget)

    def batch(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids] | None,
        rows: Ids,
        fertilities: Sequence[Fertilities | None] | None = None,
    ) -> Batch:
        """Sentences as a model reads them, with a sink and bounds where there is a budget.

        Args:
            sources: The ids of each source sentence.
            targets: The ids of each target sentence, ending in `EOS`; none when translating.
            rows: The number of each sentence.
            fertilities: Those of a sentence's tokens, in the place of the budget's.
        """
        sinks = len(self.sink)
        end = np.full(sinks, SINK, dtype=np.int64)
        read = [np.concatenate([np.asarray(ids, dtype=np.int64), end]) for ids in sources]
        if self.budget is None:
            return collate(read, targets, rows)
        return collate(read, targets, rows, *self.budget.bounds(sources, fertilities, sinks))

    def save(self, folder: Path | str) -> None:
        """Write it into an existing folder; `text.json`, which vouches for the other files, comes last.

        Raises:
            DataError: if a file cannot be written.
        """
        folder = Path(folder)
        for name, side in (("source", self.source), ("target", self.target)):
            side.vocabulary.save(folder / f"{name}.vocabulary")
            side.tokenizer.save(folder, name)
        if self.budget is not None and isinstance(self.budget.config, GuidedFertilityConfig):
            self.budget.save(folder / "source.fertility", self.source.vocabulary)
        content = _TextConfig(
            source=_config_of(self.source.tokenizer),
            target=_config_of(self.target.tokenizer),
            tags=self.source.tags,
            source_form=self.source.form,
            target_form=self.target.form,
            fertility=None if self.budget is None else self.budget.config,
            sha256=seal(folder, _files(folder)),
        )
        text = json.dumps(to_dict(content), indent=2, ensure_ascii=False) + "\n"
        write_atomic(folder / FILE, text.encode())

    @classmethod
    def load(cls, folder: Path | str) -> "TextPair":
        """Read what `save` wrote.

        Raises:
            DataError: if a file is missing, truncated or altered; names it.
        """
        folder = Path(folder)
        try:
            settings = read_json(own_file(folder, FILE), _TextConfig)
        except NotJson as error:
            raise DataError(f"{folder / FILE}: not the description of a model's text: {error}") from None
        check_seal(folder, settings.sha256, _files(folder), FILE)
        sides = [
            Side(load_tokenizer(config, folder, name), Vocabulary.load(folder / f"{name}.vocabulary"))
            for name, config in (("source", settings.source), ("target", settings.target))
        ]
        source = dataclasses.replace(sides[0], tags=settings.tags, form=settings.source_form)
        target = dataclasses.replace(sides[1], form=settings.target_form)
        return cls(source, target, _budget(settings.fertility, folder, source.vocabulary))


def _files(folder: Path) -> list[str]:
    """The names of the files that `save` writes beside `text.json`."""
    kinds = ("vocabulary", "bpe", "sentencepiece", "pretrained", "fertility")
    names = [f"{side}.{kind}" for side in ("source", "target") for kind in kinds]
    return [name for name in names if (folder / name).exists()]


def _budget(config: FertilityConfig | None, folder: Path, vocabulary: Vocabulary) -> Budget | None:
    if config is None:
        return None
    if isinstance(config, ConstantFertilityConfig):
        return Budget.constant(config, len(vocabulary))
    if isinstance(config, PredictedFertilityConfig):
        return Budget(config)
    return Budget.load(folder / "source.fertility", config, vocabulary)


def _config_of(tokenizer: Tokenizer) -> TokenizerConfig:
    return tokenizer.config  # type: ignore[attr-defined]
