"""The Numba kernels of constrained attention over all time steps, for eight sentences at a time.

With scores z_t, fertility f, cumulative attention beta_t and upper bounds u_t (Malaviya et al., 2018):

    u_t = max(0, f - beta_{t-1}),   p_t = normalizer(z_t + c u_t, u_t),   beta_t = beta_{t-1} + p_t

The exhaustion term c u_t is added only where f is finite, and no gradient flows through it. In the backward
pass let d_t be the gradient of beta_t (0 after the last step) and du_t the gradient of u_t. Then the gradient
of p_t is g_t + d_t, and d_{t-1} = d_t - du_t. The gradient of f is the sum of all du_t. At an exhausted
position (f = beta) the one-sided derivative for increasing f is used.

If H adjacent rows (attention heads) share a fertility, beta is the mean over these rows, and the gradient of
p_t is g_t plus the mean of their d_t.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.blocks import (
    find_rows,
    read_byte_rows,
    read_mask,
    read_rows,
    read_scores,
    set_failed,
    write_byte_rows,
    write_rows,
)
from regard.kernels.far import apply_mask, solve_shifted
from regard.kernels.lanes import any_lane, fill_lanes, group_mean, maximum, select_lanes
from regard.kernels.places import (
    BLOCKS_PER_TICKET,
    CONSTRAINED_SPARSEMAX,
    EXHAUSTION,
    FERTILITY,
    FERTILITY_GRADIENT,
    GRADIENT,
    HEADS_PER_BUDGET,
    IS_FLOAT64,
    NORMALIZER,
    ROWS,
    SCORES_GRADIENT,
    SIZE,
    STATUS,
    STEPS,
    TICKET,
    UPPER,
    WEIGHTS,
)
from regard.kernels.solving import (
    clip_bounds,
    prepare_scores,
    score_gradient,
    solve_constrained_softmax,
    solve_constrained_sparsemax,
)
from regard.kernels.tiles import atomic_add, keep_alive, load_vector, read_double, read_int, store_vector

__all__ = ["scan_backward_kernel", "scan_forward_kernel"]

_INF = float("inf")


@njit
def exhaust_scores(size: int, scores: int, fertility: int, spent: int, exhaustion: float) -> None:
    """Add the exhaustion term, c times the upper bound, to the scores at positions with finite fertility."""
    for at in range(0, size, 64):
        f = load_vector(fertility + at)
        bound = maximum(f - load_vector(spent + at), fill_lanes(0.0))
        store_vector(
            scores + at,
            load_vector(scores + at) + select_lanes(f < _INF, bound * exhaustion, fill_lanes(0.0)),
        )


@cfunc(types.void(types.int64), cache=True)
def scan_forward_kernel(block: int) -> None:
    """Write the weights and the status of all sentences and steps; see `Backend.scan_forward`."""
    kind, wide = read_int(block + 8 * NORMALIZER), read_int(block + 8 * IS_FLOAT64)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    steps, exhaustion = read_int(block + 8 * STEPS), read_double(block + 8 * EXHAUSTION)
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(7 * room + 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, powers = z + room, z + 2 * room, z + 3 * room
    fertility, spent, raw, table = z + 4 * room, z + 5 * room, z + 6 * room, z + 7 * room
    share, heads = 8 * read_int(block + 8 * BLOCKS_PER_TICKET), read_int(block + 8 * HEADS_PER_BUDGET)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            left = min(8, rows - first)
            find_rows(table, block, FERTILITY, first, stride)
            read_rows(wide, table, 0, count, fertility)
            for at in range(0, size, 64):
                store_vector(spent + at, fill_lanes(0.0))
            for step in range(steps):
                read_scores(wide, table, block, first, count, z, steps, step)
                masked = read_mask(table, block, first, count, mask, steps, step)
                for at in range(0, size, 64):
                    store_vector(
                        u + at,
                        maximum(load_vector(fertility + at) - load_vector(spent + at), fill_lanes(0.0)),
                    )
                exhaust_scores(size, z, fertility, spent, exhaustion)
                poison = prepare_scores(size, z, masked, 1.0)
                most, level, infeasible, sick = clip_bounds(size, z, u, 0, wide)
                poison = select_lanes(infeasible, fill_lanes(np.nan), poison + sick)
                if kind == CONSTRAINED_SPARSEMAX:
                    unsolved, again, _ = solve_constrained_sparsemax(
                        size, z, u, 0, level, most, infeasible, poison, wide, powers, mask
                    )
                    found = powers
                else:
                    unsolved, again, _, _ = solve_constrained_softmax(
                        size, z, powers, u, 0, most, infeasible, poison, wide, mask
                    )
                    found = z
                if any_lane(again):
                    # The solver has overwritten the scores, so they are read again.
                    read_scores(wide, table, block, first, count, raw, steps, step)
                    exhaust_scores(size, raw, fertility, spent, exhaustion)
                    apply_mask(size, raw, read_mask(table, block, first, count, mask, steps, step))
                    unsolved = solve_shifted(
                        kind, size, raw, z, powers, u, 0, most, infeasible, again, poison, wide, mask
                    )
                set_failed(block, infeasible | unsolved)
                for at in range(0, size, 64):
                    store_vector(
                        spent + at, load_vector(spent + at) + group_mean(load_vector(found + at), heads)
                    )
                find_rows(table, block, STATUS, first, count, steps, step)
                write_byte_rows(table, 0, left, count, mask)
                find_rows(table, block, WEIGHTS, first, stride, steps, step)
                write_rows(wide, table, 0, left, count, found)
    keep_alive(scratch)


@cfunc(types.void(types.int64), cache=True)
def scan_backward_kernel(block: int) -> None:
    """Write the gradients of the scores and of the fertility; see `Backend.scan_backward`."""
    kind, wide = read_int(block + 8 * NORMALIZER), read_int(block + 8 * IS_FLOAT64)
    rows, count, steps = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE), read_int(block + 8 * STEPS)
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(4 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, loosened, table = g + room, g + 2 * room, g + 3 * room, g + 4 * room
    share, heads = 8 * read_int(block + 8 * BLOCKS_PER_TICKET), read_int(block + 8 * HEADS_PER_BUDGET)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            left = min(8, rows - first)
            for at in range(0, size, 64):
                store_vector(loosened + at, fill_lanes(0.0))
            for back in range(steps):
                step = steps - 1 - back
                find_rows(table, block, GRADIENT, first, stride, steps, step)
                read_rows(wide, table, 0, count, g)
                find_rows(table, block, WEIGHTS, first, stride, steps, step)
                read_rows(wide, table, 0, count, weights)
                find_rows(table, block, STATUS, first, count, steps, step)
                read_byte_rows(table, 0, count, rests)
                # `loosened` is the sum of du over the later steps, which is -d.
                for at in range(0, size, 64):
                    store_vector(g + at, load_vector(g + at) - group_mean(load_vector(loosened + at), heads))
                mean = score_gradient(kind, size, g, weights, rests)
                find_rows(table, block, SCORES_GRADIENT, first, stride, steps, step)
                write_rows(wide, table, 0, left, count, weights)
                for at in range(0, size, 64):
                    tight = select_lanes(
                        load_vector(rests + at) == fill_lanes(UPPER),
                        load_vector(g + at) - mean,
                        fill_lanes(0.0),
                    )
                    store_vector(loosened + at, load_vector(loosened + at) + tight)
            find_rows(table, block, FERTILITY_GRADIENT, first, stride)
            write_rows(wide, table, 0, left, count, loosened)
    keep_alive(scratch)
