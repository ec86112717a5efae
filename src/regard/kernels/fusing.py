"""Lowering the total variation of rows by the taut string (Davies & Kovac 2001).

x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j| is the slope of the shortest string from (0, 0) to
(n, r_n) that stays within lambda of the running sums r_k = z_1 + ... + z_k. From each knot the string goes on
straight as long as some slope keeps it within the tube; where none does, it bends where it was held last.
"""

import numpy as np
import torch
from numba import njit

from regard.types import Tensor

__all__ = ["fuse"]


def fuse(scores: Tensor, usable: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Which positions share a group, by the first of them, and x less the group's mean.

    Args:
        scores: [..., S], on a CPU, finite where usable.
        usable: [..., S], which positions the string goes through.
        strength: lambda.

    Returns:
        [..., S], int64 and the dtype of the scores.
    """
    groups = torch.zeros(scores.shape, dtype=torch.int64)
    changes = torch.zeros(scores.shape, dtype=torch.float64)
    z, there, firsts, shifts = (  # of one layout: the compiler makes a version for each
        operand.contiguous().view(-1, scores.shape[-1]).numpy()
        for operand in (scores.detach().double(), usable, groups, changes)
    )
    _fuse_rows(z, there, firsts, shifts, strength)
    return groups, changes.to(scores.dtype)


@njit(cache=True, nogil=True)
def _fuse_rows(scores, usable, groups, changes, strength):
    """Write where groups are and how far they lie from their means.

    Args:
        scores: [N, S], float64.
        usable: [N, S], which positions the string goes through.
        groups: [N, S], int64: for each position the first of its group's; its own where not usable.
        changes: [N, S], float64: x less the mean of its group; where not usable left alone.
        strength: lambda.
    """
    rows, size = scores.shape
    places = np.empty(size, np.int64)
    for row in range(rows):
        count = 0
        for i in range(size):
            groups[row, i] = i
            if usable[row, i]:
                places[count] = i
                count += 1
        start, offset = 0, 0.0  # the last knot, and how far above the running sum the string is there
        while start < count:
            low, high = -np.inf, np.inf  # the slopes that have kept the string in the tube
            last_low, last_high = start + 1, start + 1
            knot, after = count, 0.0
            total = -offset  # the running sum from the string at the knot: what came before drowns nothing
            for k in range(start + 1, count + 1):
                total += scores[row, places[k - 1]]
                room = strength if k < count else 0.0
                least, most = (total - room) / (k - start), (total + room) / (k - start)
                if least > high:
                    knot, after = last_high, strength
                    break
                if most < low:
                    knot, after = last_low, -strength
                    break
                if least >= low:
                    low, last_low = least, k
                if most <= high:
                    high, last_high = most, k
            for k in range(start, knot):
                groups[row, places[k]] = places[start]
                changes[row, places[k]] = (after - offset) / (knot - start)
            start, offset = knot, after
