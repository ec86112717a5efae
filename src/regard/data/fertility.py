"""Fertility: how much attention each source token may receive over a sentence.

A budget belongs to the text a model reads: with it the batcher gives every source token its fertility, and
appends `<sink>`, whose fertility is infinite, after the last word (Malaviya et al. 2018, Section 4).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import numpy as np

from regard.config import Kinds, config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.spacing import split_at_spaces
from regard.data.vocabulary import Ids, Vocabulary
from regard.errors import DataError

__all__ = [
    "Budget",
    "ConstantFertilityConfig",
    "Fertilities",
    "FertilityConfig",
    "GuidedFertilityConfig",
    "PredictedFertilityConfig",
    "Predictor",
    "read_bounds",
    "read_fertilities",
]


FEASIBLE = 1e-6  # rounding of bounds that sum to one

Fertilities = Sequence[tuple[float, float]] | np.ndarray
"""For each token of a sentence the least and the most attention; NaN for the most leaves the budget's, or the
least where that is more."""


@config
class ConstantFertilityConfig:
    """The same fertility for every token."""

    kind: Literal["constant"] = option(default="constant", help="The same for every token.")
    value: float = option(default=2.0, help="How much attention each source token may receive.", gt=0, le=1e6)
    sink: bool = option(default=True, help="Append a token that may receive any amount of attention.")


@config
class GuidedFertilityConfig:
    """Each word's largest fertility in the word-aligned training text; 1 for a word that is never aligned."""

    kind: Literal["guided"] = option(
        default="guided", help="The token's largest fertility in the word-aligned training text."
    )
    sink: bool = option(default=True, help="Append a token that may receive any amount of attention.")


@config
class PredictedFertilityConfig:
    """What a tagger expects of each token where it stands, trained on the word-aligned training text.

    A model is trained with the fertilities that the alignment itself gives (ACTUAL), and validated and used
    with the expected ones (PREDICTED, Malaviya et al. 2018, Section 4).
    """

    kind: Literal["predicted"] = option(
        default="predicted", help="Of the word-aligned text in training, a tagger's expectation afterwards."
    )
    extra: float = option(default=1.0, help="Slack, added to every fertility.", ge=0, le=1e6)
    width: int = option(
        default=256, help="Width of the tagger's embeddings, and of its states.", ge=1, le=16_384
    )
    epochs: int = option(default=10, help="How long the tagger is trained at most.", ge=1, le=1_000_000)
    patience: int = option(
        default=2,
        help="The tagger's training stops after this many epochs in a row without better F1.",
        ge=1,
        le=1_000_000,
    )
    sink: bool = option(default=True, help="Append a token that may receive any amount of attention.")


FertilityConfig = Annotated[
    ConstantFertilityConfig | GuidedFertilityConfig | PredictedFertilityConfig, Kinds("constant")
]


class Predictor(Protocol):
    """What says of a sentence how many target words each of its tokens will be translated into."""

    def predict(self, sentences: Sequence[Ids]) -> list[np.ndarray]:
        """The expected fertility of each token; the sentences are ids of the source vocabulary."""
        ...


