"""Weights of one row for each normalizer, in plain loops that LLVM vectorizes.

A row is a set of arrays in scratch memory, as long as the row or longer: the scores are -inf and the bounds 0
at masked positions and beyond the end of the row. A length that is a multiple of `PADDING` avoids the scalar
loops for the last positions, which would take as long as the vector loops.

Each solver finds the threshold tau at which the weights sum to 1 by Newton's method. The sum is a piecewise
simple function of tau, and a Newton step within the segment of the solution is exact. Without upper bounds
the sum is convex, so that the steps approach the solution from one side. With bounds on both sides a step may
leave the bracket, the interval that must contain the solution. It is then replaced by one that divides the
bracket.

A solver returns False if the row needs more than the precision of its arrays: its threshold is too far below
the maximum score, or exponentials that matter underflow. The caller then solves it in float64, and at last
uses the reference.

Sums may be reordered (`reassoc`), which vectorization needs. Functions that write arrays are inlined, so that
LLVM need not check at run time whether the arrays overlap.
"""

import math

import numpy as np

from regard.kernels._numba.rows import PADDING
from regard.kernels.compilation import njit
from regard.kernels.normalizers import CONSTRAINED_SPARSEMAX, ENTMAX15, FREE, LOWER, UPPER

MAX_STEPS = 200  # maximum number of steps, more than bisection needs
SUM_TOLERANCE = 1e-13  # tolerance of the sum of the weights
MAX_DISTANCE = 4096.0  # maximum distance of the threshold from the maximum score
MAX_OFFSET = 32.0  # magnitude of the maximum score from which on the scores are shifted
MAX_SCORE = 1e290  # maximum score; a difference of larger scores may overflow
MAX_FACTOR = 1e250  # a factor above which exponentials that underflow to 0 may matter
MAX_EXPONENT = 700.0  # an exponent whose exponential is a normal double, as is its inverse
MAX_FACTOR_SINGLE, MAX_EXPONENT_SINGLE = 1e20, 80.0  # the same limits in float32
SINGLE_TOLERANCE = 1e-6  # last step to the threshold of a row in float32
NEGLIGIBLE, NEGLIGIBLE_SINGLE = 1e-13, 2e-7  # weights that cannot be distinguished from rounding errors

SUMS = {"reassoc", "contract"}


@njit(fastmath={"contract"})
def exp(x):
    """Return the exponential of a float32 with a relative error of at most 1e-7, or 0 for x < -87.

    exp(x) = 2^n exp(r) with x = n log 2 + r and |r| <= log(2) / 2, by the Taylor series of exp(r) up to r^7.
    Unlike the function of the C library, loops over it are vectorized.
    """
    real, integer = np.float32, np.int32
    bounded = x if x > real(-87.0) else real(-87.0)
    # Adding 1.5 * 2^23 leaves the nearest integer in the last bits of the sum.
    shifted = bounded * real(1.4426950408889634) + real(12582912.0)
    n = shifted - real(12582912.0)
    r = (bounded - n * real(0.693359375)) - n * real(-2.12194440e-4)
    y = real(1.0 / 5040.0)
    y = y * r + real(1.0 / 720.0)
    y = y * r + real(1.0 / 120.0)
    y = y * r + real(1.0 / 24.0)
    y = y * r + real(1.0 / 6.0)
    y = y * r + real(0.5)
    y = y * r + real(1.0)
    y = y * r + real(1.0)
    power = integer(integer(real(shifted).view(integer) + integer(127)) << integer(23)).view(real)
    return y * power if x >= real(-87.0) else real(0.0)


@njit(inline="always")
def _maximum(values, lanes):
    """Return the maximum; NaN is ignored or returned. `lanes` is scratch memory of `PADDING` elements.

    LLVM does not vectorize a loop with one maximum, because Numba has no way to exclude NaN.
    """
    for k in range(PADDING):
        lanes[k] = values[k]
    for i in range(PADDING, len(values), PADDING):
        for k in range(PADDING):
            lanes[k] = values[i + k] if values[i + k] > lanes[k] else lanes[k]
    top = lanes[0]
    for k in range(1, PADDING):
        top = lanes[k] if lanes[k] > top else top
    return top


