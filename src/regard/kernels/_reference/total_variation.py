"""Total variation denoising of rows in PyTorch operations, by the path from lambda = 0.

On the path, groups of positions with equal values merge and never split (Friedman et al., 2007).
"""

import torch

from regard.types import Bool, Float, Int, Tensor


def group_means(values: Float[Tensor, "*B S"], groups: Int[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    """Replace every value by the mean of its group.

    Args:
        values: Any values.
        groups: The index of each position's group, in [0, S).
    """
    sums = torch.zeros_like(values).scatter_add(-1, groups, values)
    counts = torch.zeros_like(values).scatter_add(-1, groups, torch.ones_like(values))
    return (sums / counts.clamp_min(1)).gather(-1, groups)


def fuse(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Compute the group of each position, and x minus the group's mean, in plain PyTorch.

    At the value l of lambda, two adjacent groups differ by m_r - m_l + l (c_r - c_l), where m are their means
    and c their values of (s_right + s_left) / n. The two groups that meet first are merged, at most S - 1
    times.

    Args:
        scores: Scores, finite where usable.
        usable: Whether a position may be attended.
        strength: lambda.
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
