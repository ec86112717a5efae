"""Execution of compiled kernels on PyTorch's own thread pool.

A kernel takes one pointer, to a block of int64 arguments. The block begins with a counter of tickets. Each
thread increments it atomically to claim the next units of work, until all work is done. A kernel is thus
independent of the number of threads.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch

__all__ = ["CHUNK_SIZE", "argument_block", "run_kernel", "run_rows"]

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
    """Return the function that runs a compiled function on every thread of PyTorch's pool, or None.

    PyTorch for Linux is linked with GNU's OpenMP. `GOMP_parallel(function, argument, threads, flags)` is the
    function that GCC emits for `#pragma omp parallel`: it calls `function(argument)` on each thread of the
    pool, including the calling one, and returns when all have finished. It is part of the stable binary
    interface of the library, and LLVM's and Intel's OpenMP libraries for Linux export it, too. The lookup
    goes through the library of PyTorch that calls it: a symbol is searched for in the library itself and
    then in the libraries that it is linked with. The result is therefore the function that PyTorch itself
    uses, even if another package has loaded a second OpenMP library.

    The documented way would be Numba's `parallel=True`. It is about as fast (0.9 to 1.2 times the time, two
    busy processors), but it is not used, for three reasons. Its `workqueue` layer, the only one that is
    always available, terminates the process if two threads run kernels at the same time, as the search does.
    Its `omp` layer needs an OpenMP library of the system and creates a second pool of threads, which competes
    with PyTorch's for the processors. The layer and the maximum number of threads are settings of the whole
    process, which belong to the user.

    If the function is missing (macOS, Windows, a build without OpenMP), kernels run on the calling thread
    only. The results are the same.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        found = ctypes.CDLL(str(library)).GOMP_parallel
    except (AttributeError, OSError):
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    found.restype = None
    return found


def argument_block(*fields: str, num_operands: int = 0) -> Any:
    """Return a ctypes structure of int64: the arguments of a kernel, which `run_kernel` passes to it.

    The first fields of every block are `ticket`, the counter of the claimed shares of the work,
    `units_per_ticket` and `units`, the number of units of work. `run_kernel` sets them.

    Args:
        fields: Names of the arguments of the kernel. All are 0 by default. For a tensor the argument is its
            address, 0 if it is absent.
        num_operands: Number of tensors that broadcast. Each has three numbers in the last field, `operands`:
            its address, and `every` and `count` of `backend.broadcast_rows`.
    """
    layout: list[tuple[str, Any]] = [
        (name, ctypes.c_int64) for name in ("ticket", "units_per_ticket", "units", *fields)
    ]
    layout.append(("operands", ctypes.c_int64 * (3 * num_operands)))
    return type("ArgumentBlock", (ctypes.Structure,), {"_fields_": layout})


def run_kernel(kernel: Any, block: Any, units: int, *, single_threaded: bool) -> None:
    """Run a kernel over its units of work, on several threads if that is worthwhile.

    Args:
        kernel: The kernel, a function compiled by `numba.cfunc`.
        block: Its argument block.
        units: Number of units of work, at least 1.
        single_threaded: Whether the work is so small that waking a second thread, which takes about 5 us,
            would cost more time than it saves. The limit depends on the kernel.
    """
    # About four shares per thread balance the load, and are large enough that threads rarely write to the
    # same cache line.
    threads = torch.get_num_threads()
    block.units, block.units_per_ticket = units, units if single_threaded else max(1, units // (4 * threads))
    tickets = (units + block.units_per_ticket - 1) // block.units_per_ticket
    threads = 1 if _forked else min(threads, tickets)
    parallel = _gomp_parallel() if threads > 1 else None
    if parallel is None:
        kernel.ctypes(ctypes.addressof(block))
    else:
        parallel(kernel.address, ctypes.addressof(block), threads, 0)


_MIN_PARALLEL_SIZE = 1 << 15
"""Number of elements below which waking a second thread would take more time than it saves."""


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads besides the calling one."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "regard-kernels")


# A child process has none of the threads of its parent.
os.register_at_fork(after_in_child=_pool.cache_clear)


def run_rows(kernel: Callable[..., bool], num_rows: int, num_elements: int, *arguments: Any) -> bool:
    """Run a kernel over rows, on up to as many threads as PyTorch uses.

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
