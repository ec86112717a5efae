"""The constrained transformations over all time steps in one call, with a shared budget of attention.

A source token may receive at most its fertility f over a sentence: Malaviya et al. (2018), Section 4.
With z_t the scores of step t and beta_t the attention received up to and including step t,

    u_t = max(0, f - beta_{t-1}),   p_t = normalizer(z_t + c u_t, u_t),   beta_t = beta_{t-1} + p_t,

where beta_0 = 0, u_t is that of Eq. 5, and c is the exhaustion strength (Section 4). Its term is only added
where f is finite, and has no gradient. The gradient flows through beta: with d_t the gradient of beta_t (0
after the last step), p_t receives g_t + d_t, d_{t-1} = d_t - du_t, and df = sum_t du_t. If a token is exactly
exhausted, the gradient is that of a loosened bound, as for the transformations themselves.

Heads may share a fertility: then beta_t is the mean over heads, and each head has the same bound.
"""

import math
from collections.abc import Callable
from contextlib import suppress

import torch

from regard.errors import InfeasibleBoundsError
from regard.functional.constrained import constrained_softmax, constrained_sparsemax
from regard.functional.dispatch import accumulation_dtype, bound_to_tensor, check_mask, check_scores
from regard.kernels.backend import KernelFallbackError, apply, select_backend
from regard.kernels.normalizers import NormalizerName, Scan, mean_over_heads
from regard.types import Bool, Float, Tensor


def remaining_bound(
    fertility: Float[Tensor, "*B S"], received: Float[Tensor, "*B S"]
) -> Float[Tensor, "*B S"]:
    """Compute the bound max(0, fertility - received), with the gradient of fertility - received everywhere.

    Args:
        fertility: Maximum attention of each token over the sentence.
        received: Attention that each token has received so far.
    """
    # clamp_min would stop the gradient at exhausted tokens. inf - inf is NaN, which becomes 0.
    left = fertility - received
    return left + (left.clamp_min(0) - left).detach().nan_to_num(0)


def add_exhaustion(
    scores: Float[Tensor, "*B S"], bound: Float[Tensor, "*B S"], exhaustion: float
) -> Float[Tensor, "*B S"]:
    """Add exhaustion * bound to the scores where the bound is finite, without gradient."""
    if not exhaustion:
        return scores
    return scores + exhaustion * torch.where(torch.isfinite(bound), bound, 0).detach()


def _loop(
    normalizer: Callable[..., Tensor],
    scores: Float[Tensor, "B T S"],
    fertility: Float[Tensor, "B S"],
    exhaustion: float,
    mask: Bool[Tensor, "*M S"] | None,
    heads: int,
) -> Float[Tensor, "B T S"]:
    """Compute the recursion step by step."""
    received = torch.zeros_like(fertility)
    steps: list[Tensor] = []
    for t in range(scores.shape[1]):
        bound = remaining_bound(fertility, received)
        usable = None if mask is None else mask[..., t if mask.shape[-2] > 1 else 0, :]
        try:
            weights = normalizer(add_exhaustion(scores[:, t], bound, exhaustion), bound, mask=usable)
        except InfeasibleBoundsError as error:
            raise InfeasibleBoundsError(f"step {t}: {error}", error.row) from None
        received = received + mean_over_heads(weights, heads)
        steps.append(weights)
    return torch.stack(steps, 1)


