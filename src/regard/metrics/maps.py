"""Attention maps of two systems on the same words: brought to the same columns, and subtracted.

Systems are led through the same translation, or happen to produce the same one. Then their rows are the same
words. Their columns need not be: a system with a sink has a column more. Columns are matched by word, and a
sink that is missing has received nothing, so a soft map can be subtracted from a constrained one (the
comparison of Malaviya et al. 2018, Figure 2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.metrics.alignment import join_words

__all__ = ["SINK_LABEL", "AttentionMap", "map_difference", "match_maps"]

SINK_LABEL = "<sink>"


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention of one translation, V target words to W source words, and perhaps to a sink.

    Attributes:
        source: The W source words, without the sink.
        target: The V target words.
        weights: [V, W], or [V, W + 1] with the sink's column last.

    Raises:
        DataError: if the weights are not as many as the words.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[np.ndarray, "V C"]

    def __post_init__(self) -> None:
        """Refuse weights of other words."""
        rows, columns = self.weights.shape
        if rows != len(self.target) or columns - len(self.source) not in (0, 1):
            raise DataError(
                f"a map of {rows} rows and {columns} columns is not one of {len(self.target)} target words "
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
        """Join the attention of tokens to that of words (`regard.metrics.alignment.join_words`).

        Args:
            weights: Attention of each target token to each source token.
            source: The source words, without the sink.
            target: The target words.
            source_words: The word that each source token is part of, counted from 0; -1 for the sink.
            target_words: The same of the target tokens.
        """
        own = np.asarray(source_words, dtype=np.int64)
        sink = bool((own < 0).any())
        joined = np.zeros((len(target), len(source) + sink))
        some = join_words(weights, np.where(own < 0, len(source), own).tolist(), target_words)
        joined[: some.shape[0], : some.shape[1]] = some
        return cls(tuple(source), tuple(target), joined)

    @property
    def has_sink(self) -> bool:
        """Whether the last column is the sink's."""
        return self.weights.shape[1] > len(self.source)

    @property
    def columns(self) -> tuple[str, ...]:
        """The labels of the columns: the source words, and `<sink>` where there is one."""
        return (*self.source, SINK_LABEL) if self.has_sink else self.source

    def with_sink(self) -> "AttentionMap":
        """The same with a column for the sink; one that is added holds zeros."""
        if self.has_sink:
            return self
        return replace(self, weights=np.pad(self.weights, ((0, 0), (0, 1))))


def match_maps(maps: Mapping[str, AttentionMap]) -> dict[str, AttentionMap]:
    """The maps of several systems, all with the same columns: with a sink if any of them has one.

    Args:
        maps: Of each system, by its name.

    Raises:
        DataError: if they are maps of other words; says which word is the first that differs.
    """
    (first, base), *others = maps.items()
    for name, one in others:
        for side, own, theirs in (
            ("source", base.source, one.source),
            ("translation", base.target, one.target),
        ):
            if own != theirs:
                raise DataError(
                    f"the maps of {first} and {name} are of other words, and cannot be subtracted: "
                    + _apart(side, (own, theirs), (first, name))
                )
    if any(one.has_sink for one in maps.values()):
        return {name: one.with_sink() for name, one in maps.items()}
    return dict(maps)


def _apart(side: str, words: tuple[Sequence[str], Sequence[str]], names: tuple[str, str]) -> str:
    """The first word that differs, in words."""
    for place, both in enumerate(zip_longest(*words), 1):
        if both[0] != both[1]:
            told = ("there is none" if word is None else f"it is {word!r}" for word in both)
            parts = (f"{what} in {name}" for what, name in zip(told, names, strict=True))
            return f"word {place} of the {side}: {', '.join(parts)}"
    raise AssertionError("the words are the same")


def map_difference(
    one: AttentionMap, other: AttentionMap, names: tuple[str, str] = ("the first", "the second")
) -> AttentionMap:
    """Where one map has more attention than another (positive), and where less.

    Args:
        one: A map.
        other: What is subtracted from it; a sink that only one of them has received 0 in the other.
        names: What to call the two in messages.

    Raises:
        DataError: if they are not maps of the same words.
    """
    own, theirs = match_maps(dict(zip(names, (one, other), strict=True))).values()
    return replace(own, weights=own.weights.astype(np.float64) - theirs.weights.astype(np.float64))
