"""Fertility: how much attention each source token may receive over a sentence.

A budget belongs to the text a model reads: with it the batcher gives every source token its fertility, and
appends `<sink>`, whose fertility is infinite, after the last word (Malaviya et al. 2018, Sec. 3.2 and 3.3).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from regard.config import Kinds, config, option
from regard.data.files import read_bytes, write_atomic
from regard.data.vocabulary import SINK, Vocabulary
from regard.errors import DataError

__all__ = [
    "Budget",
    "ConstantFertilityConfig",
    "Fertilities",
    "FertilityConfig",
    "GuidedFertilityConfig",
    "read_bounds",
    "read_fertilities",
]


Fertilities = Sequence[tuple[float, float]]
"""For each token of a sentence the least and the most attention; NaN for the most leaves the table's."""


@config
class ConstantFertilityConfig:
    """The same fertility for every token."""

    kind: Literal["constant"] = option(default="constant", help="The same for every token.")
    value: float = option(default=2.0, help="How much attention each source token may receive.", gt=0)
    sink: bool = option(default=True, help="Append a token that may receive any amount of attention.")


@config
class GuidedFertilityConfig:
    """Each word's largest fertility in the word-aligned training text; 1 for a word that is never aligned."""

    kind: Literal["guided"] = option(
        default="guided", help="The token's largest fertility in the word-aligned training text."
    )
    sink: bool = option(default=True, help="Append a token that may receive any amount of attention.")


FertilityConfig = Annotated[ConstantFertilityConfig | GuidedFertilityConfig, Kinds("constant")]


@dataclass(frozen=True, eq=False)
class Budget:
    """What each token of the source vocabulary may receive.

    Attributes:
        config: Where it comes from.
        table: [V], the fertility of each token id.
    """

    config: FertilityConfig
    table: np.ndarray

    def __eq__(self, other: object) -> bool:
        """Whether tokens may receive the same."""
        if not isinstance(other, Budget):
            return NotImplemented
        return self.config == other.config and np.array_equal(self.table, other.table)

    @classmethod
    def constant(cls, config: ConstantFertilityConfig, size: int) -> "Budget":
        """The same for every token of a vocabulary of some size."""
        return cls(config, np.full(size, config.value, dtype=np.float32))

    def sources(self, sentences: Sequence[Sequence[int] | np.ndarray]) -> list[np.ndarray]:
        """The sentences as a model reads them: with a sink, if there is one."""
        end = np.array([SINK] if self.config.sink else [], dtype=np.int64)
        return [np.concatenate([np.asarray(ids, dtype=np.int64), end]) for ids in sentences]

    def bounds(
        self,
        sentences: Sequence[Sequence[int] | np.ndarray],
        given: Sequence[Fertilities | None] | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """What each token of such sentences may receive, and must; the sink's included.

        Args:
            sentences: Token ids, without a sink.
            given: Bounds in the place of the table's, for the sentences that have them.

        Returns:
            The most each token may receive, and the least it must; none where nothing is demanded.
        """
        end = np.array([math.inf] if self.config.sink else [], dtype=np.float32)
        chosen: Sequence[Fertilities | None] = [None] * len(sentences) if given is None else given
        upper: list[np.ndarray] = []
        lower: list[np.ndarray] = []
        for ids, own in zip(sentences, chosen, strict=True):
            most = self.table[np.asarray(ids, dtype=np.int64)]
            least = np.zeros_like(most)
            if own is not None:
                wanted = np.array(own, dtype=np.float32).reshape(-1, 2)
                least, most = wanted[:, 0], np.where(np.isnan(wanted[:, 1]), most, wanted[:, 1])
            upper.append(np.concatenate([most, end]))
            lower.append(np.concatenate([least, np.zeros_like(end)]))
        return upper, lower if any(least.any() for least in lower) else None

    def save(self, path: Path, vocabulary: Vocabulary) -> None:
        """Write it as lines of token, tab, fertility, which a person may read and change.

        Raises:
            DataError: if the file cannot be written.
        """
        lines = [f"{token}\t{value:g}\n" for token, value in zip(vocabulary.tokens, self.table, strict=True)]
        write_atomic(path, "".join(lines).encode())

    @classmethod
    def load(cls, path: Path, config: FertilityConfig, vocabulary: Vocabulary) -> "Budget":
        """Read what `save` wrote.

        Raises:
            DataError: if the file is missing or broken; names the line.
        """
        lines = read_bytes(path).decode().splitlines()
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


def read_fertilities(line: str, words: int, where: str) -> tuple[tuple[float, float], ...]:
    """The fertilities of a sentence's tokens, from a line such as `2 - 1:3 0`.

    Args:
        line: A field for each token: the most attention it may receive; `LEAST:MOST`; `LEAST:`, at least so
            much; or `-`, which leaves it as the model has it.
        words: How many tokens the sentence has.
        where: File and line, for messages.

    Raises:
        DataError: Another number of fields than the sentence has tokens, or a field that is no fertility.
    """
    fields = line.split()
    if len(fields) != words:
        raise DataError(f"{where}: {len(fields)} fertilities, and the sentence has {words} tokens")
    return tuple(read_bounds(field, where) for field in fields)


def read_bounds(field: str, where: str) -> tuple[float, float]:
    """The least and the most attention from `MOST`, `LEAST:MOST`, `LEAST:` or `-`; NaN for a most not given.

    Raises:
        DataError: if it is none of these; says where.
    """
    least, colon, most = field.rpartition(":")
    low = _number(least, where) if colon else 0.0
    high = math.nan if most == "-" or (colon and not most) else _number(most, where)
    if low > high:
        raise DataError(f"{where}: {field!r} asks for at least {low:g} and at most {high:g}")
    return low, high
