"""Typed wrappers of functions of PyTorch's autograd."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = ["apply", "first_order"]

F = TypeVar("F", bound=Callable[..., Any])


def first_order(backward: F) -> F:
    """Mark a backward pass as not differentiable; computing a second derivative raises an error."""
    return cast(F, once_differentiable(backward))


def apply(function: type[Function], *arguments: Any) -> Any:
    """Return `function.apply(*arguments)`, which has no type annotations in PyTorch."""
    return function.apply(*arguments)
