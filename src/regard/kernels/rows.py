"""The maps and their gradients as kernels over rows (see `solvers` for the mathematics, `pool` for the threads).

A kernel's arguments are int64 in one block of memory, in the order below. An operand takes three: its address, 0 if
it is absent, and two numbers by which row r of the scores finds its own row, (r // every) % count: that covers an
operand that broadcasts over leading, trailing or middle dimensions.
"""

from typing import Any

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.lanes import (
    any_lane,
    atomic_add,
    atomic_min,
    exp,
    lane,
    load,
    load_bytes,
    load_tile,
    maximum,
    minimum,
    read_int,
    root,
    select,
    spread,
    store,
    store_bytes,
    store_tile,
    write_int,
)
from regard.kernels.solvers import FREE, LOWER, UPPER, bounded_softmax, bounded_sparsemax, entmax15, sparsemax

__all__ = ["ARGUMENTS", "CONSTRAINED_SOFTMAX", "CONSTRAINED_SPARSEMAX", "ENTMAX15", "SPARSEMAX"]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
INF = float("inf")


# Where an argument stands in the block.
TICKET = 0  # the next block of eight rows
INFEASIBLE = 1  # comes out: the first row that no distribution fits, or -1
UNSOLVED = 2  # comes out: not 0 where a row's level was not found
MAP = 3
WIDE = 4  # whether the numbers are float64, else float32
ROWS = 5
SIZE = 6  # S
SCORES = 7  # operands take three places each
MASK = 10
UPPER_BOUND = 13
LOWER_BOUND = 16
WEIGHTS = 19
RESTS = 22
GRADIENT = 25
SCORES_GRADIENT = 28
UPPER_GRADIENT = 31
LOWER_GRADIENT = 34
STEPS = 37  # of a scan, T; its rows are sentences
EXHAUSTION = 38  # as the bits of a double
FERTILITY = 39
FERTILITY_GRADIENT = 42
ARGUMENTS = 45

NONE = 1 << 62  # no row


@njit
def find_rows(table: int, block: int, operand: int, first: int, stride: int, steps: int = 1, step: int = 0) -> int:
    """Write the addresses of eight of an operand's rows.

    Args:
        table: Where they go.
        block: The arguments.
        operand: Which of them.
        first: The first row; those beyond the last repeat it.
        stride: From row to row, in bytes.
        steps: How many rows of the operand belong to a row of the block: the steps of a scan.
        step: Which of them is wanted.

    Returns:
        The operand's address, 0 where it is absent.
    """
    address = read_int(block + 8 * operand)
    if address:
        every, count, last = read_int(block + 8 * operand + 8), read_int(block + 8 * operand + 16), read_int(block + 8 * ROWS) - 1
        for i in range(8):
            row = min(first + i, last) * steps + step
            if every != 1 or row >= count:
                row = row // every % count
            write_int(table + 8 * i, address + row * stride)
    return address


@njit
def read_rows(wide: int, table: int, offset: int, size: int, out: int) -> None:
    """Eight rows of `size` numbers, from an offset on, as vectors at `out`."""
    for column in range(0, size, 8):
        load_tile(wide, table, offset + column, size - column, out + 64 * column)


@njit
def write_rows(wide: int, table: int, offset: int, rows: int, size: int, found: int) -> None:
    """The reverse."""
    for column in range(0, size, 8):
        store_tile(wide, table, offset + column, rows, size - column, found + 64 * column)


@njit
def read_bytes(table: int, offset: int, size: int, out: int) -> None:
    """Eight rows of bytes as vectors."""
    for column in range(0, size, 8):
        load_bytes(table, offset + column, size - column, out + 64 * column)


@njit
def write_bytes(table: int, offset: int, rows: int, size: int, found: int) -> None:
    """The reverse."""
    for column in range(0, size, 8):
        store_bytes(table, offset + column, rows, size - column, found + 64 * column)


@njit
def clean(size: int, scores: int, mask: int, scale: float) -> Any:
    """Shift scores so that the greatest is 0, with -inf where they may not be attended.

    Args:
        size: 64 S.
        scores: Where they are, and where they go.
        mask: Where the mask is, or 0.
        scale: What they are multiplied by.

    Returns:
        NaN in the rows that have one or an inf, else 0.
    """
    top, poison = spread(-INF), spread(0.0)
    for at in range(0, size, 64):
        z = load(scores + at)
        if mask:
            z = select(load(mask + at) > 0.0, z, spread(-INF))
        top = maximum(top, z)
        poison += select(z != spread(-INF), z * 0.0, spread(0.0))
        store(scores + at, z)
    top = select(top > -INF, top, spread(0.0))
    for at in range(0, size, 64):
        store(scores + at, (load(scores + at) - top) * scale)
    return poison


