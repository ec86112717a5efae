"""Link probabilities of all words of a text, and link counts of the training text.

All arrays are flat, without one array per sentence pair, so that a text of any size is processed at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN
from regard.extensions.check.base import WordPair
from regard.text.links import Links

LINK_THRESHOLD = 0.3
"""Minimum geometric mean of both directions of a probable link."""
_MIN_LINK = 0.05


@dataclass(frozen=True)
class TextPosteriors:
    """Link probabilities of all pairs of a text. A cell is a source word and a target word of the same pair.

    Attributes:
        pairs: The words.
        offsets: For each side, the start of each sentence among all words, and the end of the last one.
        numbers: For each side, the numbers of all words in the vocabulary of the aligner.
        words: For each side, the word of each cell, counted over the text. The source word varies slowest.
        forward: p(t -> s) of each cell: the target word is linked to the source word.
        backward: p(s -> t) of each cell: the source word is linked to the target word.
    """

    pairs: Sequence[WordPair]
    offsets: tuple[Int[np.ndarray, "P+1"], Int[np.ndarray, "P+1"]]
    numbers: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "M"]]
    words: tuple[Int[np.ndarray, "K"], Int[np.ndarray, "K"]]
    forward: Float[np.ndarray, "K"]
    backward: Float[np.ndarray, "K"]

    @classmethod
    def of(cls, aligner: WordAligner, pairs: Sequence[WordPair], num_threads: int = 0) -> Self:
        """Return the link probabilities of pairs, whose words are compared without case.

        Args:
            aligner: The aligner, with both directions.
            pairs: The pairs. Empty sides are allowed, because an empty translation is an error to detect.
            num_threads: Number of threads; 0 uses all processors.
        """
        corpus = Corpus.from_tokens((pair.folded for pair in pairs), aligner.words, allow_empty=True)
        flat: list[np.ndarray] = []
        for direction in ("forward", "backward"):
            # The matrices are [T, S]; in the cells of a pair, the source word varies slowest.
            matrices = aligner.posteriors(corpus, direction, num_threads)
            cells = [np.ascontiguousarray(matrix.T).ravel() for matrix in matrices]
            flat.append(np.clip(np.concatenate([np.empty(0), *cells]), 0, 1))
        source, target = (
            np.array([len(side) for side in sides], dtype=np.int64)
            for sides in ([pair.source for pair in pairs], [pair.target for pair in pairs])
        )
        offsets = _starts(source), _starts(target)
        sizes = source * target
        pair = np.repeat(np.arange(len(pairs)), sizes)
        within = np.arange(len(pair)) - _starts(sizes)[pair]
        # Pairs with an empty side have no cells, so the length is never 0 here.
        words = offsets[0][pair] + within // target[pair], offsets[1][pair] + within % target[pair]
        numbers = tuple(text.tokens.astype(np.int64) for text in (corpus.source, corpus.target))
        return cls(pairs, offsets, (numbers[0], numbers[1]), words, flat[0], flat[1])

    @cached_property
    def mutual(self) -> Float[np.ndarray, "K"]:
        """The geometric mean of both directions: a link that only one finds probable counts little."""
        return np.sqrt(self.forward * self.backward)

    def swapped(self, order: Int[np.ndarray, "K"]) -> "TextPosteriors":
        """Return the table in the other direction, whose cells have the given order in this one."""
        return TextPosteriors(
            [WordPair(pair.target, pair.source) for pair in self.pairs],
            (self.offsets[1], self.offsets[0]),
            (self.numbers[1], self.numbers[0]),
            (self.words[1][order], self.words[0][order]),
            self.backward[order],
            self.forward[order],
        )

    def best_links(self) -> list[Links]:
        """Return for each pair the links that both directions find probable (geometric mean at least 0.3)."""
        source, target = self.words
        links_by_pair: list[set[tuple[int, int]]] = [set() for _ in self.pairs]
        chosen = np.flatnonzero(self.mutual >= LINK_THRESHOLD)
        pair = np.searchsorted(self.offsets[0], source[chosen], side="right") - 1
        first, second = source[chosen] - self.offsets[0][pair], target[chosen] - self.offsets[1][pair]
        for row, i, j in zip(pair.tolist(), first.tolist(), second.tolist(), strict=True):
            links_by_pair[row].add((i, j))
        return [frozenset(links) for links in links_by_pair]


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True)
class LinkCounts:
    """How often words are linked in the training text.

    Attributes:
        keys: The linked word pairs in ascending order, as source number * size of the target vocabulary
            + target number.
        counts: Expected number of links of each of them.
        occurrences: For each side, the number of occurrences of each word.
    """

    keys: Int[np.ndarray, "L"]
    counts: Float[np.ndarray, "L"]
    occurrences: tuple[Float[np.ndarray, "V"], Float[np.ndarray, "W"]]

    @classmethod
    def estimate(cls, table: TextPosteriors, sizes: tuple[int, int]) -> Self:
        """Count the links of good translations.

        Args:
            table: Their link probabilities.
            sizes: Sizes of the vocabularies.
        """
        source, target = (side[index] for side, index in zip(table.numbers, table.words, strict=True))
        mask = (table.mutual > _MIN_LINK) & (source != UNKNOWN) & (target != UNKNOWN)
        keys, inverse = np.unique(source[mask] * sizes[1] + target[mask], return_inverse=True)
        counts = np.bincount(inverse, weights=table.mutual[mask], minlength=len(keys))
        occurrences = tuple(
            np.bincount(numbers[numbers != UNKNOWN], minlength=size).astype(np.float64)
            for numbers, size in zip(table.numbers, sizes, strict=True)
        )
        return cls(keys, counts, (occurrences[0], occurrences[1]))

    def of(self, source: np.ndarray, target: np.ndarray) -> Float[np.ndarray, "K"]:
        """Return the number of links of each pair of words, by their numbers."""
        if not len(self.keys):
            return np.zeros(len(source))
        keys = source * len(self.occurrences[1]) + target
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        counted = (self.keys[place] == keys) & (source != UNKNOWN) & (target != UNKNOWN)
        return np.where(counted, self.counts[place], 0.0)
