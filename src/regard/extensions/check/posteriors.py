"""Link probabilities of all words of a text, and link counts of the training text.

All arrays are flat, without one array per sentence pair, so that many pairs are processed at once.
"""

from collections.abc import Iterable, Sequence
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
        cells: Start of the cells of each pair, and the end of the last one. The source word varies slowest.
        forward: p(t -> s) of each cell: the target word is linked to the source word.
        backward: p(s -> t) of each cell: the source word is linked to the target word.
    """

    pairs: Sequence[WordPair]
    offsets: tuple[Int[np.ndarray, "P+1"], Int[np.ndarray, "P+1"]]
    numbers: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "M"]]
    cells: Int[np.ndarray, "P+1"]
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
        layout = corpus.layout()
        flat: list[np.ndarray] = []
        for direction in ("forward", "backward"):
            values = np.empty(layout.cells[-1], dtype=np.float32)
            # The matrices are [T, S]; in the cells of a pair, the source word varies slowest.
            matrices = aligner.posteriors(corpus, direction, num_threads)
            for first, last, matrix in zip(layout.cells[:-1], layout.cells[1:], matrices, strict=True):
                values[first:last] = matrix.T.ravel()
            flat.append(np.clip(values, 0, 1, out=values))
        offsets, numbers = (corpus.source.offsets, corpus.target.offsets), (layout.source, layout.target)
        return cls(pairs, offsets, numbers, layout.cells, flat[0], flat[1])

    def links_above(self, minimum: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the links whose geometric mean of both directions exceeds a minimum.

        Returns:
            For each of them, the number of its pair, the positions of the source and of the target word among
            all words, and the geometric mean.
        """
        mutual = np.sqrt(self.forward * self.backward)
        chosen = np.flatnonzero(mutual > minimum)
        pair = np.searchsorted(self.cells, chosen, side="right") - 1
        source, target = np.divmod(chosen - self.cells[pair], np.diff(self.offsets[1])[pair])
        return pair, self.offsets[0][pair] + source, self.offsets[1][pair] + target, mutual[chosen]

    def best_links(self) -> list[Links]:
        """Return for each pair the links that both directions find probable (geometric mean above 0.3)."""
        links_by_pair: list[set[tuple[int, int]]] = [set() for _ in self.pairs]
        pair, source, target, _ = self.links_above(LINK_THRESHOLD)
        positions = (source - self.offsets[0][pair]).tolist(), (target - self.offsets[1][pair]).tolist()
        for row, i, j in zip(pair.tolist(), *positions, strict=True):
            links_by_pair[row].add((i, j))
        return [frozenset(links) for links in links_by_pair]


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
    def estimate(cls, tables: Iterable[TextPosteriors], sizes: tuple[int, int]) -> Self:
        """Count the links of good translations.

        Args:
            tables: Their link probabilities.
            sizes: Sizes of the vocabularies.
        """
        occurrences = tuple(np.zeros(size) for size in sizes)
        keys, values = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for table in tables:
            for total, numbers in zip(occurrences, table.numbers, strict=True):
                total += np.bincount(numbers[numbers != UNKNOWN], minlength=len(total))
            _, source, target, mutual = table.links_above(_MIN_LINK)
            first, second = table.numbers[0][source].astype(np.int64), table.numbers[1][target]
            known = (first != UNKNOWN) & (second != UNKNOWN)
            keys.append((first * sizes[1] + second)[known])
            values.append(mutual[known])
        distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        counts = np.bincount(inverse, weights=np.concatenate(values), minlength=len(distinct))
        return cls(distinct, counts, (occurrences[0], occurrences[1]))

    @cached_property
    def rows(self) -> Int[np.ndarray, "V+1"]:
        """The start of the keys of each source word, and the end of the last one."""
        numbers = np.arange(len(self.occurrences[0]) + 1, dtype=np.int64)
        return np.searchsorted(self.keys, numbers * len(self.occurrences[1]))
