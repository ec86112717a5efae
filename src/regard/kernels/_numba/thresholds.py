"""Weights of one row for each normalizer, in plain loops that LLVM vectorizes.

A row is a set of float64 arrays in scratch memory, as long as the row or longer: the scores are -inf and the
bounds 0 at masked positions and beyond the end of the row. A length that is a multiple of `PADDING` avoids
the scalar loops for the last positions, which would take as long as the vector loops.

Each solver finds the threshold tau at which the weights sum to 1 by Newton's method. The sum is a piecewise
simple function of tau, and a Newton step within the segment of the solution is exact. Without upper bounds
the sum is convex, so that the steps approach the solution from one side. With bounds on both sides a step may
leave the bracket, the interval that must contain the solution. It is then replaced by one that divides the
bracket.

A solver returns False if the row needs more than float64: its threshold is more than `MAX_DISTANCE` below the
maximum score, or exponentials that matter underflow. The caller then uses the reference.

Sums may be reordered (`reassoc`), which vectorization needs. NaN and infinities keep their meaning, except in
`_maximum`, whose argument has no NaN.
"""

import numpy as np

from regard.kernels.compilation import njit
from regard.kernels.normalizers import CONSTRAINED_SPARSEMAX, ENTMAX15, FREE, LOWER, UPPER

MAX_STEPS = 200  # maximum number of steps, more than bisection needs
SUM_TOLERANCE = 1e-13  # tolerance of the sum of the weights
MAX_DISTANCE = 4096.0  # maximum distance of the threshold from the maximum score
MAX_OFFSET = 64.0  # magnitude of the maximum score from which on the scores are shifted
MAX_SCORE = 1e290  # maximum score; a difference of larger scores may overflow
MAX_FACTOR = 1e250  # a factor above which exponentials that underflow to 0 may matter
MIN_FACTOR = 1e-20  # a factor at which exponentials clipped to the maximum double exceed every bound
MAX_EXPONENT = 700.0  # an exponent whose exponential is a normal double, as is its inverse
EDGE_OVERSHOOT = 1.0 + 1e-12  # relative step past the point where a position leaves its bound
NEGLIGIBLE = 1e-13  # a weight that cannot be distinguished from rounding errors

SUMS = {"reassoc", "contract"}
# Adding 1.5 * 2^52 to a double leaves the nearest integer in the last bits of the sum.
_SHIFT = 6755399441055744.0
_BIAS, _MANTISSA = np.int64(1023), np.int64(52)


@njit(fastmath={"contract"})
def exp(x):
    """Return the exponential with an error of at most 2 units in the last place, or 0 for x < -708.

    exp(x) = 2^n exp(r) with x = n log 2 + r and |r| <= log(2) / 2. The Taylor series of exp(r) up to r^12 has
    a truncation error below 2e-16. Unlike the function of the C library, loops over it are vectorized.
    """
    bounded = x if x > -708.0 else -708.0
    shifted = bounded * 1.4426950408889634 + _SHIFT
    n = shifted - _SHIFT
    r = (bounded - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    y = 1.0 / 479001600.0
    y = y * r + 1.0 / 39916800.0
    y = y * r + 1.0 / 3628800.0
    y = y * r + 1.0 / 362880.0
    y = y * r + 1.0 / 40320.0
    y = y * r + 1.0 / 5040.0
    y = y * r + 1.0 / 720.0
    y = y * r + 1.0 / 120.0
    y = y * r + 1.0 / 24.0
    y = y * r + 1.0 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) + _BIAS) << _MANTISSA).view(np.float64)
    return y * power if x >= -708.0 else 0.0


@njit(fastmath={*SUMS, "nnan", "nsz"})
def _maximum(values):
    """Return the maximum, -inf if there are no values; LLVM vectorizes it only without NaN."""
    top = -np.inf
    for i in range(len(values)):
        top = values[i] if values[i] > top else top
    return top


@njit(fastmath=SUMS)
def _center_scores(z):
    """Return the maximum of the scores, which are shifted if it is far from 0.

    The result is -inf if no position may be attended to, and NaN if a score is NaN or +inf or the differences
    of the scores may overflow.
    """
    sick = 0.0
    for i in range(len(z)):
        # 0 times infinity or NaN is NaN.
        sick += z[i] * 0.0 if z[i] != -np.inf else 0.0
    if sick != 0.0:
        return np.nan
    top = _maximum(z)
    if -MAX_OFFSET <= top <= MAX_OFFSET or top == -np.inf:
        return top
    if top > MAX_SCORE:
        return np.nan
    for i in range(len(z)):
        z[i] -= top
    return 0.0


