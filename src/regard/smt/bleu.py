"""BLEU statistics of translations as word ids, compiled because tuning scores hundreds of thousands of them.

The statistics of a sentence are the clipped matches and the number of n-grams of the translation, for n from
1 to 4, and the length of the reference. Their sums over sentences give BLEU (Papineni et al., 2002), with the
same result as `regard.metrics.translation` with `tokenize = "none"`, except that BLEU is not smoothed: it is
0 if there is no match of some order.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit

__all__ = ["NUM_STATISTICS", "bleu_statistics", "compute_bleu"]

NUM_STATISTICS = 9
"""The number of statistics: 4 of matches, 4 of n-grams of the translation, and the reference length."""


def bleu_statistics(translations: Sequence[Sequence[int]], reference: Sequence[int]) -> np.ndarray:
    """Return the statistics of translations of one sentence, float64 [translations, NUM_STATISTICS]."""
    flat = np.array([word for words in translations for word in words], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(words) for words in translations])]).astype(np.int64)
    return _count(flat, offsets, np.array(reference, dtype=np.int64))


@njit(nogil=True, cache=True)
def compute_bleu(counts):
    """Return BLEU in [0, 1] of summed statistics; 0 if there is no match of some order."""
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
            # Each n-gram of the reference matches at most once, which clips the counts.
            taken[:] = False
            for i in range(start, end - n + 1):
                for j in range(len(reference) - n + 1):
                    if not taken[j] and _same(flat, i, reference, j, n):
                        taken[j] = True
                        counts[row, n - 1] += 1
                        break
    return counts
