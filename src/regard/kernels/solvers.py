"""The maps' levels, eight rows at a time, on vectors in memory (see `lanes`).

A problem of S positions lies in memory as S vectors of scores, shifted so that the greatest usable one is 0 and -inf where
a position may not be attended; with bounds, as many of upper (cut to 1) and of lower ones, 0 where not usable. Sizes
and distances are in bytes: S positions are 64 S of them.

Each solver finds the level by Newton's method on a sum that is made of simple pieces: it ends on the very piece on which
the sum is 1, where the step is exact. Without upper bounds the sum is convex, and the steps only ever approach. With
bounds on both sides a step may leave the bracket of what is known already, and the bracket is halved instead.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, exp, load, maximum, minimum, root, select, spread, store

__all__ = ["FREE", "LOWER", "UPPER", "bounded_softmax", "bounded_sparsemax", "entmax15", "sparsemax"]

LOWER, FREE, UPPER = 1.0, 2.0, 3.0  # where a position rests; 0 where it may not be attended

STEPS = 200  # more than halving a bracket of doubles takes
EXACT = 1e-13
INF = float("inf")


@njit
def sparsemax(size: int, scores: int) -> Any:
    """The level tau of sparsemax."""
    tau = spread(-1.0)
    for _ in range(STEPS):
        total, count = spread(0.0), spread(0.0)
        for at in range(0, size, 64):
            x = load(scores + at) - tau
            inside = x > 0.0
            total += select(inside, x, spread(0.0))
            count += select(inside, spread(1.0), spread(0.0))
        excess = total - 1.0
        if not any_lane(excess > EXACT):
            break
        tau = select(excess > EXACT, tau + excess / count, tau)
    return tau


@njit
def entmax15(size: int, scores: int) -> Any:
    """The level tau of 1.5-entmax, for scores that are halved."""
    tau = spread(-1.0)
    for _ in range(STEPS):
        total, slope = spread(0.0), spread(0.0)
        for at in range(0, size, 64):
            x = maximum(load(scores + at) - tau, spread(0.0))
            total += x * x
            slope += x
        excess = total - 1.0
        if not any_lane(excess > EXACT):
            break
        tau = select(excess > EXACT, tau + excess / (slope + slope), tau)
    return tau


@njit
def bounded_sparsemax(size: int, scores: int, upper: int, lower: int, full: Any, near: float) -> Any:
    """The level tau of constrained sparsemax.

    Args:
        size: 64 S.
        scores: Where the scores are.
        upper: Where the upper bounds are.
        lower: Where the lower bounds are.
        full: The rows whose upper bounds are the answer.
        near: How near its bound a position counts as meeting it.

    Returns:
        The end of the interval of levels where nobody is free (else the level); the level; the rows for which it was
        not found.
    """
    low, high = spread(INF), spread(0.0)
    for at in range(0, size, 64):
        u = load(upper + at)
        low = minimum(low, select(u > 0.0, load(scores + at) - u, spread(INF)))
    tau = maximum(low, spread(-1.0))
    tau = select(full, low - 1.0, tau)
    open_ = ~full
    for _ in range(STEPS):
        total, count = spread(0.0), spread(0.0)
        for at in range(0, size, 64):
            x, u, least = load(scores + at) - tau, load(upper + at), load(lower + at)
            total += minimum(maximum(x, least), u)
            count += select((x > least) & (x < u), spread(1.0), spread(0.0))
        excess = total - 1.0
        room = EXACT - EXACT * tau
        open_ = open_ & ((excess > room) | (excess < spread(0.0) - room))
        if not any_lane(open_):
            break
        low, high = select(excess > 0.0, tau, low), select(excess > 0.0, high, tau)
        step = tau + excess / count
        step = select((step > low) & (step < high), step, 0.5 * (low + high))
        tau = select(open_, step, tau)
    free, leaves = spread(0.0), spread(INF)
    for at in range(0, size, 64):
        z, u = load(scores + at), load(upper + at)
        x = z - tau
        free = select((x > load(lower + at) + near) & (x < u - near), spread(1.0), free)
        leaves = select((u > 0.0) & (x >= u - near), minimum(leaves, z - u), leaves)
    return select((free > 0.0) | (leaves >= INF), tau, leaves), tau, open_


@njit
def bounded_softmax(size: int, powers: int, upper: int, lower: int, full: Any, near: float) -> Any:
    """The factor 1 / Z of constrained softmax.

    Args:
        size: 64 S.
        powers: Where the exponentials of the scores are.
        upper: Where the upper bounds are.
        lower: Where the lower bounds are.
        full: The rows whose upper bounds are the answer.
        near: How near its bound a position counts as meeting it, as a factor.

    Returns:
        As `bounded_sparsemax`, of the factor.
    """
    total = spread(0.0)
    for at in range(0, size, 64):
        total += load(powers + at)
    factor = select(full, spread(INF), 1.0 / total)
    low, high = spread(0.0), spread(INF)
    open_ = ~full
    for _ in range(STEPS):
        total, slope = spread(0.0), spread(0.0)
        for at in range(0, size, 64):
            e, u, least = load(powers + at), load(upper + at), load(lower + at)
            x = e * factor
            total += minimum(maximum(x, least), u)
            slope += select((x > least) & (x < u), e, spread(0.0))
        excess = total - 1.0
        open_ = open_ & ((excess > EXACT) | (excess < -EXACT))
        if not any_lane(open_):
            break
        low, high = select(excess < 0.0, factor, low), select(excess < 0.0, high, factor)
        step = factor - excess / slope
        middle = select(high < INF, 0.5 * (low + high), factor + factor)
        factor = select(open_, select((step > low) & (step < high), step, middle), factor)
    free, leaves = spread(0.0), spread(0.0)
    for at in range(0, size, 64):
        e, u = load(powers + at), load(upper + at)
        x = e * factor
        free = select((x > (1.0 + near) * load(lower + at)) & (x < (1.0 - near) * u), spread(1.0), free)
        leaves = select((u > 0.0) & (x >= (1.0 - near) * u), maximum(leaves, u / e), leaves)
    return select((free > 0.0) | (leaves <= 0.0), factor, leaves), factor, open_
