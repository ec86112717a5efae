"""Sparsemax, 1.5-entmax, constrained softmax and constrained sparsemax, with their gradients.

The constrained ones are also computed over all time steps of a sentence in one call, whose fertilities bound
the sum (a scan; the recurrence is that of `regard.functional.scans`). A backend is a module with four
functions:

- `forward(name, scores, upper, lower, mask)` returns the weights, and the status of each
  position as uint8: 0 masked, 1 at its lower bound, 2 strictly between its bounds (free), 3 at its upper
  bound, 4 in a row that is NaN. The status is None for a normalizer without bounds. The scores are [..., S],
  float32 or float64; the bounds have their dtype and broadcast to them, as does the mask.
- `backward(name, gradient, weights, status, upper, lower)` returns the gradients of the scores and, if the
  last two arguments are True, of the upper and lower bounds, each in the shape of the scores.
- `scan_forward(name, scores, fertility, exhaustion, mask, heads_per_budget)` returns the weights and the
  status, both [B, T, S], for scores [B, T, S] and fertilities [B, S].
- `scan_backward(name, gradient, weights, status, heads_per_budget)` returns the gradients of the scores and
  of the fertilities.

On a GPU a row without a valid result is NaN, in a scan with all later steps of the sentence. On a CPU it
raises `KernelFallbackError`, and the caller uses the reference. Second derivatives use the formulas in
PyTorch operations (`normalizer_backward`, `scan_backward`). The references of the forward passes are in
`regard.functional`, because they raise its errors.
"""

from typing import Any, Literal, get_args

import torch

from regard.kernels.backend import BackendName, backend_module
from regard.types import Tensor

NormalizerName = Literal["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]
NORMALIZER_CODES = {name: code for code, name in enumerate(get_args(NormalizerName))}
SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = NORMALIZER_CODES.values()

# The status of a position that is not masked.
LOWER, FREE, UPPER, INVALID = 1, 2, 3, 4


def bound_tolerances(dtype: torch.dtype) -> tuple[float, float]:
    """Return the distance from a bound that counts as a tie, and the tolerance of the sum of the bounds."""
    return (1e-9, 1e-9) if dtype == torch.float64 else (1e-6, 1e-4)


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

    The bounds and the mask broadcast to the scores.
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
        ctx.name, ctx.kernels = name, backend_module(backend, "normalizers")
        weights, status = ctx.kernels.forward(name, scores, upper, lower, mask)
        ctx.save_for_backward(weights, status)
        ctx.shapes = [None if bound is None else bound.shape for bound in (upper, lower)]
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the scores and the bounds."""
        weights, status = ctx.saved_tensors
        if torch.is_grad_enabled():  # the backward pass itself is being differentiated
            by_scores, *by_bounds = normalizer_backward(ctx.name, grads[0], weights, status)
        else:
            needed = ctx.needs_input_grad[3:5]
            by_scores, *by_bounds = ctx.kernels.backward(ctx.name, grads[0], weights, status, *needed)
        # A bound may broadcast to the scores.
        pairs = zip(by_bounds, ctx.shapes, strict=True)
        bounds = [None if shape is None or by is None else by.sum_to_size(shape) for by, shape in pairs]
        return None, None, by_scores, *bounds, None


def mean_over_heads(x: Tensor, heads_per_budget: int) -> Tensor:
    """Return in each row of [B, S] the mean of its group of `heads_per_budget` adjacent rows."""
    if heads_per_budget == 1:
        return x
    return x.view(-1, heads_per_budget, x.shape[-1]).mean(1).repeat_interleave(heads_per_budget, 0)


def scan_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the backward pass of a scan in PyTorch operations; see `regard.functional.scans`.

    Returns:
        The gradients of the scores [B, T, S] and of the fertility [B, S].
    """
    loosened = torch.zeros_like(weights[:, 0])
    gradients: list[Tensor] = []
    for t in reversed(range(weights.shape[1])):
        # Attention at this step lowers the bounds of all later steps, so their gradients are subtracted.
        received = gradient[:, t] - mean_over_heads(loosened, heads_per_budget)
        scores, upper, _ = normalizer_backward(name, received, weights[:, t], status[:, t])
        loosened = loosened + upper
        gradients.append(scores)
    return torch.stack(gradients[::-1], 1), loosened


class Scan(torch.autograd.Function):
    """The weights of a constrained normalizer over all time steps, for scores [B, T, S], which are not empty.

    The fertility is [B, S]; `heads_per_budget` adjacent rows share one (1 for `triton`).
    """

    @staticmethod
    def forward(
        ctx: Any,
        name: str,
        backend: BackendName,
        scores: Tensor,
        fertility: Tensor,
        exhaustion: float,
        mask: Tensor | None,
        heads_per_budget: int,
    ) -> Tensor:
        """Compute the weights."""
        ctx.name, ctx.kernels, ctx.heads = name, backend_module(backend, "normalizers"), heads_per_budget
        weights, status = ctx.kernels.scan_forward(
            name, scores, fertility, exhaustion, mask, heads_per_budget
        )
        ctx.save_for_backward(weights, status)
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the scores and the fertility."""
        # With gradients enabled, the backward pass itself is being differentiated.
        backward = scan_backward if torch.is_grad_enabled() else ctx.kernels.scan_backward
        weights, status = ctx.saved_tensors
        scores, fertility = backward(ctx.name, grads[0], weights, status, ctx.heads)
        return None, None, scores, fertility, None, None, None
