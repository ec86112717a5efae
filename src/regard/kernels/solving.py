"""One block of eight rows: scores made ready, bounds cut, the map solved, the gradient pulled back.

The mathematics of the levels is in `solvers`; here are the rows that have no distribution, those whose bounds
alone are the answer, and where every position rests.
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
FAR = 4096.0  # a level this far below the greatest score is looked for again, from nearby: see `far`
VASTEST = 1e290  # a score from which another may be farther than the greatest double
NOTHING = 1e-13  # a share too small to be told from rounding
VAST = 1e250  # a factor above which an exponential that is 0 in a double may count


@njit
def clean(size: int, scores: int, mask: int, scale: float) -> Any:
    """Shift scores so that the greatest is 0, with -inf where they may not be attended.

    Args:
        size: 64 S.
        scores: Where they are, and where they go.
        mask: Where the mask is, or 0.
        scale: What they are multiplied by.

    Returns:
        NaN in the rows that have one or an inf, else 0.
    """
    top, poison = spread(-INF), spread(0.0)
    for at in range(0, size, 64):
        z = load(scores + at)
        if mask:
            z = select(load(mask + at) > 0.0, z, spread(-INF))
        top = maximum(top, z)
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
    """Cut upper bounds to 1, put 0 for both where a position may not be attended.

    Args:
        size: 64 S.
        scores: Where the cleaned scores are.
        upper: Where the upper bounds are, and where they go.
        lower: The same of the lower bounds; 0 if all are 0.
        wide: Whether the numbers are float64.

    Returns:
        The sum of the upper bounds; the least z - u; the rows that no distribution fits; NaN in the rows
        whose bounds have one, else 0.
    """
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
    """Where a position rests whose free form is x."""
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
    """Constrained sparsemax: puts the weights and where they rest in their places.

    Returns:
        The rows whose level was not found, which become NaN; those that want to be solved again, by
        `far.sparse`; the level.
    """
    near = 1e-9 if wide else 1e-6
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
    """Shift the scores of rows whose level is so low that exponentials that count may be 0.

    Where the bounds of the others leave something to those whose exponential is 0, the greatest of these sets
    the scale; else the level is within reach of the others.

    Args:
        size: 64 S.
        z: Where the scores are.
        powers: Where the exponentials are.
        u: Where the upper bounds are.
        low: Where the lower bounds are, 0 if all are 0.
        shift: What the scores were shifted by.
        lost: The rows of which this may be true.

    Returns:
        What they should be shifted by; the rows of which it is true.
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
    """Where a position rests whose free form is x."""
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
    """Constrained softmax: puts the weights over the scores and where they rest in their place.

    Returns:
        The rows whose level was not found, which become NaN; those that want to be solved again, by
        `far.soft`; the factor; the rows in which no position is free.
    """
    near = 1e-9 if wide else 1e-6
    full = (most <= 1.0) | infeasible
    shift = spread(0.0)
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
    # Where the bounds of the others leave nothing to the free ones, these are not what moves first.
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
    """Sparsemax and 1.5-entmax: puts the weights over the scores."""
    tau = sparsemax(size, z) if kind == SPARSEMAX else entmax15(size, z)
    for at in range(0, size, 64):
        score = load(z + at)
        x = maximum(score - tau, spread(0.0))
        if kind == ENTMAX15:
            x = x * x
        store(z + at, select(score != spread(-INF), x + poison, spread(0.0)))


@njit
def slope_of(kind: int, p: Any, rest: Any, bounded: bool) -> Any:
    """How fast a free position moves: 1 (sparsemax), p (softmax) or sqrt p (1.5-entmax)."""
    free = rest == spread(FREE) if bounded else p > 0.0
    moves = p if kind == CONSTRAINED_SOFTMAX else root(p) if kind == ENTMAX15 else spread(1.0)
    return select(free, moves, spread(0.0))


@njit
def pull_back(kind: int, size: int, g: int, weights: int, rests: int) -> Any:
    """Put the gradient of the scores over the weights, s (g - m), and return m.

    s is the slope of a free position and m the mean of g over the free ones, weighted by s; a bound on which
    a position rests has the gradient g - m.
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
    """The gradient of the bounds on one side: g - m at the positions that rest on them."""
    for at in range(0, size, 64):
        store(out + at, select(load(rests + at) == spread(which), load(g + at) - mean, spread(0.0)))
