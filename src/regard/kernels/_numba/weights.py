"""Forward and backward pass of the normalizers for one block of eight rows.

The thresholds are computed in `thresholds`. This module prepares scores and bounds, handles infeasible rows
and rows in which all weights are at their upper bounds, and determines the status of every position: at its
lower bound, strictly between its bounds (free), or at its upper bound. The gradient depends on the status.
"""

from typing import Any

import numpy as np

from regard.kernels._numba.arithmetic import any_lane, exp, fill_lanes, maximum, minimum, select_lanes, sqrt
from regard.kernels._numba.memory import load_vector, store_vector
from regard.kernels._numba.thresholds import (
    bounded_softmax_factor,
    bounded_sparsemax_threshold,
    entmax15_threshold,
    softmax_edge,
    sparsemax_edge,
    sparsemax_threshold,
)
from regard.kernels.compilation import njit
from regard.kernels.normalizers import (
    CONSTRAINED_SOFTMAX,
    CONSTRAINED_SPARSEMAX,
    ENTMAX15,
    FREE,
    INVALID,
    LOWER,
    SPARSEMAX,
    UPPER,
)

_INF = float("inf")
# Rows whose threshold is further below the maximum score are solved again; see `extreme_scores`.
MAX_THRESHOLD_DISTANCE = 4096.0
OVERFLOW_SCORE = 1e290  # maximum score above which a difference of scores may overflow
NEGLIGIBLE = 1e-13  # a total weight that cannot be distinguished from rounding errors
UNDERFLOW_FACTOR = 1e250  # a factor above which exponentials that underflow to 0 may matter


@njit
def prepare_scores(size: int, scores: int, mask: int, scale: float) -> Any:
    """Shift the scores in place so that the maximum is 0, and set masked positions to -inf.

    Args:
        size: 64 S.
        scores: Address of the scores.
        mask: Address of the mask, or 0.
        scale: Factor of the scores.

    Returns:
        NaN in rows with a score of NaN or +inf, else 0.
    """
    top, poison = fill_lanes(-_INF), fill_lanes(0.0)
    for at in range(0, size, 64):
        z = load_vector(scores + at)
        if mask:
            z = select_lanes(load_vector(mask + at) > 0.0, z, fill_lanes(-_INF))
        top = maximum(top, z)
        # 0 times infinity or NaN is NaN.
        poison += select_lanes(z != fill_lanes(-_INF), z * 0.0, fill_lanes(0.0))
        store_vector(scores + at, z)
    top = select_lanes((top > -_INF) & (top < _INF), top, fill_lanes(0.0))
    if any_lane(top > OVERFLOW_SCORE):
        for at in range(0, size, 64):
            z = load_vector(scores + at)
            store_vector(scores + at, select_lanes(z != fill_lanes(-_INF), maximum(z, top - 1.7e308), z))
    for at in range(0, size, 64):
        store_vector(scores + at, (load_vector(scores + at) - top) * scale)
    return poison


@njit
def clip_bounds(size: int, scores: int, upper: int, lower: int, wide: int) -> Any:
    """Clip the upper bounds to 1 in place, and set both bounds to 0 at masked positions.

    Args:
        size: 64 S.
        scores: Address of the scores after `prepare_scores`.
        upper: Address of the upper bounds.
        lower: Address of the lower bounds; 0 if all are 0.
        wide: Whether the tensors are float64.

    Returns:
        The sum of the upper bounds, the minimum of z - u, the infeasible rows, and NaN in rows with a bound
        of NaN, else 0.
    """
    # Tolerances for the sums of bounds and for single bounds, which may have rounding errors.
    slack, near = (1e-9, 1e-9) if wide else (1e-4, 1e-6)
    most, least, bad, low = fill_lanes(0.0), fill_lanes(0.0), fill_lanes(0.0), fill_lanes(_INF)
    top = fill_lanes(-_INF)
    for at in range(0, size, 64):
        z, u = load_vector(scores + at), load_vector(upper + at)
        u = select_lanes(z != fill_lanes(-_INF), select_lanes(u >= 1.0, fill_lanes(1.0), u), fill_lanes(0.0))
        most += u
        top = maximum(top, z)
        low = select_lanes(u > 0.0, minimum(low, z - u), low)
        bad = select_lanes(u < 0.0, fill_lanes(1.0), bad)
        store_vector(upper + at, u)
    if lower:
        for at in range(0, size, 64):
            u = load_vector(upper + at)
            bound = select_lanes(
                load_vector(scores + at) != fill_lanes(-_INF), load_vector(lower + at), fill_lanes(0.0)
            )
            least += bound
            bad = select_lanes((bound < 0.0) | (bound > u + near), fill_lanes(1.0), bad)
            store_vector(lower + at, bound)
    infeasible = (top > -_INF) & ((bad > 0.0) | (most < 1.0 - slack) | (least > 1.0 + slack))
    return most, low, infeasible, (most + least) * 0.0