@njit(inline="always")
def _center_scores(z, lanes):
    """Return the maximum of the scores, which are shifted in float64 if it is far from 0.

    The result is -inf if no position may be attended to, and NaN if the maximum is NaN or too large.
    """
    top = np.float64(_maximum(z, lanes))
    if -MAX_OFFSET <= top <= MAX_OFFSET or top == -np.inf:
        return top
    if not top <= MAX_SCORE or z.itemsize == 4:
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
    top = _center_scores(z, p)
    sick = 0.0
    for i in range(len(z)):
        # 0 times infinity or NaN is NaN.
        sick += z[i] * 0.0 if z[i] != -np.inf else 0.0
    if np.isnan(top + sick):
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


@njit(fastmath=SUMS, error_model="numpy")
def _clip_bounds(z, u, low, tie_tolerance, sum_tolerance):
    """Clip the upper bounds to 1, and set both bounds to 0 where the score is -inf.

    Returns:
        The sum of the upper bounds, or NaN if an operand is NaN or the row is infeasible; and the mean and
        the variance of the scores, weighted by the upper bounds.
    """
    real = z.dtype.type
    zero, one, masked, near = real(0.0), real(1.0), real(-np.inf), real(tie_tolerance)
    most, least, bad, first, second = zero, zero, zero, zero, zero
    for i in range(len(z)):
        usable = z[i] != masked
        upper = (u[i] if not u[i] >= one else one) if usable else zero
        lower = low[i] if usable else zero
        bad += one if (upper < zero) | (lower < zero) | (lower > upper + near) | (z[i] != z[i]) else zero
        most += upper
        least += lower
        first += upper * z[i] if usable else zero
        second += upper * z[i] * z[i] if usable else zero
        u[i], low[i] = upper, lower
    mean = first / most
    infeasible = bad > zero or not most >= 1.0 - sum_tolerance or not least <= 1.0 + sum_tolerance
    return np.nan if infeasible else np.float64(most), mean, second / most - mean * mean


@njit(fastmath=SUMS)
def _sparsemax_sum(z, tau, u, low):
    """Return the sum of clip(z - tau, low, u) - 1 and the number of free positions."""
    real = z.dtype.type
    tau, total, count = real(tau), real(0.0), real(0.0)
    for i in range(len(z)):
        x = z[i] - tau
        p = x if x > low[i] else low[i]
        p = p if p < u[i] else u[i]
        total += p
        count += real(1.0) if p == x else real(0.0)
    return np.float64(total - real(1.0)), np.float64(count)


@njit(error_model="numpy")
def _sparsemax_threshold(z, tau, top, u, low, tolerance):
    """Return tau of p = clip(z - tau, low, u), NaN if it was not found; the search starts at `tau`."""
    start, stop, start_excess, stop_excess, last_count = -np.inf, top, 0.0, -1.0, 0.0
    for _ in range(MAX_STEPS):
        tau = np.float64(z.dtype.type(tau))
        excess, count = _sparsemax_sum(z, tau, u, low)
        step = excess / count if count > 0.0 else np.inf
        # A small step is exact within the segment, but may change many weights beyond it.
        if abs(step) <= tolerance and count == last_count:
            return tau + step
        last_count = count
        if (count == 0.0 and abs(excess) <= tolerance) or abs(excess) <= SUM_TOLERANCE * (1.0 + abs(tau)):
            return tau
        if excess > 0.0:
            start, start_excess = tau, excess
        else:
            stop, stop_excess = tau, excess
        tau += step
        if not start < tau < stop:
            # A secant step, restricted to the middle four fifths of the bracket, which otherwise might shrink
            # from one side only, and slowly. While the lower end is unknown, move on from the top.
            width = stop - start
            tau = start - width * start_excess / (stop_excess - start_excess)
            tau = min(max(tau, start + 0.1 * width), stop - 0.1 * width)
            if start == -np.inf:
                tau = stop - 0.5 * (top - stop) - 0.1
    return np.nan


