"""The largest values of each row on a CPU, in one pass over memory."""

import numpy as np
import torch

from regard.kernels.compilation import njit
from regard.kernels.threads import run_rows
from regard.types import Tensor

BLOCK_SIZE = 64  # number of values that are compared at a time with the smallest of the largest ones


@njit
def _insert(value, position, top, positions, filled):
    """Insert a value into the row of the largest ones, after equal ones; returns their new number."""
    place = min(filled, len(top) - 1)
    while place > 0 and (top[place - 1] < value or (np.isnan(value) and not np.isnan(top[place - 1]))):
        top[place], positions[place] = top[place - 1], positions[place - 1]
        place -= 1
    top[place], positions[place] = value, position
    return min(filled + 1, len(top))


@njit(cache=True, nogil=True)
def _top_k_rows(begin, end, values, top, positions):
    """Write the largest values of some rows in descending order.

    Args:
        begin: First row.
        end: Last row + 1.
        values: [N, V], float32.
        top: [N, k]; output.
        positions: [N, k], int64; output.
    """
    k, size = top.shape[1], values.shape[1]
    for row in range(begin, end):
        filled = 0
        for i in range(k):
            filled = _insert(values[row, i], i, top[row], positions[row], filled)
        lowest = top[row, k - 1]
        for start in range(k, size, BLOCK_SIZE):
            block = values[row, start : start + BLOCK_SIZE]
            larger = 0
            # A vectorized loop, after which most blocks are done. NaN counts as larger than any number.
            for i in range(len(block)):
                larger += not block[i] <= lowest
            if not larger or np.isnan(lowest):
                continue
            for i in range(len(block)):
                if not block[i] <= lowest and not np.isnan(lowest):
                    _insert(block[i], start + i, top[row], positions[row], k)
                    lowest = top[row, k - 1]
    return True


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the values and their positions; see `kernels.top_k`."""
    top, positions = values.new_empty(len(values), k), torch.empty(len(values), k, dtype=torch.long)
    run_rows(_top_k_rows, len(values), values.numel(), values.numpy(), top.numpy(), positions.numpy())
    return top, positions
