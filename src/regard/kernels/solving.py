"""Forward and backward pass of the normalizers for one block of eight rows.

The thresholds are computed in `solvers`. This module prepares scores and bounds, handles infeasible rows and
rows in which all weights are at their upper bounds, and determines the status of every position: at its lower
bound, strictly between its bounds (free), or at its upper bound. The gradient depends on the status.
"""

from typing import Any

import numpy as np
from numba import njit

from regard.kernels.lanes import any_lane, exp, maximum, minimum, root, select, spread
from regard.kernels.places import (
    CONSTRAINED_SOFTMAX,
    CONSTRAINED_SPARSEMAX,
    ENTMAX15,
    FREE,
    LOWER,
    SPARSEMAX,
    UPPER,
)
from regard.kernels.solvers import (
    bounded_softmax,
    bounded_sparsemax,
    entmax15,
    first_to_leave_softmax,
    first_to_leave_sparsemax,
    sparsemax,
)
from regard.kernels.tiles import load, store

__all__ = [
    "FAR",
    "bound_gradient",
    "clean",
    "clip_bounds",
    "descend",
    "pull_back",
    "rest_soft",
    "rest_sparse",
    "slope_of",
    "solve_free",
    "solve_soft",
    "solve_sparse",
]

INF = float("inf")
FAR = 4096.0  # rows whose threshold is further below the maximum score are solved again; see `far`
VASTEST = 1e290  # maximum score above which a difference of scores may overflow
NOTHING = 1e-13  # a total weight that cannot be distinguished from rounding errors
VAST = 1e250  # a factor above which exponentials that underflow to 0 may matter


@njit
def clean(size: int, scores: int, mask: int, scale: float) -> Any:
    """Shift the scores in place so that the maximum is 0, and set masked positions to -inf.

    Args:
        size: 64 S.
        scores: Address of the scores.
        mask: Address of the mask, or 0.
        scale: Factor of the scores.

    Returns:
        NaN in rows with a score of NaN or +inf, else 0.
    """
    top, poison = spread(-INF), spread(0.0)
    for at in range(0, size, 64):
        z = load(scores + at)
        if mask:
            z = select(load(mask + at) > 0.0, z, spread(-INF))
        top = maximum(top, z)
        # 0 times infinity or NaN is NaN.
        poison += select(z != spread(-INF), z * 0.0, spread(0.0))
        store(scores + at, z)
    top = select((top > -INF) & (top < INF), top, spread(0.0))
    if any_lane(top > VASTEST):
        for at in range(0, size, 64):
            z = load(scores + at)
            store(scores + at, select(z != spread(-INF), maximum(z, top - 1.7e308), z))
    for at in range(0, size, 64):
        store(scores + at, (load(scores + at) - top) * scale)
    return poison


@njit
def clip_bounds(size: int, scores: int, upper: int, lower: int, wide: int) -> Any:
    """Clip the upper bounds to 1 in place, and set both bounds to 0 at masked positions.

    Args:
        size: 64 S.
        scores: Address of the scores after `clean`.
        upper: Address of the upper bounds.
        lower: Address of the lower bounds; 0 if all are 0.
        wide: Whether the tensors are float64.

    Returns:
        The sum of the upper bounds, the minimum of z - u, the infeasible rows, and NaN in rows with a bound
        of NaN, else 0.
    """
    # Tolerances for the sums of bounds and for single bounds, which may have rounding errors.
    slack, near = (1e-9, 1e-9) if wide else (1e-4, 1e-6)
    most, least, bad, low = spread(0.0), spread(0.0), spread(0.0), spread(INF)
    top = spread(-INF)
    for at in range(0, size, 64):
        z, u = load(scores + at), load(upper + at)
        u = select(z != spread(-INF), select(u >= 1.0, spread(1.0), u), spread(0.0))
        most += u
        top = maximum(top, z)
        low = select(u > 0.0, minimum(low, z - u), low)
        bad = select(u < 0.0, spread(1.0), bad)
        store(upper + at, u)
    if lower:
        for at in range(0, size, 64):
            u = load(upper + at)
            bound = select(load(scores + at) != spread(-INF), load(lower + at), spread(0.0))
            least += bound
            bad = select((bound < 0.0) | (bound > u + near), spread(1.0), bad)
            store(lower + at, bound)
    infeasible = (top > -INF) & ((bad > 0.0) | (most < 1.0 - slack) | (least > 1.0 + slack))
    return most, low, infeasible, (most + least) * 0.0


@njit
def rest_sparse(x: Any, bound: Any, least: Any, near: float) -> Any:
    """Return the status of a position for sparsemax, where x is its weight without bounds."""
    return select(x > bound + near, spread(UPPER), select(x > least + near, spread(FREE), spread(LOWER)))