@njit(inline="always")
def _solve_sparsemax(z, top, u, low, most, mean, variance, near, p, status):
    """Write the weights and the status of constrained sparsemax; returns whether it is exact."""
    real = z.dtype.type
    # Upper bounds that sum to 1 leave only one distribution. Sums slightly below 1 are rescaled.
    full = most <= 1.0
    tau = top - 1.0
    if most < 4.0:
        # With tight bounds the threshold is near a quantile of the scores, here of a normal distribution. A
        # score far below all others makes it useless.
        quantile = mean + (1.25 - 2.5 / most) * np.sqrt(abs(variance))
        tau = quantile if top - MAX_OFFSET < quantile < top else tau
    if full:
        tau = -np.inf
    else:
        tolerance, limit = (SINGLE_TOLERANCE, MAX_OFFSET) if z.itemsize == 4 else (0.0, MAX_DISTANCE)
        tau = _sparsemax_threshold(z, tau, top, u, low, tolerance)
        if not tau >= -limit:
            return False
    # The difference of a score and the threshold, as a sum of two numbers, is exact near 0.
    head = real(tau)
    tail = real(0.0 if full else tau - head)
    scale, tie, free = real(1.0 / most), real(near), False
    negligible = real(NEGLIGIBLE_SINGLE if z.itemsize == 4 else NEGLIGIBLE)
    for i in range(len(z)):
        x = (z[i] - head) - tail
        # A rounding error of the threshold must not make a weight of 0 positive.
        weight = x if x > low[i] + negligible else low[i]
        weight = weight if weight < u[i] else u[i]
        p[i] = u[i] * scale if full else weight
        state = np.uint8(FREE) if x > low[i] + tie else np.uint8(LOWER)
        state = np.uint8(UPPER) if x > u[i] + tie else state
        status[i] = state if z[i] > real(-np.inf) else np.uint8(0)
        free |= (x > low[i] + tie) & (x < u[i] - tie)
    if free:
        return True
    # Any threshold of an interval gives the same weights. The status, and with it the gradient, is that at
    # the end of the interval, where the first position leaves its upper bound. A bound that is a rounding
    # error, which an exhausted fertility may leave, does not count.
    edge = np.inf
    for i in range(len(z)):
        if u[i] > negligible and (z[i] - head) - tail >= u[i] - near:
            edge = min(edge, np.float64(z[i]) - u[i])
    for i in range(len(z)):
        if z[i] > -np.inf and edge < np.inf:
            x = z[i] - edge
            status[i] = UPPER if x > u[i] + near else FREE if x > low[i] + near else LOWER
    return not edge < -MAX_DISTANCE


@njit(fastmath=SUMS)
def _softmax_sum(real, e, factor, u, low):
    """Return the sum of clip(e factor, low, u) - 1 and its slope, computed in `real`."""
    factor, total, slope = real(factor), real(0.0), real(0.0)
    for i in range(len(e)):
        x = e[i] * factor
        p = x if x > low[i] else low[i]
        p = p if p < u[i] else u[i]
        total += p
        slope += e[i] if p == x else real(0.0)
    return np.float64(total - real(1.0)), np.float64(slope)


@njit(error_model="numpy")
def _softmax_factor(real, e, factor, u, low, tolerance, resolution):
    """Return the factor 1 / Z of p = clip(e / Z, low, u), NaN if it was not found.

    The search starts at `factor`. It computes sums in `real`, whose rounding errors are below `resolution`,
    and ends with a relative step of at most `tolerance`.
    """
    start, stop = 0.0, np.inf
    for _ in range(MAX_STEPS):
        excess, slope = _softmax_sum(real, e, factor, u, low)
        step = excess / slope if slope > 0.0 else np.inf
        if abs(step) <= tolerance * factor:
            return factor - step
        if abs(excess) <= resolution:
            return factor
        if excess < 0.0:
            start = factor
        else:
            stop = factor
        factor -= step
        if not start < factor < stop:
            # Bisect the bracket on a logarithmic scale, once its upper end is known.
            factor = np.sqrt(max(start, 1e-300)) * np.sqrt(stop) if stop < np.inf else 100.0 * start
    return np.nan


