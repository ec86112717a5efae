"""The maps' levels in Triton: tiles of rows held in registers, solved by Newton steps.

A tile is [K, R, L]: R rows of K L positions each, position k L + l. Triton deals a tile's last dimension to
the lanes of a warp first, then its rows, so that most of a sum over a row is additions within a lane. What
belongs to a row is [1, R, 1].

Everything is computed in the scores' own precision, so a level is kept as a pair, centre + rest: the centre
is as large as the scores, and the difference of score and centre is rounded to its own size, not to theirs;
the rest is small. Where it has grown, the centre is moved there and the level is looked for once more. Every
loop ends after a bounded number of steps, whatever comes in.
"""

# Triton compiles what follows; to a type checker it is plain functions of unknown things.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels.triton_far import centre_of, edge_far
from regard.kernels.triton_reductions import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    INF,
    LOWER,
    STEPS,
    TURNS,
    UPPER,
    greatest,
    least_of,
    left_over,
    recentre,
    some,
    survey,
    total,
    totals,
)

__all__ = ["solve_bounded", "solve_free"]

FAR = tl.constexpr(65536.0)  # scores farther apart than this are measured from one near the level


@triton.jit
def solve_free(z, usable, KIND: tl.constexpr):
    """Sparsemax and 1.5-entmax: the weights.

    The sum is convex in the level, so Newton steps from below approach without passing it; the last, exact on
    its piece or quadratically near, is taken whichever way it goes.
    """
    z = tl.where(usable, z, -INF)
    top = greatest(z)
    sick = total(tl.where(usable, z * 0.0, 0.0)) != 0.0
    x = z - tl.where(top > -INF, top, 0.0)
    if KIND == ENTMAX15:
        x = x * 0.5
        tolerance = 1e-5 if z.dtype == tl.float32 else 1e-8
    else:
        tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    tau = tl.zeros_like(top) - 1.0
    open_ = (top > -INF) & (sick == 0)
    going = some(open_)
    step = 0
    while going & (step < STEPS):
        y = tl.maximum(x - tau, 0.0)
        if KIND == ENTMAX15:
            mass, slope = totals(y * y, y)
            slope = slope * 2.0
        else:
            mass, slope = totals(y, (y > 0.0).to(y.dtype))
        excess = mass - 1.0
        tau = tl.where(open_ & (slope > 0.0), tau + excess / slope, tau)
        open_ = open_ & (excess > tolerance)
        going = some(open_)
        step += 1
    p = tl.maximum(x - tau, 0.0)
    if KIND == ENTMAX15:
        p = p * p
    return tl.where(usable, tl.where(sick, float("nan"), p), 0.0)


@triton.jit
def step_out(centre, rest, low_end, high_end, solved):
    """Move the centre to the level; which of the solved rows had it far away and should look once more."""
    far = solved & (tl.abs(rest) > 2.0)
    centre, rest, by = recentre(centre, rest)
    # The ends are known no better than the level was.
    slip = tl.abs(by) * 1e-6
    return centre, rest, low_end - by - slip, high_end - by + slip, far


