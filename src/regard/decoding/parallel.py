"""Several batches at a time on a CPU.

A step of search is a few large products and many small operations between them, during which all but one of
the threads wait. So two batches are searched side by side, each with half of the threads: with two threads in
all that translates a tenth to a sixth more sentences a second (`benchmarks/RESULTS.md`). More batches than
two would wait for each other in Python.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch
from torch import nn

from regard.decoding.beam import evaluating

__all__ = ["each_batch"]

T = TypeVar("T")
R = TypeVar("R")


def each_batch(model: nn.Module, batches: Sequence[T], function: Callable[[T], R]) -> list[R]:
    """What a function makes of each batch, in their order.

    Args:
        model: What it searches with.
        batches: The batches.
        function: Called in other threads, with the autocast of this one.
    """
    threads = torch.get_num_threads()
    device = next(model.parameters()).device.type
    if device != "cpu" or threads < 2 or len(batches) < 2:
        return [function(batch) for batch in batches]
    shares: SimpleQueue[int] = SimpleQueue()
    for share in (threads - threads // 2, threads // 2):
        shares.put(share)
    half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

    def search(batch: T) -> R:
        with torch.autocast(device, half, enabled=half is not None):
            return function(batch)

    try:
        # Out here, because a search leaves the model in the mode in which it found it.
        with evaluating(model), ThreadPoolExecutor(2, "search", lambda: _take(shares)) as pool:
            return list(pool.map(search, batches))
    finally:
        torch.set_num_threads(threads)  # of threads to come; this one's own were not changed


def _take(shares: "SimpleQueue[int]") -> None:
    """Give the calling thread its share of the threads."""
    torch.get_num_threads()  # a thread's first question takes the number set last anywhere for its own
    torch.set_num_threads(shares.get())
