"""The maps' levels, eight rows at a time, on vectors in memory (see `lanes`).

A problem of S positions lies in memory as S vectors of scores, shifted so that the greatest usable one is 0
and -inf where a position may not be attended; with bounds, as many of upper (cut to 1) and of lower ones, 0
where not usable. An odd S is rounded up with a position that may not be attended: the inner loops take two at
a time, whose sums do not wait for each other. Sizes and distances are in bytes: S positions are 64 S of them.

Each solver finds the level by Newton's method on a sum that is made of simple pieces: it ends on the very
piece on which the sum is 1, where the step is exact. Without upper bounds the sum is convex, and the steps
only ever approach. With bounds on both sides a step may leave the bracket of what is known already, and the
bracket is cut instead.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, maximum, minimum, root, select, spread
from regard.kernels.tiles import load

__all__ = [
    "bounded_softmax",
    "bounded_sparsemax",
    "entmax15",
    "first_to_leave_softmax",
    "first_to_leave_sparsemax",
    "sparsemax",
]

STEPS = 200  # more than halving a bracket of doubles takes
EXACT = 1e-13
BEYOND = 1.0 + 1e-12
TINY = 1e-300
LEAST = 1e-20  # a factor at which exponentials that are cut to the greatest double are beyond every bound
INF = float("inf")
FAR = -4096.0


@njit
def sparsemax(size: int, scores: int) -> Any:
    """The level tau of sparsemax."""
    tau = spread(-1.0)
    for _ in range(STEPS):
        total, count, total2, count2 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for at in range(0, size, 128):
            x, x2 = load(scores + at) - tau, load(scores + at + 64) - tau
            inside, inside2 = x > 0.0, x2 > 0.0
            total, total2 = select(inside, total + x, total), select(inside2, total2 + x2, total2)
            count, count2 = select(inside, count + 1.0, count), select(inside2, count2 + 1.0, count2)
        excess, count = total + total2 - 1.0, count + count2
        if not any_lane(excess > EXACT):
            break
        tau = select(excess > EXACT, tau + excess / count, tau)
    return tau


@njit
def entmax15(size: int, scores: int) -> Any:
    """The level tau of 1.5-entmax, for scores that are halved."""
    tau = spread(-1.0)
    for _ in range(STEPS):
        total, slope, total2, slope2 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        for at in range(0, size, 128):
            x = maximum(load(scores + at) - tau, spread(0.0))
            x2 = maximum(load(scores + at + 64) - tau, spread(0.0))
            total, total2 = total + x * x, total2 + x2 * x2
            slope, slope2 = slope + x, slope2 + x2
        excess, slope = total + total2 - 1.0, slope + slope2
        if not any_lane(excess > EXACT):
            break
        tau = select(excess > EXACT, tau + excess / (slope + slope), tau)
    return tau


@njit
def within(step: Any, low: Any, high: Any, low_excess: Any, high_excess: Any) -> Any:
    """A Newton step that stays in the bracket, or else where the line between its ends crosses zero.

    That point is kept to the middle four fifths: a bracket that shrinks from one side only shrinks slowly.
    """
    width = high - low
    crossing = low - width * low_excess / (high_excess - low_excess)
    crossing = minimum(maximum(crossing, low + 0.1 * width), high - 0.1 * width)
    return select((step > low) & (step < high), step, crossing)


@njit
def bounded_sparsemax(size: int, scores: int, upper: int, lower: int, low: Any, most: Any, full: Any) -> Any:
    """The level tau of constrained sparsemax.

    Args:
        size: 64 S, S even.
        scores: Where the scores are.
        upper: Where the upper bounds are.
        lower: Where the lower bounds are, 0 if all are 0.
        low: The least z - u.
        most: The sum of the upper bounds.
        full: The rows whose upper bounds are the answer.

    Returns:
        The level, and the rows for which it was not found.
    """
    high, low_excess, high_excess = spread(0.0), most - 1.0, spread(-1.0)
    # Where bounds are tight the sum is nearly a line from end to end; where they are loose it is sparsemax's.
    # A score that is far below all others says nothing of where it is.
    nearly = (most < 4.0) & (low > FAR)
    tau = select(nearly, low - low * low_excess / most, maximum(low, spread(-1.0)))
    tau = select(full, low - 1.0, tau)
    searched = ~full
    for _ in range(STEPS):
        total, count, total2, count2 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        if lower:
            for at in range(0, size, 64):
                x, u, least = load(scores + at) - tau, load(upper + at), load(lower + at)
                total += minimum(maximum(x, least), u)
                count = select((x > least) & (x < u), count + 1.0, count)
        else:
            for at in range(0, size, 128):
                x, x2 = load(scores + at) - tau, load(scores + at + 64) - tau
                p = minimum(maximum(x, spread(0.0)), load(upper + at))
                p2 = minimum(maximum(x2, spread(0.0)), load(upper + at + 64))
                total, total2 = total + p, total2 + p2
                count, count2 = select(p == x, count + 1.0, count), select(p2 == x2, count2 + 1.0, count2)
        excess, count = total + total2 - 1.0, count + count2
        room = EXACT - EXACT * tau
        searched = searched & ((excess > room) | (excess < spread(0.0) - room))
        if not any_lane(searched):
            break
        above = excess > 0.0
        low, low_excess = select(above, tau, low), select(above, excess, low_excess)
        high, high_excess = select(above, high, tau), select(above, high_excess, excess)
        step = within(tau + excess / count, low, high, low_excess, high_excess)
        tau = select(searched, step, tau)
    return tau, searched


@njit
def first_to_leave_sparsemax(size: int, scores: int, upper: int, tau: Any, near: float) -> Any:
    """The level at which the first position at its upper bound leaves it; without one, tau."""
    leaves = spread(INF)
    for at in range(0, size, 64):
        z, u = load(scores + at), load(upper + at)
        leaves = select((u > 0.0) & (z - tau >= u - near), minimum(leaves, z - u), leaves)
    return select(leaves >= INF, tau, leaves)


@njit
def bounded_softmax(size: int, powers: int, upper: int, lower: int, total: Any, full: Any) -> Any:
    """The factor 1 / Z of constrained softmax.

    Args:
        size: 64 S.
        powers: Where the exponentials of the scores are.
        upper: Where the upper bounds are.
        lower: Where the lower bounds are, 0 if all are 0.
        total: The sum of the exponentials.
        full: The rows whose upper bounds are the answer.

    Returns:
        The factor, infinite where no exponential above 0 is left to share in the sum, and the rows for which
        it was not found.
    """
    # The sum is concave: from beyond the level the first step lands short of it, and the others approach.
    factor = select(full, spread(INF), maximum(1.5 / total, spread(LEAST)))
    low, high = spread(0.0), spread(INF)
    searched = ~full
    for _ in range(STEPS):
        total, slope, total2, slope2 = spread(0.0), spread(0.0), spread(0.0), spread(0.0)
        if lower:
            for at in range(0, size, 64):
                e, u, least = load(powers + at), load(upper + at), load(lower + at)
                x = e * factor
                total += minimum(maximum(x, least), u)
                slope = select((x > least) & (x < u), slope + e, slope)
        else:
            for at in range(0, size, 128):
                e, u, e2, u2 = (
                    load(powers + at),
                    load(upper + at),
                    load(powers + at + 64),
                    load(upper + at + 64),
                )
                x, x2 = e * factor, e2 * factor
                total, total2 = total + minimum(x, u), total2 + minimum(x2, u2)
                slope, slope2 = select(x < u, slope + e, slope), select(x2 < u2, slope2 + e2, slope2)
        excess, slope = total + total2 - 1.0, slope + slope2
        searched = searched & ((excess > EXACT) | (excess < -EXACT))
        if not any_lane(searched):
            break
        low, high = select(excess < 0.0, factor, low), select(excess < 0.0, high, factor)
        step = factor - excess / slope
        outside = searched & ~((step > low) & (step < high))
        if any_lane(outside):
            # Nobody free: go where the next one leaves its lower bound. Else halve the bracket, in
            # logarithms.
            following = spread(INF)
            if lower:
                for at in range(0, size, 64):
                    e, least = load(powers + at), load(lower + at)
                    waits = (least > 0.0) & (e > 0.0) & (e * factor <= least) & (least < load(upper + at))
                    following = select(waits, minimum(following, BEYOND * least / e), following)
            middle = root(maximum(low, spread(TINY))) * root(high)
            step = select(outside, select(high < INF, middle, following), step)
            searched = searched & (step < INF)
        factor = select(searched | outside, step, factor)
    return factor, searched


@njit
def first_to_leave_softmax(size: int, powers: int, upper: int, factor: Any, near: float) -> Any:
    """The factor at which the first position at its upper bound leaves it; without one, the factor."""
    leaves = spread(0.0)
    for at in range(0, size, 64):
        e, u = load(powers + at), load(upper + at)
        leaves = select((u > 0.0) & (e * factor >= (1.0 - near) * u), maximum(leaves, u / e), leaves)
    return select(leaves <= 0.0, factor, leaves)