@njit
def sparsemax_status(x: Any, bound: Any, least: Any, near: float) -> Any:
    """Return the status of a position for sparsemax, where x is its weight without bounds."""
    return select_lanes(
        x > bound + near,
        fill_lanes(UPPER),
        select_lanes(x > least + near, fill_lanes(FREE), fill_lanes(LOWER)),
    )


@njit
def solve_constrained_sparsemax(
    size: int,
    z: int,
    u: int,
    low: int,
    first: Any,
    most: Any,
    infeasible: Any,
    nan_rows: Any,
    wide: int,
    weights: int,
    status: int,
) -> Any:
    """Compute constrained sparsemax and write the weights and the status.

    Args:
        size: 64 S.
        z: Address of the scores after `prepare_scores`.
        u: Address of the upper bounds after `clip_bounds`.
        low: Address of the lower bounds after `clip_bounds`, 0 if all are 0.
        first: The minimum of z - u.
        most: The sum of the upper bounds.
        infeasible: The infeasible rows.
        nan_rows: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        weights: Address of the output for the weights.
        status: Address of the output for the status.

    Returns:
        The rows whose threshold was not found, whose weights are NaN; the rows that must be solved again by
        `extreme_scores.solve_shifted`; the threshold.
    """
    near = 1e-9 if wide else 1e-6
    # Upper bounds that sum to 1 leave only one distribution. Sums slightly below 1 are rescaled.
    full = (most <= 1.0) | infeasible
    tau, unsolved = bounded_sparsemax_threshold(size, z, u, low, first, most, full)
    again = ~infeasible & (unsolved | (tau < -MAX_THRESHOLD_DISTANCE))
    nan_rows = select_lanes(unsolved, fill_lanes(np.nan), nan_rows)
    scale = fill_lanes(1.0) / most
    free = fill_lanes(0.0)
    for at in range(0, size, 64):
        score, bound = load_vector(z + at), load_vector(u + at)
        least = load_vector(low + at) if low else fill_lanes(0.0)
        x, usable = score - tau, score != fill_lanes(-_INF)
        weight = select_lanes(full, bound * scale, minimum(maximum(x, least), bound)) + nan_rows
        free = select_lanes((x > least + near) & (x < bound - near), fill_lanes(1.0), free)
        store_vector(weights + at, select_lanes(usable, weight, fill_lanes(0.0)))
        store_vector(
            status + at, select_lanes(usable, sparsemax_status(x, bound, least, near), fill_lanes(0.0))
        )
    # Without a free position, any threshold of an interval gives the same weights. The status, and with it
    # the gradient, is that at the end of the interval, where the first position leaves its upper bound.
    held = free < 1.0
    if any_lane(held):
        edge = select_lanes(held, sparsemax_edge(size, z, u, tau, near), tau)
        for at in range(0, size, 64):
            score, bound = load_vector(z + at), load_vector(u + at)
            least = load_vector(low + at) if low else fill_lanes(0.0)
            rest = sparsemax_status(score - edge, bound, least, near)
            store_vector(
                status + at, select_lanes(held & (score != fill_lanes(-_INF)), rest, load_vector(status + at))
            )
    return unsolved, again, tau


