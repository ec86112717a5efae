"""Symmetrization of the links of both directions (Och & Ney, 2003; Koehn et al., 2005).

- intersection: links in both directions; union: links in either direction;
- grow-diag: starts from the intersection and adds links of the union that neighbor a link, also diagonally,
  and whose source or target word is not linked yet, until nothing is added;
- grow-diag-final: then adds links of either direction whose source or target word is not linked yet, first of
  the forward direction (one source word per target word), then of the backward direction;
- grow-diag-final-and: the same if both words are not linked yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from regard.alignment.corpus import Corpus
from regard.kernels.compilation import njit
from regard.text.links import Links

Method = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", "forward", "backward"
]
METHODS: tuple[str, ...] = get_args(Method)


@dataclass(frozen=True)
class LinkTable:
    """The links of many pairs.

    Attributes:
        offsets: int64 [pairs + 1], the start of each pair's links.
        source: int32, the source position of each link; links are sorted by `source`, then by `target`.
        target: int32, the target position of each link.
    """

    offsets: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Links]:
        """Yield the links of each pair."""
        for source, target in self._rows():
            yield frozenset(zip(source, target, strict=True))

    def lines(self) -> Iterator[str]:
        """Yield the links of each pair in Pharaoh format."""
        for source, target in self._rows():
            yield " ".join(f"{i}-{j}" for i, j in zip(source, target, strict=True))

    def _rows(self) -> Iterator[tuple[list[int], list[int]]]:
        for first, last in zip(self.offsets, self.offsets[1:], strict=False):
            yield self.source[first:last].tolist(), self.target[first:last].tolist()


def symmetrize(corpus: Corpus, forward: np.ndarray, backward: np.ndarray, method: Method) -> LinkTable:
    """Combine the links of two directions.

    Args:
        corpus: The pairs.
        forward: int32 [target tokens]: the source position of each target word, -1 for none
            (`DirectionAligner.align`).
        backward: int32 [source tokens]: the target position of each source word, -1 for none.
        method: The method; `forward` and `backward` select the links of one direction.
    """
    lengths = corpus.source.lengths, corpus.target.lengths
    offsets = corpus.source.offsets, corpus.target.offsets
    counts = np.zeros(len(corpus) + 1, dtype=np.int64)
    # The union has at most this number of links.
    room = len(forward) + len(backward)
    links = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    total = _combine(METHODS.index(method), lengths, offsets, (forward, backward), counts, links)
    return LinkTable(np.cumsum(counts), links[0][:total].copy(), links[1][:total].copy())


@njit(nogil=True, cache=True)
def _combine(method, lengths, offsets, heads, counts, found):
    """Write the links of all pairs to `found` and their numbers to `counts`; return their total number.

    `lengths` and `offsets` are those of both sides, and `heads` the links of both directions.
    """
    sources, targets = lengths
    size = 1
    for row in range(len(sources)):
        # Buffers for the largest pair are shared by all pairs.
        size = max(size, sources[row] * targets[row])
    store, link_buffer = np.empty(size, np.int8), np.empty(size, np.bool_)
    total = 0
    for row in range(len(sources)):
        m, n = sources[row], targets[row]
        votes = store[: m * n].reshape(m, n)
        links = link_buffer[: m * n].reshape(m, n)
        _vote(heads[0][offsets[1][row] :], heads[1][offsets[0][row] :], votes)
        for i in range(m):
            for j in range(n):
                # Union, forward, backward, or else the intersection, from which the other methods grow.
                if method == 1:
                    links[i, j] = votes[i, j] > 0
                elif method == 5:
                    links[i, j] = votes[i, j] & 1 > 0
                elif method == 6:
                    links[i, j] = votes[i, j] & 2 > 0
                else:
                    links[i, j] = votes[i, j] == 3
        if 2 <= method <= 4:
            _grow(votes, links, method)
        before = total
        for i in range(m):
            for j in range(n):
                if links[i, j]:
                    found[0][total], found[1][total] = i, j
                    total += 1
        counts[row + 1] = total - before
    return total


@njit(nogil=True, cache=True)
def _vote(forward, backward, votes):
    """Mark the links of one pair: 1 for the forward direction, 2 for the backward direction, 3 for both."""
    votes[:] = 0
    for j in range(votes.shape[1]):
        if forward[j] >= 0:
            votes[forward[j], j] |= 1
    for i in range(votes.shape[0]):
        if backward[i] >= 0:
            votes[i, backward[i]] |= 2


@njit(nogil=True, cache=True)
def _grow(votes, links, method):
    """Add links to the intersection with grow-diag, then final or final-and (Koehn et al., 2005)."""
    m, n = links.shape
    source_linked, target_linked = np.zeros(m, np.bool_), np.zeros(n, np.bool_)
    for i in range(m):
        for j in range(n):
            if links[i, j]:
                source_linked[i] = target_linked[j] = True
    added = True
    while added:
        added = False
        for j in range(n):
            for i in range(m):
                if not links[i, j]:
                    continue
                for step in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    a, b = i + step[0], j + step[1]
                    if 0 <= a < m and 0 <= b < n and votes[a, b] and not links[a, b]:
                        if not source_linked[a] or not target_linked[b]:
                            links[a, b] = source_linked[a] = target_linked[b] = True
                            added = True
    if method == 2:
        return
    # final and final-and: first the forward direction, then the backward one.
    for direction in (1, 2):
        for j in range(n):
            for i in range(m):
                if votes[i, j] & direction and not links[i, j]:
                    # final-and needs both words to be free, final one of them.
                    free = (not source_linked[i]) + (not target_linked[j])
                    if free == 2 or (method == 3 and free == 1):
                        links[i, j] = source_linked[i] = target_linked[j] = True
