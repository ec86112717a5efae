"""Numba's decorator with a cache that a process can do without, and compiled functions for other packages.

Numba keeps compiled code in NUMBA_CACHE_DIR, next to the source, or in the cache directory of the user, and
raises an error if it can write to none of them, or if the disk is full. Such an installation is common: root
owns the package and a service without a home directory runs it. Here a function is then compiled in each
process.

Numba takes several seconds to compile its own `np.argsort` and `np.searchsorted` at their first use; the
functions of this module take a fraction of a second.
"""

import logging
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

_log = logging.getLogger(__name__)

COMPILING = "Numba compiles functions, which takes seconds, and keeps the result in %s for later processes"
NOT_CACHED = (
    "Numba compiles functions in each process, which takes seconds, because it cannot keep the result (%s): "
    "set NUMBA_CACHE_DIR to a writable directory"
)
_reported: set[str] = set()


def _report_once(message: str, detail: object) -> None:
    """Log the message at its first use in this process; several functions are compiled."""
    if message not in _reported:
        _reported.add(message)
        _log.warning(message, detail)


# This uses internals of Numba; `tests/kernels/test_compilation.py` fails if they change.
class _FileCache(FunctionCache):
    """The cache of a function in a directory."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code, or None before it is compiled."""
        # The method of the base class imports the modules of the compiler, which takes longer than loading.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            code = self._load_overload(sig, target_context)
        if code is None:
            _report_once(COMPILING, self.cache_path)
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code if there is space."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _report_once(NOT_CACHED, error)


def njit(function: Callable[..., Any] | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Decorate a function like `numba.njit`."""
    if function is None:
        return lambda decorated: njit(decorated, cache=cache, **options)
    dispatcher: Any = numba.njit(**options)(function)
    if cache:
        try:
            dispatcher._cache = _FileCache(function)
        except RuntimeError:
            _report_once(NOT_CACHED, "no directory for its cache is writable")
    return dispatcher


GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""Increment of the state of SplitMix64."""


@njit
def splitmix64(x):
    """Return the random number, a uint64, for a state, a uint64, by SplitMix64.

    Steele, Lea & Flood (2014), "Fast splittable pseudorandom number generators". Random number i of a seed is
    `splitmix64(seed + (i + 1) * GAMMA)` for i = 0, 1, ..., modulo 2^64.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def search_key(keys, key, low, high):
    """Return the first position of a key in a range of ascending keys, or -1 if it is absent.

    Args:
        keys: Keys, [N], in ascending order within the range.
        key: The key to find.
        low: The start of the range.
        high: Its end, exclusive.
    """
    end = high
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and keys[low] == key else -1
