"""Total variation denoising of rows by the taut string algorithm (Davies & Kovac, 2001).

x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j| is the slope of the shortest string from (0, 0) to
(n, r_n) that stays within lambda of the cumulative sums r_k = z_1 + ... + z_k. From each knot the string
continues straight as long as some slope keeps it within this tube. If no slope does, the next knot is the
point that restricted the slopes last.
"""

import numpy as np
import torch

from regard.kernels.compilation import njit
from regard.types import Tensor


def fuse(scores: Tensor, usable: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Return the groups of positions with equal x; see `functional.fusedmax`."""
    groups = torch.zeros(scores.shape, dtype=torch.int64)
    changes = torch.zeros(scores.shape, dtype=torch.float64)
    z, included, group_rows, change_rows = (  # contiguous, since Numba compiles one version per memory layout
        operand.contiguous().view(-1, scores.shape[-1]).numpy()
        for operand in (scores.detach().double(), usable, groups, changes)
    )
    _taut_string_rows(z, included, group_rows, change_rows, strength)
    return groups, changes.to(scores.dtype)


@njit(cache=True, nogil=True)
def _taut_string_rows(scores, usable, groups, changes, strength):
    """Write the groups of each row, [N, S], and the differences between x and the means of the groups.

    A group has the number of its first position; a position that is not usable has its own.
    """
    rows, size = scores.shape
    positions = np.empty(size, np.int64)
    for row in range(rows):
        count = 0
        for i in range(size):
            groups[row, i] = i
            if usable[row, i]:
                positions[count] = i
                count += 1
        start, offset = 0, 0.0  # the last knot, and the height of the string above the cumulative sum there
        while start < count:
            low, high = -np.inf, np.inf  # interval of the slopes that keep the string in the tube
            last_low, last_high = start + 1, start + 1  # the points that restricted the interval last
            knot, after = count, 0.0
            total = -offset  # the sum restarts at each knot, so that earlier large scores cost no precision
            for k in range(start + 1, count + 1):
                total += scores[row, positions[k - 1]]
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
                groups[row, positions[k]] = positions[start]
                changes[row, positions[k]] = (after - offset) / (knot - start)
            start, offset = knot, after
