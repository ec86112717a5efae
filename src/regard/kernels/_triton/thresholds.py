"""Triton functions that solve the normalizers by Newton's method, on tiles of rows in registers.

A tile has the shape [K, R, L]: R rows of K L positions each; element (k, r, l) is position k L + l of row r.
Triton distributes the last dimension over the lanes of a warp first, and then the rows. Most additions of a
sum over a row are therefore within a lane. Values per row have the shape [1, R, 1].

All computations use the precision of the scores. A threshold (tau of sparsemax, log Z of softmax) is
therefore represented by two numbers, center + rest. The center is as large as the scores, and the difference
between a score and the center has a rounding error relative to its own size. The rest is small. If it becomes
large, the center is moved there and the threshold is computed again. The number of steps of every loop is
bounded for any input.
"""

# Triton compiles the following functions, which a type checker cannot analyze.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels._triton.reductions import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    INF,
    INVALID,
    LOWER,
    MAX_NEWTON_STEPS,
    MAX_RESTARTS,
    UPPER,
    any_row,
    one_minus_row_sum,
    recenter,
    row_max,
    row_min,
    row_sum,
    row_sum_min_max,
    row_sum_pair,
)

# Rows with a larger range of scores are solved relative to a score near the threshold.
# `_numba.extreme_scores` derives the method.
MAX_SCORE_RANGE = tl.constexpr(65536.0)
MAX_POSITIONS = tl.constexpr(1 << 14)  # maximum number of positions per row, and hence of steps


@triton.jit
def unbounded_weights(z, usable, KIND: tl.constexpr):
    """Return the weights of sparsemax or 1.5-entmax.

    The sum of the weights is convex in the threshold, so Newton steps from below approach the solution
    without overshooting. The last step is exact for sparsemax and has a quadratically small error for
    1.5-entmax; it is taken in either direction.
    """
    z = tl.where(usable, z, -INF)
    top = row_max(z)
    # 0 times infinity or NaN is NaN.
    sick = row_sum(tl.where(usable, z * 0.0, 0.0)) != 0.0
    x = z - tl.where(top > -INF, top, 0.0)
    if KIND == ENTMAX15:
        x = x * 0.5
        tolerance = 1e-5 if z.dtype == tl.float32 else 1e-8
    else:
        tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    tau = tl.zeros_like(top) - 1.0
    open_ = (top > -INF) & (sick == 0)
    going = any_row(open_)
    step = 0
    while going & (step < MAX_NEWTON_STEPS):
        y = tl.maximum(x - tau, 0.0)
        if KIND == ENTMAX15:
            mass, slope = row_sum_pair(y * y, y)
            slope = slope * 2.0
        else:
            mass, slope = row_sum_pair(y, (y > 0.0).to(y.dtype))
        excess = mass - 1.0
        tau = tl.where(open_ & (slope > 0.0), tau + excess / slope, tau)
        open_ = open_ & (excess > tolerance)
        going = any_row(open_)
        step += 1
    p = tl.maximum(x - tau, 0.0)
    if KIND == ENTMAX15:
        p = p * p
    return tl.where(usable, tl.where(sick, float("nan"), p), 0.0)


@triton.jit
def move_center(center, rest, low_end, high_end, solved):
    """Move the center to the threshold; also returns the rows to solve again, where it was far away."""
    distant = solved & (tl.abs(rest) > 2.0)
    center, rest, by = recenter(center, rest)
    # The ends of the bracket are no more precise than the threshold was.
    slip = tl.abs(by) * 1e-6
    return center, rest, low_end - by - slip, high_end - by + slip, distant


