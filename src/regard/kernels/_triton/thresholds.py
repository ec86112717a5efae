"""Triton functions that solve the normalizers by Newton's method, on tiles of rows in registers.

A tile has the shape [K, R, L]: R rows of K L positions each; element (k, r, l) is position k L + l of row r.
Triton distributes the last dimension over the lanes of a warp first, and then the rows. Most additions of a
sum over a row are therefore within a lane. Values per row have the shape [1, R, 1].

Sparsemax and 1.5-entmax are computed in the precision of the scores, relative to the maximum. The constrained
normalizers are computed in float64. If their scores are far apart, they are first shifted by a score next to
the threshold, because the difference of two scores is exact where the threshold itself would be rounded. The
number of steps of every loop is bounded for any input.
"""

# Triton compiles the following functions, which a type checker cannot analyze.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels import normalizers as codes

ENTMAX15, CONSTRAINED_SOFTMAX = tl.constexpr(codes.ENTMAX15), tl.constexpr(codes.CONSTRAINED_SOFTMAX)
LOWER, FREE = tl.constexpr(codes.LOWER), tl.constexpr(codes.FREE)
UPPER, INVALID = tl.constexpr(codes.UPPER), tl.constexpr(codes.INVALID)

INF = tl.constexpr(float("inf"))
MAX_NEWTON_STEPS = tl.constexpr(200)
MAX_POSITIONS = tl.constexpr(1 << 14)  # maximum number of positions per row
# Range of scores from which on they are shifted. Within it, exponentials are normal numbers, and a threshold
# has an error below 1e-13.
MAX_SCORE_RANGE = tl.constexpr(256.0)
MAX_EXPONENT = tl.constexpr(700.0)  # an exponent whose exponential is a normal number, as is its inverse
SUM_TOLERANCE = tl.constexpr(1e-13)  # tolerance of the sum of the weights
NEGLIGIBLE = tl.constexpr(1e-13)  # a mass that cannot be distinguished from rounding errors


