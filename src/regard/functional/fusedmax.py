"""Fusedmax (Niculae & Blondel 2017): sparse weights that neighbours share.

    p = argmin over the simplex of 1/2 |p - z|^2 + lambda sum_j |p_{j+1} - p_j|
      = sparsemax(x),   x = argmin 1/2 |x - z|^2 + lambda sum_j |x_{j+1} - x_j|

x, the scores with their total variation lowered, is constant over groups of neighbours. With n the size of a
group and s = +1 or -1 where the group to that side is higher or lower (0 at an end),

    x = mean of z over the group + lambda (s_right + s_left) / n,

so that the gradient of x is that of means over groups. Which neighbours share a group is found exactly: here
along the path from lambda = 0, on which groups meet and never part (Friedman et al. 2007); in the
kernel by the taut string (`regard.kernels.fusing`). Neighbours are those among the positions that may be
attended: what is masked stands between nobody.
"""

import math

import torch

from regard.functional.masking import attendable, check_arguments, exact_dtype, shifted
from regard.functional.sparsemax import sparsemax
from regard.kernels.versions import chosen, transforming
from regard.types import Bool, Float, Int, Tensor

__all__ = ["fusedmax"]

LEAST = -1e30
"""A score farther than this below the greatest counts as this: sums of scores stay within float32."""


def check_strength(strength: float) -> None:
    """Raise `ValueError` unless lambda is one.

    Args:
        strength: lambda.

    Raises:
        ValueError: It is negative, infinite or not a number.
    """
    if not 0 <= strength < math.inf:
        raise ValueError(f"strength must be at least 0 and finite; got {strength}")


def averaged(values: Float[Tensor, "*B S"], groups: Int[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    """Every value's mean over its group.

    Args:
        values: Any.
        groups: The number, in [0, S), of each position's group.
    """
    sums = torch.zeros_like(values).scatter_add(-1, groups, values)
    counts = torch.zeros_like(values).scatter_add(-1, groups, torch.ones_like(values))
    return (sums / counts.clamp_min(1)).gather(-1, groups)


def path(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """Which positions share a group, and x less the group's mean, in plain operations.

    At the level l of lambda two groups beside each other differ by m_r - m_l + l (c_r - c_l), m their means
    and c their (s_right + s_left) / n; the two that meet first are joined, at most S - 1 times.

    Args:
        scores: Finite where usable.
        usable: Whether a position may be attended.
        strength: lambda.
    """
    order = (~usable).to(torch.int8).argsort(dim=-1, stable=True)  # the usable ones first
    z = scores.gather(-1, order).to(scores.dtype if scores.device.type == "mps" else torch.float64)
    inside = usable.gather(-1, order)[..., 1:]
    signs = torch.sign(z[..., 1:] - z[..., :-1]).masked_fill(~inside, 0)
    joined = inside & (signs == 0)

    def moved() -> tuple[Tensor, Tensor, Tensor]:
        """Each position's group, and the mean and the speed of it."""
        groups = torch.nn.functional.pad((~joined).long().cumsum(-1), (1, 0))
        between = signs.masked_fill(joined, 0)
        pulls = torch.nn.functional.pad(between, (0, 1)) - torch.nn.functional.pad(between, (1, 0))
        return groups, averaged(z, groups), averaged(pulls, groups)

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


def taut(
    scores: Float[Tensor, "*B S"], usable: Bool[Tensor, "*B S"], strength: float
) -> tuple[Int[Tensor, "*B S"], Float[Tensor, "*B S"]]:
    """The same by the kernel, of scores on a CPU."""
    from regard.kernels.fusing import fuse  # imports the compiler, a second's work

    return fuse(scores, usable, strength)


def fusedmax(
    scores: Float[Tensor, "*B"],
    strength: float = 0.1,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """The fusedmax of `scores` along `dim`: sparse, and the same for neighbours whose scores are near.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        strength: lambda, at least 0 and finite: how strongly the weights of neighbours are pulled together. 0
            is sparsemax; once it is as large as any running sum of the scores less their mean, all weights
            are the same.
        dim: The dimension that sums to 1, along which neighbours stand.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities of the shape and dtype of `scores`: exactly 0 off the support and where masked, zeros in
        a row with nothing to attend, NaN in a row with a NaN.

    Raises:
        TypeError: The scores are not floating-point numbers, or the mask is not boolean.
        ValueError: The strength is negative, infinite or not a number, or the mask does not broadcast to the
            scores.
    """
    check_strength(strength)
    check_arguments(scores, mask)
    if not strength or not scores.dim():
        return sparsemax(scores, dim, mask=mask)
    if dim not in (-1, scores.dim() - 1):
        moved = None if mask is None else mask.expand_as(scores).movedim(dim, -1)
        return fusedmax(scores.movedim(dim, -1), strength, mask=moved).movedim(-1, dim)
    if not scores.numel():
        return scores.clone()
    usable = attendable(scores, mask)
    z = shifted(scores.to(exact_dtype(scores.dtype)), usable).masked_fill(~usable, 0)
    z = z.clamp_min(LEAST)
    plain = chosen(scores) != "numba" or transforming() or torch.compiler.is_compiling()
    with torch.no_grad():
        groups, changes = (path if plain else taut)(z.detach(), usable, strength)
    return sparsemax(averaged(z, groups) + changes, mask=usable).to(scores.dtype)