@njit
def solve_sparse(
    size: int,
    z: int,
    u: int,
    low: int,
    first: Any,
    most: Any,
    infeasible: Any,
    poison: Any,
    wide: int,
    weights: int,
    rests: int,
) -> Any:
    """Compute constrained sparsemax and write the weights and the status.

    Args:
        size: 64 S.
        z: Address of the scores after `clean`.
        u: Address of the upper bounds after `clip_bounds`.
        low: Address of the lower bounds after `clip_bounds`, 0 if all are 0.
        first: The minimum of z - u.
        most: The sum of the upper bounds.
        infeasible: The infeasible rows.
        poison: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        weights: Address of the output for the weights.
        rests: Address of the output for the status.

    Returns:
        The rows whose threshold was not found, whose weights are NaN; the rows that must be solved again by
        `far.solve_again`; the threshold.
    """
    near = 1e-9 if wide else 1e-6
    # Upper bounds that sum to 1 leave only one distribution. Sums slightly below 1 are rescaled.
    full = (most <= 1.0) | infeasible
    tau, unsolved = bounded_sparsemax(size, z, u, low, first, most, full)
    again = ~infeasible & (unsolved | (tau < -FAR))
    poison = select(unsolved, spread(np.nan), poison)
    scale = spread(1.0) / most
    free = spread(0.0)
    for at in range(0, size, 64):
        score, bound = load(z + at), load(u + at)
        least = load(low + at) if low else spread(0.0)
        x, usable = score - tau, score != spread(-INF)
        weight = select(full, bound * scale, minimum(maximum(x, least), bound)) + poison
        free = select((x > least + near) & (x < bound - near), spread(1.0), free)
        store(weights + at, select(usable, weight, spread(0.0)))
        store(rests + at, select(usable, rest_sparse(x, bound, least, near), spread(0.0)))
    # Without a free position, any threshold of an interval gives the same weights. The status, and with it
    # the gradient, is that at the end of the interval, where the first position leaves its upper bound.
    held = free < 1.0
    if any_lane(held):
        edge = select(held, first_to_leave_sparsemax(size, z, u, tau, near), tau)
        for at in range(0, size, 64):
            score, bound = load(z + at), load(u + at)
            least = load(low + at) if low else spread(0.0)
            rest = rest_sparse(score - edge, bound, least, near)
            store(rests + at, select(held & (score != spread(-INF)), rest, load(rests + at)))
    return unsolved, again, tau


@njit
def descend(size: int, z: int, powers: int, u: int, low: int, shift: Any, lost: Any) -> Any:
    """Choose a lower shift of the scores in rows where exponentials that matter underflow to 0.

    If the upper bounds of the other positions sum to less than 1, the positions with an exponential of 0
    receive the rest, and the maximum of their scores becomes the shift. Otherwise the shift is decreased by a
    constant.

    Args:
        size: 64 S.
        z: Address of the scores.
        powers: Address of the exponentials.
        u: Address of the upper bounds.
        low: Address of the lower bounds, 0 if all are 0.
        shift: The shift that the exponentials were computed with.
        lost: The rows in which exponentials may have underflowed.

    Returns:
        The new shift, and the rows in which exponentials have underflowed.
    """
    below, most = spread(-INF), spread(0.0)
    for at in range(0, size, 64):
        there, bound = load(powers + at) > 0.0, load(u + at)
        below = select(~there & (bound > 0.0), maximum(below, load(z + at)), below)
        most += select(there, bound, load(low + at) if low else spread(0.0))
    lost = lost & (below > -INF)
    lower = select(most < 1.0 - 1e-12, below, shift - 600.0)
    return select(lost, lower, shift), lost


@njit
def rest_soft(x: Any, bound: Any, least: Any, near: float) -> Any:
    """Return the status of a position for softmax, where x is its weight without bounds."""
    rest = select((x > (1.0 + near) * least) | (least <= 0.0), spread(FREE), spread(LOWER))
    return select((x > (1.0 + near) * bound) | (bound <= 0.0), spread(UPPER), rest)


