"""Extraction of phrase pairs consistent with word links (Koehn et al., 2003, Section 2; Och & Ney, 2004).

A source span and a target span form a phrase pair if at least one link connects them and no link connects a
word inside one span to a word outside the other. Spans may begin or end with unlinked words; all such pairs
are extracted.

Each pair has word-based orientations (Koehn et al., 2005): one backward, relative to the preceding target
word, and one forward, relative to the following target word. The orientation is *monotone* if that word is
linked to the adjacent source word on the same side, *swap* if it is linked to the adjacent source word on the
other side, else *discontinuous*.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.symmetrize import LinkTable

__all__ = ["MAX_PHRASE_LENGTH", "ORIENTATIONS", "PhraseOccurrences", "extract_phrases"]

MAX_PHRASE_LENGTH = 7
"""The maximum length of a phrase in words, so that the 7 x 7 links of a pair fit into one 64-bit integer."""
ORIENTATIONS = ("monotone", "swap", "discontinuous")


@dataclass(frozen=True, eq=False)
class PhraseOccurrences:
    """The occurrences of phrase pairs in a text, as int32 arrays except for the links.

    Attributes:
        rows: The row of the sentence pair.
        source_starts: The position of the first source word in the sentence.
        source_lengths: The number of source words.
        target_starts: The position of the first target word in the sentence.
        target_lengths: The number of target words.
        links: int64; bit `MAX_PHRASE_LENGTH * i + j` is set if word i of the source phrase is linked to word
            j of the target phrase.
        backward: The backward orientation, an index into `ORIENTATIONS`.
        forward: The forward orientation, an index into `ORIENTATIONS`.
    """

    rows: np.ndarray
    source_starts: np.ndarray
    source_lengths: np.ndarray
    target_starts: np.ndarray
    target_lengths: np.ndarray
    links: np.ndarray
    backward: np.ndarray
    forward: np.ndarray

    def __len__(self) -> int:
        """Return the number of occurrences."""
        return len(self.rows)

    def select(self, chosen: np.ndarray) -> "PhraseOccurrences":
        """Return the occurrences that a boolean mask selects."""
        return PhraseOccurrences(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def extract_phrases(
    corpus: Corpus, links: LinkTable, max_length: int = MAX_PHRASE_LENGTH
) -> PhraseOccurrences:
    """Extract all phrase pairs of a text.

    Args:
        corpus: The sentence pairs.
        links: The word links.
        max_length: The maximum length of a phrase on either side, at most `MAX_PHRASE_LENGTH`.
    """
    sides = corpus.source.lengths, corpus.target.lengths
    table = links.offsets, links.source, links.target
    # The first pass counts the pairs, so that the second one can write into arrays of the right size.
    nothing = np.empty((7, 0), np.int32)
    count = _extract(*sides, *table, max_length, nothing, np.empty(0, np.int64), False)
    columns, masks = np.empty((7, count), np.int32), np.empty(count, np.int64)
    _extract(*sides, *table, max_length, columns, masks, True)
    return PhraseOccurrences(
        columns[0], columns[1], columns[2], columns[3], columns[4], masks, columns[5], columns[6]
    )


@njit(nogil=True, cache=True)
def _extract(sources, targets, offsets, link_source, link_target, longest, columns, masks, fill):
    """Count the phrase pairs, and write them to `columns` and `masks` if `fill` is set."""
    max_source, max_target = 0, 0
    for row in range(len(sources)):
        max_source, max_target = max(max_source, sources[row]), max(max_target, targets[row])
    linked = np.zeros((max_source, max_target), np.bool_)
    # The first and last linked source position of each target word; `high` is -1 without links.
    low, high = np.empty(max_target, np.int64), np.empty(max_target, np.int64)
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
                # Extend the minimal target span j1..j2 by unlinked words on both sides.
                a = j1
                while a >= 0 and j2 - a < longest and (a == j1 or high[a] < 0):
                    b = j2
                    while b < n and b - a < longest and (b == j2 or high[b] < 0):
                        if fill:
                            columns[0, count] = row
                            columns[1, count], columns[2, count] = i1, i2 - i1 + 1
                            columns[3, count], columns[4, count] = a, b - a + 1
                            masks[count] = _mask(linked, i1, i2, a, b)
                            columns[5, count] = _orientation(linked, m, n, i1, i2, a - 1, -1)
                            columns[6, count] = _orientation(linked, m, n, i1, i2, b + 1, 1)
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
    """Return the orientation relative to target position `j`; sentence boundaries count as linked."""
    before, after = i1 - 1, i2 + 1
    same, other = (before, after) if step < 0 else (after, before)
    for kind, i in ((0, same), (1, other)):
        if 0 <= i < m and 0 <= j < n:
            if linked[i, j]:
                return kind
        elif (i == -1 and j == -1) or (i == m and j == n):
            return kind
    return 2
