"""The loop of `regard.metrics.prefix_bleu`: BLEU of every prefix, one look back a word pair.

With L_j(t) the length, up to 4, of what word t and word j have in common when read backwards from them, an
n-gram that ends at t occurs as often as L_j(t) >= n: that answers for all n.
"""

import math

import numpy as np
from numba import njit

__all__ = ["ORDER", "fill_prefix_bleu"]

ORDER = 4


@njit(cache=True, nogil=True)
def fill_prefix_bleu(found, produced, steps, reference, lengths, end, unknown):
    """Write the score of each prefix into `found`, [B, T]; see `prefix_bleu` for the rest."""
    rows = len(produced)
    width = reference.shape[1]
    for row in range(rows):
        wanted = np.empty(width, np.int64)
        size = 0
        for j in range(lengths[row]):
            if reference[row, j] != end:
                wanted[size] = reference[row, j]
                size += 1
        said = np.empty(steps[row], np.int64)
        common = np.zeros(size + 1, np.int64)  # L with the reference, moved by one
        own = np.zeros(steps[row] + 1, np.int64)  # and with what was said before
        matches = np.zeros(ORDER, np.int64)
        in_reference, before = np.empty(ORDER, np.int64), np.empty(ORDER, np.int64)
        count, score = 0, 0.0
        for t in range(steps[row]):
            token = produced[row, t]
            if token != end:
                in_reference[:], before[:] = 0, 0
                for j in range(size - 1, -1, -1):
                    same = token == wanted[j] and token != unknown
                    common[j + 1] = min(common[j] + 1, ORDER) if same else 0
                    for n in range(common[j + 1]):
                        in_reference[n] += 1
                for j in range(count - 1, -1, -1):
                    own[j + 1] = min(own[j] + 1, ORDER) if token == said[j] else 0
                    for n in range(own[j + 1]):
                        before[n] += 1
                said[count] = token
                count += 1
                total = 0.0
                for n in range(ORDER):
                    if before[n] < in_reference[n]:
                        matches[n] += 1
                    total += math.log((matches[n] + 1) / (max(0, count - n) + 1))
                brevity = 1 - size / count if count < size else 0.0
                score = math.exp(brevity + total / ORDER) * size
            found[row, t] = score
