"""Sparsemax, 1.5-entmax, constrained softmax and constrained sparsemax, with their gradients.

A backend is a module with two functions:

- `forward(name, scores, upper, lower, mask)` returns the weights, and the status of each
  position as uint8: 0 masked, 1 at its lower bound, 2 strictly between its bounds (free), 3 at its upper
  bound, 4 in a row that is NaN. The status is None for a normalizer without bounds. The scores are [..., S],
  float32 or float64; the bounds have their dtype and broadcast to them, as does the mask. On a
  GPU a row without a valid result is NaN. On a CPU it raises `KernelFallbackError`, and the caller uses the
  reference.
- `backward(name, gradient, weights, status, upper, lower)` returns the gradients of the scores and, if the
  last two arguments are True, of the upper and lower bounds, each in the shape of the scores.

Under `torch.compile` and `torch.export` a GPU uses the operator `regard::normalizer`, and a CPU the
reference. The gradients of the operator and all second derivatives use the formula in PyTorch operations
(`normalizer_backward`). The references of the forward passes are in `regard.functional`, because they raise
its errors.
"""

from typing import Any, Literal

import torch

from regard.kernels.backend import BackendName, apply, backend_module
from regard.types import Tensor

__all__ = [
    "NORMALIZER_CODES",
    "NormalizerName",
    "apply_normalizer",
    "normalizer_backward",
]

NormalizerName = Literal["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
NORMALIZER_CODES = {
    "sparsemax": SPARSEMAX,
    "entmax15": ENTMAX15,
    "constrained_softmax": CONSTRAINED_SOFTMAX,
    "constrained_sparsemax": CONSTRAINED_SPARSEMAX,
}

# Status of a position: at its lower bound, strictly between its bounds, at its upper bound, in a row that is
# NaN; 0 if masked.
LOWER, FREE, UPPER, INVALID = 1, 2, 3, 4


def normalizer_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the backward pass in PyTorch operations, which are differentiable in turn.

    Let s be the derivative of a free weight with respect to its score, for a fixed threshold: 1 for
    sparsemax, p for softmax and sqrt(p) for 1.5-entmax. Let m be the mean of the gradient g over the free
    positions, weighted by s. The gradient of a free score is s (g - m), and the gradient of an active bound
    is g - m. All are NaN where a weight is NaN.

    Args:
        name: The normalizer.
        gradient: The gradient g with respect to the weights.
        weights: The weights p.
        status: The status of each position (see `kernels.normalizers`); None for a normalizer without bounds.

    Returns:
        The gradients of the scores, the upper bounds and the lower bounds.
    """
    invalid = weights.isnan()
    free = (weights > 0 if status is None else status == FREE) | invalid
    # Replace the other weights by 1: the derivative of sqrt at 0 would be infinite.
    divisors = torch.where(free, weights, 1)
    slope = {"constrained_softmax": divisors, "entmax15": divisors.sqrt()}.get(name, torch.ones_like(weights))
    slope = torch.where(invalid, torch.nan, slope * free)
    total = slope.sum(-1, keepdim=True)
    # A row without free positions has the total 0; division by 1 gives the mean 0 instead of NaN.
    mean = torch.where(free, slope * gradient, 0).sum(-1, keepdim=True) / torch.where(total > 0, total, 1)
    change = gradient - mean
    where = free.new_zeros(()) if status is None else status
    upper, lower = ((where == bound) | invalid for bound in (UPPER, LOWER))
    by_scores = torch.where(free, slope * change, 0)
    return by_scores, torch.where(upper, change, 0), torch.where(lower, change, 0)


def _bound_gradients(ctx: Any, by_upper: Tensor | None, by_lower: Tensor | None) -> list[Tensor | None]:
    """Sum the gradients, in the shape of the scores, over the dimensions in which each bound broadcasts."""
    pairs = zip((by_upper, by_lower), ctx.shapes, strict=True)
    return [None if shape is None or by is None else by.sum_to_size(shape) for by, shape in pairs]


class _Normalizer(torch.autograd.Function):
    """A normalizer in eager mode."""

    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        backend: BackendName,
        scores: Tensor,
        upper: Tensor | None,
        lower: Tensor | None,
        mask: Tensor | None,
    ) -> Tensor:
        weights, status = backend_module(backend, "normalizers").forward(name, scores, upper, lower, mask)
        ctx.save_for_backward(weights, status)
        ctx.name, ctx.backend = name, backend
        ctx.shapes = [None if bound is None else bound.shape for bound in (upper, lower)]
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, status = ctx.saved_tensors
        if torch.is_grad_enabled():  # the backward pass itself is being differentiated
            by_scores, *by_bounds = normalizer_backward(ctx.name, grads[0], weights, status)
        else:
            kernels, needed = backend_module(ctx.backend, "normalizers"), ctx.needs_input_grad[3:5]
            by_scores, *by_bounds = kernels.backward(ctx.name, grads[0], weights, status, *needed)
        return None, None, by_scores, *_bound_gradients(ctx, *by_bounds), None


@torch.library.custom_op("regard::normalizer", mutates_args=())
def _normalizer_op(
    name: str,
    backend: str,
    scores: torch.Tensor,
    upper: torch.Tensor | None,
    lower: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    weights, status = backend_module(backend, "normalizers").forward(name, scores, upper, lower, mask)
    # An operator cannot return None, so an empty tensor stands for a missing status.
    return weights, weights.new_empty(0, dtype=torch.uint8) if status is None else status


@_normalizer_op.register_fake
def _(name: str, backend: str, scores: Tensor, upper: Tensor | None, lower: Any, mask: Any) -> Any:
    status = scores.new_empty(0 if upper is None else scores.shape, dtype=torch.uint8)
    return scores.new_empty(scores.shape), status


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output)
    ctx.name = inputs[0]
    ctx.shapes = [None if bound is None else bound.shape for bound in inputs[3:5]]


def _operator_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of the inputs of the operator; the compiler fuses the operations into a kernel."""
    weights, status = ctx.saved_tensors
    status = None if ctx.shapes[0] is None else status
    by_scores, *by_bounds = normalizer_backward(ctx.name, gradient, weights, status)
    return None, None, by_scores, *_bound_gradients(ctx, *by_bounds), None


_normalizer_op.register_autograd(_operator_gradients, setup_context=_save_for_backward)


def apply_normalizer(
    name: NormalizerName,
    backend: BackendName,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Return the weights of a normalizer along the last dimension.

    Args:
        name: The normalizer.
        backend: `numba` or `triton`.
        scores: [..., S], not empty.
        upper: Upper bounds, broadcastable to the scores, or None.
        lower: Lower bounds, broadcastable to the scores, or None.
        mask: Broadcastable to the scores, True where a position may be attended to, or None.

    Raises:
        KernelFallbackError: A row has no valid result; the caller then uses the reference implementation.
    """
    if torch.compiler.is_compiling():
        return _normalizer_op(name, backend, scores, upper, lower, mask)[0]
    # A plain autograd Function has half the overhead of a registered operator.
    return apply(_Normalizer, name, backend, scores, upper, lower, mask)
