"""Constrained sparsemax: the Euclidean projection of the scores onto the simplex, within bounds.

    p = argmin over {p : sum p = 1, l <= p <= u} of |p - z|^2    (Malaviya et al. 2018, Eq. 5; l = 0 there)
      = max(l, min(u, z - tau)),   tau so that p sums to 1       (ibid., Prop. 1)

The sum falls as tau rises, in pieces that begin and end where a position joins or leaves a bound, z_i - l_i
and z_i - u_i; on the piece where it passes 1, with A the free positions,

    tau = (sum_A z_i + sum of the bounds of the others - 1) / |A|.    (ibid., Appendix A)

Gradient (ibid., Prop. 2), m the mean of g over A:

    dz_j = 1(j in A) (g_j - m),   du_j = 1(p_j = u_j) (g_j - m),   dl_j = 1(p_j = l_j) (g_j - m).

Where the paper is silent. A position that meets its bound exactly is free; one with u_j = 0 is at its upper
bound if z_j > tau and at its lower one otherwise. If no position is free, those at an upper bound u_k > 0
with the least z_k - u_k count as free, for they move first as the bounds loosen: the gradient is the
derivative in that direction, and a constant added to g changes nothing.
"""

import torch

from regard.functional.bounds import Problem, Rest, crossing
from regard.functional.rows import Map, mapped
from regard.types import Bool, Float, Tensor

__all__ = ["constrained_sparsemax"]


def _solve(problem: Problem) -> tuple[Tensor, Rest]:
    """The solution, and where it rests."""
    z, u, low, near, usable = problem.scores, problem.upper, problem.lower, problem.near, problem.usable
    within = crossing(
        problem,
        torch.cat([z - low, z - u], -1),
        lambda tau: torch.minimum(torch.maximum(z - tau, low), u).sum(-1, keepdim=True),
    )
    x = z - within
    free = (x > low) & (x < u) & usable
    tau = torch.where(free.any(-1, keepdim=True), _level(z, free, torch.where(x >= u, u, low)), within)
    x = z - tau
    solution = torch.minimum(torch.maximum(x, low), u)
    # With nobody strictly between the bounds every level of a whole interval will do: take its end.
    held = ~((x > low + near) & (x < u - near) & usable).any(-1, keepdim=True)
    leaves = torch.where(usable & (u > 0) & (x >= u - near), z - u, torch.inf).amin(-1, keepdim=True)
    tau = torch.where(held & torch.isfinite(leaves), leaves, tau)
    x = z - tau
    return solution, Rest.of(problem, (x > low + near) & (x <= u + near), x > u + near)


def _level(z: Tensor, free: Tensor, bounds: Tensor) -> Tensor:
    """The level at which the free positions take what the bounds of the others leave."""
    left = 1 - torch.where(free, 0, bounds).sum(-1, keepdim=True)
    count = free.sum(-1, keepdim=True).clamp_min(1)
    return ((z * free).sum(-1, keepdim=True) - left) / count


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
    free = problem.scores - _level(problem.scores, rest.free, bounds)
    return problem.settle(solution, torch.where(rest.free, free, bounds)).to(scores.dtype)


MAP = Map("constrained_sparsemax", reference)


def constrained_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
    dim: int = -1,
) -> Float[Tensor, "*B"]:
    """The constrained sparsemax of `scores` along `dim`.

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
        InfeasibleBounds: The usable bounds of a row sum to less than 1 - 1e-4 (1e-9 in float64), or its lower
            bounds to more than 1 or above their upper ones. On an accelerator, in compiled code and under
            `torch.func` the row becomes NaN instead; `check_bounds` raises on request.
    """
    return mapped(MAP, scores, upper, lower, mask=mask, dim=dim)