@njit
def lower_shift(size: int, z: int, powers: int, u: int, low: int, shift: Any, lost: Any) -> Any:
    """Choose a lower shift of the scores in rows where exponentials that matter underflow to 0.

    If the upper bounds of the other positions sum to less than 1, the positions with an exponential of 0
    receive the rest, and the maximum of their scores becomes the shift. Otherwise the shift is decreased by a
    constant.

    Args:
        size: 64 S.
        z: Address of the scores.
        powers: Address of the exponentials.
        u: Address of the upper bounds.
        low: Address of the lower bounds, 0 if all are 0.
        shift: The shift that the exponentials were computed with.
        lost: The rows in which exponentials may have underflowed.

    Returns:
        The new shift, and the rows in which exponentials have underflowed.
    """
    below, most = fill_lanes(-_INF), fill_lanes(0.0)
    for at in range(0, size, 64):
        there, bound = load_vector(powers + at) > 0.0, load_vector(u + at)
        below = select_lanes(~there & (bound > 0.0), maximum(below, load_vector(z + at)), below)
        most += select_lanes(there, bound, load_vector(low + at) if low else fill_lanes(0.0))
    lost = lost & (below > -_INF)
    lower = select_lanes(most < 1.0 - 1e-12, below, shift - 600.0)
    return select_lanes(lost, lower, shift), lost


@njit
def softmax_status(x: Any, bound: Any, least: Any, near: float) -> Any:
    """Return the status of a position for softmax, where x is its weight without bounds."""
    rest = select_lanes((x > (1.0 + near) * least) | (least <= 0.0), fill_lanes(FREE), fill_lanes(LOWER))
    return select_lanes((x > (1.0 + near) * bound) | (bound <= 0.0), fill_lanes(UPPER), rest)


