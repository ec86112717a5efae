"""A second solver pass for rows whose threshold is far below their maximum score.

The threshold tau is that of constrained sparsemax, p = clip(z - tau, lower, upper), or log Z in constrained
softmax, p = clip(exp(z - tau), lower, upper). The first pass (`weights`) subtracts the maximum score from all
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

from regard.kernels._numba.arithmetic import any_lane, exp, fill_lanes, maximum, minimum, select_lanes
from regard.kernels._numba.memory import load_vector, store_vector
from regard.kernels._numba.weights import (
    softmax_status,
    solve_constrained_softmax,
    solve_constrained_sparsemax,
    sparsemax_status,
)
from regard.kernels.compilation import njit
from regard.kernels.normalizers import CONSTRAINED_SPARSEMAX

_INF = float("inf")
MAX_SCORE_DISTANCE = 1e300  # maximum absolute difference between a score and the reference score


@njit
def apply_mask(size: int, scores: int, mask: int) -> None:
    """Set scores to -inf where the mask is False; `mask` is 0 if there is none."""
    if mask:
        for at in range(0, size, 64):
            store_vector(
                scores + at,
                select_lanes(load_vector(mask + at) > 0.0, load_vector(scores + at), fill_lanes(-_INF)),
            )


@njit
def _sum_weights(kind: int, size: int, raw: int, u: int, low: int, level: Any) -> Any:
    """Return the sum of the weights of each row for a given threshold."""
    total = fill_lanes(0.0)
    for at in range(0, size, 64):
        x = load_vector(raw + at) - level
        if kind != CONSTRAINED_SPARSEMAX:
            x = exp(x)
        total += minimum(maximum(x, load_vector(low + at) if low else fill_lanes(0.0)), load_vector(u + at))
    return total


@njit
def _bracket(kind: int, size: int, raw: int, u: int, low: int) -> Any:
    """Return two thresholds without a score between them: the sum of the weights is >= 1 at the first only.

    Each iteration tries the mean of the scores between the two. This usually takes few iterations, and at
    worst one per score, for any distances between the scores.
    """
    reached, missed = fill_lanes(-_INF), fill_lanes(_INF)
    for _ in range(size // 64 + 1):
        total, count, least, most = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(_INF), fill_lanes(-_INF)
        for at in range(0, size, 64):
            z = load_vector(raw + at)
            inside = (z > reached) & (z < missed)
            total, count = select_lanes(inside, total + z, total), select_lanes(inside, count + 1.0, count)
            least, most = (
                select_lanes(inside, minimum(z, least), least),
                select_lanes(inside, maximum(z, most), most),
            )
        inside = count > 0.0
        if not any_lane(inside):
            break
        level = minimum(maximum(total / count, least), most)
        enough = _sum_weights(kind, size, raw, u, low, level) >= 1.0
        reached, missed = (
            select_lanes(inside & enough, level, reached),
            select_lanes(inside & ~enough, level, missed),
        )
    return reached, missed


@njit
def _reference_score(kind: int, size: int, raw: int, u: int, low: int, full: Any, again: Any) -> Any:
    """Return the reference score of each row, which is near the threshold.

    In rows whose weights are all at their upper bounds (`full`) it is the minimum score with a positive
    bound. In rows that are not solved again it is the maximum score, as in the first pass.
    """
    reached, missed = _bracket(kind, size, raw, u, low)
    above, below, least, most, last = (
        fill_lanes(_INF),
        fill_lanes(-_INF),
        fill_lanes(_INF),
        fill_lanes(-_INF),
        fill_lanes(_INF),
    )
    for at in range(0, size, 64):
        z = load_vector(raw + at)
        usable = z > -_INF
        above = select_lanes(usable & (z >= missed), minimum(z, above), above)
        below = select_lanes(usable & (z <= reached), maximum(z, below), below)
        least, most = select_lanes(usable, minimum(z, least), least), maximum(z, most)
        last = select_lanes(usable & (load_vector(u + at) > 0.0), minimum(z, last), last)
    center = select_lanes(above < _INF, above, most)
    if kind != CONSTRAINED_SPARSEMAX:
        center = select_lanes(below > -_INF, below, least)
    return select_lanes(again, select_lanes(full, last, center), most)


@njit
def solve_shifted(
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
    nan_rows: Any,
    wide: int,
    status: int,
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
        nan_rows: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        status: Address of the output for the status of the positions.

    Returns:
        The rows whose threshold was not found. Their weights are NaN.
    """
    near = 1e-9 if wide else 1e-6
    center = _reference_score(kind, size, raw, u, low, (most <= 1.0) | infeasible, again)
    first = fill_lanes(_INF)
    for at in range(0, size, 64):
        score = load_vector(raw + at)
        x = maximum(minimum(score - center, fill_lanes(MAX_SCORE_DISTANCE)), fill_lanes(-MAX_SCORE_DISTANCE))
        store_vector(z + at, select_lanes(score != fill_lanes(-_INF), x, fill_lanes(-_INF)))
        bound = load_vector(u + at)
        first = select_lanes(bound > 0.0, minimum(first, x - bound), first)
    if kind == CONSTRAINED_SPARSEMAX:
        first = select_lanes(again, maximum(first, fill_lanes(-1.0)), first)
        unsolved, _, tau = solve_constrained_sparsemax(
            size, z, u, low, first, most, infeasible, nan_rows, wide, powers, status
        )
        _sparsemax_edge_status(size, raw, z, u, low, tau, again, near, status)
    else:
        unsolved, _, factor, held = solve_constrained_softmax(
            size, z, powers, u, low, most, infeasible, nan_rows, wide, status
        )
        _softmax_edge_status(size, raw, powers, u, low, factor, held & again, near, status)
    return unsolved


