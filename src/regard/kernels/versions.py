"""Which version of a map runs: the plain reference, Numba on a CPU, Triton on CUDA.

Other kernels have the first two. The default follows the device. One switch forces a version:
`with using("reference"): ...`, or the environment variable REGARD_KERNELS for a whole process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch

from regard.errors import UsageError
from regard.types import Tensor

__all__ = ["Version", "chosen", "on_cpu", "transforming", "using"]

Version = Literal["auto", "reference", "numba", "triton"]

_NATIVE: dict[str, Version] = {"cpu": "numba", "cuda": "triton"}
_NATIVE = {device: version for device, version in _NATIVE.items() if find_spec(version) is not None}


def _checked(version: str) -> Version:
    for known in get_args(Version):
        if version == known:
            return known
    raise UsageError(f"kernels: {version!r} is none of {', '.join(get_args(Version))}")


# A plain global, which compilers can read and guard.
_forced: Version = _checked(os.environ.get("REGARD_KERNELS", "auto"))


@contextmanager
def using(version: Version) -> Iterator[None]:
    """Force a version of the kernels within the block, for the whole process; `auto` follows the device.

    Raises:
        UsageError: No version has that name.
    """
    global _forced
    before, _forced = _forced, _checked(version)
    try:
        yield
    finally:
        _forced = before


def chosen(scores: Tensor) -> Version:
    """The version that answers for these scores: never `auto`."""
    return _NATIVE.get(scores.device.type, "reference") if _forced == "auto" else _forced


def on_cpu(*operands: Tensor) -> bool:
    """Whether a kernel of Numba's that is no operator for `torch.compile` may be given these."""
    # A step of search asks some fifty times.
    if torch.compiler.is_compiling() or (_stack is not None and _stack() is not None):
        return False
    for operand in operands:
        if not operand.is_cpu:
            return False
    return (_NATIVE.get("cpu") if _forced == "auto" else _forced) == "numba"


# Private, and absent from some versions: then no transform is noticed.
_stack: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def transforming() -> bool:
    """Whether a transform of `torch.func` is at work, under which only plain operations go."""
    return not torch.compiler.is_compiling() and _stack is not None and _stack() is not None