@dataclass(frozen=True, eq=False)
class Budget:
    """What source tokens may receive: always the same of a token, or what is expected of it where it stands.

    Attributes:
        config: Where it comes from.
        table: [V], the fertility of each token id, without a predictor.
        predictor: What expects fertilities, to which `config.extra` is added.
    """

    config: FertilityConfig
    table: np.ndarray | None = None
    predictor: Predictor | None = None

    def __eq__(self, other: object) -> bool:
        """Whether tokens may receive the same."""
        if not isinstance(other, Budget):
            return NotImplemented
        alike = self.config == other.config and self.predictor == other.predictor
        if self.table is None or other.table is None:
            return alike and self.table is other.table
        return alike and np.array_equal(self.table, other.table)

    def most(self, sentences: Sequence[Ids]) -> list[np.ndarray]:
        """What each token of sentences may receive, without a sink."""
        if self.table is not None:
            return [self.table[np.asarray(ids, dtype=np.int64)] for ids in sentences]
        assert self.predictor is not None and isinstance(self.config, PredictedFertilityConfig)
        return [found + self.config.extra for found in self.predictor.predict(sentences)]

    @classmethod
    def constant(cls, config: ConstantFertilityConfig, size: int) -> "Budget":
        """The same for every token of a vocabulary of some size."""
        return cls(config, np.full(size, config.value, dtype=np.float32))

    def bounds(
        self,
        sentences: Sequence[Ids],
        given: Sequence[Fertilities | None] | None = None,
        sinks: int | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """What each token of such sentences may receive, and must; the sink's included.

        Args:
            sentences: Token ids, without a sink.
            given: Bounds in the place of these, for the sentences that have them.
            sinks: How many sinks a model reads after each; none: as the config says.

        Returns:
            The most each token may receive, and the least it must; none where nothing is demanded.
        """
        end = np.full(int(self.config.sink) if sinks is None else sinks, math.inf, dtype=np.float32)
        chosen: Sequence[Fertilities | None] = [None] * len(sentences) if given is None else given
        wanted = [None if own is None else np.array(own, dtype=np.float32).reshape(-1, 2) for own in chosen]
        # A predictor is asked once, and only of sentences of which not everything is given.
        asked = [row for row, own in enumerate(wanted) if own is None or np.isnan(own[:, 1]).any()]
        known = dict(zip(asked, self.most([sentences[row] for row in asked]), strict=True))
        upper: list[np.ndarray] = []
        lower: list[np.ndarray] = []
        for row, own in enumerate(wanted):
            if own is None:
                most = known[row]
                least = np.zeros_like(most)
            else:
                least, most = own[:, 0], own[:, 1]
                # Where only the least is given it goes before the budget's own most.
                most = np.where(np.isnan(most), np.maximum(known[row], least), most) if row in known else most
            upper.append(np.concatenate([most, end]))
            lower.append(np.concatenate([least, np.zeros_like(end)]))
        return upper, lower if any(least.any() for least in lower) else None

    def check(self, ids: Ids, given: Fertilities, sinks: int, where: str) -> None:
        """See that bounds given for a sentence leave one unit of attention, which every step gives out.

        Args:
            ids: Its token ids, without a sink.
            given: Its bounds.
            sinks: How many sinks a model reads after it.
            where: File and line, for messages.

        Raises:
            DataError: if they do not.
        """
        (upper,), _ = self.bounds([ids], [given], sinks)
        if upper.sum() < 1 - FEASIBLE:
            raise DataError(
                f"{where}: its tokens may receive {upper.sum():g} of attention in all, less than the one "
                "unit that each target token is read with, and the model has no sink"
            )

    def save(self, path: Path, vocabulary: Vocabulary) -> None:
        """Write a table as lines of token, tab, fertility, which a person may read and change.

        Raises:
            DataError: if the file cannot be written.
        """
        assert self.table is not None
        lines = [f"{token}\t{value:g}\n" for token, value in zip(vocabulary.tokens, self.table, strict=True)]
        write_atomic(path, "".join(lines).encode())

    @classmethod
    def load(cls, path: Path, config: FertilityConfig, vocabulary: Vocabulary) -> "Budget":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or broken; names the line.
        """
        lines = read_bytes(path).decode().removesuffix("\n").split("\n")
        if len(lines) != len(vocabulary):
            raise DataError(f"{path}: {len(lines)} lines, expected {len(vocabulary)}: one a token")
        values = []
        for number, (line, token) in enumerate(zip(lines, vocabulary.tokens, strict=True), 1):
            word, _, value = line.rpartition("\t")
            if word != token:
                raise DataError(f"{path}, line {number}: token {word!r}, expected {token!r}")
            values.append(_number(value, f"{path}, line {number}"))
        return cls(config, np.array(values, dtype=np.float32))


def _number(text: str, where: str) -> float:
    """A fertility: a number from 0 to inf."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise DataError(f"{where}: fertility {text!r}, expected a number from 0 to inf")
    return value


def read_fertilities(line: str, word_ids: Sequence[int], where: str) -> tuple[tuple[float, float], ...]:
    """The fertilities of a sentence's tokens, from a line such as `2 - 1:3 0`.

    Args:
        line: A field for each token, or for each word, each of whose pieces gets it: the most attention it
            may receive; `LEAST:MOST`; `LEAST:`, at least so much; or `-`, as the model has it.
        word_ids: For each token the number of its word, counted from 0.
        where: File and line, for messages.

    Raises:
        DataError: Another number of fields than the sentence has tokens or words, or a field that is no
            fertility.
    """
    fields = split_at_spaces(line)
    tokens, words = len(word_ids), len(set(word_ids))
    if len(fields) not in (tokens, words):
        parts = f"{tokens} tokens" if tokens == words else f"{words} words in {tokens} tokens"
        raise DataError(f"{where}: {len(fields)} fertilities, and the sentence has {parts}")
    bounds = [read_bounds(field, where) for field in fields]
    return tuple(bounds if len(fields) == tokens else (bounds[word] for word in word_ids))


def read_bounds(field: str, where: str) -> tuple[float, float]:
    """The least and the most attention from `MOST`, `LEAST:MOST`, `LEAST:` or `-`; NaN for a most not given.

    Raises:
        DataError: if it is none of these; says where.
    """
    least, colon, most = field.rpartition(":")
    low = _number(least, where) if colon else 0.0
    if low == math.inf:
        raise DataError(f"{where}: {field!r} asks for an endless amount of attention")
    high = math.nan if most == "-" or (colon and not most) else _number(most, where)
    if low > high:
        raise DataError(f"{where}: {field!r} asks for at least {low:g} and at most {high:g}")
    return low, high