@triton.jit
def constrained_sparsemax_threshold(z, u, low, most, least, low_end, high_end, open_):
    """Return the threshold tau of constrained sparsemax as center and rest.

    Newton steps are used if they stay in the bracket. Otherwise the step is a secant step of the Illinois
    method (Dowell & Jarratt, 1971), and a bisection step every fourth time.

    Args:
        z: Scores, -inf where not usable.
        u: Upper bounds.
        low: Lower bounds.
        most: The sum of the upper bounds.
        least: The sum of the lower bounds.
        low_end: The threshold below which all positions are at their upper bounds.
        high_end: The threshold above which all positions are at their lower bounds.
        open_: The rows to solve.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    solved = open_
    f_low, f_high = most - 1.0, least - 1.0
    center = low_end + (high_end - low_end) * (f_low / (most - least))
    # With loose bounds the threshold is within 1 of the maximum score.
    center = tl.where(most > 5.0, tl.maximum(tl.minimum(center, high_end - 0.5), low_end), center)
    center = tl.where(open_, center, low_end)
    rest = tl.zeros_like(center)
    # Widen the bracket by the rounding errors of its ends; the sum is constant outside it.
    low_end = low_end - tl.abs(low_end) * 3e-7 - center
    high_end = high_end + tl.abs(high_end) * 3e-7 - center
    going = any_row(open_)
    turn = 0
    while going & (turn < MAX_RESTARTS):
        distance = z - center
        side = tl.zeros_like(center)
        step = 0
        while going & (step < MAX_NEWTON_STEPS):
            x = distance - rest
            p = tl.minimum(tl.maximum(x, low), u)
            mass, count = row_sum_pair(p, (p == x).to(p.dtype))
            excess = mass - 1.0
            slope = tl.maximum(count, 1.0)
            met = tl.abs(excess) <= tolerance + tolerance * slope * tl.maximum(tl.abs(rest) - 2.0, 0.0)
            over = excess > 0.0
            f_high = tl.where(over, tl.where(side > 0.0, f_high * 0.5, f_high), excess)
            f_low = tl.where(over, excess, tl.where(side < 0.0, f_low * 0.5, f_low))
            side = tl.where(over, 1.0, tl.zeros_like(side) - 1.0)
            low_end, high_end = tl.where(over, rest, low_end), tl.where(over, high_end, rest)
            newton = rest + excess / slope
            secant = low_end + (high_end - low_end) * (f_low / (f_low - f_high))
            inside = (secant > low_end) & (secant < high_end) & (step % 4 != 3)
            secant = tl.where(inside, secant, low_end * 0.5 + high_end * 0.5)
            inside = (count > 0.0) & (newton > low_end) & (newton < high_end)
            goal = tl.where(inside, newton, secant)
            goal = tl.where(met, tl.where(count > 0.0, newton, rest), goal)
            rest = tl.where(open_, goal, rest)
            open_ = open_ & (met == 0) & (goal > low_end) & (goal < high_end)
            going = any_row(open_)
            step += 1
        center, rest, low_end, high_end, open_ = move_center(center, rest, low_end, high_end, solved)
        going = any_row(open_)
        turn += 1
    return center, rest


@triton.jit
def constrained_softmax_threshold(z, u, low, top, low_end, high_end, open_, wide):
    """Return the threshold log Z of constrained softmax as center and rest.

    Each step solves for the threshold under the assumption that the free positions stay free, which is exact
    if they do. If the result is outside the bracket, or no position is free, the bracket is bisected.

    Args:
        z: Scores, -inf where not usable.
        u: Upper bounds.
        low: Lower bounds.
        top: The maximum score with a positive upper bound.
        low_end: The threshold below which all positions are at their upper bounds.
        high_end: The threshold above which all positions are at their lower bounds.
        open_: The rows to solve.
        wide: The rows whose scores are relative to a score just below the threshold.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    solved = open_
    mass = row_sum(tl.where(u > 0.0, tl.exp(z - top), 0.0))
    center = tl.where(open_ & (wide == 0), top + tl.log(mass), low_end)
    rest = tl.zeros_like(center)
    low_end = low_end - tl.abs(low_end) * 3e-7 - 1e-5 - center
    # If the lower bounds sum to nearly 1, the other positions have a total weight of at most e^-50.
    high_end = tl.maximum(high_end, center) - center + 50.0
    going = any_row(open_)
    turn = 0
    while going & (turn < MAX_RESTARTS):
        distance = z - center
        step = 0
        while going & (step < MAX_NEWTON_STEPS):
            e = tl.exp(distance - rest)
            above = e >= u
            bound = above | (e <= low)
            left = one_minus_row_sum(tl.where(bound, tl.where(above, u, low), 0.0))
            mass = row_sum(tl.where(bound, 0.0, e))
            gap = mass - left
            met = tl.abs(gap) <= tolerance * left * (1.0 + tl.maximum(tl.abs(rest) - 2.0, 0.0))
            # If the bounds sum to 1, positions whose exponential underflows still have too much weight, so
            # the threshold is higher.
            met = met & (left > 0.0)
            over = gap >= 0.0
            low_end, high_end = tl.where(over, rest, low_end), tl.where(over, high_end, rest)
            share = (mass > 0.0) & (left > 0.0)
            gap = tl.where(share, gap, 0.0) / tl.where(share, left, 1.0)
            # log(1 + gap), by its Taylor series for a small gap, where 1 + gap would lose digits.
            goal = rest + tl.where(tl.abs(gap) < 1e-3, gap - 0.5 * gap * gap, tl.log(1.0 + gap))
            inside = share & (goal > low_end) & (goal < high_end)
            goal = tl.where(met | inside, goal, low_end * 0.5 + high_end * 0.5)
            rest = tl.where(open_, goal, rest)
            open_ = open_ & (met == 0) & (goal > low_end) & (goal < high_end)
            going = any_row(open_)
            step += 1
        center, rest, low_end, high_end, open_ = move_center(center, rest, low_end, high_end, solved)
        going = any_row(open_)
        turn += 1
    return center, rest


