"""Rows whose scores are far apart, in Triton: measured from the score next to the level (see `far`)."""

# Triton compiles what follows; to a type checker it is plain functions of unknown things.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels.triton_reductions import CONSTRAINED_SOFTMAX, INF, greatest, least_of, some, total

__all__ = ["centre_of", "edge_far"]

MOST = tl.constexpr(1 << 14)  # positions a row, hence steps


@triton.jit
def centre_of(z, usable, u, low, full, wide, KIND: tl.constexpr):
    """The score next to the level, above it for sparsemax and below it for softmax.

    What the weights sum to at a level that is a score takes differences of scores alone. The next level that
    is tried is the mean of the scores between the one known to reach 1 and the one known not to.

    Args:
        z: Scores, -inf where not usable.
        usable: Whether a position may be attended.
        u: Upper bounds.
        low: Lower bounds.
        full: The rows that have their upper bounds all: theirs is the least score with one above 0.
        wide: The rows that are asked for.
        KIND: The map.
    """
    bottom = least_of(tl.where(usable, z, INF))
    reached = tl.zeros_like(bottom) - INF
    missed = tl.zeros_like(bottom) + INF
    going = some(wide)
    step = 0
    while going & (step < MOST):
        inside = usable & (z > reached) & (z < missed)
        count = total(inside.to(z.dtype))
        # Divided before they are added: the sum may be beyond the greatest number.
        level = total(tl.where(inside, z / tl.maximum(count, 1.0), 0.0))
        level = tl.maximum(level, least_of(tl.where(inside, z, INF)))
        level = tl.minimum(level, greatest(tl.where(inside, z, -INF)))
        x = tl.where(usable, z - level, -INF)
        if KIND == CONSTRAINED_SOFTMAX:
            x = tl.exp(x)
        enough = total(tl.minimum(tl.maximum(x, low), u)) >= 1.0
        some_left = wide & (count > 0.0)
        reached = tl.where(some_left & enough, level, reached)
        missed = tl.where(some_left & (enough == 0), level, missed)
        going = some(some_left)
        step += 1
    if KIND == CONSTRAINED_SOFTMAX:
        below = greatest(tl.where(usable & (z <= reached), z, -INF))
        centre = tl.where(below > -INF, below, bottom)
    else:
        above = least_of(tl.where(usable & (z >= missed), z, INF))
        centre = tl.where(above < INF, above, greatest(tl.where(usable, z, -INF)))
    return tl.where(full, least_of(tl.where(u > 0.0, z, INF)), centre)


@triton.jit
def edge_far(z, x, u, a, b, near, full, wide):
    """Score - level where the first position leaves its upper bound, which may be far above the level.

    Args:
        z: Scores, as they were given.
        x: Score - level.
        u: Upper bounds.
        a: Where the lower bounds begin to hold, as score - level.
        b: Where the upper ones do.
        near: How near its bound a position counts as meeting it.
        full: The rows that have their upper bounds all.
        wide: The rows that are asked for.

    Returns:
        x in rows where a position is strictly between its bounds.
    """
    strictly = greatest(((x > a + near) & (x < b - near)).to(tl.int32)) > 0
    leaving = (u > 0.0) & (full | (x >= b - near))
    base = least_of(tl.where(leaving, z, INF))
    moves = wide & (full | (strictly == 0)) & (base < INF)
    distance = z - tl.where(moves, base, 0.0)
    end = least_of(tl.where(leaving, distance - b, INF))
    return tl.where(moves, distance - end, x)
