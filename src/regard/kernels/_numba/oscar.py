"""Clustering of the values of rows by the pool adjacent violators algorithm (Best & Chakravarti, 1990).

The values are visited from the largest to the smallest. Each starts as a group of its own, which is merged
with the group before it as long as their values do not decrease.
"""

import numpy as np
import torch

from regard.kernels.compilation import njit
from regard.kernels.sorting import stable_argsort
from regard.types import Tensor


def cluster(scores: Tensor, usable: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Return the groups of positions with equal x; see `kernels.oscar`."""
    groups = torch.zeros(scores.shape, dtype=torch.int64)
    changes = torch.zeros(scores.shape, dtype=torch.float64)
    z, included, group_rows, change_rows = (  # contiguous, since Numba compiles one version per memory layout
        operand.contiguous().view(-1, scores.shape[-1]).numpy()
        for operand in (scores.detach().double(), usable, groups, changes)
    )
    _pool_rows(z, included, group_rows, change_rows, strength)
    return groups, changes.to(scores.dtype)


@njit(cache=True, nogil=True)
def _pool_rows(scores, usable, groups, changes, strength):
    """Write the groups of each row and the differences between x and the means of the groups.

    Args:
        scores: [N, S], float64.
        usable: [N, S], True at the positions to include.
        groups: [N, S], int64; output: the position of the largest value of each position's group, or the
            position itself where not usable.
        changes: [N, S], float64; output: x minus the mean score of the group; unchanged where not usable.
        strength: The weight lambda of the penalty.
    """
    rows, size = scores.shape
    keys = np.empty(size, np.float64)
    starts = np.empty(size + 1, np.int64)  # the first rank of each group
    totals, pairs = np.empty(size, np.float64), np.empty(size, np.float64)
    for row in range(rows):
        count = 0
        for i in range(size):
            groups[row, i] = i
            keys[i] = np.inf
            if usable[row, i]:
                keys[i] = -scores[row, i]
                count += 1
        order = stable_argsort(keys)
        last = -1
        for k in range(count):
            last += 1
            starts[last] = k
            totals[last], pairs[last] = scores[row, order[k]], float(count - 1 - k)
            end = k + 1
            while last > 0:
                own, before = end - starts[last], starts[last] - starts[last - 1]
                value = (totals[last] - strength * pairs[last]) / own
                value_before = (totals[last - 1] - strength * pairs[last - 1]) / before
                if value < value_before:
                    break
                totals[last - 1] += totals[last]
                pairs[last - 1] += pairs[last]
                last -= 1
        starts[last + 1] = count
        for group in range(last + 1):
            first, end = starts[group], starts[group + 1]
            for k in range(first, end):
                groups[row, order[k]] = order[first]
                changes[row, order[k]] = -strength * pairs[group] / (end - first)
