"""Compiled loops over all processors: plain threads that call functions which let go of the interpreter.

Work is cut into pieces whose number and edges do not depend on the number of threads, and what the pieces
return is handed back in their order, so that sums come out the same to the bit.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

__all__ = ["PIECES", "cut", "run"]

T = TypeVar("T")

PIECES = 32
"""How many pieces work is cut into: enough for threads to finish together."""


def run(function: Callable[..., T], calls: Sequence[tuple[Any, ...]], threads: int) -> list[T]:
    """Call a function once for each piece of work.

    Args:
        function: Compiled with `nogil`.
        calls: The arguments of each call.
        threads: How many run at a time.

    Returns:
        What the calls returned, in order.
    """
    if threads < 2 or len(calls) < 2:
        return [function(*call) for call in calls]
    # The first call compiles where nothing is compiled yet; two at once would do it twice.
    first = function(*calls[0])
    with ThreadPoolExecutor(min(threads, len(calls) - 1)) as pool:
        return [first, *pool.map(lambda call: function(*call), calls[1:])]


def cut(costs: np.ndarray, pieces: int = PIECES) -> list[tuple[int, int]]:
    """Cut a range of items into at most `pieces` runs of about equal cost, none of them empty."""
    if not len(costs):
        return []
    ends = np.cumsum(costs, dtype=np.float64)
    wanted = np.arange(1, pieces) * (ends[-1] / pieces)
    edges = np.unique(np.concatenate([[0], np.searchsorted(ends, wanted), [len(costs)]]))
    return [(int(first), int(last)) for first, last in pairwise(edges)]
