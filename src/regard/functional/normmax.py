"""Normmax (Blondel, Martins & Niculae, 2020): sparse weights from the norm of a distribution.

    p = argmax over the simplex of p . z - |p|_alpha,   alpha > 1    (Section 4.3, norm entropies)

With c = alpha - 1, the optimality conditions are z - tau = (p / |p|_alpha)^c on the support, so that

    q = max(0, z - tau)^(1 / c),   tau such that sum_j q_j^alpha = 1,   p = q / sum_j q_j.

tau lies in [max - 1, max - S^-c] and is found by bisection. Normmax is sparser than entmax for the same
alpha, and more uniform on its support; for alpha toward infinity its weights become equal on the support.

Gradient: with s_j = q_j^(2 - alpha) / (c sum_i q_i) on the support and 0 elsewhere, and a = s (g - p . g),

    dz = a - p sum_j a_j.

The forward pass saves p, from which q = p / |p|_alpha.
"""

from typing import Any

import torch

from regard.functional.dispatch import check_arguments, invalid_rows, poison_rows, usable_positions
from regard.functional.entmax import alpha_minus_one, check_alpha
from regard.kernels.backend import apply
from regard.types import Bool, Float, Tensor

__all__ = ["normmax", "normmax_backward"]

NORMMAX_ALPHA_ERROR = (
    "alpha is {}, but normmax requires alpha in (1, 10,000]: at 1 and below, the norm does not regularize"
)
MAX_NORM_ALPHA = 1e4
NUM_BISECTIONS = 64


def normmax_backward(gap: Tensor | float, gradient: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of the scores from that of the weights, in differentiable operations.

    Args:
        gap: c = alpha - 1.
        gradient: g.
        weights: p.
    """
    support = weights > 0
    logs = torch.where(support, weights, 1).log()
    norm = torch.where(support, logs * (gap + 1), -torch.inf).logsumexp(-1, keepdim=True) / (gap + 1)
    # q^(2 - alpha) / sum q = p^(2 - alpha) |p|^(alpha - 1), because sum p = 1 and q = p / |p|.
    slope = torch.where(support, torch.exp((1 - gap) * logs + gap * norm) / gap, 0)
    a = slope * (gradient - (weights * gradient).sum(-1, keepdim=True))
    return a - weights * a.sum(-1, keepdim=True)


class _Normmax(torch.autograd.Function):
    """Normmax along the last dimension; c = alpha - 1 broadcasts to [..., 1]."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, usable: Tensor, gap: Tensor) -> Tensor:
        z = scores.masked_fill(~usable, -torch.inf)
        z = z - z.amax(-1, keepdim=True).clamp_min(torch.finfo(z.dtype).min)
        size = usable.sum(-1, keepdim=True).clamp_min(1).to(z.dtype)
        low = torch.full_like(z[..., :1], -1.0)
        high = (-(size**-gap)).expand_as(low)

        def powers(level: Tensor, exponent: Tensor) -> Tensor:
            return (z - level).clamp_min(0) ** exponent

        for _ in range(NUM_BISECTIONS):
            middle = (low + high) / 2
            over = powers(middle, (gap + 1) / gap).sum(-1, keepdim=True) >= 1
            low, high = torch.where(over, middle, low), torch.where(over, high, middle)
        q = powers(low, 1 / gap)
        return (q / q.sum(-1, keepdim=True)).masked_fill(~usable, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output, inputs[2])
        ctx.save_for_forward(output, inputs[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, gap = ctx.saved_tensors
        return normmax_backward(gap, grads[0], weights), None, None


class _ForwardNormmax(_Normmax):
    """The same with forward mode, which prevents the compilation by `torch.compile`."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        weights, gap = ctx.saved_tensors
        return normmax_backward(gap, tangents[0], weights)  # the Jacobian is symmetric


def check_norm_alpha(alpha: float) -> None:
    """Raise `ValueError` unless alpha is in the range of normmax."""
    check_alpha(alpha, MAX_NORM_ALPHA, NORMMAX_ALPHA_ERROR)


def normmax(
    scores: Float[Tensor, "*B"],
    alpha: Float[Tensor, "*#B"] | float = 2.0,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the normmax of `scores` along `dim`.

    Args:
        scores: Any shape. Computed in float64 (float32 on devices without it) and returned in the input's
            dtype. A score of -inf masks its position.
        alpha: The exponent of the norm, in (1, 10,000]; larger values make the weights more equal. A tensor
            broadcasts to `scores`, with size 1 along `dim`, and is not differentiable.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`. Positions outside the support and masked positions
        are exactly 0. A row without attendable positions is zero. A row that contains NaN is NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: Alpha is out of range, varies along `dim` or requires a gradient, or an argument does not
            broadcast to the scores. For a tensor on an accelerator, in compiled code and under `torch.func`,
            rows with an alpha out of range become NaN instead.
    """
    check_arguments(scores, mask)
    if isinstance(alpha, torch.Tensor) and alpha.requires_grad:
        raise ValueError("alpha requires a gradient, which normmax does not compute: pass alpha.detach()")
    if not scores.dim():
        return normmax(scores.unsqueeze(0), alpha, dim, mask=mask).squeeze(0)
    gap = alpha_minus_one(alpha, scores, dim, MAX_NORM_ALPHA, NORMMAX_ALPHA_ERROR)
    if not scores.numel():
        return scores.clone()
    usable = usable_positions(scores, mask).movedim(dim, -1)
    # The powers amplify rounding errors near the threshold.
    exact = torch.promote_types(scores.dtype, torch.float32) if scores.device.type == "mps" else torch.float64
    z = scores.to(exact).movedim(dim, -1)
    function = _Normmax if torch.compiler.is_compiling() else _ForwardNormmax
    weights = apply(function, z.masked_fill(~usable, 0), usable, gap.to(exact))
    return poison_rows(weights, usable, invalid_rows(z, usable), z).movedim(-1, dim).to(scores.dtype)
