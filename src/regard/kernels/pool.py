"""Execution of compiled kernels on PyTorch's own thread pool.

A kernel takes one pointer, to an argument block of int64. The first entry is a counter of tickets. Each
thread increments it atomically to claim the next share of the work, until all work is done. A kernel is thus
independent of the number of threads.

PyTorch's wheels include GNU's OpenMP, whose thread pool is accessible through `GOMP_parallel`. A second pool,
such as Numba's own, would compete with it for the processors. The calling thread does all work if this
library is missing, and in a forked child process, which has no pool.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch

__all__ = ["CHUNK_SIZE", "LoadedKernel", "load_kernel", "run_kernel"]

CHUNK_SIZE = 1 << 10
"""Number of elements of a long row that are processed at a time, so that they stay in the cache."""

_forked = False


def _mark_forked() -> None:
    """Restrict a forked child process to one thread."""
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_mark_forked)


@cache
def _gomp_parallel() -> Callable[[int, int, int, int], None] | None:
    """Return `GOMP_parallel` of the OpenMP library that PyTorch has loaded, or None."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    homes = (Path(torch.__file__).parent, Path(torch.__file__).parent.with_name("torch.libs"))
    loaded = {Path(line.split(maxsplit=5)[5]) for line in lines if "omp" in line and ".so" in line}
    # Another package may have loaded an OpenMP library too, so try those in PyTorch's directories first.
    for path in sorted(loaded, key=lambda path: not any(path.is_relative_to(home) for home in homes)):
        try:
            found = ctypes.CDLL(str(path)).GOMP_parallel
        except (AttributeError, OSError):
            continue
        found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        found.restype = None
        return found
    return None


class LoadedKernel(NamedTuple):
    """A compiled kernel: a ctypes function, and its address."""

    function: Callable[[int], None]
    address: int


@cache
def load_kernel(module: str, name: str) -> LoadedKernel:
    """Load a kernel; its module, and with it Numba, is imported at the first call.

    Args:
        module: Name of the module in `regard.kernels`.
        name: Name of the kernel, a function compiled by `numba.cfunc`.
    """
    address = getattr(import_module(f"regard.kernels.{module}"), name).address
    return LoadedKernel(ctypes.CFUNCTYPE(None, ctypes.c_int64)(address), address)


def run_kernel(
    kernel: LoadedKernel,
    block: "ctypes.Array[ctypes.c_int64]",
    units_per_ticket_index: int,
    units: int,
    single_threaded: bool,
) -> None:
    """Run a kernel over its units of work, on several threads if that is worthwhile.

    Args:
        kernel: The kernel.
        block: Its argument block; the first entry is the ticket counter, which must be 0.
        units_per_ticket_index: Index in the block of the number of units per ticket, which this function
            sets.
        units: Number of units of work, at least 1.
        single_threaded: Whether the work is so small that waking a second thread, which takes about 5 us,
            would cost more time than it saves. The limit depends on the kernel.
    """
    # About four shares per thread balance the load, and are large enough that threads rarely write to the
    # same cache line.
    block[units_per_ticket_index] = units_per_ticket = (
        units if single_threaded else max(1, units // (4 * torch.get_num_threads()))
    )
    tickets = (units + units_per_ticket - 1) // units_per_ticket
    threads = 1 if _forked or tickets < 2 else min(torch.get_num_threads(), tickets)
    parallel = _gomp_parallel() if threads > 1 else None
    if parallel is None:
        kernel.function(ctypes.addressof(block))
    else:
        parallel(kernel.address, ctypes.addressof(block), threads, 0)
