"""Constrained softmax: the distribution nearest to the softmax in Kullback-Leibler divergence, within bounds.

    p = argmax over {p : sum p = 1, l <= p <= u} of p . z + H(p)     (Martins & Kreutzer 2017, Eq. 7)
      = max(l, min(u, exp(z) / Z)),   Z so that p sums to 1          (Malaviya et al. 2018, Eq. 4; l = 0)

The sum falls as log Z rises, in pieces that begin and end where a position joins or leaves a bound, z_i - log
l_i and z_i - log u_i; on the piece where it passes 1, with A the free positions, they share what the bounds
leave:

    p_i = (1 - sum of the bounds of the others) softmax over A of z.

Gradient (Martins & Kreutzer 2017, Prop. 3; Malaviya et al. 2018, Sec. 3), m = sum_A p_i g_i / sum_A p_i:

    dz_i = 1(i in A) p_i (g_i - m),   du_i = 1(p_i = u_i) (g_i - m),   dl_i = 1(p_i = l_i) (g_i - m).

The printed denominator is 1 minus the sum of the others; sum_A p_i is the same without the cancellation.
Where the paper is silent. A position that meets its bound exactly is free, except where u_i = 0. If no
position is free, those at an upper bound u_k > 0 with the least z_k - log u_k count as free, for they move
first as the bounds loosen.
"""

import torch

from regard.functional.bounds import Problem, Rest, crossing
from regard.functional.rows import Map, mapped
from regard.types import Bool, Float, Tensor

__all__ = ["constrained_softmax"]


def _solve(problem: Problem) -> tuple[Tensor, Rest]:
    """The solution, and where it rests."""
    z, u, low, near, usable = problem.scores, problem.upper, problem.lower, problem.near, problem.usable
    most, least = z - u.log(), z - low.log()
    within = crossing(
        problem,
        torch.cat([least, most], -1),
        lambda level: torch.minimum(torch.maximum((z - level).exp(), low), u).sum(-1, keepdim=True),
    )
    free = (within < least) & (within > most) & usable
    bounds = torch.where(within <= most, u, low)
    solution = torch.where(free, _share(z, free, bounds), bounds)
    solution = torch.minimum(torch.maximum(solution, low), u)
    # Free positions to which the bounds of the others leave nothing have no level, and are not what moves
    # first.
    nothing = (_left(free, bounds) <= 500 * torch.finfo(z.dtype).eps) | ~free.any(-1, keepdim=True)
    level = torch.where(nothing, within, _level(z, free, bounds))
    held = nothing | ~((level < least - near) & (level > most + near) & usable).any(-1, keepdim=True)
    leaves = torch.where(usable & (u > 0) & (level <= most + near), most, torch.inf).amin(-1, keepdim=True)
    level = torch.where(held & torch.isfinite(leaves), leaves, level)
    rest = Rest.of(problem, (u > 0) & (level < least - near) & (level >= most - near), level < most - near)
    return solution, rest


def _left(free: Tensor, bounds: Tensor) -> Tensor:
    """What the bounds of the others leave to the free positions."""
    return 1 - torch.where(free, 0, bounds).sum(-1, keepdim=True)


def _share(z: Tensor, free: Tensor, bounds: Tensor) -> Tensor:
    """What each free position gets of it."""
    return _left(free, bounds) * torch.softmax(z.masked_fill(~free, torch.finfo(z.dtype).min), -1)


def _level(z: Tensor, free: Tensor, bounds: Tensor) -> Tensor:
    """The logarithm of Z at which they get that."""
    total = z.masked_fill(~free, -torch.inf).logsumexp(-1, keepdim=True)
    return total - _left(free, bounds).clamp_min(torch.finfo(z.dtype).tiny).log()


def reference(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """The map along the last dimension in plain operations, whose derivatives are the gradient above."""
    problem = Problem.of(scores, upper, lower, mask)
    with torch.no_grad():
        solution, rest = _solve(problem)
    bounds = rest.fixed(problem.upper, problem.lower)
    free = _share(problem.scores, rest.free, bounds)
    return problem.settle(solution, torch.where(rest.free, free, bounds)).to(scores.dtype)


MAP = Map("constrained_softmax", reference)


def constrained_softmax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
    dim: int = -1,
) -> Float[Tensor, "*B"]:
    """The constrained softmax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        upper: The most each position may get, in [0, inf]; broadcasts to `scores`.
        lower: The least each position must get, 0 if absent; broadcasts to `scores`.
        mask: True = may be attended; broadcasts to `scores`.
        dim: The dimension that sums to 1.

    Returns:
        Probabilities of the shape and dtype of `scores`: zero where masked, zeros in a row with nothing to
        attend, NaN in a row with a NaN.

    Raises:
        InfeasibleBounds: As `regard.functional.constrained_sparsemax`.
    """
    return mapped(MAP, scores, upper, lower, mask=mask, dim=dim)