@triton.jit
def status_threshold(z, u, a, b, near, center, rest, full, bare):
    """Return the threshold that determines the status, as center and rest.

    If every position of a row is at a bound, any threshold of an interval gives the same weights. The result
    is then the end of this interval, where the first position leaves its upper bound. In other rows it is the
    threshold itself.

    Args:
        z: Scores.
        u: Upper bounds.
        a: The value of score - threshold at which a position reaches its lower bound.
        b: The value of score - threshold at which a position reaches its upper bound.
        near: Tolerance within which a position counts as being at its bound.
        center: Center of the threshold.
        rest: Rest of the threshold.
        full: The rows whose weights are all at their upper bounds.
        bare: The rows whose weights are all at their lower bounds.
    """
    x = (z - center) - rest
    strictly = row_max(((x > a + near) & (x < b - near)).to(tl.int32)) > 0
    held = (full | (strictly == 0)) & (bare == 0)
    if any_row(held):
        leaving = (u > 0.0) & (full | (x >= b - near))
        least = row_min(tl.where(leaving, x - b, INF))
        moves = held & (least < INF)
        at, _, _ = recenter(center, rest + tl.where(moves, least, 0.0))
        # Repeat from the new center: the first distance may have been large, with a large rounding error.
        least = row_min(tl.where(leaving, (z - at) - b, INF))
        center, rest = tl.where(moves, at, center), tl.where(moves, least, rest)
    return center, rest


@triton.jit
def reference_score(z, usable, u, low, full, wide, KIND: tl.constexpr):
    """Return the score next to the threshold: the one above it for sparsemax, below it for softmax.

    If the threshold is a score, the sum of the weights depends only on differences of scores. Each step tries
    the mean of the scores between a threshold at which the sum is at least 1 and one at which it is less.

    Args:
        z: Scores, -inf where not usable.
        usable: True where a position may be attended to.
        u: Upper bounds.
        low: Lower bounds.
        full: The rows whose weights are all at their upper bounds. For these, the function returns the
            minimum score with a positive upper bound.
        wide: The rows to compute.
        KIND: The normalizer.
    """
    bottom = row_min(tl.where(usable, z, INF))
    reached = tl.zeros_like(bottom) - INF
    missed = tl.zeros_like(bottom) + INF
    going = any_row(wide)
    step = 0
    while going & (step < MAX_POSITIONS):
        inside = usable & (z > reached) & (z < missed)
        count = row_sum(inside.to(z.dtype))
        # Divide before summing, since the sum may overflow.
        level = row_sum(tl.where(inside, z / tl.maximum(count, 1.0), 0.0))
        level = tl.maximum(level, row_min(tl.where(inside, z, INF)))
        level = tl.minimum(level, row_max(tl.where(inside, z, -INF)))
        x = tl.where(usable, z - level, -INF)
        if KIND == CONSTRAINED_SOFTMAX:
            x = tl.exp(x)
        enough = row_sum(tl.minimum(tl.maximum(x, low), u)) >= 1.0
        some_left = wide & (count > 0.0)
        reached = tl.where(some_left & enough, level, reached)
        missed = tl.where(some_left & (enough == 0), level, missed)
        going = any_row(some_left)
        step += 1
    if KIND == CONSTRAINED_SOFTMAX:
        below = row_max(tl.where(usable & (z <= reached), z, -INF))
        center = tl.where(below > -INF, below, bottom)
    else:
        above = row_min(tl.where(usable & (z >= missed), z, INF))
        center = tl.where(above < INF, above, row_max(tl.where(usable, z, -INF)))
    return tl.where(full, row_min(tl.where(u > 0.0, z, INF)), center)


