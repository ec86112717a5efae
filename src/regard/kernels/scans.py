"""Constrained attention over all time steps of a sentence in one call, whose fertilities bound its sum.

The recurrence is that of `regard.functional.scans`. A backend is a module with two functions:

- `forward(name, scores, fertility, exhaustion, mask, heads_per_budget)` returns the weights and the status of
  each position (see `normalizers`), both [B, T, S]. The scores are [B, T, S], float32 or float64. The
  fertilities are [B, S], in their dtype. The mask broadcasts to the scores. On a GPU a step without a valid
  result is NaN, with all later steps of the sentence. On a CPU it raises `KernelFallbackError`, and the
  caller uses the reference.
- `backward(name, gradient, weights, status, heads_per_budget)` returns the gradients of the scores and of the
  fertilities.
"""

from typing import Any

import torch

from regard.kernels.backend import BackendName, backend_module
from regard.kernels.normalizers import normalizer_backward
from regard.types import Tensor

__all__ = ["Scan", "mean_over_heads", "scan_backward"]


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

    The fertility is [B, S]; `heads_per_budget` adjacent rows share one (1 for `triton`). A step without a
    valid result raises `KernelFallbackError` on a CPU; the caller then uses the reference implementation.
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
        ctx.name, ctx.kernels, ctx.heads = name, backend_module(backend, "scans"), heads_per_budget
        weights, status = ctx.kernels.forward(name, scores, fertility, exhaustion, mask, heads_per_budget)
        ctx.save_for_backward(weights, status)
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradients of the scores and the fertility."""
        # With gradients enabled, the backward pass itself is being differentiated.
        backward = scan_backward if torch.is_grad_enabled() else ctx.kernels.backward
        weights, status = ctx.saved_tensors
        scores, fertility = backward(ctx.name, grads[0], weights, status, ctx.heads)
        return None, None, scores, fertility, None, None, None
