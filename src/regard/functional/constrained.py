"""Constrained sparsemax and constrained softmax: the best distribution within bounds, l <= p <= u.

Constrained sparsemax is the Euclidean projection of the scores onto the simplex within bounds:

    p = argmin over {p : sum p = 1, l <= p <= u} of |p - z|^2    Malaviya et al. (2018), Eq. 6, with l = 0
      = max(l, min(u, z - tau)),   tau such that p sums to 1     (ibid., Proposition 1)

The sum falls as tau rises, in segments whose ends z_i - l_i and z_i - u_i are the points where a position
reaches or leaves a bound. On the segment where the sum crosses 1, with A the set of free positions,

    tau = (sum_A z_i + sum of the bounds of the others - 1) / |A|.    (ibid., Eq. 11)

Gradient (ibid., Eq. 7 and 8), with m the mean of g over A:

    dz_j = 1(j in A) (g_j - m),   du_j = 1(p_j = u_j) (g_j - m),   dl_j = 1(p_j = l_j) (g_j - m).

Constrained softmax is the distribution within bounds that is closest to softmax in KL divergence:

    p = argmax over {p : sum p = 1, l <= p <= u} of p . z + H(p)     Martins & Kreutzer (2017), Eq. 7
      = max(l, min(u, exp(z) / Z)),   Z such that p sums to 1        Malaviya et al. (2018), Eq. 4; l = 0

The ends of its segments of log Z are z_i - log l_i and z_i - log u_i. On the segment where the sum crosses 1,

    p_i = (1 - sum of the bounds of the others) softmax over A of z.

Gradient (Martins & Kreutzer (2017), Prop. 3; Malaviya et al. (2018), Section 3): du and dl are as above, with
m = sum_A p_i g_i / sum_A p_i and dz_i = 1(i in A) p_i (g_i - m). The denominator printed in the paper is 1
minus the sum of the others; sum_A p_i is equal, without cancellation.

Difference from the paper: Proposition 1 counts a position that meets its bound exactly as being at the bound
(A_R = {alpha = u}); here it is free, for constrained softmax only if u_j > 0. Both are elements of the
subdifferential.

Cases that the papers leave open: In constrained sparsemax, a position with u_j = 0 is at its upper bound if
z_j > tau and otherwise at its lower bound. If no position is free, the positions at an upper bound u_k > 0
with minimum z_k - u_k (z_k - log u_k for softmax) count as free, because they move first when the bounds are
loosened. The gradient is the derivative in that direction, and adding a constant to g does not change it.
"""

import torch

from regard.functional.bounds import BoundedProblem, center_scores, find_threshold, recenter_saturated
from regard.functional.dispatch import normalize
from regard.types import Bool, Float, Tensor

# At this distance from the score next to tau, every position is at a bound: free ones are within 1.
MAX_DISTANCE = 8.0


def _solve_sparsemax(problem: BoundedProblem) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the solution, its free positions, those at upper bounds, and a score close to the free ones.

    The other positions are at their lower bounds. If no position is free, the one that would move first if
    the bounds were loosened counts as free.
    """
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
    return solution, (x > low + near) & (x <= u + near) & usable, x > u + near, center


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
        solution, free, at_upper, center = _solve_sparsemax(problem)
    bounds = torch.where(at_upper, problem.upper, problem.lower)
    z = torch.where(free, problem.scores - center, 0)
    closed_form = torch.where(free, z - _threshold(z, free, bounds), bounds)
    return problem.finish(solution, closed_form).to(scores.dtype)


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
    reference = reference_constrained_sparsemax
    return normalize("constrained_sparsemax", reference, scores, upper, lower, mask=mask, dim=dim)


# At this distance from the score next to log Z, every exponential is outside its bounds.
MAX_LOG_DISTANCE = 4096.0


def _solve_softmax(problem: BoundedProblem) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the results of `_solve_sparsemax` for constrained softmax."""
    u, low, near, usable = problem.upper, problem.lower, problem.tie_tolerance, problem.usable

    def total(z: Tensor, level: Tensor) -> Tensor:
        return torch.minimum(torch.maximum((z - level).exp(), low), u).sum(-1, keepdim=True)

    center, z = center_scores(
        problem, lambda level: total(problem.scores, level), MAX_LOG_DISTANCE, above=False
    )
    most, least = z - u.log(), z - low.log()
    within = find_threshold(problem, torch.cat([least, most], -1), lambda level: total(z, level))
    # Free positions of the crossing segment; they determine log Z exactly.
    free = (within < least) & (within > most) & usable
    bounds = torch.where(within <= most, u, low)
    free_mass, shares = _distribute_free_mass(z, free, bounds)
    solution = torch.where(free, shares, bounds)
    solution = torch.minimum(torch.maximum(solution, low), u)
    # If the other bounds leave nothing to the free positions, log Z is not determined by them, and they are
    # not the positions that move first.
    nothing = (free_mass <= 500 * torch.finfo(z.dtype).eps) | ~free.any(-1, keepdim=True)
    log_total = z.masked_fill(~free, -torch.inf).logsumexp(-1, keepdim=True)
    log_normalizer = log_total - free_mass.clamp_min(torch.finfo(z.dtype).tiny).log()
    level = torch.where(nothing, within, log_normalizer)
    held = nothing | ~((level < least - near) & (level > most + near) & usable).any(-1, keepdim=True)
    leaves = usable & (u > 0) & (level <= most + near)
    center, z = recenter_saturated(problem, center, held, leaves, MAX_LOG_DISTANCE)
    most, least = z - u.log(), z - low.log()
    end = torch.where(leaves, most, torch.inf).amin(-1, keepdim=True)
    level = torch.where(held & torch.isfinite(end), end, level)
    free = (u > 0) & (level < least - near) & (level >= most - near) & usable
    return solution, free, level < most - near, center


def _distribute_free_mass(z: Tensor, free: Tensor, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mass that the bounds of the other positions leave, and its shares at the free positions."""
    mass = 1 - torch.where(free, 0, bounds).sum(-1, keepdim=True)
    return mass, mass * torch.softmax(z.masked_fill(~free, torch.finfo(z.dtype).min), -1)


def reference_constrained_softmax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"],
    lower: Float[Tensor, "*#B"] | None = None,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute constrained softmax along the last dimension in plain PyTorch, with the gradient above."""
    problem = BoundedProblem.build(scores, upper, lower, mask)
    with torch.no_grad():
        solution, free, at_upper, center = _solve_softmax(problem)
    bounds = torch.where(at_upper, problem.upper, problem.lower)
    z = torch.where(free, problem.scores - center, 0)
    _, shares = _distribute_free_mass(z, free, bounds)
    closed_form = torch.where(free, shares, bounds)
    return problem.finish(solution, closed_form).to(scores.dtype)


def constrained_softmax(
    scores: Float[Tensor, "*B"],
    upper: Float[Tensor, "*#B"] | float | int,
    lower: Float[Tensor, "*#B"] | float | int | None = None,
    dim: int = -1,
    *,
    mask: Bool[Tensor, "*#B"] | None = None,
) -> Float[Tensor, "*B"]:
    """Compute the constrained softmax of `scores` along `dim`.

    Arguments, result and errors are those of `constrained_sparsemax`.
    """
    reference = reference_constrained_softmax
    return normalize("constrained_softmax", reference, scores, upper, lower, mask=mask, dim=dim)
