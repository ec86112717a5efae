"""Triton functions for rows with a large range of scores, solved relative to a score (see `far`)."""

# Triton compiles the following functions, which a type checker cannot analyze.
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportCallIssue=false

import triton
import triton.language as tl

from regard.kernels.triton_reductions import CONSTRAINED_SOFTMAX, INF, any_row, row_max, row_min, row_sum

__all__ = ["far_edge", "reference_score"]

MAX_POSITIONS = tl.constexpr(1 << 14)  # maximum number of positions per row, and hence of steps


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
def far_edge(z, x, u, a, b, near, full, wide):
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
