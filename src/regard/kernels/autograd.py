"""Typed corners of PyTorch's autograd."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = ["apply", "first_order"]

F = TypeVar("F", bound=Callable[..., Any])


def first_order(backward: F) -> F:
    """Mark a written backward pass that has none of its own: asking for a second derivative raises."""
    return cast(F, once_differentiable(backward))


def apply(function: type[Function], *arguments: Any) -> Any:
    """`function.apply(*arguments)`, which PyTorch leaves without types."""
    return function.apply(*arguments)
