"""BLEU's counts of translations in numbers, compiled: tuning compares hundreds of thousands of them.

The counts of a sentence are, for n-grams of 1 to 4 words, how many the translation has and how many of them
the reference has too, each as often as there; and how many words the reference has. Summed over sentences
they give BLEU (Papineni et al. 2002), the same as `regard.metrics.translation` gives with
`tokenize = "none"`, but for a score of 0 where it smooths.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

__all__ = ["COUNTS", "bleu", "bleu_counts"]

COUNTS = 9
"""Matches of 1, 2, 3, 4 words; n-grams of the translation of 1, 2, 3, 4 words; words of the reference."""


def bleu_counts(translations: Sequence[Sequence[int]], reference: Sequence[int]) -> np.ndarray:
    """The counts of each translation of one sentence: float64 [translations, COUNTS]."""
    flat = np.array([word for words in translations for word in words], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(words) for words in translations])]).astype(np.int64)
    return _count(flat, offsets, np.array(reference, dtype=np.int64))


@njit(nogil=True, cache=True)
def bleu(counts):
    """BLEU, out of 1, of summed counts; 0 where nothing of some length matches."""
    total = 0.0
    for n in range(4):
        if counts[n] <= 0:
            return 0.0
        total += np.log(counts[n] / counts[4 + n])
    brevity = min(0.0, 1 - counts[8] / counts[4])
    return np.exp(total / 4 + brevity)


@njit(nogil=True, cache=True)
def _same(one, i, other, j, n):
    for k in range(n):
        if one[i + k] != other[j + k]:
            return False
    return True


@njit(nogil=True, cache=True)
def _count(flat, offsets, reference):
    counts = np.zeros((len(offsets) - 1, 9))
    taken = np.empty(len(reference), np.bool_)
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        counts[row, 8] = len(reference)
        for n in range(1, 5):
            counts[row, 3 + n] = max(0, end - start - n + 1)
            taken[:] = False
            for i in range(start, end - n + 1):
                for j in range(len(reference) - n + 1):
                    if not taken[j] and _same(flat, i, reference, j, n):
                        taken[j] = True
                        counts[row, n - 1] += 1
                        break
    return counts
