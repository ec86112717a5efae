"""The maps' levels in Triton: tiles of rows held in registers, solved by Newton steps.

A tile is [K, R, L]: R rows of K L positions each, position k L + l. Triton deals a tile's last dimension to the lanes of
a warp first, then its rows, so that most of a sum over a row is additions within a lane. What belongs to a row is
[1, R, 1].

Everything is computed in the scores' own precision, so a level is kept as a pair, centre + rest: the centre is as large
as the scores and the difference of score and centre is rounded to its own size, not to theirs; the rest is small.
Loops end after a bounded number of steps whatever comes in.
"""

import triton
import triton.language as tl

__all__ = ["CONSTRAINED_SOFTMAX", "CONSTRAINED_SPARSEMAX", "ENTMAX15", "SPARSEMAX", "solve_bounded", "solve_free"]

SPARSEMAX, ENTMAX15 = tl.constexpr(0), tl.constexpr(1)
CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = tl.constexpr(2), tl.constexpr(3)
LOWER, FREE, UPPER = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)  # where a position rests; 0 where masked

STEPS = tl.constexpr(200)
INF = tl.constexpr(float("inf"))
NAN = tl.constexpr(float("nan"))
# The interpreter takes a reduction of pairs element by element.
PAIRS = tl.constexpr(not triton.knobs.runtime.interpret)


