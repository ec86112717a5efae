"""Rows of the operands of compiled kernels, and their distribution over threads.

The kernels release Python's global lock. The documented way would be Numba's `parallel=True`. It is not used,
for three reasons. Its `workqueue` layer, the only one that is always available, terminates the process if two
threads run kernels at the same time, as the search does. Its `omp` layer needs an OpenMP library of the
system and creates a second pool of threads, which competes with PyTorch's for the processors. The layer and
the maximum number of threads are settings of the whole process, which belong to the user.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch

from regard.kernels.compilation import njit
from regard.types import Tensor

PADDING = 16
"""A multiple of this number of elements avoids scalar loops; see `thresholds`."""
_MIN_PARALLEL_SIZE = 1 << 15
"""Number of elements below which waking a second thread would take more time than it saves."""


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads that run kernels in addition to the calling thread."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "regard-kernels")


# A child process has none of the threads of its parent.
os.register_at_fork(after_in_child=_pool.cache_clear)


def run_rows(kernel: Callable[..., bool], num_rows: int, num_elements: int, *arguments: Any) -> bool:
    """Run a kernel over rows, on at most the number of threads that PyTorch uses.

    Args:
        kernel: A function of the first row, the last row + 1 and the arguments. It releases the global lock,
            and its results do not depend on the distribution of the rows.
        num_rows: Number of rows.
        num_elements: Number of elements of all rows, by which the number of threads is chosen.
        arguments: The other arguments of the kernel.

    Returns:
        Whether the kernel has returned True for all rows.
    """
    shares = min(torch.get_num_threads(), num_rows) if num_elements >= _MIN_PARALLEL_SIZE else 1
    edges = [num_rows * i // shares for i in range(shares + 1)]
    others = [_pool().submit(kernel, edges[i], edges[i + 1], *arguments) for i in range(1, shares)]
    complete = kernel(0, edges[1], *arguments)
    return all([complete, *(other.result() for other in others)])


@njit
def padded_length(size):
    """Return the length of the scratch memory of a row."""
    return (size + PADDING - 1) // PADDING * PADDING


@njit
def load_row(values, row, out):
    """Copy a row to scratch memory."""
    for i in range(values.shape[1]):
        out[i] = values[row, i]


@njit
def mask_row(mask, row, z):
    """Set the scores of a row to -inf where the mask is False."""
    for i in range(mask.shape[1]):
        z[i] = z[i] if mask[row, i] else -np.inf


NO_MASK, NO_STATUS = np.empty((0, 1), np.bool_), np.empty((0, 1), np.uint8)
"""Arrays without rows, which stand for absent operands."""


def expand_rows(operand: Tensor | None, shape: torch.Size, absent: Any) -> Any:
    """Return an operand, broadcast to a shape, as an array [N, S], or `absent` if there is none."""
    if operand is None:
        return absent
    # Each needless call of PyTorch would take as long as the kernel for several rows.
    if operand.shape != shape:
        operand = operand.expand(shape)
    if operand.requires_grad:
        operand = operand.detach()
    array = operand.contiguous().numpy()
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])
