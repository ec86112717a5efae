"""Fusedmax (Niculae & Blondel, 2017): sparse weights that are equal within groups of neighbors.

    p = argmin over the simplex of 1/2 |p - z|^2 + lambda sum_j |p_{j+1} - p_j|
      = sparsemax(x),   x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|

x is the result of total variation denoising of the scores, and is constant over groups of neighbors. With n
the size of a group and s = +1 or -1 if the adjacent group on that side is higher or lower (0 at an end),

    x = mean of z over the group + lambda (s_right + s_left) / n.

Its gradient is that of group means. The reference follows the path from lambda = 0, on which groups of
positions with equal values merge and never split (Friedman et al., 2007). The Numba kernel uses the taut
string algorithm. Masked positions are removed first, so the positions on either side of them are neighbors.
"""

import math

import torch

from regard.functional.dispatch import (
    accumulation_dtype,
    check_mask,
    check_scores,
    poison_rows,
    shift_to_zero_max,
    usable_positions,
)
from regard.functional.entmax import sparsemax
from regard.kernels.backend import backend_module, use_numba
from regard.types import Bool, Float, Int, Tensor

MIN_SCORE = -1e30
"""Minimum score relative to the maximum; lower scores are clamped, so that sums stay within float32."""


def check_strength(strength: float) -> None:
    """Raise `ValueError` if the strength is negative, infinite or NaN."""
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength is {strength}, but must be finite and at least 0")


def group_means(values: Float[Tensor, "*B S"], groups: Int[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    """Replace every value by the mean of its group.

    Args:
        values: Any values.
        groups: The index of each position's group, in [0, S).
    """
    sums = torch.zeros_like(values).scatter_add(-1, groups, values)
    counts = torch.zeros_like(values).scatter_add(-1, groups, torch.ones_like(values))
    return (sums / counts.clamp_min(1)).gather(-1, groups)


def reference_fuse(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Compute the group of each position, and x minus the mean score of its group, in plain PyTorch.

    Positions with equal x are a group, numbered in [0, S). At the value l of lambda, two adjacent groups
    differ by m_r - m_l + l (c_r - c_l), where m are their means and c their values of (s_right + s_left) / n.
    The two groups that meet first are merged, at most S - 1 times.
    """
    order = (~usable).to(torch.int8).argsort(dim=-1, stable=True)  # usable positions first
    z = scores.gather(-1, order).to(scores.dtype if scores.device.type == "mps" else torch.float64)
    inside = usable.gather(-1, order)[..., 1:]
    signs = torch.sign(z[..., 1:] - z[..., :-1]).masked_fill(~inside, 0)
    joined = inside & (signs == 0)

    def moved() -> tuple[Tensor, Tensor, Tensor]:
        """Return the group of each position, the group's mean, and the rate at which its value moves."""
        groups = torch.nn.functional.pad((~joined).long().cumsum(-1), (1, 0))
        between = signs.masked_fill(joined, 0)
        pulls = torch.nn.functional.pad(between, (0, 1)) - torch.nn.functional.pad(between, (1, 0))
        return groups, group_means(z, groups), group_means(pulls, groups)

    # Each iteration merges at least one pair of groups per row, until lambda is reached.
    for _ in range(z.shape[-1] - 1):
        _, mean, speed = moved()
        gap, closing = mean.diff(dim=-1), speed.diff(dim=-1)
        meeting = inside & ~joined & (signs * closing < 0)
        level = torch.where(meeting, -gap / torch.where(meeting, closing, 1), torch.inf)
        first = level.amin(-1, keepdim=True)
        joined = joined | ((level <= first) & (first <= strength))
    groups, _, speed = moved()
    back = order.argsort(dim=-1)
    return groups.gather(-1, back), (strength * speed).to(scores.dtype).gather(-1, back)


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
        Probabilities as for `sparsemax`.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The strength is negative, infinite or NaN, or the mask does not broadcast to the scores.
    """
    check_strength(strength)
    check_scores(scores)
    check_mask(mask, scores.shape)
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
    fuse = backend_module("numba", "total_variation").fuse if use_numba(z) else reference_fuse
    with torch.no_grad():
        groups, changes = fuse(z.detach(), usable, strength)
    weights = sparsemax(group_means(z, groups) + changes, mask=usable)
    return poison_rows(weights, usable, scores).to(scores.dtype)
