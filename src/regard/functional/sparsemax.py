"""Sparsemax (Martins & Astudillo 2016): the Euclidean projection of the scores onto the simplex.

    p = argmin over the simplex of |p - z|^2, that is p_i = max(0, z_i - tau), tau so that p sums to 1.

By sorting (their Alg. 1): with z_(1) >= z_(2) >= ..., k = max{k : 1 + k z_(k) > sum_{j<=k} z_(j)} and
tau = (sum_{j<=k} z_(j) - 1) / k. The Jacobian on the support A is I - 11^T / |A| (their Eq. 9), so
dz_i = 1(i in A) (g_i - mean of g over A).

A masked position gets exactly 0 and no gradient; a row with nothing to attend gets zeros.
"""

from typing import Any

import torch

from regard.functional.masking import exact_dtype
from regard.kernels.autograd import apply, first_order
from regard.types import Bool, Float, Tensor

__all__ = ["sparsemax"]


class _Sparsemax(torch.autograd.Function):
    """Along the last dimension; hidden scores are -inf."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        shifted = scores - scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
        ordered = shifted.sort(-1, descending=True).values
        # Nothing at or below max - 1 is ever in the support; clamping keeps -inf out of the sums.
        sums = ordered.clamp_min(-2).cumsum(-1)
        ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        size = (1 + ranks * ordered > sums).sum(-1, keepdim=True)
        threshold = (sums.gather(-1, (size - 1).clamp_min(0)) - 1) / size.clamp_min(1)
        weights = (shifted - threshold).clamp_min(0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        (grad,) = grads
        support = weights > 0
        size = support.sum(-1, keepdim=True).clamp_min(1)
        grad = grad * support
        return (grad - grad.sum(-1, keepdim=True) / size) * support


def sparsemax(
    scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None, dim: int = -1
) -> Float[Tensor, "*B"]:
    """The sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 and returned in their own.
        mask: Broadcasts to `scores`; True = may be attended.
        dim: The dimension that sums to 1.

    Returns:
        Probabilities of the shape and dtype of `scores`, exactly 0 outside the support.
    """
    exact = scores.to(exact_dtype(scores.dtype))
    if mask is not None:
        exact = exact.masked_fill(~mask, -torch.inf)
    weights: Tensor = apply(_Sparsemax, exact.movedim(dim, -1))
    return weights.movedim(-1, dim).to(scores.dtype)