@njit(fastmath=SUMS, error_model="numpy")
def solve_unbounded(normalizer, z, p):
    """Write the weights of sparsemax or 1.5-entmax to `p`; returns False if the row needs the reference.

    p = max(z - tau, 0) (Martins & Astudillo, 2016), or its square for the halved scores of 1.5-entmax (Peters
    et al., 2019).
    """
    top = _center_scores(z)
    if np.isnan(top):
        return False
    if top == -np.inf:
        p[:] = 0.0
        return True
    tau = top - 1.0  # where the sum is at least 1
    for _ in range(MAX_STEPS):
        total, slope = 0.0, 0.0
        if normalizer == ENTMAX15:
            for i in range(len(z)):
                x = z[i] - tau if z[i] > tau else 0.0
                total += x * x
                slope += x + x
        else:
            for i in range(len(z)):
                total += z[i] - tau if z[i] > tau else 0.0
                slope += 1.0 if z[i] > tau else 0.0
        if total - 1.0 <= SUM_TOLERANCE:
            break
        tau += (total - 1.0) / slope
    for i in range(len(z)):
        # A rounding error of the threshold must not make a weight of 0 positive.
        x = z[i] - tau if z[i] - tau > NEGLIGIBLE else 0.0
        p[i] = x * x if normalizer == ENTMAX15 else x
    return True


@njit(fastmath=SUMS)
def _clip_bounds(z, u, low, tie_tolerance, sum_tolerance, edges):
    """Clip the upper bounds to 1, and set both bounds to 0 where the score is -inf.

    Write u - z, or -inf without an upper bound above 0, to `edges`.

    Returns:
        The sum of the upper bounds, or NaN if a bound is NaN or the row is infeasible.
    """
    most, least, bad = 0.0, 0.0, 0.0
    for i in range(len(z)):
        upper = (u[i] if not u[i] >= 1.0 else 1.0) if z[i] != -np.inf else 0.0
        lower = low[i] if z[i] != -np.inf else 0.0
        bad += 1.0 if (upper < 0.0) | (lower < 0.0) | (lower > upper + tie_tolerance) else 0.0
        most += upper
        least += lower
        u[i], low[i] = upper, lower
        edges[i] = upper - z[i] if upper > 0.0 else -np.inf
    infeasible = bad > 0.0 or not most >= 1.0 - sum_tolerance or not least <= 1.0 + sum_tolerance
    return np.nan if infeasible else most


@njit(fastmath=SUMS, error_model="numpy")
def _sparsemax_threshold(z, top, u, low, most, edges):
    """Return tau of p = clip(z - tau, low, u), NaN if it was not found; the bounds sum to more than 1."""
    # A bracket of tau: all weights are at their upper bounds, and at their lower bounds.
    start, stop, start_excess, stop_excess = -_maximum(edges), top, most - 1.0, -1.0
    # With tight bounds the sum is nearly linear over the whole bracket, with loose bounds it is nearly that
    # of sparsemax. If a score is far below all others, the bracket is no guide.
    tau = max(start, top - 1.0)
    if most < 4.0 and start > -MAX_DISTANCE:
        tau = start + (top - start) * start_excess / most
    for _ in range(MAX_STEPS):
        total, count = 0.0, 0
        for i in range(len(z)):
            x = z[i] - tau
            p = x if x > low[i] else low[i]
            p = p if p < u[i] else u[i]
            total += p
            count += p == x
        excess = total - 1.0
        if abs(excess) <= SUM_TOLERANCE * (1.0 + abs(tau)):
            return tau
        if excess > 0.0:
            start, start_excess = tau, excess
        else:
            stop, stop_excess = tau, excess
        tau += excess / count
        if not start < tau < stop:
            # A secant step, restricted to the middle four fifths of the bracket, which otherwise might shrink
            # from one side only, and slowly.
            width = stop - start
            tau = start - width * start_excess / (stop_excess - start_excess)
            tau = min(max(tau, start + 0.1 * width), stop - 0.1 * width)
    return np.nan


@njit(fastmath=SUMS, error_model="numpy")
def _solve_sparsemax(z, top, u, low, most, near, p, status):
    """Write the weights and the status of constrained sparsemax; returns whether it is exact."""
    # Upper bounds that sum to 1 leave only one distribution. Sums slightly below 1 are rescaled.
    full = most <= 1.0
    tau = -np.inf if full else _sparsemax_threshold(z, top, u, low, most, p)
    if not full and not tau >= -MAX_DISTANCE:
        return False
    scale, free = 1.0 / most, 0
    for i in range(len(z)):
        x = z[i] - tau
        # A rounding error of the threshold must not make a weight of 0 positive.
        weight = x if x > low[i] + NEGLIGIBLE else low[i]
        weight = weight if weight < u[i] else u[i]
        p[i] = u[i] * scale if full else weight
        state = FREE if x > low[i] + near else LOWER
        state = UPPER if x > u[i] + near else state
        status[i] = state if z[i] > -np.inf else 0
        free += (x > low[i] + near) & (x < u[i] - near)
    if free:
        return True
    # Any threshold of an interval gives the same weights. The status, and with it the gradient, is that at
    # the end of the interval, where the first position leaves its upper bound.
    edge = np.inf
    for i in range(len(z)):
        if u[i] > 0.0 and z[i] - tau >= u[i] - near:
            edge = min(edge, z[i] - u[i])
    for i in range(len(z)):
        if z[i] > -np.inf and edge < np.inf:
            x = z[i] - edge
            status[i] = UPPER if x > u[i] + near else FREE if x > low[i] + near else LOWER
    return not edge < -MAX_DISTANCE


