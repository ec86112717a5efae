"""The Numba kernel of `regard.metrics.translation.prefix_bleu`: the BLEU of every prefix of a translation.

Let L_j(t) be the length, at most 4, of the longest common suffix of the first t and the first j tokens. The
n-gram that ends at t occurs once for each j with L_j(t) >= n. One recurrence for L thus counts the n-grams of
all orders.
"""

import math

import numpy as np

from regard.kernels.compilation import njit

MAX_NGRAM_ORDER = 4


@njit(cache=True, nogil=True)
def fill_prefix_bleu(scores, produced, produced_lengths, reference, reference_lengths, eos_id, unk_id):
    """Write the score of each prefix to `scores`, [B, T].

    The other arguments are those of `regard.metrics.translation.prefix_bleu`.
    """
    rows = len(produced)
    width = reference.shape[1]
    for row in range(rows):
        target = np.empty(width, np.int64)
        size = 0
        for j in range(reference_lengths[row]):
            if reference[row, j] != eos_id:
                target[size] = reference[row, j]
                size += 1
        prefix = np.empty(produced_lengths[row], np.int64)
        common = np.zeros(size + 1, np.int64)  # L_j(t) for the tokens of the reference, at index j + 1
        repeated = np.zeros(produced_lengths[row] + 1, np.int64)  # L_j(t) for earlier tokens
        matches = np.zeros(MAX_NGRAM_ORDER, np.int64)
        in_reference, earlier = np.empty(MAX_NGRAM_ORDER, np.int64), np.empty(MAX_NGRAM_ORDER, np.int64)
        count, score = 0, 0.0
        for t in range(produced_lengths[row]):
            token = produced[row, t]
            if token != eos_id:
                in_reference[:], earlier[:] = 0, 0
                # Run backward, since L_{j+1}(t) is computed from L_j(t - 1) in the same array.
                for j in range(size - 1, -1, -1):
                    same = token == target[j] and token != unk_id
                    common[j + 1] = min(common[j] + 1, MAX_NGRAM_ORDER) if same else 0
                    for n in range(common[j + 1]):
                        in_reference[n] += 1
                for j in range(count - 1, -1, -1):
                    repeated[j + 1] = min(repeated[j] + 1, MAX_NGRAM_ORDER) if token == prefix[j] else 0
                    for n in range(repeated[j + 1]):
                        earlier[n] += 1
                prefix[count] = token
                count += 1
                total = 0.0
                for n in range(MAX_NGRAM_ORDER):
                    # Clipped counts: an n-gram matches as often as it occurs in the reference.
                    if earlier[n] < in_reference[n]:
                        matches[n] += 1
                    total += math.log((matches[n] + 1) / (max(0, count - n) + 1))
                brevity = 1 - size / count if count < size else 0.0
                score = math.exp(brevity + total / MAX_NGRAM_ORDER) * size
            scores[row, t] = score
