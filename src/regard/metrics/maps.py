"""Attention maps of two systems for the same words: matching of their columns, and differences.

The maps come from forced decoding of the same translation, or from systems that produced the same
translation. Their rows are then the same words. Their columns may differ by the sink of one system. Columns
are matched by word, and a missing sink counts as 0, so a soft attention map can be subtracted from a
constrained one (the comparison of Malaviya et al., 2018, Figure 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.metrics.alignment import merge_subwords

__all__ = ["SINK_LABEL", "AttentionMap", "map_difference", "match_columns"]

SINK_LABEL = "<sink>"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention of V target words to W source words and, optionally, to a sink.

    Attributes:
        source: W source words, without the sink.
        target: V target words.
        weights: [V, W], or [V, W + 1] with the column of the sink last.

    Raises:
        DataError: if the shape of the weights does not match the words.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[np.ndarray, "V C"]

    def __post_init__(self) -> None:
        """Check that the shape of the weights matches the words."""
        rows, columns = self.weights.shape
        if rows != len(self.target) or columns - len(self.source) not in (0, 1):
            raise DataError(
                f"a map of {rows} rows and {columns} columns does not match {len(self.target)} target words "
                f"and {len(self.source)} source words"
            )

    @classmethod
    def of_tokens(
        cls,
        weights: Float[np.ndarray, "T S"],
        source: Sequence[str],
        target: Sequence[str],
        source_words: Sequence[int],
        target_words: Sequence[int],
    ) -> "AttentionMap":
        """Create a map between words from the attention between tokens (see `merge_subwords`).

        Args:
            weights: Attention of each target token to each source token.
            source: Source words, without the sink.
            target: Target words.
            source_words: Word index of each source token, counted from 0; -1 for the sink.
            target_words: Word index of each target token.
        """
        words = np.asarray(source_words, dtype=np.int64)
        sink = bool((words < 0).any())
        joined = np.zeros((len(target), len(source) + sink))
        # The sink becomes an additional word after the last one.
        merged = merge_subwords(weights, np.where(words < 0, len(source), words).tolist(), target_words)
        joined[: merged.shape[0], : merged.shape[1]] = merged
        return cls(tuple(source), tuple(target), joined)

    @property
    def has_sink(self) -> bool:
        """Return whether the last column is that of the sink."""
        return self.weights.shape[1] > len(self.source)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the labels of the columns: the source words, and `<sink>` if there is one."""
        return (*self.source, SINK_LABEL) if self.has_sink else self.source

    def with_sink(self) -> "AttentionMap":
        """Return a copy with a column for the sink, filled with zeros if it is new."""
        if self.has_sink:
            return self
        return replace(self, weights=np.pad(self.weights, ((0, 0), (0, 1))))


def match_columns(maps: Mapping[str, AttentionMap]) -> dict[str, AttentionMap]:
    """Return the maps of several systems with equal columns: with a sink if any of them has one.

    Args:
        maps: Map of each system, by name.

    Raises:
        DataError: if the words differ; names the first difference.
    """
    (first, base), *others = maps.items()
    for name, one in others:
        for side, own, theirs in (
            ("source", base.source, one.source),
            ("translation", base.target, one.target),
        ):
            if own != theirs:
                raise DataError(
                    f"the maps of {first} and {name} have different words and cannot be subtracted: "
                    + _first_difference(side, (own, theirs), (first, name))
                )
    if any(one.has_sink for one in maps.values()):
        return {name: one.with_sink() for name, one in maps.items()}
    return dict(maps)


def _first_difference(side: str, words: tuple[Sequence[str], Sequence[str]], names: tuple[str, str]) -> str:
    """Describe the first word that differs."""
    for place, both in enumerate(zip_longest(*words), 1):
        if both[0] != both[1]:
            descriptions = ("there is none" if word is None else f"it is {word!r}" for word in both)
            parts = (f"{what} in {name}" for what, name in zip(descriptions, names, strict=True))
            return f"word {place} of the {side}: {', '.join(parts)}"
    raise AssertionError("the words are the same")


def map_difference(
    one: AttentionMap, other: AttentionMap, names: tuple[str, str] = ("the first", "the second")
) -> AttentionMap:
    """Subtract one map from another. Positive values mean more attention in the first map.

    Args:
        one: The first map.
        other: The map to subtract. A sink that only one of them has counts as 0 in the other.
        names: Names of the two maps, for messages.

    Raises:
        DataError: if the words differ.
    """
    own, theirs = match_columns(dict(zip(names, (one, other), strict=True))).values()
    return replace(own, weights=own.weights.astype(np.float64) - theirs.weights.astype(np.float64))