@triton.jit
def total(x):
    """The sum of every row."""
    return tl.sum(tl.sum(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def totals(x, y):
    """The sums of every row of two tiles, in one exchange between warps."""
    x, y = tl.sum(x, 0, keep_dims=True), tl.sum(y, 0, keep_dims=True)
    if PAIRS:
        x, y = tl.reduce((x, y), 2, _add_pairs, keep_dims=True)
    else:
        x, y = tl.sum(x, 2, keep_dims=True), tl.sum(y, 2, keep_dims=True)
    return x, y


@triton.jit
def greatest(x):
    """The greatest of every row."""
    return tl.max(tl.max(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def least_of(x):
    """The least of every row."""
    return tl.min(tl.min(x, 0, keep_dims=True), 2, keep_dims=True)


@triton.jit
def some(rows):
    """Whether it is so of any row of the tile: a scalar."""
    return tl.max(rows.to(tl.int32)) > 0


@triton.jit
def left_over(taken):
    """1 - the sum of every row, without the rounding of a sum near 1.

    Multiples of 2^-12 are added apart: their sum is exact.
    """
    whole = tl.floor(taken * 4096.0) * 0.000244140625
    exact, rest = totals(whole, taken - whole)
    return (1.0 - exact) - rest


@triton.jit
def recentre(centre, rest):
    """The same level with the centre as near to it as a number can be, and how far the centre moved.

    The rest is the exact rounding error of the sum (Knuth 1969, Sec. 4.2.2, Theorem B).
    """
    moved = centre + rest
    by = moved - centre
    return moved, (centre - (moved - by)) + (rest - by), by


@triton.jit
def sound(z, usable):
    """Scores with -inf where not usable and 0 for what is no number, and the rows that have such."""
    sick = usable & ((z != z) | (z == INF))
    return tl.where(usable, tl.where(sick, 0.0, z), -INF), greatest(sick.to(tl.int32)) > 0


@triton.jit
def solve_free(z, usable, KIND: tl.constexpr):
    """Sparsemax and 1.5-entmax: the weights.

    The sum is convex in the level, so Newton steps from below approach without passing it; the last, exact on its
    piece or quadratically near, is taken whichever way it goes.
    """
    z, sick = sound(z, usable)
    top = greatest(z)
    x = z - tl.where(top > -INF, top, 0.0)
    if KIND == ENTMAX15:
        x = x * 0.5
        tolerance = 1e-5 if z.dtype == tl.float32 else 1e-8
    else:
        tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    tau = tl.zeros_like(top) - 1.0
    moving = (top > -INF) & (sick == 0)
    going = some(moving)
    step = 0
    while going & (step < STEPS):
        y = tl.maximum(x - tau, 0.0)
        if KIND == ENTMAX15:
            mass, slope = totals(y * y, y)
            slope = slope * 2.0
        else:
            mass, slope = totals(y, (y > 0.0).to(y.dtype))
        excess = mass - 1.0
        tau = tl.where(moving & (slope > 0.0), tau + excess / slope, tau)
        moving = moving & (excess > tolerance)
        going = some(moving)
        step += 1
    p = tl.maximum(x - tau, 0.0)
    if KIND == ENTMAX15:
        p = p * p
    return tl.where(usable, tl.where(sick, NAN, p), 0.0)


@triton.jit
def sparse_level(z, u, low, most, least, shut):
    """The level tau of constrained sparsemax as centre and rest, for rows that are not shut.

    Newton steps where they stay in the bracket, else the secant of its ends, weighted (Dowell & Jarratt 1971, the
    Illinois method); every fourth of these halves it.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    low_end = least_of(tl.where(u > 0.0, z - u, INF))
    high_end = greatest(z - low)
    low_end = tl.where(low_end < INF, low_end, 0.0)
    high_end = tl.where(shut, low_end, high_end)
    # With room to spare the level is within 1 of the greatest score.
    f_low, f_high = most - 1.0, least - 1.0
    centre = low_end + (high_end - low_end) * (f_low / tl.where(shut, 1.0, f_low - f_high))
    centre = tl.where(most > 5.0, tl.maximum(tl.minimum(centre, high_end - 0.5), low_end), centre)
    centre = tl.where(shut, low_end, centre)
    rest = tl.zeros_like(centre)
    side = rest
    # Wider by the rounding of the ends; beyond them the sum stays what it is.
    low_end = low_end - tl.abs(low_end) * 3e-7 - centre
    high_end = high_end + tl.abs(high_end) * 3e-7 - centre
    open_ = shut == 0
    going = some(open_)
    step = 0
    while going & (step < STEPS):
        x = (z - centre) - rest
        inside = (x > low) & (x < u)
        mass, count = totals(tl.minimum(tl.maximum(x, low), u), inside.to(u.dtype))
        excess = mass - 1.0
        met = tl.abs(excess) <= tolerance
        over = excess > 0.0
        f_high = tl.where(over, tl.where(side > 0.0, f_high * 0.5, f_high), excess)
        f_low = tl.where(over, excess, tl.where(side < 0.0, f_low * 0.5, f_low))
        side = tl.where(over, 1.0, tl.zeros_like(side) - 1.0)
        low_end, high_end = tl.where(over, rest, low_end), tl.where(over, high_end, rest)
        newton = rest + excess / tl.maximum(count, 1.0)
        middle = low_end * 0.5 + high_end * 0.5
        secant = low_end + (high_end - low_end) * (f_low / tl.where(f_low > f_high, f_low - f_high, 1.0))
        secant = tl.where((secant > low_end) & (secant < high_end) & (step % 4 != 3), secant, middle)
        goal = tl.where((count > 0.0) & (newton > low_end) & (newton < high_end), newton, secant)
        goal = tl.where(met, newton, goal)
        goal = tl.where(open_, goal, rest)
        open_ = open_ & (met == 0) & (goal != rest)
        centre, rest, by = recentre(centre, goal)
        low_end, high_end = low_end - by, high_end - by
        going = some(open_)
        step += 1
    return centre, rest


@triton.jit
def soft_level(z, u, low, shut):
    """The level log Z of constrained softmax as centre and rest, for rows that are not shut.

    From the positions that are free at a level follows another, exact if they are free there too; where that leads
    out of the bracket, or nobody is free, the bracket is halved.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    top = greatest(tl.where(u > 0.0, z, -INF))
    top = tl.where(top > -INF, top, 0.0)
    mass = total(tl.where(u > 0.0, tl.exp(z - top), 0.0))
    centre = top + tl.where(mass > 0.0, tl.log(mass), 0.0)
    low_end = least_of(tl.where(u > 0.0, z - tl.log(u), INF))
    low_end = low_end - tl.abs(low_end) * 3e-7 - 1e-5 - centre
    high_end = greatest(tl.where(low > 0.0, z - tl.log(low), -INF))
    high_end = tl.maximum(high_end, centre) - centre + 50.0
    rest = tl.zeros_like(centre)
    open_ = shut == 0
    going = some(open_)
    step = 0
    while going & (step < STEPS):
        e = tl.exp((z - centre) - rest)
        bound = (e >= u) | (e <= low)
        left = left_over(tl.where(bound, tl.where(e >= u, u, low), 0.0))
        mass = total(tl.where(bound, 0.0, e))
        met = tl.abs(mass - left) <= tolerance * left
        over = mass > left
        low_end, high_end = tl.where(over, rest, low_end), tl.where(over, high_end, rest)
        share = (mass > 0.0) & (left > 0.0)
        ratio = tl.where(share, mass, 1.0) / tl.where(share, left, 1.0)
        near = tl.where(share, mass - left, 0.0) / tl.where(share, left, 1.0)
        goal = rest + tl.where(tl.abs(near) < 1e-3, near - 0.5 * near * near, tl.log(ratio))
        middle = low_end * 0.5 + high_end * 0.5
        goal = tl.where(met | (share & (goal > low_end) & (goal < high_end)), goal, middle)
        goal = tl.where(open_, goal, rest)
        open_ = open_ & (met == 0) & (goal != rest)
        centre, rest, by = recentre(centre, goal)
        low_end, high_end = low_end - by, high_end - by
        going = some(open_)
        step += 1
    return centre, rest


@triton.jit
def edge(z, a, b, candidates, centre, rest, full):
    """The end of the interval of levels in rows where nobody is strictly between the bounds; else the level.

    Args:
        z: Scores.
        a: Where the lower bounds begin to hold, as score - level.
        b: Where the upper ones do.
        candidates: The positions at an upper bound that is not 0.
        centre: Of the level.
        rest: Of the level.
        full: The rows that have their upper bounds all.
    """
    near = 1e-6 if z.dtype == tl.float32 else 1e-9
    x = (z - centre) - rest
    strictly = greatest(((x > a + near) & (x < b - near)).to(tl.int32)) > 0
    held = full | (strictly == 0)
    if some(held):
        leaves = least_of(tl.where(candidates, x - b, INF))
        moves = held & (leaves < INF)
        at, _, _ = recentre(centre, rest + tl.where(moves, leaves, 0.0))
        # Once more from there: the first distance may have been a great one.
        leaves = least_of(tl.where(candidates, (z - at) - b, INF))
        centre, rest = tl.where(moves, at, centre), tl.where(moves, leaves, rest)
    return centre, rest


@triton.jit
def solve_bounded(z, usable, u, low, KIND: tl.constexpr):
    """Constrained softmax and sparsemax: the weights, and where they rest.

    Args:
        z: Scores.
        usable: Whether a position may be attended.
        u: Upper bounds.
        low: Lower bounds.
        KIND: The map.
    """
    near = 1e-6 if z.dtype == tl.float32 else 1e-9
    slack = 1e-4 if z.dtype == tl.float32 else 1e-9
    z, sick = sound(z, usable)
    u = tl.where(usable, tl.where(u >= 1.0, 1.0, u), 0.0)
    low = tl.where(usable, low, 0.0)
    wrong = usable & ((low >= 0.0) & (low <= u + near) == 0)
    wrong = wrong | (u != u)
    if KIND == CONSTRAINED_SOFTMAX:
        spare, unmet = -left_over(u), left_over(low)
        most, least = spare + 1.0, 1.0 - unmet
        full, bare = spare <= 0.0, unmet <= 0.0
    else:
        most, least = totals(u, low)
        full, bare = most <= 1.0, least >= 1.0
    bare = bare & (full == 0)
    fits = (greatest(wrong.to(tl.int32)) == 0) & (most >= 1.0 - slack) & (least <= 1.0 + slack)
    fits = fits | (greatest(usable.to(tl.int32)) == 0)
    broken = sick | (fits == 0)
    shut = full | bare | broken
    if KIND == CONSTRAINED_SOFTMAX:
        centre, rest = soft_level(z, u, low, shut)
        # tl.log(0) is -inf: no level holds the position at its lower bound, each at its upper one.
        a, b = tl.log(low), tl.log(u)
    else:
        centre, rest = sparse_level(z, u, low, most, least, shut)
        a, b = low, u
    x = tl.where(bare, -INF, (z - centre) - rest)
    p = x
    if KIND == CONSTRAINED_SOFTMAX:
        p = tl.exp(x)
    p = tl.minimum(tl.maximum(p, low), u)
    p = tl.where(full, u / tl.where(most > 0.0, most, 1.0), p)
    p = tl.where(usable, tl.where(broken, NAN, p), 0.0)
    candidates = (u > 0.0) & (full | (x >= b - near)) & (bare == 0)
    centre, rest = edge(z, a, b, candidates, centre, rest, full)
    x = tl.where(bare, -INF, (z - centre) - rest)
    where = tl.where(x > b + near, UPPER, tl.where(x > a + near, FREE, LOWER))
    return p, tl.where(usable, where, 0).to(tl.uint8)
