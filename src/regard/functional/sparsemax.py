"""Sparsemax (Martins & Astudillo 2016): the Euclidean projection of the scores onto the simplex.

    p = argmin over {p >= 0 : sum p = 1} of |p - z|^2 = max(0, z - tau),   tau so that p sums to 1   (their
    Eq. 1 to 3)

By sorting (their Alg. 1): with z_(1) >= z_(2) >= ..., k = max{k : 1 + k z_(k) > sum_{j<=k} z_(j)} and
tau = (sum_{j<=k} z_(j) - 1) / k.

Gradient (their Eq. 12 and 14), A the support and m the mean of g over it: dz_j = 1(j in A) (g_j - m).
"""

import torch

from regard.functional.masking import attendable, exact_dtype, shifted
from regard.functional.rows import Map, mapped
from regard.types import Bool, Float, Tensor

__all__ = ["sparsemax"]


def reference(
    scores: Float[Tensor, "*B"],
    upper: None = None,
    lower: None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """The map along the last dimension in plain operations, whose derivatives are the gradient above."""
    usable = attendable(scores, mask)
    z = shifted(scores.to(exact_dtype(scores.dtype)), usable)
    with torch.no_grad():
        # Nothing at or below max - 1 is ever in the support.
        ordered = z.masked_fill(~usable, -2).clamp_min(-2).sort(-1, descending=True).values
        ranks = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
        size = (1 + ranks * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        last = ordered.gather(-1, (size - 1).clamp_min(0))
        support = usable & (z >= last)
    size = support.sum(-1, keepdim=True).clamp_min(1)
    tau = (torch.where(support, z, 0).sum(-1, keepdim=True) - 1) / size
    return torch.where(support, z - tau, 0 * tau).masked_fill(~usable, 0).to(scores.dtype)


MAP = Map("sparsemax", reference)


def sparsemax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """The sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities of the shape and dtype of `scores`: exactly 0 off the support and where masked, zeros in
        a row with nothing to attend, NaN in a row with a NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The mask does not broadcast to the scores.
    """
    return mapped(MAP, scores, mask=mask, dim=dim)
