"""Numba's decorators, with a cache of the compiled code that a process can do without.

Numba keeps compiled code in NUMBA_CACHE_DIR, next to the source, or in the cache directory of the user, and
raises an error if it can write to none of them, or if the disk is full. Such an installation is common: root
owns the package and a service without a home directory runs it. Here a function is then compiled in each
process.
"""

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache, NullCache

__all__ = ["njit"]

_log = logging.getLogger(__name__)

COMPILING = "Numba compiles functions, which takes seconds, and keeps the result in %s for later processes"
NOT_CACHED = (
    "Numba compiles functions in each process, which takes seconds, because it cannot keep the result (%s): "
    "set NUMBA_CACHE_DIR to a writable directory"
)
_reported: set[str] = set()


def _report_once(level: int, message: str, detail: object) -> None:
    """Log the message at its first use in this process; several functions are compiled."""
    if message not in _reported:
        _reported.add(message)
        _log.log(level, message, detail)


# Both base classes are internals of Numba, whose versions `pyproject.toml` therefore limits.
class _FileCache(FunctionCache):
    """The cache of a function in a directory."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code, or None before it is compiled."""
        code = super().load_overload(sig, target_context)
        if code is None:
            _report_once(logging.INFO, COMPILING, self.cache_path)
        return code

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled code if there is space."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _report_once(logging.WARNING, NOT_CACHED, error)


class _NoCache(NullCache):
    """The cache of a function that no directory can hold."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Return None before the function is compiled."""
        _report_once(logging.WARNING, NOT_CACHED, "no directory for its cache is writable")


def _cache_of(function: Callable[..., Any]) -> FunctionCache | NullCache:
    """Return the cache of a function."""
    try:
        return _FileCache(function)
    except RuntimeError:  # Numba found no directory that it can write to
        return _NoCache()


def njit(function: Callable[..., Any] | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Decorate a function like `numba.njit`."""
    if function is None:
        return lambda decorated: njit(decorated, cache=cache, **options)
    dispatcher: Any = numba.njit(**options)(function)
    if cache:
        dispatcher._cache = _cache_of(function)
    return dispatcher
