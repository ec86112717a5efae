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
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch

__all__ = ["CHUNK", "Loaded", "load", "run"]

CHUNK = 1 << 10
"""So many numbers of a long row are worked on at a time, so that they stay near."""

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


class Loaded(NamedTuple):
    """A compiled kernel: as ctypes calls it, and its address."""

    function: Callable[[int], None]
    address: int


@cache
def load(module: str, name: str) -> Loaded:
    """A kernel of one of the modules beside this one, which the first call of any imports, with Numba.

    Args:
        module: The module's name in `regard.kernels`.
        name: The kernel's name in it, made by `numba.cfunc`.
    """
    address = getattr(import_module(f"regard.kernels.{module}"), name).address
    return Loaded(ctypes.CFUNCTYPE(None, ctypes.c_int64)(address), address)


def run(kernel: Loaded, block: "ctypes.Array[ctypes.c_int64]", share: int, units: int, few: bool) -> None:
    """Run a kernel over so many units of work, in shares large enough that threads seldom meet at an edge.

    Args:
        kernel: The kernel.
        block: Its arguments, the first of them the ticket.
        share: Where in the block stands how many units go with a ticket.
        units: At least one.
        few: Whether waking a second thread, some 5 us, would cost more than it saves: how many numbers that
            are rests on what a kernel does with each.
    """
    block[share] = each = units if few else max(1, units // (4 * torch.get_num_threads()))
    pieces = (units + each - 1) // each
    threads = 1 if _forked or pieces < 2 else min(torch.get_num_threads(), pieces)
    parallel = _parallel() if threads > 1 else None
    if parallel is None:
        kernel.function(ctypes.addressof(block))
    else:
        parallel(kernel.address, ctypes.addressof(block), threads, 0)
