"""Several batches at a time on a CPU.

A step of search is a few large products and many small operations between them, during which all but one of
the threads wait. So two batches are searched side by side, each with half of the threads, which translates
about a sixth more sentences a second (`benchmarks/RESULTS.md`). More batches than two would wait for each
other in Python, whose interpreter one thread at a time may use: a product is done in much less than the 5 ms
that a thread may keep it by default while another waits.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Lock
from typing import TypeVar

import torch
from torch import nn

from regard.decoding.beam import evaluating

__all__ = ["each_batch"]

T = TypeVar("T")
R = TypeVar("R")

TURN = 2e-4  # seconds of Python at a time

_starting = Lock()
_turns: list[float] = []


def each_batch(model: nn.Module, batches: Sequence[T], function: Callable[[T], R]) -> list[R]:
    """What a function makes of each batch, in their order.

    Args:
        model: What it searches with.
        batches: The batches.
        function: Called in other threads, with the autocast of this one.
    """
    threads = torch.get_num_threads()
    first = next(model.parameters(), None)
    device = "cpu" if first is None else first.device.type
    if device != "cpu" or threads < 2 or len(batches) < 2:
        return [function(batch) for batch in batches]
    half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

    def search(batch: T) -> R:
        with torch.autocast(device, half, enabled=half is not None):
            return function(batch)

    # Out here, because a search leaves the model in the mode in which it found it.
    with evaluating(model), _short_turns(), ThreadPoolExecutor(2, "search") as pool:
        _share(pool, threads)
        return list(pool.map(search, batches))


@contextmanager
def _short_turns() -> Iterator[None]:
    """Have threads take shorter turns in the interpreter; the last to leave sets what the first one found."""
    with _starting:
        _turns.append(sys.getswitchinterval() if not _turns else _turns[0])
        sys.setswitchinterval(min(TURN, _turns[0]))
    try:
        yield
    finally:
        with _starting:
            found = _turns.pop()
            if not _turns:
                sys.setswitchinterval(found)


def _share(pool: ThreadPoolExecutor, threads: int) -> None:
    """Give each thread of a pool half of so many: as sums hang on it, both have the same."""
    both = Barrier(3)

    def take() -> None:
        torch.get_num_threads()  # a thread's first question takes the number set last anywhere for its own
        torch.set_num_threads(threads // 2)
        both.wait()

    with _starting:
        for _ in range(2):
            pool.submit(take)
        both.wait()
        torch.set_num_threads(threads)  # of threads to come; this one has so many
