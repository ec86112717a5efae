"""Solvers for the thresholds of the normalizers, eight rows at a time, on vectors in memory.

A block of rows with S positions is stored as S vectors of scores. They are shifted so that the maximum is 0,
and are -inf at masked positions. Normalizers with bounds have S vectors of upper bounds, clipped to 1, and S
vectors of lower bounds, both 0 at masked positions. An odd S is padded with a masked position: the inner
loops process two positions at a time, whose sums are independent. Sizes and offsets are in bytes; S positions
take 64 S bytes.

Each solver finds the threshold tau at which the weights sum to 1 by Newton's method. The sum is a piecewise
simple function of tau, and a Newton step within the segment of the solution is exact. Without upper bounds
the sum is convex, so that the steps approach the solution from one side. With bounds on both sides a step may
leave the bracket, the interval that must contain the solution. Such a step is replaced by one that divides
the bracket.
"""

from typing import Any

from regard.kernels._numba.arithmetic import any_lane, fill_lanes, maximum, minimum, select_lanes, sqrt
from regard.kernels._numba.memory import load_vector
from regard.kernels.compilation import njit

MAX_STEPS = 200  # maximum number of steps, more than bisection needs
SUM_TOLERANCE = 1e-13  # tolerance of the sum of the weights
EDGE_OVERSHOOT = 1.0 + 1e-12  # relative step past the point where a position leaves its bound
TINY = 1e-300  # lower end of a bracket for the geometric mean, instead of 0
MIN_FACTOR = 1e-20  # a factor at which exponentials clipped to the maximum double exceed every bound
_INF = float("inf")
FAR_SCORE = -4096.0  # below this, the score of a position is no useful initial value


@njit
def sparsemax_threshold(size: int, scores: int) -> Any:
    """Return the threshold tau of sparsemax (Martins & Astudillo, 2016), p = max(z - tau, 0)."""
    # The maximum score is 0, so tau is at least -1, where the sum is at least 1.
    tau = fill_lanes(-1.0)
    for _ in range(MAX_STEPS):
        total, count, total2, count2 = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0)
        for at in range(0, size, 128):
            x, x2 = load_vector(scores + at) - tau, load_vector(scores + at + 64) - tau
            inside, inside2 = x > 0.0, x2 > 0.0
            total, total2 = select_lanes(inside, total + x, total), select_lanes(inside2, total2 + x2, total2)
            count, count2 = (
                select_lanes(inside, count + 1.0, count),
                select_lanes(inside2, count2 + 1.0, count2),
            )
        excess, count = total + total2 - 1.0, count + count2
        if not any_lane(excess > SUM_TOLERANCE):
            break
        tau = select_lanes(excess > SUM_TOLERANCE, tau + excess / count, tau)
    return tau


@njit
def entmax15_threshold(size: int, scores: int) -> Any:
    """Return the threshold tau of 1.5-entmax (Peters et al., 2019), p = max(z - tau, 0)^2.

    The scores z must have been halved.
    """
    tau = fill_lanes(-1.0)
    for _ in range(MAX_STEPS):
        total, slope, total2, slope2 = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0)
        for at in range(0, size, 128):
            x = maximum(load_vector(scores + at) - tau, fill_lanes(0.0))
            x2 = maximum(load_vector(scores + at + 64) - tau, fill_lanes(0.0))
            total, total2 = total + x * x, total2 + x2 * x2
            slope, slope2 = slope + x, slope2 + x2
        excess, slope = total + total2 - 1.0, slope + slope2
        if not any_lane(excess > SUM_TOLERANCE):
            break
        tau = select_lanes(excess > SUM_TOLERANCE, tau + excess / (slope + slope), tau)
    return tau


@njit
def safeguarded_step(step: Any, low: Any, high: Any, low_excess: Any, high_excess: Any) -> Any:
    """Return the Newton step if it is inside the bracket, and a secant step (regula falsi) otherwise.

    The secant step is restricted to the middle four fifths of the bracket, which otherwise might shrink from
    one side only, and slowly.
    """
    width = high - low
    crossing = low - width * low_excess / (high_excess - low_excess)
    crossing = minimum(maximum(crossing, low + 0.1 * width), high - 0.1 * width)
    return select_lanes((step > low) & (step < high), step, crossing)


