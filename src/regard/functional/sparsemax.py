"""Sparsemax (Martins & Astudillo, 2016): the Euclidean projection of the scores onto the simplex.

By Eq. 1 to 3,

    p = argmin over {p >= 0 : sum p = 1} of |p - z|^2 = max(0, z - tau),   tau such that p sums to 1.

Computed by sorting (Algorithm 1): with z_(1) >= z_(2) >= ..., k = max{k : 1 + k z_(k) > sum_{j<=k} z_(j)} and
tau = (sum_{j<=k} z_(j) - 1) / k.

Gradient (Eq. 12 and 14), with A the support and m the mean of g over it: dz_j = 1(j in A) (g_j - m).
"""

import torch

from regard.functional.dispatch import Normalizer, normalize
from regard.functional.masking import accumulation_dtype, shift_to_zero_max, usable_positions
from regard.types import Bool, Float, Tensor

__all__ = ["sparsemax"]


def reference_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: None = None,
    lower: None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute sparsemax along the last dimension in plain PyTorch, with the gradient above."""
    usable = usable_positions(scores, mask)
    z = shift_to_zero_max(scores.to(accumulation_dtype(scores.dtype)), usable)
    with torch.no_grad():
        # The support never contains a score of max - 1 or below, so clamping is safe.
        ordered = z.masked_fill(~usable, -2).clamp_min(-2).sort(-1, descending=True).values
        ranks = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
        size = (1 + ranks * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        last = ordered.gather(-1, (size - 1).clamp_min(0))
        support = usable & (z >= last)
    # With the support fixed, tau is a plain mean, and autograd gives the gradient above.
    size = support.sum(-1, keepdim=True).clamp_min(1)
    tau = (torch.where(support, z, 0).sum(-1, keepdim=True) - 1) / size
    return torch.where(support, z - tau, 0 * tau).masked_fill(~usable, 0).to(scores.dtype)


SPARSEMAX = Normalizer("sparsemax", reference_sparsemax)


def sparsemax(
    scores: Float[Tensor, "*B"], dim: int = -1, *, mask: Bool[Tensor, "*#B"] | None = None
) -> Float[Tensor, "*B"]:
    """Compute the sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape. Half precision is computed in float32 or better and returned in the input's dtype.
            A score of -inf masks its position.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`. Positions outside the support and masked positions
        are exactly 0. A row without attendable positions is zero. A row that contains NaN is NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The mask does not broadcast to the scores.
    """
    return normalize(SPARSEMAX, scores, mask=mask, dim=dim)