def _arrange(
    scores: Tensor, fertility: Tensor | float | int, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Check the arguments and arrange them as [N, T, S], [N, S] and a mask that broadcasts to the former."""
    check_scores(scores)
    if scores.dim() < 2:
        raise ValueError(
            f"scores have shape {list(scores.shape)}, but must have at least two dimensions: steps and "
            "source positions"
        )
    *batch_shape, steps, size = scores.shape
    step = scores.select(-2, 0) if steps else scores.sum(-2)
    fertility = bound_to_tensor("fertility", fertility, step, "scores of a step")
    if fertility.shape != (*batch_shape, size):
        fertility = fertility.expand(*batch_shape, size)
    if mask is not None and mask.dim() < scores.dim():
        check_mask(mask, step.shape, "scores of a step")
        mask = mask.unsqueeze(-2)
    else:
        check_mask(mask, scores.shape)
    if len(batch_shape) == 1:
        return scores, fertility, mask
    if mask is not None:
        mask_steps = mask.shape[-2]
        mask = mask.expand(*batch_shape, mask_steps, size).reshape(math.prod(batch_shape), mask_steps, size)
    return scores.reshape(-1, steps, size), fertility.reshape(-1, size), mask


def _scan(
    name: NormalizerName,
    normalizer: Callable[..., Tensor],
    scores: Tensor,
    fertility: Tensor | float | int,
    exhaustion: float,
    mask: Tensor | None,
    share_fertility: bool,
) -> Tensor:
    """Arrange the arguments and select the implementation."""
    if share_fertility and scores.dim() < 3:
        raise ValueError(
            "share_fertility = True needs scores with dimensions for heads, steps and source positions, but "
            f"they have shape {tuple(scores.shape)}"
        )
    heads = scores.shape[-3] if share_fertility else 1  # consecutive rows that share a fertility
    shape, dtype, exact = scores.shape, scores.dtype, accumulation_dtype(scores.dtype)
    scores, fertility, mask = _arrange(scores, fertility, mask)
    if not scores.numel():
        return (scores + fertility.unsqueeze(1)).to(dtype).reshape(shape)
    scores, fertility = scores.to(exact), fertility.to(exact)
    backend = select_backend(scores)
    weights = None
    # The kernel for a GPU cannot share a fertility between heads; that of a single step is used instead.
    if backend == "numba" or (backend == "triton" and heads == 1):
        with suppress(KernelFallbackError):
            weights = apply(Scan, name, backend, scores, fertility, exhaustion, mask, heads)
    if weights is None:
        weights = _loop(normalizer, scores, fertility, exhaustion, mask, heads)
    return weights.to(dtype).reshape(shape)


def constrained_softmax_scan(
    scores: Float[Tensor, "*B T S"],
    fertility: Float[Tensor, "*#B S"] | float | int,
    *,
    exhaustion: float = 0.0,
    mask: Bool[Tensor, "*M S"] | None = None,
    share_fertility: bool = False,
) -> Float[Tensor, "*B T S"]:
    """Apply constrained softmax at every step, each token bounded by its remaining fertility.

    Args:
        scores: One row per step. Half precision is computed in float32 or better and returned in the input's
            dtype.
        fertility: Maximum attention of each token over all steps, in [0, inf]; a tensor or a number.
        exhaustion: Exhaustion strength c >= 0; larger values prefer tokens with more remaining fertility.
        mask: Boolean, [B, S] or [B, T, S], or broadcasting to one of these; True = may be attended.
        share_fertility: Whether the rows along the last axis of B (heads) share their fertility: each has the
            bound that remains after the mean over all heads.

    Returns:
        The attention of every step, equal to a loop of `constrained_softmax`.

    Raises:
        InfeasibleBoundsError: At some step, the remaining fertilities of a sentence's usable tokens sum to
            less than 1. To avoid this, give one token (a sink) infinite fertility. On an accelerator and in
            compiled code, the rows become NaN instead.
        TypeError: The scores are not floating-point numbers, the mask is not boolean, or the fertility is
            neither a tensor nor a number.
        ValueError: The fertility or the mask does not fit the scores.
    """
    options = fertility, exhaustion, mask, share_fertility
    return _scan("constrained_softmax", constrained_softmax, scores, *options)


def constrained_sparsemax_scan(
    scores: Float[Tensor, "*B T S"],
    fertility: Float[Tensor, "*#B S"] | float | int,
    *,
    exhaustion: float = 0.0,
    mask: Bool[Tensor, "*M S"] | None = None,
    share_fertility: bool = False,
) -> Float[Tensor, "*B T S"]:
    """Apply constrained sparsemax at every step, each token bounded by its remaining fertility.

    Arguments, result and errors are those of `constrained_softmax_scan`.
    """
    options = fertility, exhaustion, mask, share_fertility
    return _scan("constrained_sparsemax", constrained_sparsemax, scores, *options)
