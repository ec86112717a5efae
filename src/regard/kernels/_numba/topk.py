"""The largest values of each row, in one pass over the row."""

import numpy as np
import torch

from regard.kernels._numba.rows import run_rows
from regard.kernels.compilation import njit
from regard.types import Tensor

_NEG_INF = np.float32(-np.inf)


@njit(cache=True, nogil=True)
def _topk_rows(begin, end, values, largest, indices):
    """Write the largest values and their indices, [N, k], for some rows of the values, [N, V].

    Almost all values are below the k-th largest so far, so that a comparison per value dominates the time.
    """
    k = largest.shape[1]
    largest[begin:end], indices[begin:end] = _NEG_INF, 0
    for row in range(begin, end):
        for i in range(values.shape[1]):
            value = values[row, i]
            if value > largest[row, k - 1]:
                # Insert the value after all that are not smaller.
                j = k - 1
                while j > 0 and value > largest[row, j - 1]:
                    largest[row, j], indices[row, j] = largest[row, j - 1], indices[row, j - 1]
                    j -= 1
                largest[row, j], indices[row, j] = value, i
    return True


def topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row and their indices; see `regard.kernels.topk`."""
    largest = values.new_empty(len(values), k)
    indices = torch.empty(len(values), k, dtype=torch.int64)
    run_rows(_topk_rows, len(values), values.numel(), values.numpy(), largest.numpy(), indices.numpy())
    return largest, indices
