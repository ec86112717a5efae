"""Constrained sparsemax: the Euclidean projection of the scores onto the simplex within bounds.

    p = argmin over {p : sum p = 1, l <= p <= u} of |p - z|^2    Malaviya et al. (2018), Eq. 6, with l = 0
      = max(l, min(u, z - tau)),   tau such that p sums to 1     (ibid., Proposition 1)

The sum falls as tau rises, in segments whose ends z_i - l_i and z_i - u_i are the points where a position
reaches or leaves a bound. On the segment where the sum crosses 1, with A the set of free positions,

    tau = (sum_A z_i + sum of the bounds of the others - 1) / |A|.    (ibid., Eq. 11)

Gradient (ibid., Eq. 7 and 8), with m the mean of g over A:

    dz_j = 1(j in A) (g_j - m),   du_j = 1(p_j = u_j) (g_j - m),   dl_j = 1(p_j = l_j) (g_j - m).

Difference from the paper: Proposition 1 counts a position that meets its bound exactly as being at the bound
(A_R = {alpha = u}); here it is free. Both are elements of the subdifferential.

Cases that the paper leaves open: A position with u_j = 0 is at its upper bound if z_j > tau and otherwise at
its lower bound. If no position is free, the positions at an upper bound u_k > 0 with minimum z_k - u_k count
as free, because they move first when the bounds are loosened. The gradient is the derivative in that
direction, and adding a constant to g does not change it.
"""

import torch

from regard.functional.bounds import (
    ActiveSet,
    BoundedProblem,
    center_scores,
    find_threshold,
    recenter_saturated,
)
from regard.functional.dispatch import Normalizer, normalize
from regard.types import Bool, Float, Tensor

__all__ = ["constrained_sparsemax"]

# At this distance from the score next to tau, every position is at a bound: free ones are within 1.
MAX_DISTANCE = 8.0


def _solve(problem: BoundedProblem) -> tuple[Tensor, ActiveSet, Tensor]:
    """Return the solution, its active set, and a score close to those of the free positions."""
    u, low, near, usable = problem.upper, problem.lower, problem.tie_tolerance, problem.usable

    def total(z: Tensor, tau: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(z - tau, low), u).sum(-1, keepdim=True)

    center, z = center_scores(problem, lambda tau: total(problem.scores, tau), MAX_DISTANCE, above=True)
    within = find_threshold(problem, torch.cat([z - low, z - u], -1), lambda tau: total(z, tau))
    # Free positions of the crossing segment; they determine tau exactly.
    x = z - within
    free = (x > low) & (x < u) & usable
    tau = torch.where(free.any(-1, keepdim=True), _threshold(z, free, torch.where(x >= u, u, low)), within)
    x = z - tau
    solution = torch.minimum(torch.maximum(x, low), u)
    # If no position is strictly between its bounds, tau may be anywhere in an interval; use its end.
    held = ~((x > low + near) & (x < u - near) & usable).any(-1, keepdim=True)
    leaves = usable & (u > 0) & (x >= u - near)
    center, z = recenter_saturated(problem, center, held, leaves, MAX_DISTANCE)
    end = torch.where(leaves, z - u, torch.inf).amin(-1, keepdim=True)
    x = z - torch.where(held & torch.isfinite(end), end, tau)
    return solution, ActiveSet.build(problem, (x > low + near) & (x <= u + near), x > u + near), center


def _threshold(z: Tensor, free: Tensor, bounds: Tensor) -> Tensor:
    """Compute the tau at which the free positions take the mass that the bounds of the others leave."""
    remaining = 1 - torch.where(free, 0, bounds).sum(-1, keepdim=True)
    count = free.sum(-1, keepdim=True).clamp_min(1)
    return (torch.where(free, z, 0).sum(-1, keepdim=True) - remaining) / count


def reference_constrained_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute constrained sparsemax along the last dimension in plain PyTorch, with the gradient above."""
    problem = BoundedProblem.build(scores, upper, lower, mask)
    with torch.no_grad():
        solution, active, center = _solve(problem)
    bounds = active.bound_values(problem.upper, problem.lower)
    z = torch.where(active.free, problem.scores - center, 0)
    free = z - _threshold(z, active.free, bounds)
    return problem.finish(solution, torch.where(active.free, free, bounds)).to(scores.dtype)


CONSTRAINED_SPARSEMAX = Normalizer("constrained_sparsemax", reference_constrained_sparsemax)


def constrained_sparsemax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"] | float | int,
    lower: Float[Tensor, "*#B"] | float | int | None = None,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the constrained sparsemax of `scores` along `dim`.

    Args:
        scores: Any shape. Half precision is computed in float32 or better and returned in the input's dtype.
            A score of -inf masks its position.
        upper: Maximum weight of each position, in [0, inf]: a number, or a tensor that broadcasts to
            `scores`.
        lower: Minimum weight of each position: a number or a tensor, as `upper`. None means 0.
        dim: The dimension that sums to 1.
        mask: Boolean, True = may be attended; broadcasts to `scores`.

    Returns:
        Probabilities in the shape and dtype of `scores`. Masked positions are zero. A row without attendable
        positions is zero. A row that contains NaN is NaN.

    Raises:
        InfeasibleBoundsError: The usable upper bounds of a row sum to less than 1 - 1e-4 (1e-9 in float64),
            its lower bounds sum to more than 1, or a lower bound exceeds its upper bound. On an accelerator,
            in compiled code and under `torch.func` the row becomes NaN instead; call `check_bounds` to raise.
        TypeError: The scores are not floating-point numbers, the mask is not boolean, or a bound is neither a
            tensor nor a number.
        ValueError: An argument does not broadcast to the scores.
    """
    return normalize(CONSTRAINED_SPARSEMAX, scores, upper, lower, mask=mask, dim=dim)
