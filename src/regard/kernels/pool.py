"""Compiled work on PyTorch's own threads.

A kernel takes one pointer, to a block of int64 whose first is a ticket: each thread draws the next one until
none is left, so that a kernel need not know how many threads there are. PyTorch's wheels bring GNU's OpenMP,
whose pool of threads is at hand as `GOMP_parallel`; a second pool beside it (Numba's own, say) would fight it
for the processors. Where there is no such library, and in the child of a fork, whose pool is gone, the
calling thread does it all.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

__all__ = ["run"]

_forked = False


def _single() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_single)


@cache
def _parallel() -> Callable[[int, int, int, int], None] | None:
    """`GOMP_parallel` of the library that PyTorch loaded, or none."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    homes = (Path(torch.__file__).parent, Path(torch.__file__).parent.with_name("torch.libs"))
    loaded = {Path(line.split(maxsplit=5)[5]) for line in lines if "omp" in line and ".so" in line}
    for path in sorted(loaded, key=lambda path: not any(path.is_relative_to(home) for home in homes)):
        try:
            found = ctypes.CDLL(str(path)).GOMP_parallel
        except (AttributeError, OSError):
            continue
        found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        found.restype = None
        return found
    return None


def run(kernel: Callable[[int], None], address: int, block: int, pieces: int) -> None:
    """Run a kernel over `pieces` pieces of work.

    Args:
        kernel: The C function, as ctypes calls it.
        address: The same function's address.
        block: Address of its block of int64.
        pieces: How many tickets are worth drawing: no more threads are woken.
    """
    threads = 1 if _forked or pieces < 2 else min(torch.get_num_threads(), pieces)
    parallel = _parallel() if threads > 1 else None
    if parallel is None:
        kernel(block)
    else:
        parallel(address, block, threads, 0)
