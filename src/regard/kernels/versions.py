"""Selection of the implementation of a kernel: the PyTorch reference, Numba on a CPU, or Triton on CUDA.

Only the normalizers have a Triton implementation. By default the device determines the backend. A backend can
be forced with `with use_backend("reference"): ...`, or for a whole process with the environment variable
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
_NATIVE = {device: name for device, name in _NATIVE.items() if find_spec(name) is not None}


def _checked(name: str) -> BackendName:
    """Return the backend with this name; raises UsageError if there is none."""
    for known in get_args(BackendName):
        if name == known:
            return known
    raise UsageError(f"kernels: unknown backend {name!r}; expected one of {', '.join(get_args(BackendName))}")


# A module-level global rather than a context variable, since `torch.compile` can guard on it.
_forced: BackendName = _checked(os.environ.get("REGARD_KERNELS", "auto"))


@contextmanager
def use_backend(backend: BackendName) -> Iterator[None]:
    """Force a backend of the kernels within a `with` block, for all threads of the process.

    Args:
        backend: The backend; `auto` selects it by device.

    Raises:
        UsageError: The backend is unknown.
    """
    global _forced
    before, _forced = _forced, _checked(backend)
    try:
        yield
    finally:
        _forced = before


def select_backend(scores: Tensor) -> BackendName:
    """Return the backend to use for these scores, which is never `auto`."""
    return _NATIVE.get(scores.device.type, "reference") if _forced == "auto" else _forced


def use_numba(*operands: Tensor) -> bool:
    """Return whether a Numba kernel can be used that is not registered as an operator for `torch.compile`."""
    # Search calls this about fifty times per time step, so it must be fast.
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
