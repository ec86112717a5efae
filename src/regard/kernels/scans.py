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

from dataclasses import dataclass
from typing import Any

import torch

from regard.kernels.backend import BackendName, apply, backend_module
from regard.kernels.normalizers import NormalizerName, normalizer_backward
from regard.types import Tensor

__all__ = ["ScanSettings", "eager_scan", "mean_over_heads", "scan_backward", "traced_scan"]


@dataclass(frozen=True)
class ScanSettings:
    """The settings of a scan.

    Attributes:
        name: The normalizer.
        backend: `numba` or `triton`.
        exhaustion: Factor c; c times the remaining fertility of a position is added to its score.
        heads_per_budget: Number of adjacent rows that share one fertility; 1 for `triton`.
    """

    name: NormalizerName
    backend: BackendName
    exhaustion: float
    heads_per_budget: int


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


class _Scan(torch.autograd.Function):
    """The autograd function of `eager_scan`."""

    @staticmethod
    def forward(
        ctx: Any, settings: ScanSettings, scores: Tensor, fertility: Tensor, mask: Tensor | None
    ) -> Tensor:
        name, exhaustion, heads = settings.name, settings.exhaustion, settings.heads_per_budget
        weights, status = backend_module(settings.backend, "scans").forward(
            name, scores, fertility, exhaustion, mask, heads
        )
        ctx.save_for_backward(weights, status)
        ctx.settings = settings
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        settings, (weights, status) = ctx.settings, ctx.saved_tensors
        name, heads = settings.name, settings.heads_per_budget
        if torch.is_grad_enabled():  # the backward pass itself is being differentiated
            scores, fertility = scan_backward(name, grads[0], weights, status, heads)
        else:
            backend = backend_module(settings.backend, "scans")
            scores, fertility = backend.backward(name, grads[0], weights, status, heads)
        return None, scores, fertility, None


def eager_scan(settings: ScanSettings, scores: Tensor, fertility: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights of a constrained normalizer over all time steps; for eager mode.

    Args:
        settings: The normalizer, the backend and their parameters.
        scores: [B, T, S].
        fertility: [B, S].
        mask: Broadcastable to the scores, or None.

    Returns:
        [B, T, S].

    Raises:
        KernelFallbackError: A step has no valid result; the caller then uses the reference implementation.
    """
    return apply(_Scan, settings, scores, fertility, mask)


@torch.library.custom_op("regard::scan", mutates_args=())
def _scan_op(
    name: str,
    version: str,
    scores: torch.Tensor,
    fertility: torch.Tensor,
    exhaustion: float,
    mask: torch.Tensor | None,
    heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    return backend_module(version, "scans").forward(name, scores, fertility, exhaustion, mask, heads)


@_scan_op.register_fake
def _(
    name: str, version: str, scores: Tensor, fertility: Tensor, exhaustion: float, mask: Any, heads: int
) -> Any:
    return scores.new_empty(scores.shape), scores.new_empty(scores.shape, dtype=torch.uint8)


@torch.library.custom_op("regard::scan_gradient", mutates_args=())
def _scan_gradient_op(
    name: str,
    version: str,
    gradient: torch.Tensor,
    weights: torch.Tensor,
    status: torch.Tensor,
    heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    return backend_module(version, "scans").backward(name, gradient, weights, status, heads)


@_scan_gradient_op.register_fake
def _(
    name: str, version: str, gradient: Tensor, weights: Tensor, status: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    return weights.new_empty(weights.shape), weights.new_empty(weights.shape[0], weights.shape[2])


def _save_scan_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output)
    ctx.name, ctx.version, ctx.heads = *inputs[:2], inputs[-1]


def _scan_gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    scores, fertility = _scan_gradient_op(ctx.name, ctx.version, gradient, *ctx.saved_tensors, ctx.heads)
    return None, None, scores, fertility, None, None, None


_scan_op.register_autograd(_scan_gradients, setup_context=_save_scan_for_backward)


def traced_scan(settings: ScanSettings, scores: Tensor, fertility: Tensor, mask: Tensor | None) -> Tensor:
    """Return the same as `eager_scan` through an operator, for `torch.compile` on a GPU."""
    name, version, exhaustion = settings.name, settings.backend, settings.exhaustion
    return _scan_op(name, version, scores, fertility, exhaustion, mask, settings.heads_per_budget)[0]
