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

Second derivatives use the formula in PyTorch operations (`normalizer_backward`). The references of the
forward passes are in `regard.functional`, because they raise its errors.
"""

from typing import Any, Literal, get_args

import torch

from regard.kernels.backend import BackendName, backend_module
from regard.types import Tensor

__all__ = [
    "NORMALIZER_CODES",
    "Normalizer",
    "NormalizerName",
    "normalizer_backward",
]

NormalizerName = Literal["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]
NORMALIZER_CODES = {name: code for code, name in enumerate(get_args(NormalizerName))}
SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = NORMALIZER_CODES.values()

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


class Normalizer(torch.autograd.Function):
    """The weights of a normalizer along the last dimension of scores [..., S], which are not empty.

    The bounds and the mask broadcast to the scores. A row without a valid result raises `KernelFallbackError`
    on a CPU; the caller then uses the reference implementation.
    """

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
        """Compute the weights."""
        weights, status = backend_module(backend, "normalizers").forward(name, scores, upper, lower, mask)
        ctx.save_for_backward(weights, status)
        ctx.name, ctx.backend = name, backend
        ctx.shapes = [None if bound is None else bound.shape for bound in (upper, lower)]
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the scores and the bounds."""
        weights, status = ctx.saved_tensors
        if torch.is_grad_enabled():  # the backward pass itself is being differentiated
            by_scores, *by_bounds = normalizer_backward(ctx.name, grads[0], weights, status)
        else:
            kernels, needed = backend_module(ctx.backend, "normalizers"), ctx.needs_input_grad[3:5]
            by_scores, *by_bounds = kernels.backward(ctx.name, grads[0], weights, status, *needed)
        # A bound may broadcast to the scores.
        pairs = zip(by_bounds, ctx.shapes, strict=True)
        bounds = [None if shape is None or by is None else by.sum_to_size(shape) for by, shape in pairs]
        return None, None, by_scores, *bounds, None