@njit(fastmath=SUMS, error_model="numpy")
def _softmax_factor(e, u, low, total):
    """Return the factor 1 / Z of p = clip(e / Z, low, u), NaN if it was not found.

    It is infinite if no free position has an exponential above 0. The exponentials e sum to `total`, the
    upper bounds to more than 1.
    """
    # Without lower bounds the sum is concave in the factor. A first step from above the solution ends below
    # it, and the following steps approach it from below.
    factor = max(1.5 / total, MIN_FACTOR)
    start, stop = 0.0, np.inf
    for _ in range(MAX_STEPS):
        total, slope = 0.0, 0.0
        for i in range(len(e)):
            x = e[i] * factor
            p = x if x > low[i] else low[i]
            p = p if p < u[i] else u[i]
            total += p
            slope += e[i] if p == x else 0.0
        excess = total - 1.0
        if abs(excess) <= SUM_TOLERANCE:
            return factor
        if excess < 0.0:
            start = factor
        else:
            stop = factor
        factor -= excess / slope
        if not start < factor < stop:
            # Bisect the bracket on a logarithmic scale. If its upper end is still unknown, go to the factor
            # at which the next position leaves its lower bound.
            if stop < np.inf:
                factor = np.sqrt(max(start, 1e-300)) * np.sqrt(stop)
            else:
                factor = np.inf
                for i in range(len(e)):
                    waits = low[i] > 0.0 and e[i] > 0.0 and e[i] * start <= low[i] < u[i]
                    end = EDGE_OVERSHOOT * low[i] / e[i] if waits else np.inf
                    factor = end if end < factor else factor
                if factor == np.inf:
                    return factor
    return np.nan


@njit(fastmath=SUMS, error_model="numpy")
def _solve_softmax(z, top, u, low, most, near, e, p, status):
    """Write the weights and the status of constrained softmax; returns whether they are exact."""
    full = most <= 1.0
    shift = top
    if full:
        # Even the lowest score matters, for the status, so its exponential must not underflow.
        for i in range(len(z)):
            shift = z[i] if (u[i] > 0.0) & (z[i] < shift) else shift
        if shift < top - MAX_EXPONENT:
            return False
    total = 0.0
    for i in range(len(z)):
        e[i] = exp(z[i] - shift)
        total += e[i]
    factor = np.inf if full else _softmax_factor(e, u, low, total)
    if not full and not factor <= MAX_FACTOR:
        return False
    scale, free = 1.0 / most, 0.0
    for i in range(len(z)):
        x = e[i] * factor
        weight = x if x > low[i] else low[i]
        weight = weight if weight < u[i] else u[i]
        p[i] = u[i] * scale if full else weight
        state = FREE if (x > (1.0 + near) * low[i]) | (low[i] <= 0.0) else LOWER
        state = UPPER if (x > (1.0 + near) * u[i]) | (u[i] <= 0.0) else state
        status[i] = state if z[i] > -np.inf else 0
        free += x if (x > (1.0 + near) * low[i]) & (x < (1.0 - near) * u[i]) else 0.0
    if free > NEGLIGIBLE:
        return True
    # As in `_solve_sparsemax`. Free positions whose weights are 0 up to rounding errors do not count.
    edge = 0.0
    for i in range(len(z)):
        if u[i] > 0.0 and e[i] * factor >= (1.0 - near) * u[i]:
            edge = max(edge, u[i] / e[i])
    for i in range(len(z)):
        if z[i] > -np.inf and edge > 0.0:
            x = e[i] * edge
            state = FREE if x > (1.0 + near) * low[i] or low[i] <= 0.0 else LOWER
            status[i] = UPPER if x > (1.0 + near) * u[i] or u[i] <= 0.0 else state
    return True


@njit
def solve_bounded(normalizer, z, u, low, near, slack, e, p, status):
    """Write the weights `p` and the status of a constrained normalizer; returns False for the reference.

    The scores z may be shifted, and the bounds u and low are clipped. `near` is the distance from a bound
    that counts as a tie, `slack` the tolerance of the sums of the bounds, and e scratch memory.
    """
    top = _center_scores(z)
    if np.isnan(top):
        return False
    if top == -np.inf:
        p[:], status[:] = 0.0, 0
        return True
    most = _clip_bounds(z, u, low, near, slack, p)
    if np.isnan(most):
        return False
    if normalizer == CONSTRAINED_SPARSEMAX:
        return _solve_sparsemax(z, top, u, low, most, near, p, status)
    return _solve_softmax(z, top, u, low, most, near, e, p, status)
