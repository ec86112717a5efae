"""Fusedmax (Niculae & Blondel, 2017): sparse weights that are equal within groups of neighbors.

    p = argmin over the simplex of 1/2 |p - z|^2 + lambda sum_j |p_{j+1} - p_j|
      = sparsemax(x),   x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|

x is the result of total variation denoising of the scores (`regard.kernels.total_variation`) and is constant
over groups. Its gradient is that of group means. Masked positions are removed first, so the positions on
either side of them are neighbors.
"""

import math

import torch

from regard.functional.dispatch import (
    accumulation_dtype,
    check_arguments,
    invalid_rows,
    poison_rows,
    shift_to_zero_max,
    usable_positions,
)
from regard.functional.entmax import sparsemax
from regard.kernels.total_variation import fuse, group_means
from regard.types import Bool, Float, Tensor

__all__ = ["fusedmax"]

MIN_SCORE = -1e30
"""Minimum score relative to the maximum; lower scores are clamped, so that sums stay within float32."""


def check_strength(strength: float) -> None:
    """Raise `ValueError` if the strength is negative, infinite or NaN."""
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength is {strength}, but must be finite and at least 0")


def fusedmax(
    scores: Float[Tensor, "*B"],
    strength: float = 0.1,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the fusedmax of `scores` along `dim`: sparse, and equal for neighbors with similar scores.

    Args:
        scores: Any shape. Half precision is computed in float32 or better and returned in the input's dtype.
            A score of -inf masks its position.
        strength: lambda, finite and at least 0; larger values make neighboring weights more equal. 0 gives
            sparsemax. If it is at least the absolute value of every running sum of the centered scores, all
            weights are equal.
        dim: The dimension that sums to 1, along which positions are neighbors.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`. Positions outside the support and masked positions
        are exactly 0. A row without attendable positions is zero. A row that contains NaN is NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The strength is negative, infinite or NaN, or the mask does not broadcast to the scores.
    """
    check_strength(strength)
    check_arguments(scores, mask)
    # Without a penalty, or for a scalar, the result is sparsemax.
    if not strength or not scores.dim():
        return sparsemax(scores, dim, mask=mask)
    if dim not in (-1, scores.dim() - 1):
        moved = None if mask is None else mask.expand_as(scores).movedim(dim, -1)
        return fusedmax(scores.movedim(dim, -1), strength, mask=moved).movedim(-1, dim)
    if not scores.numel():
        return scores.clone()
    usable = usable_positions(scores, mask)
    z = shift_to_zero_max(scores.to(accumulation_dtype(scores.dtype)), usable).masked_fill(~usable, 0)
    z = z.clamp_min(MIN_SCORE)  # sums over groups stay finite in float32
    # The groups are piecewise constant in the scores, so only the means need a gradient.
    with torch.no_grad():
        groups, changes = fuse(z.detach(), usable, strength)
    weights = sparsemax(group_means(z, groups) + changes, mask=usable)
    return poison_rows(weights, usable, invalid_rows(scores, usable), scores).to(scores.dtype)