@njit
def bounded_sparsemax_threshold(
    size: int, scores: int, upper: int, lower: int, low: Any, most: Any, full: Any
) -> Any:
    """Return the threshold tau of constrained sparsemax, p = clip(z - tau, lower, upper).

    Args:
        size: 64 S, for an even S.
        scores: Address of the scores.
        upper: Address of the upper bounds.
        lower: Address of the lower bounds, 0 if all are 0.
        low: The minimum of z - u, a lower end of the bracket.
        most: The sum of the upper bounds.
        full: The rows whose weights are all at their upper bounds, which are not solved.

    Returns:
        The threshold, and the rows for which it was not found.
    """
    high, low_excess, high_excess = fill_lanes(0.0), most - 1.0, fill_lanes(-1.0)
    # Initial value. With tight bounds the sum is nearly linear over the whole bracket, with loose bounds it
    # is nearly that of sparsemax. If a score is far below all others, the bracket is no guide.
    nearly = (most < 4.0) & (low > FAR_SCORE)
    tau = select_lanes(nearly, low - low * low_excess / most, maximum(low, fill_lanes(-1.0)))
    tau = select_lanes(full, low - 1.0, tau)
    searched = ~full
    for _ in range(MAX_STEPS):
        total, count, total2, count2 = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0)
        if lower:
            for at in range(0, size, 64):
                x, u, least = load_vector(scores + at) - tau, load_vector(upper + at), load_vector(lower + at)
                total += minimum(maximum(x, least), u)
                count = select_lanes((x > least) & (x < u), count + 1.0, count)
        else:
            for at in range(0, size, 128):
                x, x2 = load_vector(scores + at) - tau, load_vector(scores + at + 64) - tau
                p = minimum(maximum(x, fill_lanes(0.0)), load_vector(upper + at))
                p2 = minimum(maximum(x2, fill_lanes(0.0)), load_vector(upper + at + 64))
                total, total2 = total + p, total2 + p2
                count, count2 = (
                    select_lanes(p == x, count + 1.0, count),
                    select_lanes(p2 == x2, count2 + 1.0, count2),
                )
        excess, count = total + total2 - 1.0, count + count2
        # The tolerance is relative to the size of tau, which is at most 0.
        room = SUM_TOLERANCE - SUM_TOLERANCE * tau
        searched = searched & ((excess > room) | (excess < fill_lanes(0.0) - room))
        if not any_lane(searched):
            break
        above = excess > 0.0
        low, low_excess = select_lanes(above, tau, low), select_lanes(above, excess, low_excess)
        high, high_excess = select_lanes(above, high, tau), select_lanes(above, high_excess, excess)
        step = safeguarded_step(tau + excess / count, low, high, low_excess, high_excess)
        tau = select_lanes(searched, step, tau)
    return tau, searched


@njit
def sparsemax_edge(size: int, scores: int, upper: int, tau: Any, near: float) -> Any:
    """Return the threshold at which the first position leaves its upper bound, or tau if none is at one."""
    leaves = fill_lanes(_INF)
    for at in range(0, size, 64):
        z, u = load_vector(scores + at), load_vector(upper + at)
        leaves = select_lanes((u > 0.0) & (z - tau >= u - near), minimum(leaves, z - u), leaves)
    return select_lanes(leaves >= _INF, tau, leaves)


@njit
def bounded_softmax_factor(size: int, powers: int, upper: int, lower: int, total: Any, full: Any) -> Any:
    """Return the factor 1 / Z of constrained softmax, p = clip(exp(z) / Z, lower, upper).

    Args:
        size: 64 S.
        powers: Address of the exponentials of the scores.
        upper: Address of the upper bounds.
        lower: Address of the lower bounds, 0 if all are 0.
        total: The sum of the exponentials.
        full: The rows whose weights are all at their upper bounds, which are not solved.

    Returns:
        The factor, and the rows for which it was not found. The factor is infinite if no free position has an
        exponential above 0.
    """
    # Without lower bounds the sum is concave in the factor. A first step from above the solution ends below
    # it, and the following steps approach it from below.
    factor = select_lanes(full, fill_lanes(_INF), maximum(1.5 / total, fill_lanes(MIN_FACTOR)))
    low, high = fill_lanes(0.0), fill_lanes(_INF)
    searched = ~full
    for _ in range(MAX_STEPS):
        total, slope, total2, slope2 = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0)
        if lower:
            for at in range(0, size, 64):
                e, u, least = load_vector(powers + at), load_vector(upper + at), load_vector(lower + at)
                x = e * factor
                total += minimum(maximum(x, least), u)
                slope = select_lanes((x > least) & (x < u), slope + e, slope)
        else:
            for at in range(0, size, 128):
                e, u, e2, u2 = (
                    load_vector(powers + at),
                    load_vector(upper + at),
                    load_vector(powers + at + 64),
                    load_vector(upper + at + 64),
                )
                x, x2 = e * factor, e2 * factor
                total, total2 = total + minimum(x, u), total2 + minimum(x2, u2)
                slope, slope2 = (
                    select_lanes(x < u, slope + e, slope),
                    select_lanes(x2 < u2, slope2 + e2, slope2),
                )
        excess, slope = total + total2 - 1.0, slope + slope2
        searched = searched & ((excess > SUM_TOLERANCE) | (excess < -SUM_TOLERANCE))
        if not any_lane(searched):
            break
        low, high = select_lanes(excess < 0.0, factor, low), select_lanes(excess < 0.0, high, factor)
        step = factor - excess / slope
        outside = searched & ~((step > low) & (step < high))
        if any_lane(outside):
            # Bisect the bracket on a logarithmic scale. If its upper end is still unknown, go to the factor
            # at which the next position leaves its lower bound.
            following = fill_lanes(_INF)
            if lower:
                for at in range(0, size, 64):
                    e, least = load_vector(powers + at), load_vector(lower + at)
                    waits = (
                        (least > 0.0) & (e > 0.0) & (e * factor <= least) & (least < load_vector(upper + at))
                    )
                    following = select_lanes(waits, minimum(following, EDGE_OVERSHOOT * least / e), following)
            middle = sqrt(maximum(low, fill_lanes(TINY))) * sqrt(high)
            step = select_lanes(outside, select_lanes(high < _INF, middle, following), step)
            searched = searched & (step < _INF)
        factor = select_lanes(searched | outside, step, factor)
    return factor, searched


@njit
def softmax_edge(size: int, powers: int, upper: int, factor: Any, near: float) -> Any:
    """Return the factor at which the first position leaves its upper bound, or `factor` if none is at one."""
    leaves = fill_lanes(0.0)
    for at in range(0, size, 64):
        e, u = load_vector(powers + at), load_vector(upper + at)
        leaves = select_lanes((u > 0.0) & (e * factor >= (1.0 - near) * u), maximum(leaves, u / e), leaves)
    return select_lanes(leaves <= 0.0, factor, leaves)
