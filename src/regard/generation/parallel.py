"""Search of two batches at once.

A decoding step consists of a few large matrix multiplications and many small operations, during which all but
one thread are idle. Therefore two batches are searched concurrently, each with half of the threads, which
gives about a sixth more sentences per second (`benchmarks/RESULTS.md`). More than two batches would wait for
Python's global interpreter lock. The lock's switch interval is a setting of the whole process and is left as
the program has set it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import TypeVar

import torch
from torch import nn

from regard.generation.beam import eval_mode

__all__ = ["map_batches"]

_T = TypeVar("_T")
_R = TypeVar("_R")

_lock = Lock()


def map_batches(model: nn.Module, batches: Sequence[_T], function: Callable[[_T], _R]) -> list[_R]:
    """Apply a function to each batch and return the results in order.

    Args:
        model: The model that the function uses.
        batches: The batches.
        function: Called in other threads, with the autocast settings of the calling thread.
    """
    threads = torch.get_num_threads()
    first = next(model.parameters(), None)
    device = "cpu" if first is None else first.device.type
    if device != "cpu" or threads < 2 or len(batches) < 2:
        return [function(batch) for batch in batches]
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

    def search(batch: _T) -> _R:
        with torch.autocast(device, dtype, enabled=dtype is not None):
            return function(batch)

    # Set evaluation mode once for both threads: each search restores the mode that it found.
    with eval_mode(model), ThreadPoolExecutor(2, "search") as pool:
        _split_threads(pool, threads)
        return list(pool.map(search, batches))


def _split_threads(pool: ThreadPoolExecutor, threads: int) -> None:
    """Give each worker of a pool half of the threads; both get the same number, as results depend on it."""
    barrier = Barrier(3)

    def set_threads() -> None:
        # A thread's first call adopts the last number set in any thread, so it must precede the setter.
        torch.get_num_threads()
        torch.set_num_threads(threads // 2)
        barrier.wait()

    with _lock:
        for _ in range(2):
            pool.submit(set_threads)
        barrier.wait()
        torch.set_num_threads(threads)  # restores the default for new threads
