"""Phrase pairs consistent with word links. Koehn et al. (2003), Section 2; Och & Ney (2004).

A span of source words and a span of target words are a phrase pair where at least one link joins them and no
link joins a word of one with a word outside the other. Words without links may stand at their edges: every
such pair counts.

With each pair goes its orientation towards its neighbours (Koehn et al. 2005, word-based), looking back to
the target word before it and ahead to the one after it: *monotone* where that word is linked to the source
word on the same side, *swapped* where to the one on the other side, else *discontinuous*.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable

__all__ = ["LONGEST", "ORIENTATIONS", "Extracted", "extract"]

LONGEST = 7
"""The most words of a phrase that there can be: its links fit into one integer."""
ORIENTATIONS = ("monotone", "swap", "discontinuous")


@dataclass(frozen=True, eq=False)
class Extracted:
    """Phrase pairs where they stand in the text; int32 each but the links.

    Attributes:
        rows: The sentence pair.
        source_starts: The first source word, counted in the sentence.
        source_lengths: How many there are.
        target_starts: The first target word.
        target_lengths: How many there are.
        links: int64: bit `LONGEST * i + j` says that word i of the source phrase is linked to word j of the
            target phrase.
        back: The orientation towards what stands before, an index into `ORIENTATIONS`.
        ahead: The orientation towards what follows.
    """

    rows: np.ndarray
    source_starts: np.ndarray
    source_lengths: np.ndarray
    target_starts: np.ndarray
    target_lengths: np.ndarray
    links: np.ndarray
    back: np.ndarray
    ahead: np.ndarray

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rows)

    def where(self, chosen: np.ndarray) -> "Extracted":
        """Those that a mask chooses."""
        return Extracted(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def extract(corpus: Corpus, links: LinkTable, longest: int = LONGEST) -> Extracted:
    """All phrase pairs of a text.

    Args:
        corpus: The sentence pairs.
        links: Their links.
        longest: The most words of a phrase on either side, at most `LONGEST`.
    """
    sides = corpus.source.lengths, corpus.target.lengths
    table = links.offsets, links.source, links.target
    nothing = np.empty((7, 0), np.int32)
    count = _extract(*sides, *table, longest, nothing, np.empty(0, np.int64), False)
    found, masks = np.empty((7, count), np.int32), np.empty(count, np.int64)
    _extract(*sides, *table, longest, found, masks, True)
    return Extracted(found[0], found[1], found[2], found[3], found[4], masks, found[5], found[6])


@njit(nogil=True, cache=True)
def _extract(sources, targets, offsets, link_source, link_target, longest, found, masks, fill):
    """Count the phrase pairs, and write them down where `fill` says so."""
    room_s, room_t = 0, 0
    for row in range(len(sources)):
        room_s, room_t = max(room_s, sources[row]), max(room_t, targets[row])
    linked = np.zeros((room_s, room_t), np.bool_)
    low, high = np.empty(room_t, np.int64), np.empty(room_t, np.int64)  # of the source words of a target word
    count = 0
    for row in range(len(sources)):
        m, n = sources[row], targets[row]
        linked[:m, :n] = False
        low[:n], high[:n] = m, -1
        for k in range(offsets[row], offsets[row + 1]):
            i, j = link_source[k], link_target[k]
            linked[i, j] = True
            low[j], high[j] = min(low[j], i), max(high[j], i)
        for i1 in range(m):
            j1, j2 = n, -1
            for i2 in range(i1, min(m, i1 + longest)):
                for j in range(n):
                    if linked[i2, j]:
                        j1, j2 = min(j1, j), max(j2, j)
                if j2 < 0 or j2 - j1 >= longest:
                    continue
                consistent = True
                for j in range(j1, j2 + 1):
                    if high[j] >= 0 and (low[j] < i1 or high[j] > i2):
                        consistent = False
                        break
                if not consistent:
                    continue
                a = j1
                while a >= 0 and j2 - a < longest and (a == j1 or high[a] < 0):
                    b = j2
                    while b < n and b - a < longest and (b == j2 or high[b] < 0):
                        if fill:
                            found[0, count] = row
                            found[1, count], found[2, count] = i1, i2 - i1 + 1
                            found[3, count], found[4, count] = a, b - a + 1
                            masks[count] = _mask(linked, i1, i2, a, b)
                            found[5, count] = _orientation(linked, m, n, i1, i2, a - 1, -1)
                            found[6, count] = _orientation(linked, m, n, i1, i2, b + 1, 1)
                        count += 1
                        b += 1
                    a -= 1
    return count


@njit(nogil=True, cache=True)
def _mask(linked, i1, i2, a, b):
    mask = 0
    for i in range(i1, i2 + 1):
        for j in range(a, b + 1):
            if linked[i, j]:
                mask |= 1 << (7 * (i - i1) + j - a)
    return mask


@njit(nogil=True, cache=True)
def _orientation(linked, m, n, i1, i2, j, step):
    """Towards target word `j`; the edges of the two sentences count as linked."""
    before, after = i1 - 1, i2 + 1
    same, other = (before, after) if step < 0 else (after, before)
    for kind, i in ((0, same), (1, other)):
        if 0 <= i < m and 0 <= j < n:
            if linked[i, j]:
                return kind
        elif (i == -1 and j == -1) or (i == m and j == n):
            return kind
    return 2