@njit
def clip_bounds(size: int, scores: int, upper: int, lower: int, wide: int) -> Any:
    """Cut upper bounds to 1, put 0 for both where a position may not be attended.

    Returns:
        The rows whose upper bounds are the answer; one over their sum; the rows that no distribution fits; NaN in
        the rows whose bounds have one, else 0.
    """
    slack, near = (1e-9, 1e-9) if wide else (1e-4, 1e-6)
    most, least, poison = spread(0.0), spread(0.0), spread(0.0)
    wrong, there = spread(0.0), spread(0.0)
    for at in range(0, size, 64):
        usable = load(scores + at) != spread(-INF)
        u = load(upper + at)
        u = select(usable, select(u >= 1.0, spread(1.0), u), spread(0.0))
        low = select(usable, load(lower + at), spread(0.0))
        most, least, poison = most + u, least + low, poison + (u + low) * 0.0
        wrong = select((low < 0.0) | (low > u + near), spread(1.0), wrong)
        there = select(usable, spread(1.0), there)
        store(upper + at, u)
        store(lower + at, low)
    infeasible = (there > 0.0) & ((wrong > 0.0) | (most < 1.0 - slack) | (least > 1.0 + slack))
    return most <= 1.0, select(most > 0.0, 1.0 / most, spread(0.0)), infeasible, poison


@njit
def report(block: int, first: int, infeasible: Any, unsolved: Any) -> None:
    """Tell of rows that went wrong."""
    rows = read_int(block + 8 * ROWS)
    if any_lane(infeasible):
        for i in range(8):
            if lane(infeasible, i):
                atomic_min(block + 8 * INFEASIBLE, min(first + i, rows - 1))
    if any_lane(unsolved):
        atomic_min(block + 8 * UNSOLVED, -1)


@njit
def solve_sparse(size: int, z: int, u: int, low: int, full: Any, scale: Any, poison: Any, wide: int) -> Any:
    """Constrained sparsemax: puts the weights over the scores and where they rest over the upper bounds."""
    near = 1e-9 if wide else 1e-6
    edge, tau, unsolved = bounded_sparsemax(size, z, u, low, full, near)
    for at in range(0, size, 64):
        score, most, least = load(z + at), load(u + at), load(low + at)
        x = score - tau
        weight = select(full, most * scale, minimum(maximum(x, least), most)) + poison
        x = score - edge
        rest = select(x > most + near, spread(UPPER), spread(LOWER))
        rest = select((x > least + near) & (x <= most + near), spread(FREE), rest)
        usable = score != spread(-INF)
        store(z + at, select(usable, weight, spread(0.0)))
        store(u + at, select(usable, rest, spread(0.0)))
    return unsolved


@njit
def solve_soft(
    size: int, z: int, powers: int, u: int, low: int, full: Any, scale: Any, poison: Any, wide: int
) -> Any:
    """Constrained softmax: puts the weights over the scores and where they rest over the upper bounds."""
    near = 1e-9 if wide else 1e-6
    for at in range(0, size, 64):
        store(powers + at, exp(load(z + at)))
    edge, factor, unsolved = bounded_softmax(size, powers, u, low, full, near)
    for at in range(0, size, 64):
        score, e, most, least = load(z + at), load(powers + at), load(u + at), load(low + at)
        x = e * factor
        weight = select(full, most * scale, minimum(maximum(x, least), most)) + poison
        x = e * edge
        above = (x > (1.0 + near) * most) | (most <= 0.0)
        rest = select(above, spread(UPPER), spread(LOWER))
        rest = select((x > (1.0 + near) * least) & ~above, spread(FREE), rest)
        usable = score != spread(-INF)
        store(z + at, select(usable, weight, spread(0.0)))
        store(u + at, select(usable, rest, spread(0.0)))
    return unsolved


@njit
def solve_free(kind: int, size: int, z: int, poison: Any) -> None:
    """Sparsemax and 1.5-entmax: puts the weights over the scores."""
    tau = sparsemax(size, z) if kind == SPARSEMAX else entmax15(size, z)
    for at in range(0, size, 64):
        score = load(z + at)
        x = maximum(score - tau, spread(0.0))
        if kind == ENTMAX15:
            x = x * x
        store(z + at, select(score != spread(-INF), x + poison, spread(0.0)))