@triton.jit
def edge_distances(z, x, u, a, b, near, full, wide):
    """Return score - threshold for the threshold at which the first position leaves its upper bound.

    This threshold may be far above the one that was computed. It determines the status in rows where every
    position is at a bound.

    Args:
        z: Scores before any shift.
        x: Score - threshold.
        u: Upper bounds.
        a: The value of score - threshold at which a position reaches its lower bound.
        b: The value of score - threshold at which a position reaches its upper bound.
        near: Tolerance within which a position counts as being at its bound.
        full: The rows whose weights are all at their upper bounds.
        wide: The rows to compute.

    Returns:
        The new differences; x in rows where a position is strictly between its bounds.
    """
    strictly = row_max(((x > a + near) & (x < b - near)).to(tl.int32)) > 0
    leaving = (u > 0.0) & (full | (x >= b - near))
    base = row_min(tl.where(leaving, z, INF))
    moves = wide & (full | (strictly == 0)) & (base < INF)
    distance = z - tl.where(moves, base, 0.0)
    end = row_min(tl.where(leaving, distance - b, INF))
    return tl.where(moves, distance - end, x)


@triton.jit
def constrained_weights(z, usable, u, low, KIND: tl.constexpr, LEAST: tl.constexpr):
    """Return the weights and the status of constrained softmax or constrained sparsemax.

    Args:
        z: Scores.
        usable: True where a position may be attended to.
        u: Upper bounds.
        low: Lower bounds.
        KIND: The normalizer.
        LEAST: Whether there are lower bounds other than 0.
    """
    near = 1e-6 if z.dtype == tl.float32 else 1e-9
    slack = 1e-4 if z.dtype == tl.float32 else 1e-9
    z = tl.where(usable, z, -INF)
    ordered = u >= -near
    if LEAST:
        low = tl.where(usable, low, 0.0)
        ordered = (low >= 0.0) & (low <= u + near)
    u = tl.where(usable, tl.minimum(u, 1.0), 0.0)
    # A score of NaN, or a lower bound above the upper one, makes the sum NaN, and the row infeasible.
    sound = tl.where(usable, tl.where(ordered, u + z * 0.0, float("nan")), 0.0)
    if KIND == CONSTRAINED_SOFTMAX:
        a, b = tl.log(low), tl.log(u)
        high = tl.where(low > 0.0, z - a, -INF)
    else:
        a, b = low, u
        high = z - low
    most, low_end, high_end = row_sum_min_max(sound, tl.where(u > 0.0, z - b, INF), high)
    least, bare = tl.zeros_like(most), most < -1.0
    full = most <= 1.0
    if KIND == CONSTRAINED_SOFTMAX:
        full = one_minus_row_sum(u) >= 0.0
    if LEAST:
        remaining = one_minus_row_sum(low)
        least, bare = 1.0 - remaining, (remaining <= 0.0) & (full == 0)
    fits = (most >= 1.0 - slack) & (least <= 1.0 + slack)
    open_ = fits & (full == 0) & (bare == 0)
    top = high_end
    if KIND == CONSTRAINED_SOFTMAX:
        top = row_max(tl.where(u > 0.0, z, -INF))
    wide = fits & (bare == 0) & (top - low_end > MAX_SCORE_RANGE)
    given = z
    if any_row(wide):
        z = tl.where(wide, z - reference_score(z, usable, u, low, full, wide, KIND), z)
        # For sparsemax the threshold is at most 1 below this score. For softmax it is above it, by the
        # logarithm of a ratio of masses.
        low_end = tl.where(wide, -1.0001 if KIND != CONSTRAINED_SOFTMAX else -0.0001, low_end)
        high_end = tl.where(wide, 0.0001 if KIND != CONSTRAINED_SOFTMAX else 50.0, high_end)
    if KIND == CONSTRAINED_SOFTMAX:
        center, rest = constrained_softmax_threshold(z, u, low, top, low_end, high_end, open_, wide)
    else:
        center, rest = constrained_sparsemax_threshold(z, u, low, most, least, low_end, high_end, open_)
    x = tl.where(bare, -INF, (z - center) - rest)
    p = x
    if KIND == CONSTRAINED_SOFTMAX:
        p = tl.exp(x)
    p = tl.minimum(tl.maximum(p, low), u)
    p = tl.where(full, u / tl.where(most > 0.0, most, 1.0), p)
    p = tl.where(usable, tl.where(fits, p, float("nan")), 0.0)
    center, rest = status_threshold(z, u, a, b, near, center, rest, full, bare)
    if any_row(wide):
        at_edge = edge_distances(given, x, u, a, b, near, full, wide)
        x = tl.where(wide, at_edge, tl.where(bare, -INF, (z - center) - rest))
    else:
        x = tl.where(bare, -INF, (z - center) - rest)
    where = tl.where(x > b + near, UPPER, tl.where(x > a + near, FREE, LOWER))
    return p, tl.where(usable, tl.where(fits, where, INVALID), 0).to(tl.uint8)
