"""Selection of the implementation of a kernel: the PyTorch reference, Numba on a CPU, or Triton on CUDA.

Only the normalizers have a Triton version. By default the device determines the version. A version can be
forced with `with use_backend("reference"): ...`, or for a whole process with the environment variable
REGARD_KERNELS.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch

from regard.errors import UsageError
from regard.types import Tensor

__all__ = ["BackendName", "in_functorch_transform", "select_backend", "use_backend", "use_numba"]

BackendName = Literal["auto", "reference", "numba", "triton"]

_NATIVE: dict[str, BackendName] = {"cpu": "numba", "cuda": "triton"}
_NATIVE = {device: version for device, version in _NATIVE.items() if find_spec(version) is not None}


def _checked(version: str) -> BackendName:
    """Return the version with this name; raises UsageError if there is none."""
    for known in get_args(BackendName):
        if version == known:
            return known
    raise UsageError(
        f"kernels: unknown version {version!r}; expected one of {', '.join(get_args(BackendName))}"
    )


# A module-level global rather than a context variable, since `torch.compile` can guard on it.
_forced: BackendName = _checked(os.environ.get("REGARD_KERNELS", "auto"))


@contextmanager
def use_backend(backend: BackendName) -> Iterator[None]:
    """Force a version of the kernels within a `with` block, for all threads of the process.

    Args:
        backend: The version; `auto` selects it by device.

    Raises:
        UsageError: if the version is unknown.
    """
    global _forced
    before, _forced = _forced, _checked(backend)
    try:
        yield
    finally:
        _forced = before


def select_backend(scores: Tensor) -> BackendName:
    """Return the version to use for these scores, which is never `auto`."""
    return _NATIVE.get(scores.device.type, "reference") if _forced == "auto" else _forced


def use_numba(*operands: Tensor) -> bool:
    """Return whether a Numba kernel can be used that is not registered as an operator for `torch.compile`."""
    # A decoding step calls this about fifty times, so it must be fast.
    if torch.compiler.is_compiling() or (_stack is not None and _stack() is not None):
        return False
    for operand in operands:
        if not operand.is_cpu:
            return False
    return (_NATIVE.get("cpu") if _forced == "auto" else _forced) == "numba"


# A private function that some versions of PyTorch lack. Transforms are then not detected.
_stack: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def in_functorch_transform() -> bool:
    """Return whether a transform of `torch.func` is active, which supports PyTorch operations only."""
    return not torch.compiler.is_compiling() and _stack is not None and _stack() is not None
