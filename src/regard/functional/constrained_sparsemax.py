"""Constrained sparsemax: the Euclidean projection of the scores onto the simplex, within bounds.

    p = argmin over {p : sum p = 1, l <= p <= u} of |p - z|^2    (Malaviya et al. 2018, Eq. 6; l = 0 there)
      = max(l, min(u, z - tau)),   tau so that p sums to 1       (ibid., Proposition 1)

The sum falls as tau rises, in pieces that begin and end where a position joins or leaves a bound, z_i - l_i
and z_i - u_i; on the piece where it passes 1, with A the free positions,

    tau = (sum_A z_i + sum of the bounds of the others - 1) / |A|.    (ibid., Eq. 11)

Gradient (ibid., Eq. 7 and 8), m the mean of g over A:

    dz_j = 1(j in A) (g_j - m),   du_j = 1(p_j = u_j) (g_j - m),   dl_j = 1(p_j = l_j) (g_j - m).

Where we differ. Proposition 1 puts a position that meets its bound exactly among those at the bound (A_R =
{alpha = u}); here it is free. Both are elements of the subdifferential.
Where the paper is silent. A position with u_j = 0 is at its upper bound if z_j > tau and at its lower one
otherwise. If no position is free, those at an upper bound u_k > 0 with the least z_k - u_k count as free, for
they move first as the bounds loosen: the gradient is the derivative in that direction, and a constant added
to g changes nothing.
"""

import torch

from regard.functional.bounds import Problem, Rest, centred, crossing, leaving
from regard.functional.rows import Map, mapped
from regard.types import Bool, Float, Tensor

__all__ = ["constrained_sparsemax"]


REACH = (
    8.0  # farther from the score next to the level than this a position is at a bound: free ones are within 1
)


def _solve(problem: Problem) -> tuple[Tensor, Rest, Tensor]:
    """The solution, where it rests, and a score that the free positions are near to."""
    u, low, near, usable = problem.upper, problem.lower, problem.near, problem.usable

    def total(z: Tensor, tau: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(z - tau, low), u).sum(-1, keepdim=True)

    centre, z = centred(problem, lambda tau: total(problem.scores, tau), REACH, above=True)
    within = crossing(problem, torch.cat([z - low, z - u], -1), lambda tau: total(z, tau))
    x = z - within
    free = (x > low) & (x < u) & usable
    tau = torch.where(free.any(-1, keepdim=True), _level(z, free, torch.where(x >= u, u, low)), within)
    x = z - tau
    solution = torch.minimum(torch.maximum(x, low), u)
    # With nobody strictly between the bounds every level of a whole interval will do: take its end.
    held = ~((x > low + near) & (x < u - near) & usable).any(-1, keepdim=True)
    leaves = usable & (u > 0) & (x >= u - near)
    centre, z = leaving(problem, centre, held, leaves, REACH)
    end = torch.where(leaves, z - u, torch.inf).amin(-1, keepdim=True)
    x = z - torch.where(held & torch.isfinite(end), end, tau)
    return solution, Rest.of(problem, (x > low + near) & (x <= u + near), x > u + near), centre


def _level(z: Tensor, free: Tensor, bounds: Tensor) -> Tensor:
    """The level at which the free positions take what the bounds of the others leave."""
    left = 1 - torch.where(free, 0, bounds).sum(-1, keepdim=True)
    count = free.sum(-1, keepdim=True).clamp_min(1)
    return (torch.where(free, z, 0).sum(-1, keepdim=True) - left) / count


def reference(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """The map along the last dimension in plain operations, whose derivatives are the gradient above."""
    problem = Problem.of(scores, upper, lower, mask)
    with torch.no_grad():
        solution, rest, centre = _solve(problem)
    bounds = rest.fixed(problem.upper, problem.lower)
    z = torch.where(rest.free, problem.scores - centre, 0)
    free = z - _level(z, rest.free, bounds)
    return problem.settle(solution, torch.where(rest.free, free, bounds)).to(scores.dtype)


MAP = Map("constrained_sparsemax", reference)


def constrained_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"] | float | int,
    lower: Float[Tensor, "*#B"] | float | int | None = None,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """The constrained sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape; half precisions are computed in float32 or better and returned in their own. A
            score of -inf masks its position.
        upper: The most each position may get, in [0, inf]: a number, or a tensor that broadcasts to `scores`.
        lower: The least each position must get, 0 if absent; likewise.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities of the shape and dtype of `scores`: zero where masked, zeros in a row with nothing to
        attend, NaN in a row with a NaN.

    Raises:
        InfeasibleBounds: The usable bounds of a row sum to less than 1 - 1e-4 (1e-9 in float64), or its lower
            bounds to more than 1 or above their upper ones. On an accelerator, in compiled code and under
            `torch.func` the row becomes NaN instead; `check_bounds` raises on request.
        TypeError: The scores are not floating-point numbers, the mask is not boolean, or a bound is neither a
            tensor nor a number.
        ValueError: An argument does not broadcast to the scores.
    """
    return mapped(MAP, scores, upper, lower, mask=mask, dim=dim)
