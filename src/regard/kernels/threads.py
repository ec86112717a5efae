"""Distribution of the rows of compiled kernels over threads.

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

import torch

__all__ = ["run_rows"]

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