@njit
def solve_constrained_softmax(
    size: int,
    z: int,
    powers: int,
    u: int,
    low: int,
    most: Any,
    infeasible: Any,
    nan_rows: Any,
    wide: int,
    status: int,
) -> Any:
    """Compute constrained softmax; write the status, and the weights in place of the scores.

    Args:
        size: 64 S.
        z: Address of the scores after `prepare_scores`, and of the output for the weights.
        powers: Address of the output for the exponentials of the shifted scores.
        u: Address of the upper bounds after `clip_bounds`.
        low: Address of the lower bounds after `clip_bounds`, 0 if all are 0.
        most: The sum of the upper bounds.
        infeasible: The infeasible rows.
        nan_rows: NaN in rows whose result is NaN, else 0.
        wide: Whether the tensors are float64.
        status: Address of the output for the status.

    Returns:
        The rows whose factor was not found, whose weights are NaN; the rows that must be solved again by
        `extreme_scores.solve_shifted`; the factor 1 / Z; the rows without a free position.
    """
    near = 1e-9 if wide else 1e-6
    full = (most <= 1.0) | infeasible
    shift = fill_lanes(0.0)
    # In a full row even the lowest score matters, for the status, so it must not underflow.
    if any_lane(full):
        for at in range(0, size, 64):
            shift = select_lanes(
                full & (load_vector(u + at) > 0.0), minimum(shift, load_vector(z + at)), shift
            )
    factor, unsolved = fill_lanes(0.0), full
    for _ in range(size // 64 + 8):
        total = fill_lanes(0.0)
        for at in range(0, size, 64):
            e = exp(load_vector(z + at) - shift)
            total += e
            store_vector(powers + at, e)
        factor, unsolved = bounded_softmax_factor(size, powers, u, low, total, full)
        lost = ~full & (factor > UNDERFLOW_FACTOR)
        if not any_lane(lost):
            break
        shift, lost = lower_shift(size, z, powers, u, low, shift, lost)
        unsolved = unsolved | lost | (~full & (factor >= _INF))
        if not any_lane(lost):
            break
    again = ~infeasible & (unsolved | (shift < -MAX_THRESHOLD_DISTANCE))
    nan_rows = select_lanes(unsolved, fill_lanes(np.nan), nan_rows)
    scale = fill_lanes(1.0) / most
    free = fill_lanes(0.0)
    for at in range(0, size, 64):
        x, bound = load_vector(powers + at) * factor, load_vector(u + at)
        least = load_vector(low + at) if low else fill_lanes(0.0)
        usable = load_vector(z + at) != fill_lanes(-_INF)
        weight = select_lanes(full, bound * scale, minimum(maximum(x, least), bound)) + nan_rows
        free = select_lanes((x > (1.0 + near) * least) & (x < (1.0 - near) * bound), free + x, free)
        store_vector(z + at, select_lanes(usable, weight, fill_lanes(0.0)))
        store_vector(
            status + at, select_lanes(usable, softmax_status(x, bound, least, near), fill_lanes(0.0))
        )
    # As in `solve_constrained_sparsemax`. Free positions whose weights are 0 up to rounding errors do not
    # count.
    held = free <= NEGLIGIBLE
    if any_lane(held):
        edge = select_lanes(held, softmax_edge(size, powers, u, factor, near), factor)
        for at in range(0, size, 64):
            before = load_vector(status + at)
            least = load_vector(low + at) if low else fill_lanes(0.0)
            rest = softmax_status(load_vector(powers + at) * edge, load_vector(u + at), least, near)
            store_vector(status + at, select_lanes(held & (before > 0.0), rest, before))
    return unsolved, again, factor, held


@njit
def solve_unbounded(kind: int, size: int, z: int, nan_rows: Any) -> None:
    """Compute sparsemax or 1.5-entmax, and write the weights in place of the scores."""
    tau = sparsemax_threshold(size, z) if kind == SPARSEMAX else entmax15_threshold(size, z)
    for at in range(0, size, 64):
        score = load_vector(z + at)
        x = maximum(score - tau, fill_lanes(0.0))
        if kind == ENTMAX15:
            x = x * x
        store_vector(z + at, select_lanes(score != fill_lanes(-_INF), x + nan_rows, fill_lanes(0.0)))


@njit
def weight_derivative(kind: int, p: Any, status: Any, bounded: bool) -> Any:
    """Return dp/dz of a free position for a fixed threshold: 1 (sparsemax), p (softmax) or sqrt(p) (entmax).

    The derivative of a position that is not free is 0, and NaN in a row that is NaN.
    """
    free = status == fill_lanes(FREE) if bounded else p > 0.0
    invalid = status == fill_lanes(INVALID) if bounded else p != p
    moves = p if kind == CONSTRAINED_SOFTMAX else sqrt(p) if kind == ENTMAX15 else fill_lanes(1.0)
    return select_lanes(invalid, fill_lanes(np.nan), select_lanes(free, moves, fill_lanes(0.0)))


@njit
def score_gradient(kind: int, size: int, g: int, weights: int, status: int) -> Any:
    """Write the gradient of the scores, s (g - m), in place of the weights, and return m.

    s is the derivative that `weight_derivative` returns, and m is the mean of the gradient g over the free
    positions, weighted by s. The gradient of an active bound is g - m.
    """
    total, slope = fill_lanes(0.0), fill_lanes(0.0)
    for at in range(0, size, 64):
        p = load_vector(weights + at) if kind != CONSTRAINED_SPARSEMAX else fill_lanes(1.0)
        s = weight_derivative(kind, p, load_vector(status + at) if status else p, status != 0)
        total += select_lanes(s != 0.0, s * load_vector(g + at), fill_lanes(0.0))
        slope += s
    mean = total / select_lanes(slope > 0.0, slope, fill_lanes(1.0))
    for at in range(0, size, 64):
        p = load_vector(weights + at) if kind != CONSTRAINED_SPARSEMAX else fill_lanes(1.0)
        s = weight_derivative(kind, p, load_vector(status + at) if status else p, status != 0)
        store_vector(weights + at, select_lanes(s != 0.0, s * (load_vector(g + at) - mean), fill_lanes(0.0)))
    return mean


@njit
def bound_gradient(g: Any, mean: Any, status: Any, which: float) -> Any:
    """Return the gradient of the lower or upper bounds: g - m at positions with status `which`, else 0.

    The mean is NaN in a row that is NaN.
    """
    active = (status == fill_lanes(which)) | (status == fill_lanes(INVALID))
    return select_lanes(active, g - mean, fill_lanes(0.0))


@njit
def write_bound_gradient(size: int, g: int, mean: Any, status: int, which: float, out: int) -> None:
    """Write the gradient of the lower or upper bounds."""
    for at in range(0, size, 64):
        store_vector(out + at, bound_gradient(load_vector(g + at), mean, load_vector(status + at), which))


@njit
def mark_invalid(size: int, status: int, invalid: Any) -> None:
    """Write the status of the usable positions of invalid rows, whose weights are NaN."""
    if any_lane(invalid):
        for at in range(0, size, 64):
            before = load_vector(status + at)
            store_vector(status + at, select_lanes(invalid & (before > 0.0), fill_lanes(INVALID), before))
