"""Entmax (Peters et al. 2019): a family of maps from softmax (alpha = 1) to sparsemax (2) and on.

    p = argmax over the simplex of p . z + H_alpha(p),   H_alpha(p) = sum_j (p_j - p_j^alpha) / (alpha (alpha
    - 1))
      = max(0, (alpha - 1) z - tau)^(1 / (alpha - 1)),   tau so that p sums to 1            (their Eq. 9 and
      10)

For alpha = 1.5 tau has a closed form on the support A, found by sorting (their Alg. 2): with x = z / 2, k =
|A|, M the mean of x over A and Q = sum_A (x_j - M)^2,   tau = M - sqrt((1 - Q) / k).   For other alpha there
is no finite
algorithm: tau is bracketed in [max - 1, max - S^(1 - alpha)] and bisected to the last bit.

Gradient (their Prop. 2), s_j = p_j^(2 - alpha) on the support, 0 off it, m = sum_j s_j g_j / sum_j s_j:

    dz_j = s_j (g_j - m).

In alpha (Correia et al. 2019, Prop. 1), with q = s / sum s and h_j = -p_j log p_j:

    dp_j / dalpha = (p_j - q_j) / (alpha - 1)^2 + (h_j - q_j sum_i h_i) / (alpha - 1).
"""

from typing import Any

import torch

from regard.functional.masking import attendable, exact_dtype, shifted
from regard.functional.rows import Map, mapped
from regard.kernels.autograd import apply
from regard.types import Bool, Float, Tensor

__all__ = ["entmax", "entmax15"]


def reference15(
    scores: Float[Tensor, "*B"],
    upper: None = None,
    lower: None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """1.5-entmax along the last dimension in plain operations."""
    usable = attendable(scores, mask)
    x = shifted(scores.to(exact_dtype(scores.dtype)) / 2, usable)
    with torch.no_grad():
        # Nothing at or below max - 1 is ever in the support.
        ordered = x.masked_fill(~usable, -2).clamp_min(-2).sort(-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
        mean = ordered.cumsum(-1) / ranks
        spread = (ordered * ordered).cumsum(-1) - ranks * mean * mean
        tau = mean - ((1 - spread) / ranks).clamp_min(0).sqrt()
        size = (tau <= ordered).sum(-1, keepdim=True)
        support = usable & (x > tau.gather(-1, (size - 1).clamp_min(0)))
    size = support.sum(-1, keepdim=True).clamp_min(1)
    mean = (x * support).sum(-1, keepdim=True) / size
    spread = (((x - mean) * support) ** 2).sum(-1, keepdim=True)
    tau = mean - ((1 - spread).clamp_min(torch.finfo(x.dtype).tiny) / size).sqrt()
    return torch.where(support, (x - tau) ** 2, 0 * tau).masked_fill(~usable, 0).to(scores.dtype)


MAP = Map("entmax15", reference15)


def entmax15(
    scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None, dim: int = -1
) -> Float[Tensor, "*B"]:
    """The 1.5-entmax of `scores` along `dim`: exact, between softmax and sparsemax.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        mask: True = may be attended; broadcasts to `scores`.
        dim: The dimension that sums to 1.

    Returns:
        Probabilities of the shape and dtype of `scores`: exactly 0 off the support and where masked, zeros in
        a row with nothing to attend, NaN in a row with a NaN.
    """
    return mapped(MAP, scores, mask=mask, dim=dim)


class _Entmax(torch.autograd.Function):
    """Along the last dimension; alpha broadcasts to [..., 1]. The backward pass is plain and has its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, usable: Tensor, alpha: Tensor) -> Tensor:
        power = 1 / (alpha - 1)
        x = (scores * (alpha - 1)).masked_fill(~usable, -torch.inf)
        x = x - x.amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).min)
        size = usable.sum(-1, keepdim=True).clamp_min(1)
        low = torch.full_like(x[..., :1], -1)
        high = -(size.to(x.dtype) ** (1 - alpha)).expand_as(low)
        for _ in range(torch.finfo(x.dtype).bits + 8 if x.dtype == torch.float64 else 40):
            middle = (low + high) / 2
            over = ((x - middle).clamp_min(0) ** power).sum(-1, keepdim=True) >= 1
            low, high = torch.where(over, middle, low), torch.where(over, high, middle)
        weights = (x - low).clamp_min(0) ** power
        return (weights / weights.sum(-1, keepdim=True)).masked_fill(~usable, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, _, alpha = inputs
        ctx.save_for_backward(output, alpha)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, alpha = ctx.saved_tensors
        (grad,) = grads
        support = weights > 0
        safe = torch.where(support, weights, 1)
        slope = torch.where(support, safe ** (2 - alpha), 0)
        share = slope / slope.sum(-1, keepdim=True).clamp_min(torch.finfo(slope.dtype).tiny)
        centred = grad - (share * grad).sum(-1, keepdim=True)
        by_alpha = None
        if ctx.needs_input_grad[2]:
            entropy = -weights * safe.log()
            change = (weights - share) / (alpha - 1) ** 2
            change = change + (entropy - share * entropy.sum(-1, keepdim=True)) / (alpha - 1)
            by_alpha = (grad * change).sum_to_size(alpha.shape)
        return slope * centred, None, by_alpha


def entmax(
    scores: Float[Tensor, "*B"],
    alpha: Float[Tensor, "*#B"] | float = 1.5,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
    dim: int = -1,
) -> Float[Tensor, "*B"]:
    """The alpha-entmax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        alpha: In (1, 4]; the greater, the sparser. A tensor has a gradient, broadcasts to `scores` and has
            length 1 along `dim`, or no dimension at all.
        mask: True = may be attended; broadcasts to `scores`.
        dim: The dimension that sums to 1.

    Returns:
        Probabilities of the shape and dtype of `scores`, as `entmax15`.

    Raises:
        ValueError: A number alpha is not in (1, 4], or a tensor varies along `dim`.
    """
    if not isinstance(alpha, torch.Tensor):
        if not 1 < alpha <= 4:
            raise ValueError(f"alpha is {alpha:g}; entmax has it in (1, 4], and softmax is its limit at 1")
        if alpha == 1.5:
            return entmax15(scores, mask=mask, dim=dim)
        alpha = torch.tensor(alpha)
    elif alpha.dim() and alpha.shape[dim] != 1:
        raise ValueError(f"alpha has {alpha.shape[dim]} values along dim {dim}, and must be one number a row")
    if not scores.numel():
        return scores.clone()
    dtype = exact_dtype(scores.dtype)
    usable = attendable(scores, mask).movedim(dim, -1)
    z = scores.to(dtype).movedim(dim, -1).masked_fill(~usable, 0)
    alpha = alpha.to(scores.device, dtype)
    if alpha.dim():
        alpha = alpha.reshape((1,) * (scores.dim() - alpha.dim()) + alpha.shape).movedim(dim, -1)
    return apply(_Entmax, z, usable, alpha).movedim(-1, dim).to(scores.dtype)