@njit
def solve_soft(
    size: int,
    z: int,
    powers: int,
    u: int,
    low: int,
    most: Any,
    infeasible: Any,
    poison: Any,
    wide: int,
    rests: int,
) -> Any:
    """Compute constrained softmax; write the status, and the weights in place of the scores.

    Args:
        size: 64 S.
        z: Address of the scores after `clean`, and of the output for the weights.
        powers: Address of the output for the exponentials of the shifted scores.
        u: Address of the upper bounds after `clip_bounds`.
        low: Address of the lower bounds after `clip_bounds`, 0 if all are 0.
        most: The sum of the upper bounds.
        infeasible: The infeasible rows.
        poison: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        rests: Address of the output for the status.

    Returns:
        The rows whose factor was not found, whose weights are NaN; the rows that must be solved again by
        `far.solve_again`; the factor 1 / Z; the rows without a free position.
    """
    near = 1e-9 if wide else 1e-6
    full = (most <= 1.0) | infeasible
    shift = spread(0.0)
    # In a full row even the lowest score matters, for the status, so it must not underflow.
    if any_lane(full):
        for at in range(0, size, 64):
            shift = select(full & (load(u + at) > 0.0), minimum(shift, load(z + at)), shift)
    factor, unsolved = spread(0.0), full
    for _ in range(size // 64 + 8):
        total = spread(0.0)
        for at in range(0, size, 64):
            e = exp(load(z + at) - shift)
            total += e
            store(powers + at, e)
        factor, unsolved = bounded_softmax(size, powers, u, low, total, full)
        lost = ~full & (factor > VAST)
        if not any_lane(lost):
            break
        shift, lost = descend(size, z, powers, u, low, shift, lost)
        unsolved = unsolved | lost | (~full & (factor >= INF))
        if not any_lane(lost):
            break
    again = ~infeasible & (unsolved | (shift < -FAR))
    poison = select(unsolved, spread(np.nan), poison)
    scale = spread(1.0) / most
    free = spread(0.0)
    for at in range(0, size, 64):
        x, bound = load(powers + at) * factor, load(u + at)
        least = load(low + at) if low else spread(0.0)
        usable = load(z + at) != spread(-INF)
        weight = select(full, bound * scale, minimum(maximum(x, least), bound)) + poison
        free = select((x > (1.0 + near) * least) & (x < (1.0 - near) * bound), free + x, free)
        store(z + at, select(usable, weight, spread(0.0)))
        store(rests + at, select(usable, rest_soft(x, bound, least, near), spread(0.0)))
    # As in `solve_sparse`. Free positions whose weights are 0 up to rounding errors do not count.
    held = free <= NOTHING
    if any_lane(held):
        edge = select(held, first_to_leave_softmax(size, powers, u, factor, near), factor)
        for at in range(0, size, 64):
            before = load(rests + at)
            least = load(low + at) if low else spread(0.0)
            rest = rest_soft(load(powers + at) * edge, load(u + at), least, near)
            store(rests + at, select(held & (before > 0.0), rest, before))
    return unsolved, again, factor, held


@njit
def solve_free(kind: int, size: int, z: int, poison: Any) -> None:
    """Compute sparsemax or 1.5-entmax, and write the weights in place of the scores."""
    tau = sparsemax(size, z) if kind == SPARSEMAX else entmax15(size, z)
    for at in range(0, size, 64):
        score = load(z + at)
        x = maximum(score - tau, spread(0.0))
        if kind == ENTMAX15:
            x = x * x
        store(z + at, select(score != spread(-INF), x + poison, spread(0.0)))


@njit
def slope_of(kind: int, p: Any, rest: Any, bounded: bool) -> Any:
    """Return dp/dz of a free position for a fixed threshold: 1 (sparsemax), p (softmax) or sqrt(p) (entmax).

    The derivative of a position that is not free is 0.
    """
    free = rest == spread(FREE) if bounded else p > 0.0
    moves = p if kind == CONSTRAINED_SOFTMAX else root(p) if kind == ENTMAX15 else spread(1.0)
    return select(free, moves, spread(0.0))


@njit
def pull_back(kind: int, size: int, g: int, weights: int, rests: int) -> Any:
    """Write the gradient of the scores, s (g - m), in place of the weights, and return m.

    s is the derivative of `slope_of`, and m is the mean of the gradient g over the free positions, weighted
    by s. The gradient of an active bound is g - m.
    """
    total, slope = spread(0.0), spread(0.0)
    for at in range(0, size, 64):
        p = load(weights + at) if kind != CONSTRAINED_SPARSEMAX else spread(1.0)
        s = slope_of(kind, p, load(rests + at) if rests else p, rests != 0)
        total += select(s > 0.0, s * load(g + at), spread(0.0))
        slope += s
    mean = total / select(slope > 0.0, slope, spread(1.0))
    for at in range(0, size, 64):
        p = load(weights + at) if kind != CONSTRAINED_SPARSEMAX else spread(1.0)
        s = slope_of(kind, p, load(rests + at) if rests else p, rests != 0)
        store(weights + at, select(s > 0.0, s * (load(g + at) - mean), spread(0.0)))
    return mean


@njit
def bound_gradient(size: int, g: int, mean: Any, rests: int, which: float, out: int) -> None:
    """Write the gradient of the lower or upper bounds: g - m at positions with status `which`, else 0."""
    for at in range(0, size, 64):
        store(out + at, select(load(rests + at) == spread(which), load(g + at) - mean, spread(0.0)))
