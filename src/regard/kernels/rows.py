"""The Numba kernels of the normalizers and their gradients, which process blocks of eight rows.

`blocks` reads and writes the rows, `solving` computes the weights of a block, and `far` repeats this for rows
with extreme scores.
"""

import numpy as np
from numba import cfunc, types

from regard.kernels.blocks import (
    set_failed,
    prefetch_rows,
    find_rows,
    read_byte_rows,
    read_mask,
    read_rows,
    read_scores,
    write_byte_rows,
    write_rows,
)
from regard.kernels.far import apply_mask, solve_shifted
from regard.kernels.lanes import any_lane, select, fill_lanes
from regard.kernels.places import (
    CONSTRAINED_SPARSEMAX,
    ENTMAX15,
    GRADIENT,
    LOWER,
    LOWER_BOUND,
    LOWER_GRADIENT,
    NORMALIZER,
    STATUS,
    ROWS,
    SCORES,
    SCORES_GRADIENT,
    BLOCKS_PER_TICKET,
    SIZE,
    SPARSEMAX,
    TICKET,
    UPPER,
    UPPER_BOUND,
    UPPER_GRADIENT,
    WEIGHTS,
    IS_FLOAT64,
)
from regard.kernels.solving import (
    bound_gradient,
    prepare_scores,
    clip_bounds,
    score_gradient,
    solve_unbounded,
    solve_constrained_softmax,
    solve_constrained_sparsemax,
)
from regard.kernels.tiles import atomic_add, keep_alive, read_int

__all__ = ["backward_kernel", "forward_kernel"]


@cfunc(types.void(types.int64), cache=True)
def forward_kernel(block: int) -> None:
    """Write the weights and, for normalizers with bounds, the status of all rows; see `cpu.forward`."""
    kind, wide = read_int(block + 8 * NORMALIZER), read_int(block + 8 * IS_FLOAT64)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    # A vector of eight doubles has 64 bytes. The number of positions is padded to an even number for the
    # solvers, and scratch arrays to a multiple of 8 for the tiles.
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(6 * room + 6 * 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, low, powers, raw = z + room, z + 2 * room, z + 3 * room, z + 4 * room, z + 5 * room
    table = z + 6 * room
    share = 8 * read_int(block + 8 * BLOCKS_PER_TICKET)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            read_scores(wide, table, block, first, count, z)
            prefetch_rows(block, SCORES, first + 8, stride, False)
            prefetch_rows(block, UPPER_BOUND, first + 8, stride, False)
            prefetch_rows(block, WEIGHTS, first, stride, True)
            prefetch_rows(block, STATUS, first, count, True)
            # 1.5-entmax has the form max(z / 2 - tau, 0)^2, hence the halved scores (Peters et al., 2019).
            poison = prepare_scores(
                size, z, read_mask(table, block, first, count, mask), 0.5 if kind == ENTMAX15 else 1.0
            )
            left, found = min(8, rows - first), z
            if kind == SPARSEMAX or kind == ENTMAX15:
                solve_unbounded(kind, size, z, poison)
            else:
                find_rows(table, block, UPPER_BOUND, first, stride)
                read_rows(wide, table, 0, count, u)
                least = 0
                if find_rows(table, block, LOWER_BOUND, first, stride):
                    read_rows(wide, table, 0, count, low)
                    least = low
                most, least_level, infeasible, sick = clip_bounds(size, z, u, least, wide)
                poison = select(infeasible, fill_lanes(np.nan), poison + sick)
                if kind == CONSTRAINED_SPARSEMAX:
                    # From here on the memory of the mask holds the status of the positions.
                    unsolved, again, _ = solve_constrained_sparsemax(
                        size, z, u, least, least_level, most, infeasible, poison, wide, powers, mask
                    )
                    found = powers
                else:
                    unsolved, again, _, _ = solve_constrained_softmax(
                        size, z, powers, u, least, most, infeasible, poison, wide, mask
                    )
                if any_lane(again):
                    read_scores(wide, table, block, first, count, raw)
                    apply_mask(size, raw, read_mask(table, block, first, count, mask))
                    unsolved = solve_shifted(
                        kind, size, raw, z, powers, u, least, most, infeasible, again, poison, wide, mask
                    )
                set_failed(block, infeasible | unsolved)
                find_rows(table, block, STATUS, first, count)
                write_byte_rows(table, 0, left, count, mask)
            find_rows(table, block, WEIGHTS, first, stride)
            write_rows(wide, table, 0, left, count, found)
    keep_alive(scratch)


@cfunc(types.void(types.int64), cache=True)
def backward_kernel(block: int) -> None:
    """Write the gradients of the scores and, on request, of the bounds; see `cpu.backward`."""
    kind, wide = read_int(block + 8 * NORMALIZER), read_int(block + 8 * IS_FLOAT64)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(3 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, table = g + room, g + 2 * room, g + 3 * room
    share = 8 * read_int(block + 8 * BLOCKS_PER_TICKET)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            left = min(8, rows - first)
            find_rows(table, block, GRADIENT, first, stride)
            read_rows(wide, table, 0, count, g)
            prefetch_rows(block, GRADIENT, first + 8, stride, False)
            prefetch_rows(block, WEIGHTS, first + 8, stride, False)
            prefetch_rows(block, STATUS, first + 8, count, False)
            prefetch_rows(block, SCORES_GRADIENT, first + 8, stride, True)
            prefetch_rows(block, UPPER_GRADIENT, first + 8, stride, True)
            if kind != CONSTRAINED_SPARSEMAX:  # whose gradient depends on the status only
                find_rows(table, block, WEIGHTS, first, stride)
                read_rows(wide, table, 0, count, weights)
            bounded = find_rows(table, block, STATUS, first, count)
            if bounded:
                read_byte_rows(table, 0, count, rests)
            mean = score_gradient(kind, size, g, weights, rests if bounded else 0)
            find_rows(table, block, SCORES_GRADIENT, first, stride)
            write_rows(wide, table, 0, left, count, weights)
            if find_rows(table, block, UPPER_GRADIENT, first, stride):
                bound_gradient(size, g, mean, rests, UPPER, weights)
                write_rows(wide, table, 0, left, count, weights)
            if find_rows(table, block, LOWER_GRADIENT, first, stride):
                bound_gradient(size, g, mean, rests, LOWER, weights)
                write_rows(wide, table, 0, left, count, weights)
    keep_alive(scratch)
