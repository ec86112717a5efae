"""Parallel execution of compiled loops in threads; the compiled functions release the interpreter lock.

Work is cut into ranges whose number and boundaries do not depend on the number of threads, and their results
are returned in order, so that sums are bitwise reproducible.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

__all__ = ["NUM_RANGES", "run_parallel", "split_evenly"]

_T = TypeVar("_T")

NUM_RANGES = 32
"""Number of ranges that work is cut into, large enough that all threads finish at about the same time."""


def run_parallel(function: Callable[..., _T], calls: Sequence[tuple[Any, ...]], threads: int) -> list[_T]:
    """Call a function for each part of the work.

    Args:
        function: A function compiled with `nogil`.
        calls: The arguments of each call.
        threads: Number of threads.

    Returns:
        The results of the calls, in order.
    """
    if threads < 2 or len(calls) < 2:
        return [function(*call) for call in calls]
    # The first call compiles the function if necessary; two calls at once would compile it twice.
    first = function(*calls[0])
    with ThreadPoolExecutor(min(threads, len(calls) - 1)) as pool:
        return [first, *pool.map(lambda call: function(*call), calls[1:])]


def split_evenly(costs: np.ndarray, num_ranges: int = NUM_RANGES) -> list[tuple[int, int]]:
    """Cut a range of items into at most `num_ranges` non-empty ranges of about equal cost."""
    if not len(costs):
        return []
    ends = np.cumsum(costs, dtype=np.float64)
    wanted = np.arange(1, num_ranges) * (ends[-1] / num_ranges)
    # `unique` removes empty ranges.
    edges = np.unique(np.concatenate([[0], np.searchsorted(ends, wanted), [len(costs)]]))
    return [(int(first), int(last)) for first, last in pairwise(edges)]