@cfunc(types.void(types.int64), cache=True)
def forward(block: int) -> None:
    """Weights, and with bounds where they rest, of the block's rows."""
    kind, wide = read_int(block + 8 * MAP), read_int(block + 8 * WIDE)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    size, stride = 64 * count, count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(5 * room + 6 * 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, low, powers, table = z + room, z + 2 * room, z + 3 * room, z + 4 * room, z + 5 * room
    while True:
        first = 8 * atomic_add(block + 8 * TICKET, 1)
        if first >= rows:
            break
        find_rows(table, block, SCORES, first, stride)
        read_rows(wide, table, 0, count, z)
        masked = find_rows(table, block, MASK, first, count)
        if masked:
            read_bytes(table, 0, count, mask)
        poison = clean(size, z, mask if masked else 0, 0.5 if kind == ENTMAX15 else 1.0)
        left = min(8, rows - first)
        if kind == SPARSEMAX or kind == ENTMAX15:
            solve_free(kind, size, z, poison)
        else:
            find_rows(table, block, UPPER_BOUND, first, stride)
            read_rows(wide, table, 0, count, u)
            if find_rows(table, block, LOWER_BOUND, first, stride):
                read_rows(wide, table, 0, count, low)
            else:
                for at in range(0, size, 64):
                    store(low + at, spread(0.0))
            full, scale, infeasible, sick = clip_bounds(size, z, u, low, wide)
            poison = select(infeasible, spread(np.nan), poison + sick)
            if kind == CONSTRAINED_SPARSEMAX:
                unsolved = solve_sparse(size, z, u, low, full | infeasible, scale, poison, wide)
            else:
                unsolved = solve_soft(size, z, powers, u, low, full | infeasible, scale, poison, wide)
            report(block, first, infeasible, unsolved)
            find_rows(table, block, RESTS, first, count)
            write_bytes(table, 0, left, count, u)
        find_rows(table, block, WEIGHTS, first, stride)
        write_rows(wide, table, 0, left, count, z)


@njit
def pull_back(kind: int, size: int, g: int, weights: int, rests: int) -> None:
    """The gradient of the scores over `g`, that of the bound a position rests on over the weights.

    With s the slope of a free position (1 for sparsemax, p for softmax, sqrt p for 1.5-entmax) and m the mean of g
    over the free ones, weighted by s: s (g - m) where free, g - m at a bound.
    """
    total, slope = spread(0.0), spread(0.0)
    for at in range(0, size, 64):
        p = load(weights + at)
        free = load(rests + at) == spread(FREE) if rests else p > 0.0
        s = select(free, p if kind == CONSTRAINED_SOFTMAX else root(p) if kind == ENTMAX15 else spread(1.0), spread(0.0))
        total += select(free, s * load(g + at), spread(0.0))
        slope += s
    mean = total / select(slope > 0.0, slope, spread(1.0))
    for at in range(0, size, 64):
        p = load(weights + at)
        free = load(rests + at) == spread(FREE) if rests else p > 0.0
        s = select(free, p if kind == CONSTRAINED_SOFTMAX else root(p) if kind == ENTMAX15 else spread(1.0), spread(0.0))
        change = load(g + at) - mean
        store(g + at, select(free, s * change, spread(0.0)))
        store(weights + at, change)


@njit
def bound_gradient(size: int, change: int, rests: int, which: float, out: int) -> None:
    """The change at the positions that rest on one of the bounds."""
    for at in range(0, size, 64):
        store(out + at, select(load(rests + at) == spread(which), load(change + at), spread(0.0)))


@cfunc(types.void(types.int64), cache=True)
def backward(block: int) -> None:
    """Gradients of the scores and bounds."""
    kind, wide = read_int(block + 8 * MAP), read_int(block + 8 * WIDE)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    size, stride = 64 * count, count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(4 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, out, table = g + room, g + 2 * room, g + 3 * room, g + 4 * room
    while True:
        first = 8 * atomic_add(block + 8 * TICKET, 1)
        if first >= rows:
            break
        left = min(8, rows - first)
        find_rows(table, block, GRADIENT, first, stride)
        read_rows(wide, table, 0, count, g)
        find_rows(table, block, WEIGHTS, first, stride)
        read_rows(wide, table, 0, count, weights)
        bounded = find_rows(table, block, RESTS, first, count)
        if bounded:
            read_bytes(table, 0, count, rests)
        pull_back(kind, size, g, weights, rests if bounded else 0)
        find_rows(table, block, SCORES_GRADIENT, first, stride)
        write_rows(wide, table, 0, left, count, g)
        if find_rows(table, block, UPPER_GRADIENT, first, stride):
            bound_gradient(size, weights, rests, UPPER, out)
            find_rows(table, block, UPPER_GRADIENT, first, stride)
            write_rows(wide, table, 0, left, count, out)
        if find_rows(table, block, LOWER_GRADIENT, first, stride):
            bound_gradient(size, weights, rests, LOWER, out)
            write_rows(wide, table, 0, left, count, out)