@triton.jit
def row_sum(x):
    """Return the sum of every row."""
    return tl.sum(tl.sum(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def row_max(x):
    """Return the maximum of every row."""
    return tl.max(tl.max(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def row_min(x):
    """Return the minimum of every row."""
    return tl.min(tl.min(x, 0, keep_dims=True), 2, keep_dims=True)


INTERPRETED = not isinstance(row_sum, triton.JITFunction)
REDUCE_PAIRS = tl.constexpr(not INTERPRETED)  # the interpreter reduces pairs one element at a time


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def row_sum_pair(x, y):
    """Return the sums of every row of two tiles, with one exchange between warps."""
    x, y = tl.sum(x, 0, keep_dims=True), tl.sum(y, 0, keep_dims=True)
    if REDUCE_PAIRS:
        x, y = tl.reduce((x, y), 2, _add_pairs, keep_dims=True)
    else:
        x, y = tl.sum(x, 2, keep_dims=True), tl.sum(y, 2, keep_dims=True)
    return x, y


@triton.jit
def any_row(rows):
    """Return whether the condition holds for any row of the tile, as a scalar."""
    return tl.max(rows.to(tl.int32)) > 0


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
def _reference_score(z, usable, u, low, wide, KIND: tl.constexpr):
    """Return the score next to the threshold: the one above it for sparsemax, below it for softmax.

    If the threshold is a score, the sum of the weights depends only on differences of scores. Each step tries
    the mean of the scores between a threshold at which the sum is at least 1 and one at which it is less.
    Only the rows `wide` are computed.
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
            x = tl.exp(tl.minimum(x, MAX_EXPONENT))
        enough = row_sum(tl.minimum(tl.maximum(x, low), u)) >= 1.0
        some_left = wide & (count > 0.0)
        reached = tl.where(some_left & enough, level, reached)
        missed = tl.where(some_left & (enough == 0), level, missed)
        going = any_row(some_left)
        step += 1
    if KIND == CONSTRAINED_SOFTMAX:
        center = row_max(tl.where(usable & (z <= reached), z, -INF))
        return tl.where(center > -INF, center, bottom)
    center = row_min(tl.where(usable & (z >= missed), z, INF))
    return tl.where(center < INF, center, row_max(tl.where(usable, z, -INF)))


@triton.jit
def _sparsemax_threshold(z, u, low, start, stop, most, least, open_):
    """Return tau of p = clip(z - tau, low, u): Newton steps, or secant steps if those leave the bracket.

    At `start` all positions are at their upper bounds, which sum to `most`; at `stop` all are at their lower
    bounds, which sum to `least`. Only the rows `open_` are solved.
    """
    start_excess, stop_excess = most - 1.0, least - 1.0
    # With tight bounds the sum is nearly linear over the whole bracket, with loose bounds it is nearly that
    # of sparsemax.
    tau = tl.where(
        most < 4.0, start + (stop - start) * start_excess / (most - least), tl.maximum(start, stop - 1.0)
    )
    going = any_row(open_)
    step = 0
    while going & (step < MAX_NEWTON_STEPS):
        x = z - tau
        p = tl.minimum(tl.maximum(x, low), u)
        total, count = row_sum_pair(p, (p == x).to(p.dtype))
        excess = total - 1.0
        open_ = open_ & (tl.abs(excess) > SUM_TOLERANCE * (1.0 + tl.abs(tau)))
        over = excess > 0.0
        start, stop = tl.where(over, tau, start), tl.where(over, stop, tau)
        start_excess = tl.where(over, excess, start_excess)
        stop_excess = tl.where(over, stop_excess, excess)
        newton = tau + excess / tl.maximum(count, 1.0)
        # A bisection step every fourth time, because the bracket might shrink from one side only.
        share = tl.where(step % 4 == 3, 0.5, start_excess / (start_excess - stop_excess))
        share = tl.minimum(tl.maximum(share, 0.1), 0.9)
        inside = (count > 0.0) & (newton > start) & (newton < stop)
        tau = tl.where(open_, tl.where(inside, newton, start + (stop - start) * share), tau)
        going = any_row(open_)
        step += 1
    return tau


@triton.jit
def _softmax_factor(e, u, low, factor, start, stop, open_):
    """Return the factor 1 / Z of p = clip(e / Z, low, u), by Newton steps within a bracket.

    The exponentials e are 0 where the upper bound is 0. At `start` the sum is at most 1; at `stop` all
    positions are at their upper bounds. Only the rows `open_` are solved, from `factor` on.
    """
    going = any_row(open_)
    step = 0
    while going & (step < MAX_NEWTON_STEPS):
        x = e * factor
        p = tl.minimum(tl.maximum(x, low), u)
        total, slope = row_sum_pair(p, tl.where(p == x, e, 0.0))
        excess = total - 1.0
        open_ = open_ & (tl.abs(excess) > SUM_TOLERANCE)
        over = excess > 0.0
        start, stop = tl.where(over, start, factor), tl.where(over, factor, stop)
        newton = factor - excess / tl.where(slope > 0.0, slope, 1.0)
        inside = (slope > 0.0) & (newton > start) & (newton < stop)
        # Otherwise bisect the bracket on a logarithmic scale.
        factor = tl.where(open_, tl.where(inside, newton, tl.sqrt(start) * tl.sqrt(stop)), factor)
        going = any_row(open_)
        step += 1
    return factor


@triton.jit
def _edge_distances(z, x, u, b, near, full, held):
    """Return score - threshold for the threshold at which the first position leaves its upper bound.

    In rows where every position is at a bound, any threshold of an interval gives the same weights. The
    status, and with it the gradient, is that at the end of this interval. x is score - threshold, b its value
    at which a position reaches its upper bound; the rows `full` have all weights at their upper bounds, and
    x is returned for rows that are not `held`.
    """
    leaving = (u > 0.0) & (full | (x >= b - near))
    base = row_min(tl.where(leaving, z, INF))
    moves = held & (base < INF)
    distance = z - tl.where(moves, base, 0.0)
    end = row_min(tl.where(leaving, distance - b, INF))
    return tl.where(moves, distance - end, x)


@triton.jit
def constrained_weights(scores, usable, u, low, KIND: tl.constexpr):
    """Return the weights, in float64, and the status of constrained softmax or constrained sparsemax."""
    near = 1e-6 if scores.dtype == tl.float32 else 1e-9
    slack = 1e-4 if scores.dtype == tl.float32 else 1e-9
    z = tl.where(usable, scores.to(tl.float64), -INF)
    u = tl.where(usable, u.to(tl.float64), 0.0)
    u = tl.where(u >= 1.0, 1.0, u)  # unlike `minimum`, this keeps NaN
    low = tl.where(usable, low.to(tl.float64), 0.0)
    # A score of NaN or +inf times 0 is not 0.
    bad = usable & ((u < 0.0) | (low < 0.0) | (low > u + near) | (z * 0.0 != 0.0))
    most, least = row_sum_pair(u, low)
    fits = (most >= 1.0 - slack) & (least <= 1.0 + slack) & (row_max(bad.to(tl.int32)) == 0)
    # Bounds that sum to 1 leave only one distribution.
    full = most <= 1.0
    bare = (least >= 1.0) & (full == 0)
    open_ = fits & (full == 0) & (bare == 0)
    # The values of score - threshold at which a position reaches its bounds.
    a, b = low, u
    if KIND == CONSTRAINED_SOFTMAX:
        a, b = tl.log(low), tl.log(u)
    shifted = z - tl.where(open_, row_max(tl.where(u > 0.0, z, -INF)), 0.0)
    start = row_min(tl.where(u > 0.0, shifted - b, INF))  # where all positions are at their upper bounds
    wide = open_ & (start < -MAX_SCORE_RANGE)
    if any_row(wide):
        shifted = tl.where(wide, z - _reference_score(z, usable, u, low, wide, KIND), shifted)
    if KIND == CONSTRAINED_SOFTMAX:
        e = tl.where(u > 0.0, tl.exp(tl.minimum(shifted, MAX_EXPONENT)), 0.0)
        # With the shift, log Z is between 0 and a logarithm of a ratio of masses, and the sum may be huge.
        factor = tl.where(wide, 1.0, 1.5 / row_sum(e))
        last = tl.where(wide, 0.0001, tl.minimum(-start, MAX_EXPONENT))
        factor = _softmax_factor(e, u, low, factor, tl.zeros_like(factor) + 1e-300, tl.exp(last), open_)
        p = tl.minimum(tl.maximum(e * factor, low), u)
        x = shifted + tl.log(factor)
    else:
        # With the shift, the threshold is at most 1 below the score next to it.
        first = tl.where(wide, -1.0001, start)
        stop = tl.where(wide, 0.0001, tl.zeros_like(start))
        x = shifted - _sparsemax_threshold(shifted, u, low, first, stop, most, least, open_)
        p = tl.minimum(tl.maximum(x, low), u)
    x = tl.where(bare, -INF, x)
    p = tl.where(full, u / tl.where(most > 0.0, most, 1.0), tl.where(bare, low, p))
    free_mass = row_sum(tl.where((x > a + near) & (x < b - near), p, 0.0))
    held = fits & (bare == 0) & (full | (free_mass <= NEGLIGIBLE))
    if any_row(held):
        x = _edge_distances(z, x, u, b, near, full, held)
    status = tl.where(x > b + near, UPPER, tl.where(x > a + near, FREE, LOWER))
    p = tl.where(usable, tl.where(fits, p, float("nan")), 0.0)
    return p, tl.where(usable, tl.where(fits, status, INVALID), 0).to(tl.uint8)
