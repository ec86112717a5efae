"""The gradients of the normalizers and of the scans in PyTorch operations, which are differentiable in turn.

The forward passes are defined in `regard.functional`, one module per transformation, because they raise its
errors. This module also names the normalizers and the status of a position, for all backends.
"""

from typing import Literal

import torch

from regard.types import Tensor

NormalizerName = Literal["sparsemax", "entmax15", "constrained_softmax", "constrained_sparsemax"]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
NORMALIZER_CODES = {
    "sparsemax": SPARSEMAX,
    "entmax15": ENTMAX15,
    "constrained_softmax": CONSTRAINED_SOFTMAX,
    "constrained_sparsemax": CONSTRAINED_SPARSEMAX,
}

# Status of a position: at its lower bound, strictly between its bounds, at its upper bound; 0 if masked.
LOWER, FREE, UPPER = 1, 2, 3


def normalizer_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the backward pass in PyTorch operations, which are differentiable in turn.

    Let s be the derivative of a free weight with respect to its score, for a fixed threshold: 1 for
    sparsemax, p for softmax and sqrt(p) for 1.5-entmax. Let m be the mean of the gradient g over the free
    positions, weighted by s. The gradient of a free score is s (g - m), and the gradient of an active bound
    is g - m.

    Args:
        name: The normalizer.
        gradient: The gradient g with respect to the weights.
        weights: The weights p.
        status: The status of each position (see `kernels.normalizers`); None for a normalizer without bounds.

    Returns:
        The gradient of the scores, g - m, and two masks of the positions at their upper and lower bounds.
    """
    free = weights > 0 if status is None else status == FREE
    # Replace the other weights by 1: the derivative of sqrt at 0 would be infinite.
    kept = torch.where(free, weights, 1)
    slope = {"constrained_softmax": kept, "entmax15": kept.sqrt()}.get(name, torch.ones_like(weights)) * free
    total = slope.sum(-1, keepdim=True)
    mean = (slope * gradient).sum(-1, keepdim=True) / torch.where(total > 0, total, 1)
    change = gradient - mean
    where = free.new_zeros(()) if status is None else status
    return slope * change, change, where == UPPER, where == LOWER


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
    found: list[Tensor] = []
    for t in reversed(range(weights.shape[1])):
        received = gradient[:, t] - mean_over_heads(loosened, heads_per_budget)
        scores, change, upper, _ = normalizer_backward(name, received, weights[:, t], status[:, t])
        loosened = loosened + change * upper
        found.append(scores)
    return torch.stack(found[::-1], 1), loosened
