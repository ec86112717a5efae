"""The maps and their gradients as kernels over rows (`solvers`: the mathematics; `pool`: the threads).

A kernel's arguments are int64 in one block of memory, in the order below. An operand takes three: its
address, 0 if it is absent, and two numbers by which row r of the scores finds its own row, (r // every) %
count: that covers an operand that broadcasts over leading, trailing or middle dimensions.
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
    prefetch,
    prefetch_to_write,
    read_int,
    root,
    select,
    spread,
    store,
    store_bytes,
    store_tile,
    write_int,
)
from regard.kernels.solvers import (
    FREE,
    LOWER,
    UPPER,
    bounded_softmax,
    bounded_sparsemax,
    entmax15,
    first_to_leave_softmax,
    first_to_leave_sparsemax,
    sparsemax,
)

__all__ = ["ARGUMENTS", "CONSTRAINED_SOFTMAX", "CONSTRAINED_SPARSEMAX", "ENTMAX15", "SPARSEMAX"]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)
INF = float("inf")
NOTHING = 1e-13  # a share too small to be told from rounding
VAST = 1e250  # a factor above which an exponential that is 0 in a double may count


# Where an argument stands in the block.
TICKET = 0  # the next share of the rows
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
SHARE = 45  # how many blocks of eight rows go with a ticket
ARGUMENTS = 46

NONE = 1 << 62  # no row


@njit
def find_rows(
    table: int, block: int, operand: int, first: int, stride: int, steps: int = 1, step: int = 0
) -> int:
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
        every, count, last = (
            read_int(block + 8 * operand + 8),
            read_int(block + 8 * operand + 16),
            read_int(block + 8 * ROWS) - 1,
        )
        for i in range(8):
            row = min(first + i, last) * steps + step
            if every != 1 or row >= count:
                row = row // every % count
            write_int(table + 8 * i, address + row * stride)
    return address


@njit
def fetch(block: int, operand: int, first: int, stride: int, writing: bool) -> None:
    """Have eight rows brought near that will be read, or written, one block later."""
    address = read_int(block + 8 * operand)
    if address and read_int(block + 8 * operand + 8) == 1 and first + 8 <= read_int(block + 8 * operand + 16):
        address += first * stride
        for at in range(address, address + 8 * stride, 64):
            if writing:
                prefetch_to_write(at)
            else:
                prefetch(at)


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
    top = select((top > -INF) & (top < INF), top, spread(0.0))
    for at in range(0, size, 64):
        store(scores + at, (load(scores + at) - top) * scale)
    return poison


@njit
def clip_bounds(size: int, scores: int, upper: int, lower: int, wide: int) -> Any:
    """Cut upper bounds to 1, put 0 for both where a position may not be attended.

    Args:
        size: 64 S.
        scores: Where the cleaned scores are.
        upper: Where the upper bounds are, and where they go.
        lower: The same of the lower bounds; 0 if all are 0.
        wide: Whether the numbers are float64.

    Returns:
        The sum of the upper bounds; the least z - u; the rows that no distribution fits; NaN in the rows
        whose bounds have one, else 0.
    """
    slack, near = (1e-9, 1e-9) if wide else (1e-4, 1e-6)
    most, least, bad, low = spread(0.0), spread(0.0), spread(0.0), spread(INF)
    top = spread(-INF)
    for at in range(0, size, 64):
        z, u = load(scores + at), load(upper + at)
        u = select(z != spread(-INF), select(u >= 1.0, spread(1.0), u), spread(0.0))
        most += u
        top = maximum(top, z)
        low = select(u > 0.0, minimum(low, z - u), low)
        bad = select(u < 0.0, spread(1.0), bad)
        store(upper + at, u)
    if lower:
        for at in range(0, size, 64):
            u = load(upper + at)
            bound = select(load(scores + at) != spread(-INF), load(lower + at), spread(0.0))
            least += bound
            bad = select((bound < 0.0) | (bound > u + near), spread(1.0), bad)
            store(lower + at, bound)
    infeasible = (top > -INF) & ((bad > 0.0) | (most < 1.0 - slack) | (least > 1.0 + slack))
    return most, low, infeasible, (most + least) * 0.0


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
def solve_sparse(
    size: int, z: int, u: int, low: int, first: Any, most: Any, infeasible: Any, poison: Any, wide: int
) -> Any:
    """Constrained sparsemax: puts the weights over the scores and where they rest over the upper bounds.

    Returns:
        The rows whose level was not found, which become NaN.
    """
    near = 1e-9 if wide else 1e-6
    full = (most <= 1.0) | infeasible
    tau, unsolved = bounded_sparsemax(size, z, u, low, first, most, full)
    poison = select(unsolved, spread(np.nan), poison)
    scale = spread(1.0) / most
    free = spread(0.0)
    for at in range(0, size, 64):
        x, bound = load(z + at) - tau, load(u + at)
        least = load(low + at) if low else spread(0.0)
        free = select((x > least + near) & (x < bound - near), spread(1.0), free)
    edge = tau
    if any_lane(free < 1.0):
        edge = select(free < 1.0, first_to_leave_sparsemax(size, z, u, tau, near), tau)
    for at in range(0, size, 64):
        score, bound = load(z + at), load(u + at)
        least = load(low + at) if low else spread(0.0)
        weight = select(full, bound * scale, minimum(maximum(score - tau, least), bound)) + poison
        x = score - edge
        rest = select(x > bound + near, spread(UPPER), select(x > least + near, spread(FREE), spread(LOWER)))
        usable = score != spread(-INF)
        store(z + at, select(usable, weight, spread(0.0)))
        store(u + at, select(usable, rest, spread(0.0)))
    return unsolved


@njit
def descend(size: int, z: int, powers: int, u: int, shift: Any, lost: Any) -> Any:
    """Shift the scores of rows whose level is so low that exponentials that count may be 0.

    Where the bounds of the others leave something to those whose exponential is 0, the greatest of these sets
    the scale; else the level is within reach of the others.

    Args:
        size: 64 S.
        z: Where the scores are.
        powers: Where the exponentials are.
        u: Where the upper bounds are.
        shift: What the scores were shifted by.
        lost: The rows of which this may be true.

    Returns:
        What they should be shifted by; the rows of which it is true.
    """
    below, most = spread(-INF), spread(0.0)
    for at in range(0, size, 64):
        there, bound = load(powers + at) > 0.0, load(u + at)
        below = select(~there & (bound > 0.0), maximum(below, load(z + at)), below)
        most += select(there, bound, spread(0.0))
    lost = lost & (below > -INF)
    lower = select(most < 1.0 - 1e-12, below, shift - 600.0)
    return select(lost, lower, shift), lost


@njit
def solve_soft(
    size: int, z: int, powers: int, u: int, low: int, most: Any, infeasible: Any, poison: Any, wide: int
) -> Any:
    """Constrained softmax: puts the weights over the scores and where they rest over the upper bounds.

    Returns:
        The rows whose level was not found, which become NaN.
    """
    near = 1e-9 if wide else 1e-6
    full = (most <= 1.0) | infeasible
    shift = spread(0.0)
    if any_lane(full):
        for at in range(0, size, 64):
            shift = select(full & (load(u + at) > 0.0), minimum(shift, load(z + at)), shift)
    factor, unsolved = spread(0.0), full
    for _ in range(size // 64 + 8):
        total = spread(0.0)
        for at in range(0, size, 64):
            e = exp(load(z + at) - shift)
            total += e
            store(powers + at, e)
        factor, unsolved = bounded_softmax(size, powers, u, low, total, full)
        lost = ~full & (factor > VAST)
        if not any_lane(lost):
            break
        shift, lost = descend(size, z, powers, u, shift, lost)
        unsolved = unsolved | lost | (~full & (factor >= INF))
        if not any_lane(lost):
            break
    poison = select(unsolved, spread(np.nan), poison)
    scale = spread(1.0) / most
    free = spread(0.0)
    for at in range(0, size, 64):
        x, bound = load(powers + at) * factor, load(u + at)
        least = load(low + at) if low else spread(0.0)
        free = select((x > (1.0 + near) * least) & (x < (1.0 - near) * bound), free + x, free)
    # Where the bounds of the others leave nothing to the free ones, these are not what moves first.
    edge, held = factor, free <= NOTHING
    if any_lane(held):
        edge = select(held, first_to_leave_softmax(size, powers, u, factor, near), factor)
    for at in range(0, size, 64):
        e, bound = load(powers + at), load(u + at)
        least = load(low + at) if low else spread(0.0)
        weight = select(full, bound * scale, minimum(maximum(e * factor, least), bound)) + poison
        x = e * edge
        rest = select((x > (1.0 + near) * least) | (least <= 0.0), spread(FREE), spread(LOWER))
        rest = select((x > (1.0 + near) * bound) | (bound <= 0.0), spread(UPPER), rest)
        usable = load(z + at) != spread(-INF)
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
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(5 * room + 6 * 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, low, powers, table = z + room, z + 2 * room, z + 3 * room, z + 4 * room, z + 5 * room
    share = 8 * read_int(block + 8 * SHARE)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            find_rows(table, block, SCORES, first, stride)
            read_rows(wide, table, 0, count, z)
            fetch(block, SCORES, first + 8, stride, False)
            fetch(block, UPPER_BOUND, first + 8, stride, False)
            fetch(block, WEIGHTS, first, stride, True)
            fetch(block, RESTS, first, count, True)
            if count & 1:
                store(z + 64 * count, spread(-INF))
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
                least = 0
                if find_rows(table, block, LOWER_BOUND, first, stride):
                    read_rows(wide, table, 0, count, low)
                    least = low
                most, least_level, infeasible, sick = clip_bounds(size, z, u, least, wide)
                poison = select(infeasible, spread(np.nan), poison + sick)
                if kind == CONSTRAINED_SPARSEMAX:
                    unsolved = solve_sparse(size, z, u, least, least_level, most, infeasible, poison, wide)
                else:
                    unsolved = solve_soft(size, z, powers, u, least, most, infeasible, poison, wide)
                report(block, first, infeasible, unsolved)
                find_rows(table, block, RESTS, first, count)
                write_bytes(table, 0, left, count, u)
            find_rows(table, block, WEIGHTS, first, stride)
            write_rows(wide, table, 0, left, count, z)


@njit
def slope_of(kind: int, p: Any, rest: Any, bounded: bool) -> Any:
    """How fast a free position moves: 1 (sparsemax), p (softmax) or sqrt p (1.5-entmax)."""
    free = rest == spread(FREE) if bounded else p > 0.0
    moves = p if kind == CONSTRAINED_SOFTMAX else root(p) if kind == ENTMAX15 else spread(1.0)
    return select(free, moves, spread(0.0))


@njit
def pull_back(kind: int, size: int, g: int, weights: int, rests: int) -> Any:
    """Put the gradient of the scores over the weights, s (g - m), and return m.

    s is the slope of a free position and m the mean of g over the free ones, weighted by s; a bound on which
    a position rests has the gradient g - m.
    """
    total, slope = spread(0.0), spread(0.0)
    for at in range(0, size, 64):
        p = load(weights + at) if kind != CONSTRAINED_SPARSEMAX else spread(1.0)
        s = slope_of(kind, p, load(rests + at) if rests else p, rests != 0)
        total += select(s > 0.0, s * load(g + at), spread(0.0))
        slope += s
    mean = total / select(slope > 0.0, slope, spread(1.0))
    for at in range(0, size, 64):
        p = load(weights + at) if kind != CONSTRAINED_SPARSEMAX else spread(1.0)
        s = slope_of(kind, p, load(rests + at) if rests else p, rests != 0)
        store(weights + at, select(s > 0.0, s * (load(g + at) - mean), spread(0.0)))
    return mean


@njit
def bound_gradient(size: int, g: int, mean: Any, rests: int, which: float, out: int) -> None:
    """The gradient of the bounds on one side: g - m at the positions that rest on them."""
    for at in range(0, size, 64):
        store(out + at, select(load(rests + at) == spread(which), load(g + at) - mean, spread(0.0)))


@cfunc(types.void(types.int64), cache=True)
def backward(block: int) -> None:
    """Gradients of the scores and bounds."""
    kind, wide = read_int(block + 8 * MAP), read_int(block + 8 * WIDE)
    rows, count = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE)
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(3 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, table = g + room, g + 2 * room, g + 3 * room
    share = 8 * read_int(block + 8 * SHARE)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for first in range(begin, min(begin + share, rows), 8):
            left = min(8, rows - first)
            find_rows(table, block, GRADIENT, first, stride)
            read_rows(wide, table, 0, count, g)
            fetch(block, GRADIENT, first + 8, stride, False)
            fetch(block, WEIGHTS, first + 8, stride, False)
            fetch(block, RESTS, first + 8, count, False)
            fetch(block, SCORES_GRADIENT, first + 8, stride, True)
            fetch(block, UPPER_GRADIENT, first + 8, stride, True)
            if kind != CONSTRAINED_SPARSEMAX:
                find_rows(table, block, WEIGHTS, first, stride)
                read_rows(wide, table, 0, count, weights)
            bounded = find_rows(table, block, RESTS, first, count)
            if bounded:
                read_bytes(table, 0, count, rests)
            mean = pull_back(kind, size, g, weights, rests if bounded else 0)
            find_rows(table, block, SCORES_GRADIENT, first, stride)
            write_rows(wide, table, 0, left, count, weights)
            if find_rows(table, block, UPPER_GRADIENT, first, stride):
                bound_gradient(size, g, mean, rests, UPPER, weights)
                write_rows(wide, table, 0, left, count, weights)
            if find_rows(table, block, LOWER_GRADIENT, first, stride):
                bound_gradient(size, g, mean, rests, LOWER, weights)
                write_rows(wide, table, 0, left, count, weights)