@triton.jit
def sparse_level(z, u, low, most, least, low_end, high_end, open_):
    """The level tau of constrained sparsemax as centre and rest.

    Newton steps where they stay in the bracket, else the secant of its ends, weighted (Dowell & Jarratt 1971,
    the Illinois method), or at every fourth step its middle.

    Args:
        z: Scores, -inf where not usable.
        u: Upper bounds.
        low: Lower bounds.
        most: The sum of the upper ones.
        least: The sum of the lower ones.
        low_end: The least level at which a position is at its upper bound.
        high_end: The greatest at which one is at its lower bound.
        open_: The rows that have a level.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    solved = open_
    f_low, f_high = most - 1.0, least - 1.0
    centre = low_end + (high_end - low_end) * (f_low / (most - least))
    # With room to spare the level is within 1 of the greatest score.
    centre = tl.where(most > 5.0, tl.maximum(tl.minimum(centre, high_end - 0.5), low_end), centre)
    centre = tl.where(open_, centre, low_end)
    rest = tl.zeros_like(centre)
    # Wider by the rounding of the ends; beyond them the sum stays what it is.
    low_end = low_end - tl.abs(low_end) * 3e-7 - centre
    high_end = high_end + tl.abs(high_end) * 3e-7 - centre
    going = some(open_)
    turn = 0
    while going & (turn < TURNS):
        distance = z - centre
        side = tl.zeros_like(centre)
        step = 0
        while going & (step < STEPS):
            x = distance - rest
            p = tl.minimum(tl.maximum(x, low), u)
            mass, count = totals(p, (p == x).to(p.dtype))
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
            going = some(open_)
            step += 1
        centre, rest, low_end, high_end, open_ = step_out(centre, rest, low_end, high_end, solved)
        going = some(open_)
        turn += 1
    return centre, rest


@triton.jit
def soft_level(z, u, low, top, low_end, high_end, open_, wide):
    """The level log Z of constrained softmax as centre and rest; the arguments are those of `sparse_level`.

    And `top`, the greatest score with an upper bound above 0; `wide`, the rows that are measured from a score
    just below the level.

    From the positions that are free at a level follows another, exact if they are free there too; where that
    leads out of the bracket, or nobody is free, the bracket is halved.
    """
    tolerance = 1e-6 if z.dtype == tl.float32 else 1e-13
    solved = open_
    mass = total(tl.where(u > 0.0, tl.exp(z - top), 0.0))
    centre = tl.where(open_ & (wide == 0), top + tl.log(mass), low_end)
    rest = tl.zeros_like(centre)
    low_end = low_end - tl.abs(low_end) * 3e-7 - 1e-5 - centre
    # Where the lower bounds are nearly everything, the others get e^-50 at the most.
    high_end = tl.maximum(high_end, centre) - centre + 50.0
    going = some(open_)
    turn = 0
    while going & (turn < TURNS):
        distance = z - centre
        step = 0
        while going & (step < STEPS):
            e = tl.exp(distance - rest)
            above = e >= u
            bound = above | (e <= low)
            left = left_over(tl.where(bound, tl.where(above, u, low), 0.0))
            mass = total(tl.where(bound, 0.0, e))
            gap = mass - left
            met = tl.abs(gap) <= tolerance * left * (1.0 + tl.maximum(tl.abs(rest) - 2.0, 0.0))
            # Where bounds take everything, those who underflow are still too many: the level is higher.
            met = met & (left > 0.0)
            over = gap >= 0.0
            low_end, high_end = tl.where(over, rest, low_end), tl.where(over, high_end, rest)
            share = (mass > 0.0) & (left > 0.0)
            gap = tl.where(share, gap, 0.0) / tl.where(share, left, 1.0)
            # log(1 + gap), which for a small one needs no logarithm and keeps its digits.
            goal = rest + tl.where(tl.abs(gap) < 1e-3, gap - 0.5 * gap * gap, tl.log(1.0 + gap))
            inside = share & (goal > low_end) & (goal < high_end)
            goal = tl.where(met | inside, goal, low_end * 0.5 + high_end * 0.5)
            rest = tl.where(open_, goal, rest)
            open_ = open_ & (met == 0) & (goal > low_end) & (goal < high_end)
            going = some(open_)
            step += 1
        centre, rest, low_end, high_end, open_ = step_out(centre, rest, low_end, high_end, solved)
        going = some(open_)
        turn += 1
    return centre, rest


@triton.jit
def edge(z, u, a, b, near, centre, rest, full, bare):
    """The end of the interval of levels in rows where nobody is strictly between the bounds; else the level.

    Args:
        z: Scores.
        u: Upper bounds.
        a: Where the lower bounds begin to hold, as score - level.
        b: Where the upper ones do.
        near: How near its bound a position counts as meeting it.
        centre: Of the level.
        rest: Of the level.
        full: The rows that have their upper bounds all.
        bare: The rows that have their lower bounds all.
    """
    x = (z - centre) - rest
    strictly = greatest(((x > a + near) & (x < b - near)).to(tl.int32)) > 0
    held = (full | (strictly == 0)) & (bare == 0)
    if some(held):
        leaving = (u > 0.0) & (full | (x >= b - near))
        least = least_of(tl.where(leaving, x - b, INF))
        moves = held & (least < INF)
        at, _, _ = recentre(centre, rest + tl.where(moves, least, 0.0))
        # Once more from there: the first distance may have been a great one.
        least = least_of(tl.where(leaving, (z - at) - b, INF))
        centre, rest = tl.where(moves, at, centre), tl.where(moves, least, rest)
    return centre, rest


@triton.jit
def solve_bounded(z, usable, u, low, KIND: tl.constexpr, LEAST: tl.constexpr):
    """Constrained softmax and sparsemax: the weights, and where they rest.

    Args:
        z: Scores.
        usable: Whether a position may be attended.
        u: Upper bounds.
        low: Lower bounds.
        KIND: The map.
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
    # A score that is no number, or bounds in disorder, make the sum none: no distribution fits that.
    sound = tl.where(usable, tl.where(ordered, u + z * 0.0, float("nan")), 0.0)
    if KIND == CONSTRAINED_SOFTMAX:
        a, b = tl.log(low), tl.log(u)
        high = tl.where(low > 0.0, z - a, -INF)
    else:
        a, b = low, u
        high = z - low
    most, low_end, high_end = survey(sound, tl.where(u > 0.0, z - b, INF), high)
    least, bare = tl.zeros_like(most), most < -1.0
    full = most <= 1.0
    if KIND == CONSTRAINED_SOFTMAX:
        full = left_over(u) >= 0.0
    if LEAST:
        unmet = left_over(low)
        least, bare = 1.0 - unmet, (unmet <= 0.0) & (full == 0)
    fits = (most >= 1.0 - slack) & (least <= 1.0 + slack)
    open_ = fits & (full == 0) & (bare == 0)
    top = high_end
    if KIND == CONSTRAINED_SOFTMAX:
        top = greatest(tl.where(u > 0.0, z, -INF))
    wide = fits & (bare == 0) & (top - low_end > FAR)
    given = z
    if some(wide):
        z = tl.where(wide, z - centre_of(z, usable, u, low, full, wide, KIND), z)
        # The level is at most 1 below the score that sparsemax has, and a logarithm above that of softmax.
        low_end = tl.where(wide, -1.0001 if KIND != CONSTRAINED_SOFTMAX else -0.0001, low_end)
        high_end = tl.where(wide, 0.0001 if KIND != CONSTRAINED_SOFTMAX else 50.0, high_end)
    if KIND == CONSTRAINED_SOFTMAX:
        centre, rest = soft_level(z, u, low, top, low_end, high_end, open_, wide)
    else:
        centre, rest = sparse_level(z, u, low, most, least, low_end, high_end, open_)
    x = tl.where(bare, -INF, (z - centre) - rest)
    p = x
    if KIND == CONSTRAINED_SOFTMAX:
        p = tl.exp(x)
    p = tl.minimum(tl.maximum(p, low), u)
    p = tl.where(full, u / tl.where(most > 0.0, most, 1.0), p)
    p = tl.where(usable, tl.where(fits, p, float("nan")), 0.0)
    centre, rest = edge(z, u, a, b, near, centre, rest, full, bare)
    if some(wide):
        far = edge_far(given, x, u, a, b, near, full, wide)
        x = tl.where(wide, far, tl.where(bare, -INF, (z - centre) - rest))
    else:
        x = tl.where(bare, -INF, (z - centre) - rest)
    where = tl.where(x > b + near, UPPER, tl.where(x > a + near, FREE, LOWER))
    return p, tl.where(usable, where, 0).to(tl.uint8)