@njit(fastmath=SUMS)
def _exponentials(z, shift, e):
    """Write the exponentials of z - shift to `e`, and return their sum."""
    real = z.dtype.type
    shift, total = real(shift), real(0.0)
    for i in range(len(z)):
        e[i] = exp(z[i] - shift) if z.itemsize == 4 else math.exp(z[i] - shift)
        total += e[i]
    return np.float64(total)


@njit(inline="always")
def _solve_softmax(z, top, u, low, most, near, e, p, status):
    """Write the weights and the status of constrained softmax; returns whether they are exact."""
    real, single = z.dtype.type, z.itemsize == 4
    full = most <= 1.0
    shift = top
    if full:
        # Even the lowest score matters, for the status, so its exponential must not underflow.
        for i in range(len(z)):
            shift = np.float64(z[i]) if (u[i] > 0.0) & (z[i] < shift) else shift
        if shift < top - (MAX_EXPONENT_SINGLE if single else MAX_EXPONENT):
            return False
    # Without lower bounds the sum is concave in the factor. A first step from above the solution ends below
    # it, and the following steps approach it from below.
    factor = 1.5 / _exponentials(z, shift, e)
    if not full:
        tolerance, limit = (SINGLE_TOLERANCE, MAX_FACTOR_SINGLE) if single else (0.0, MAX_FACTOR)
        if single:
            factor = _softmax_factor(np.float32, e, factor, u, low, tolerance, tolerance)
        factor = _softmax_factor(np.float64, e, factor, u, low, tolerance, SUM_TOLERANCE)
        if not factor <= limit:
            return False
    scale, free = real(1.0 / most), False
    level, above, below = real(np.inf if full else factor), real(1.0 + near), real(1.0 - near)
    zero, negligible = real(0.0), real(NEGLIGIBLE)
    for i in range(len(z)):
        x = e[i] * level
        weight = x if x > low[i] else low[i]
        weight = weight if weight < u[i] else u[i]
        p[i] = u[i] * scale if full else weight
        state = np.uint8(FREE) if (x > above * low[i]) | (low[i] <= zero) else np.uint8(LOWER)
        state = np.uint8(UPPER) if (x > above * u[i]) | (u[i] <= zero) else state
        status[i] = state if z[i] > real(-np.inf) else np.uint8(0)
        free |= (x > above * low[i]) & (x < below * u[i]) & (x > negligible)
    if free:
        return True
    # As in `_solve_sparsemax`. Free positions whose weights are 0 up to rounding errors do not count.
    edge, negligible = 0.0, real(NEGLIGIBLE_SINGLE if single else NEGLIGIBLE)
    for i in range(len(z)):
        if u[i] > negligible and e[i] * level >= (1.0 - near) * u[i]:
            edge = max(edge, u[i] / np.float64(e[i]))
    for i in range(len(z)):
        if z[i] > -np.inf and edge > 0.0:
            x = e[i] * edge
            state = FREE if x > (1.0 + near) * low[i] or low[i] <= 0.0 else LOWER
            status[i] = UPPER if x > (1.0 + near) * u[i] or u[i] <= 0.0 else state
    return True


@njit(inline="always")
def solve_bounded(normalizer, z, u, low, near, slack, e, p, status):
    """Write the weights `p` and the status of a constrained normalizer.

    The scores z may be shifted, and the bounds u and low are clipped. `near` is the distance from a bound
    that counts as a tie, `slack` the tolerance of the sums of the bounds, and e scratch memory. Returns False
    if the row needs more than the precision of the arrays.
    """
    top = _center_scores(z, e)
    if np.isnan(top):
        return False
    if top == -np.inf:
        p[:], status[:] = 0.0, 0
        return True
    most, mean, variance = _clip_bounds(z, u, low, near, slack)
    if np.isnan(most):
        return False
    if normalizer == CONSTRAINED_SPARSEMAX:
        return _solve_sparsemax(z, top, u, low, most, mean, variance, near, p, status)
    return _solve_softmax(z, top, u, low, most, near, e, p, status)
