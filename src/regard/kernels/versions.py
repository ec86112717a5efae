"""Which version of a map runs: the plain reference, Numba on a CPU, Triton on CUDA.

The default follows the device. One switch forces a version: `with using("reference"): ...`, or the environment
variable REGARD_KERNELS for a whole process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Literal, get_args

import torch

from regard.errors import UsageError
from regard.types import Tensor

__all__ = ["Version", "chosen", "transforming", "using"]

Version = Literal["auto", "reference", "numba", "triton"]

_forced: ContextVar[Version | None] = ContextVar("regard_kernels", default=None)
_NATIVE: dict[str, Version] = {"cpu": "numba", "cuda": "triton"}


def _checked(version: str) -> Version:
    if version not in get_args(Version):
        raise UsageError(f"kernels: {version!r} is none of {', '.join(get_args(Version))}")
    return version  # pyright: ignore[reportReturnType]


_everywhere: Version = _checked(os.environ.get("REGARD_KERNELS", "auto"))


@contextmanager
def using(version: Version) -> Iterator[None]:
    """Force a version of the kernels within the block, in this thread; `auto` follows the device again.

    Raises:
        UsageError: No version has that name.
    """
    token = _forced.set(_checked(version))
    try:
        yield
    finally:
        _forced.reset(token)


def _found(version: Version) -> bool:
    if version not in _FOUND:
        _FOUND[version] = version == "reference" or find_spec(version) is not None
    return _FOUND[version]


_FOUND: dict[str, bool] = {}


def chosen(scores: Tensor) -> Version:
    """The version that answers for these scores: never `auto`."""
    forced = _forced.get() or _everywhere
    if forced != "auto":
        return forced
    native = _NATIVE.get(scores.device.type, "reference")
    return native if _found(native) else "reference"


try:
    _stack = torch._C._functorch.peek_interpreter_stack
except AttributeError:  # pragma: no cover

    def _stack() -> None:
        return None


def transforming() -> bool:
    """Whether a transform of `torch.func` is at work, under which only plain operations go."""
    return _stack() is not None