@njit
def _sparsemax_edge_status(
    size: int, raw: int, z: int, u: int, low: int, tau: Any, again: Any, near: float, status: int
) -> None:
    """Set the status of sparsemax in rows where every position is at a bound.

    There the threshold may be any value of an interval. The status is that at the end of the interval, where
    the first position leaves its upper bound, as in `weights`. Its score may be far above the threshold.
    """
    free, base = fill_lanes(0.0), fill_lanes(_INF)
    for at in range(0, size, 64):
        x, bound = load_vector(z + at) - tau, load_vector(u + at)
        least = load_vector(low + at) if low else fill_lanes(0.0)
        free = select_lanes((x > least + near) & (x < bound - near), fill_lanes(1.0), free)
        base = select_lanes((bound > 0.0) & (x >= bound - near), minimum(base, load_vector(raw + at)), base)
    held = again & (free < 1.0) & (base < _INF)
    edge = fill_lanes(_INF)
    for at in range(0, size, 64):
        bound = load_vector(u + at)
        leaves = (bound > 0.0) & (load_vector(z + at) - tau >= bound - near)
        edge = select_lanes(leaves, minimum(edge, (load_vector(raw + at) - base) - bound), edge)
    for at in range(0, size, 64):
        least = load_vector(low + at) if low else fill_lanes(0.0)
        rest = sparsemax_status((load_vector(raw + at) - base) - edge, load_vector(u + at), least, near)
        store_vector(
            status + at,
            select_lanes(held & (load_vector(raw + at) != fill_lanes(-_INF)), rest, load_vector(status + at)),
        )


@njit
def _softmax_edge_status(
    size: int, raw: int, powers: int, u: int, low: int, factor: Any, held: Any, near: float, status: int
) -> None:
    """Set the status of softmax in the rows `held`, without free positions; see `_sparsemax_edge_status`."""
    base = fill_lanes(_INF)
    for at in range(0, size, 64):
        bound = load_vector(u + at)
        leaves = (bound > 0.0) & (load_vector(powers + at) * factor >= (1.0 - near) * bound)
        base = select_lanes(leaves, minimum(base, load_vector(raw + at)), base)
    held = held & (base < _INF)
    edge = fill_lanes(0.0)
    for at in range(0, size, 64):
        bound = load_vector(u + at)
        leaves = (bound > 0.0) & (load_vector(powers + at) * factor >= (1.0 - near) * bound)
        edge = select_lanes(leaves, maximum(edge, bound * exp(base - load_vector(raw + at))), edge)
    for at in range(0, size, 64):
        least = load_vector(low + at) if low else fill_lanes(0.0)
        rest = softmax_status(exp(load_vector(raw + at) - base) * edge, load_vector(u + at), least, near)
        store_vector(
            status + at,
            select_lanes(held & (load_vector(raw + at) != fill_lanes(-_INF)), rest, load_vector(status + at)),
        )
