"""The choice of a backend, and typed functions of autograd, for all kernels.

The backends are the PyTorch reference, Numba on a CPU, and Triton on CUDA. Only the normalizers have a Triton
implementation. By default the device determines the backend. A backend can be forced with
`with use_backend("reference"): ...`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from regard.errors import UsageError
from regard.types import Tensor

F = TypeVar("F", bound=Callable[..., Any])

BackendName = Literal["auto", "reference", "numba", "triton"]

# `find_spec` finds a package without the cost of importing it.
_BACKENDS: list[tuple[str, BackendName]] = [("cpu", "numba"), ("cuda", "triton")]
_NATIVE: dict[str, BackendName] = {device: name for device, name in _BACKENDS if find_spec(name) is not None}


# A module-level global rather than a context variable, since `torch.compile` can guard on it.
_forced: BackendName = "auto"


@contextmanager
def use_backend(backend: BackendName) -> Iterator[None]:
    """Force a backend of the kernels within a `with` block, for all threads of the process.

    Args:
        backend: The backend; `auto` selects it by device.

    Raises:
        UsageError: The backend is unknown.
    """
    global _forced
    if backend not in get_args(BackendName):
        expected = ", ".join(get_args(BackendName))
        raise UsageError(f"kernels: unknown backend {backend!r}; expected one of {expected}")
    before, _forced = _forced, backend
    try:
        yield
    finally:
        _forced = before


def select_backend(scores: Tensor) -> BackendName:
    """Return the backend to use for these scores: `reference`, `numba` or `triton`.

    Under `torch.func` and in compiled code, which support PyTorch operations only, it is `reference`.
    """
    if in_transform():
        return "reference"
    return _NATIVE.get(scores.device.type, "reference") if _forced == "auto" else _forced


@cache
def backend_module(backend: BackendName, operation: str) -> Any:
    """Return the module with the implementation of an operation; it is imported at the first call.

    Numba and Triton, whose import takes a second, are thus imported only if one of their kernels runs.

    Args:
        backend: The backend, except `auto`.
        operation: Name of the module, which is that of the front.
    """
    return import_module(f"regard.kernels._{backend}.{operation}")


def use_numba(*operands: Tensor) -> bool:
    """Return whether a Numba kernel can be used."""
    return all(operand.is_cpu for operand in operands) and select_backend(operands[0]) == "numba"


# A private function that some versions of PyTorch lack. Transforms are then not detected.
_stack: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def in_transform() -> bool:
    """Return whether the compiler or a transform of `torch.func` is active, for PyTorch operations only."""
    return torch.compiler.is_compiling() or (_stack is not None and _stack() is not None)


class KernelFallbackError(Exception):
    """The kernel has no valid result: a row is infeasible, too long, or has NaN or extreme scores.

    The caller then uses the reference implementation, which raises the appropriate error if there is one.
    """


def first_order(backward: F) -> F:
    """Mark a backward pass as not differentiable; computing a second derivative raises an error."""
    return cast(F, once_differentiable(backward))


def apply(function: type[Function], *arguments: Any) -> Any:
    """Return `function.apply(*arguments)`, which has no type annotations in PyTorch."""
    return function.apply(*arguments)
