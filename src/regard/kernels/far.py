"""A second solver pass for rows whose threshold is far below their maximum score.

The threshold tau is that of constrained sparsemax, p = clip(z - tau, lower, upper), or log Z in constrained
softmax, p = clip(exp(z - tau), lower, upper). The first pass (`solving`) subtracts the maximum score from all
scores. If tau is then -1e16, for example, rounding in double precision loses the weights z - tau in [0, 1],
and the subtraction has made different scores equal.

The second pass subtracts a score near the threshold instead. This score is found without the threshold: if
tau is itself a score z_k, the sum of the weights depends only on differences of scores, and each difference
is exact to its last bit. The sum decreases as tau increases. The scores at which it is less than 1 are
therefore all scores from some score on, and the threshold lies between that score and the next lower one.

- Sparsemax: positions with higher scores are at their upper bounds, which are at most 1, until tau is within
  1 of the lowest of these scores. Scores below it have no effect before that. Hence tau is at most 1 below
  the minimum score at which the sum is less than 1.
- Softmax: for tau below a score, exp(z - tau) is greater than 1 and hence above its upper bound. Only lower
  scores have free weights, and tau exceeds the maximum of these by the logarithm of a ratio of masses.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, exp, maximum, minimum, select, spread
from regard.kernels.places import CONSTRAINED_SPARSEMAX
from regard.kernels.solving import rest_soft, rest_sparse, solve_soft, solve_sparse
from regard.kernels.tiles import load, store

__all__ = ["hide", "solve_again"]

INF = float("inf")
FURTHEST = 1e300  # maximum absolute difference between a score and the reference score


@njit
def hide(size: int, scores: int, mask: int) -> None:
    """Set scores to -inf where the mask is False; `mask` is 0 if there is none."""
    if mask:
        for at in range(0, size, 64):
            store(scores + at, select(load(mask + at) > 0.0, load(scores + at), spread(-INF)))


@njit
def _total(kind: int, size: int, raw: int, u: int, low: int, level: Any) -> Any:
    """Return the sum of the weights of each row for a given threshold."""
    total = spread(0.0)
    for at in range(0, size, 64):
        x = load(raw + at) - level
        if kind != CONSTRAINED_SPARSEMAX:
            x = exp(x)
        total += minimum(maximum(x, load(low + at) if low else spread(0.0)), load(u + at))
    return total


@njit
def _between(kind: int, size: int, raw: int, u: int, low: int) -> Any:
    """Return two thresholds without a score between them: the sum of the weights is >= 1 at the first only.

    Each iteration tries the mean of the scores between the two. This usually takes few iterations, and at
    worst one per score, for any distances between the scores.
    """
    reached, missed = spread(-INF), spread(INF)
    for _ in range(size // 64 + 1):
        total, count, least, most = spread(0.0), spread(0.0), spread(INF), spread(-INF)
        for at in range(0, size, 64):
            z = load(raw + at)
            inside = (z > reached) & (z < missed)
            total, count = select(inside, total + z, total), select(inside, count + 1.0, count)
            least, most = select(inside, minimum(z, least), least), select(inside, maximum(z, most), most)
        inside = count > 0.0
        if not any_lane(inside):
            break
        level = minimum(maximum(total / count, least), most)
        enough = _total(kind, size, raw, u, low, level) >= 1.0
        reached, missed = (
            select(inside & enough, level, reached),
            select(inside & ~enough, level, missed),
        )
    return reached, missed


@njit
def _centre(kind: int, size: int, raw: int, u: int, low: int, full: Any, again: Any) -> Any:
    """Return the reference score of each row, which is near the threshold.

    In rows whose weights are all at their upper bounds (`full`) it is the minimum score with a positive
    bound. In rows that are not solved again it is the maximum score, as in the first pass.
    """
    reached, missed = _between(kind, size, raw, u, low)
    above, below, least, most, last = spread(INF), spread(-INF), spread(INF), spread(-INF), spread(INF)
    for at in range(0, size, 64):
        z = load(raw + at)
        usable = z > -INF
        above = select(usable & (z >= missed), minimum(z, above), above)
        below = select(usable & (z <= reached), maximum(z, below), below)
        least, most = select(usable, minimum(z, least), least), maximum(z, most)
        last = select(usable & (load(u + at) > 0.0), minimum(z, last), last)
    center = select(above < INF, above, most)
    if kind != CONSTRAINED_SPARSEMAX:
        center = select(below > -INF, below, least)
    return select(again, select(full, last, center), most)


@njit
def solve_again(
    kind: int,
    size: int,
    raw: int,
    z: int,
    powers: int,
    u: int,
    low: int,
    most: Any,
    infeasible: Any,
    again: Any,
    poison: Any,
    wide: int,
    rests: int,
) -> Any:
    """Solve a block of rows again, some relative to a score near the threshold, the others as before.

    Args:
        kind: The normalizer.
        size: 64 S, the size of a block of vectors in bytes.
        raw: Address of the scores before any shift, -inf at masked positions.
        z: Address of the output for the weights of constrained softmax; scratch memory for sparsemax.
        powers: Address of the output for the weights of constrained sparsemax; scratch memory for softmax.
        u: Address of the upper bounds, clipped to 1.
        low: Address of the lower bounds, 0 if all are 0.
        most: The sum of the upper bounds.
        infeasible: The infeasible rows.
        again: The rows to solve relative to a score near the threshold.
        poison: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        rests: Address of the output for the status of the positions.

    Returns:
        The rows whose threshold was not found. Their weights are NaN.
    """
    near = 1e-9 if wide else 1e-6
    center = _centre(kind, size, raw, u, low, (most <= 1.0) | infeasible, again)
    first = spread(INF)
    for at in range(0, size, 64):
        score = load(raw + at)
        x = maximum(minimum(score - center, spread(FURTHEST)), spread(-FURTHEST))
        store(z + at, select(score != spread(-INF), x, spread(-INF)))
        bound = load(u + at)
        first = select(bound > 0.0, minimum(first, x - bound), first)
    if kind == CONSTRAINED_SPARSEMAX:
        first = select(again, maximum(first, spread(-1.0)), first)
        unsolved, _, tau = solve_sparse(size, z, u, low, first, most, infeasible, poison, wide, powers, rests)
        _settle_sparse(size, raw, z, u, low, tau, again, near, rests)
    else:
        unsolved, _, factor, held = solve_soft(size, z, powers, u, low, most, infeasible, poison, wide, rests)
        _settle_soft(size, raw, powers, u, low, factor, held & again, near, rests)
    return unsolved


@njit
def _settle_sparse(
    size: int, raw: int, z: int, u: int, low: int, tau: Any, again: Any, near: float, rests: int
) -> None:
    """Set the status of sparsemax in rows where every position is at a bound.

    There the threshold may be any value of an interval. The status is that at the end of the interval, where
    the first position leaves its upper bound, as in `solving`. Its score may be far above the threshold.
    """
    free, base = spread(0.0), spread(INF)
    for at in range(0, size, 64):
        x, bound = load(z + at) - tau, load(u + at)
        least = load(low + at) if low else spread(0.0)
        free = select((x > least + near) & (x < bound - near), spread(1.0), free)
        base = select((bound > 0.0) & (x >= bound - near), minimum(base, load(raw + at)), base)
    held = again & (free < 1.0) & (base < INF)
    edge = spread(INF)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(z + at) - tau >= bound - near)
        edge = select(leaves, minimum(edge, (load(raw + at) - base) - bound), edge)
    for at in range(0, size, 64):
        least = load(low + at) if low else spread(0.0)
        rest = rest_sparse((load(raw + at) - base) - edge, load(u + at), least, near)
        store(rests + at, select(held & (load(raw + at) != spread(-INF)), rest, load(rests + at)))


@njit
def _settle_soft(
    size: int, raw: int, powers: int, u: int, low: int, factor: Any, held: Any, near: float, rests: int
) -> None:
    """Set the status of softmax in the rows `held`, in which no position is free; see `_settle_sparse`."""
    base = spread(INF)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(powers + at) * factor >= (1.0 - near) * bound)
        base = select(leaves, minimum(base, load(raw + at)), base)
    held = held & (base < INF)
    edge = spread(0.0)
    for at in range(0, size, 64):
        bound = load(u + at)
        leaves = (bound > 0.0) & (load(powers + at) * factor >= (1.0 - near) * bound)
        edge = select(leaves, maximum(edge, bound * exp(base - load(raw + at))), edge)
    for at in range(0, size, 64):
        least = load(low + at) if low else spread(0.0)
        rest = rest_soft(exp(load(raw + at) - base) * edge, load(u + at), least, near)
        store(rests + at, select(held & (load(raw + at) != spread(-INF)), rest, load(rests + at)))
