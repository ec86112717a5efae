"""Total variation denoising of rows: x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|.

x is constant over groups of neighbors. With n the size of a group and s = +1 or -1 if the adjacent group on
that side is higher or lower (0 at an end),

    x = mean of z over the group + lambda (s_right + s_left) / n.

The reference follows the path from lambda = 0, on which groups of positions with equal values merge and never
split (Friedman et al., 2007). The Numba kernel uses the taut string algorithm.
"""

import torch

from regard.kernels.backend import backend_module, use_numba
from regard.types import Bool, Float, Int, Tensor

__all__ = ["fuse", "group_means", "reference_fuse"]


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
    """Compute the group of each position, and x minus the group's mean, in plain PyTorch.

    At the value l of lambda, two adjacent groups differ by m_r - m_l + l (c_r - c_l), where m are their means
    and c their values of (s_right + s_left) / n. The two groups that meet first are merged, at most S - 1
    times.
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


def fuse(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Return the groups of positions with equal x, and the difference of x and the mean score of each group.

    Args:
        scores: z, finite where usable.
        usable: True at the positions to include; the others are skipped.
        strength: The weight lambda of the total variation.

    Returns:
        A number for the group of each position, in [0, S), and the difference of x and the mean of the scores
        of the group, in the dtype of the scores.
    """
    if not use_numba(scores):
        return reference_fuse(scores, usable, strength)
    return backend_module("numba", "total_variation").fuse(scores, usable, strength)
