"""A linear map that a recurrence applies once a step, with one gradient product for all its steps.

Plain autograd makes one weight-gradient product a step and adds it to the gradient so far: for a decoder of
T steps that is T small products and T passes over a matrix of millions of numbers. Here each step's backward
keeps its input and output gradient, and when every step has been visited one product over all of them gives

    dW = sum_t x_t^T g_t = X^T G.

Values and gradients are those of autograd (tests compare them in float64).
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from regard.kernels.autograd import apply, first_order
from regard.kernels.products import product
from regard.layers.precision import compute_dtype
from regard.layers.rows import Rows
from regard.types import Float, Int, Tensor

__all__ = ["StepProduct"]

Visits = list[tuple[Tensor, Tensor]]


class _Open(torch.autograd.Function):
    """The identity (and a cast), whose backward runs after that of every step that used its output."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, visits: Visits, dtype: torch.dtype) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.visits = visits
        ctx.dtype = matrix.dtype
        return matrix.to(dtype) if matrix.dtype != dtype else matrix.view_as(matrix)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None]:
        total = grads[0]
        if ctx.visits:
            inputs = torch.cat([x for x, _ in ctx.visits], dim=-2)
            outputs = torch.cat([g for _, g in ctx.visits], dim=-2)
            ctx.visits.clear()
            found = product(inputs.transpose(-1, -2), outputs)  # (…, in, out)
            total = found if total is None else total + found
        return (None if total is None else total.to(ctx.dtype)), None, None


class _Step(torch.autograd.Function):
    """x @ matrix; its backward leaves the matrix's gradient to `_Open`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, visits: Visits) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.visits = visits
        return product(x, matrix)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None]:
        x, matrix = ctx.saved_tensors
        (grad,) = grads
        ctx.visits.append((x, grad))
        return (product(grad, matrix.transpose(-1, -2)) if ctx.needs_input_grad[0] else None), None, None


@dataclass(frozen=True)
class StepProduct(Rows):
    """`x @ matrix`, once a step.

    Attributes:
        matrix: [in, out], the same for all rows (a weight), or [B, in, out], one a row (a sentence's keys).
        visits: The steps whose gradient is still to come; none outside training.
    """

    matrix: Tensor
    visits: Visits | None = field(default=None, compare=False)

    @classmethod
    def open(cls, matrix: Tensor) -> "StepProduct":
        """Open a matrix for the steps of one forward pass, in its compute dtype.

        Args:
            matrix: [in, out] or [B, in, out].
        """
        dtype = compute_dtype(matrix)
        if not (torch.is_grad_enabled() and matrix.requires_grad):
            return cls(matrix.to(dtype))
        visits: Visits = []
        return cls(apply(_Open, matrix, visits, dtype), visits)

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """One step's product, or that of several steps at once.

        Args:
            x: [..., in] for a matrix shared by all rows; [B, steps, in] for one matrix a row.
        """
        x = x.to(self.matrix.dtype)
        if self.visits is None:
            return product(x, self.matrix) if not torch.is_grad_enabled() else x @ self.matrix
        if x.dim() > self.matrix.dim():
            flat = apply(_Step, x.flatten(0, -2), self.matrix, self.visits)
            return flat.unflatten(0, x.shape[:-1])  # type: ignore[union-attr]
        return apply(_Step, x, self.matrix, self.visits)

    def select(self, index: Int[Tensor, "N"]) -> "StepProduct":
        """The rows' own matrices; a matrix shared by all rows stays."""
        return type(self)(self.matrix.index_select(0, index)) if self.matrix.dim() == 3 else self
