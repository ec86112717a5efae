"""Fusedmax and oscarmax (Niculae & Blondel, 2017): sparse weights that are equal within groups of positions.

Fusedmax groups neighbors,

    p = argmin over the simplex of 1/2 |p - z|^2 + lambda sum_j |p_{j+1} - p_j|
      = sparsemax(x),   x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|,

and oscarmax groups positions with similar scores, wherever they are:

    p = argmin over the simplex of 1/2 |p - z|^2 + lambda sum_{i<j} max(p_i, p_j)
      = sparsemax(x),   x = argmin 1/2 |x - z|^2 + lambda sum_{i<j} max(x_i, x_j).

x is the result of total variation denoising of the scores (`regard.kernels.total_variation`), or of their
clustering (`regard.kernels.oscar`), and is constant over groups. Its gradient is that of group means. Masked
positions are removed first, so the positions on either side of them are neighbors.

The paper states oscarmax with absolute values, which are those of nonnegative numbers on the simplex. The
two steps give its exact result: the subgradients of the penalty at x are also subgradients at
max(0, x - tau), where more values are equal and the others keep their order.
"""

import math
from collections.abc import Callable

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
from regard.kernels.oscar import cluster
from regard.kernels.total_variation import fuse, group_means
from regard.types import Bool, Float, Tensor

__all__ = ["fusedmax", "oscarmax"]

MIN_SCORE = -1e30
"""Minimum score relative to the maximum; lower scores are clamped, so that sums stay within float32."""


def check_strength(strength: float) -> None:
    """Raise `ValueError` unless the strength is valid.

    Args:
        strength: lambda.

    Raises:
        ValueError: The strength is negative, infinite or NaN.
    """
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
    return _grouped(fuse, scores, strength, dim, mask)


def oscarmax(
    scores: Float[Tensor, "*B"],
    strength: float = 0.1,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the oscarmax of `scores` along `dim`: sparse, and equal for positions with similar scores.

    Unlike for fusedmax, these positions need not be neighbors.

    Args:
        scores: As for `fusedmax`.
        strength: lambda, finite and at least 0; larger values make more weights equal. Two scores that are
            adjacent in order get equal values if they differ by at most lambda. 0 gives sparsemax.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities as for `fusedmax`.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The strength is negative, infinite or NaN, or the mask does not broadcast to the scores.
    """
    return _grouped(cluster, scores, strength, dim, mask)


def _grouped(
    group: Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]],
    scores: Tensor,
    strength: float,
    dim: int,
    mask: Tensor | None,
) -> Tensor:
    """Compute fusedmax or oscarmax with the function that finds the groups."""
    check_strength(strength)
    check_arguments(scores, mask)
    # Without a penalty, or for a scalar, the result is sparsemax.
    if not strength or not scores.dim():
        return sparsemax(scores, dim, mask=mask)
    if dim not in (-1, scores.dim() - 1):
        moved = None if mask is None else mask.expand_as(scores).movedim(dim, -1)
        return _grouped(group, scores.movedim(dim, -1), strength, -1, moved).movedim(-1, dim)
    if not scores.numel():
        return scores.clone()
    usable = usable_positions(scores, mask)
    z = shift_to_zero_max(scores.to(accumulation_dtype(scores.dtype)), usable).masked_fill(~usable, 0)
    z = z.clamp_min(MIN_SCORE)  # sums over groups stay finite in float32
    # The groups are piecewise constant in the scores, so only the means need a gradient.
    with torch.no_grad():
        groups, changes = group(z.detach(), usable, strength)
    weights = sparsemax(group_means(z, groups) + changes, mask=usable)
    return poison_rows(weights, usable, invalid_rows(scores, usable), scores).to(scores.dtype)
