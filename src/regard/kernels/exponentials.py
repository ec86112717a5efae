"""The kernels of `regard.kernels.likelihood`: a row of logits at a time, which stays near meanwhile."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import bits, exp, floats, number, read_floats, whole_numbers, write_halves
from regard.kernels.likelihood import (
    FACTORS,
    GAINS,
    HALF,
    LOGITS,
    MEANS,
    ROWS,
    SHARE,
    SHIFTS,
    SIZE,
    SUMS,
    TARGETS,
    TICKET,
    TOPS,
)
from regard.kernels.pool import CHUNK
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["exponentiate", "weigh"]

NOTHING = np.float32(0)
NEGATIVE, REST, LEAST = np.int32(31), np.int32(0x7FFFFFFF), np.int32(-0x80000000)


@njit
def _order(pattern):
    """Bits of a float32 as an integer in the order of the numbers; twice gives the bits back."""
    return np.int32(pattern ^ ((pattern >> NEGATIVE) & REST))


@njit
def _highest(values, highest):
    """The highest of these and one before, as `_order` has them."""
    for i in range(len(values)):
        order = _order(np.int32(bits(values[i])))
        highest = order if order > highest else highest
    return highest


@njit(fastmath={"reassoc"})
def _sum(values):
    """Their sum."""
    total = np.float32(0)
    for i in range(len(values)):
        total += values[i]
    return total


@njit(fastmath={"reassoc"})
def _exponentials(values, top):
    """Put exp(value - top) in the place of each; returns their sum."""
    total = np.float32(0)
    for i in range(len(values)):
        values[i] = exp(values[i] - top)
        total += values[i]
    return total


@cfunc(types.void(types.int64), cache=True)
def exponentiate(block: int) -> None:
    """Logits z of each row become exp(z - top); out come top, the mean of z, and the sum of those."""
    rows, share = read_int(block + 8 * ROWS), read_int(block + 8 * SHARE)
    size, half = read_int(block + 8 * SIZE), read_int(block + 8 * HALF)
    width = 2 if half else 4
    tops, means = floats(read_int(block + 8 * TOPS), rows), floats(read_int(block + 8 * MEANS), rows)
    sums = floats(read_int(block + 8 * SUMS), rows)
    room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * LOGITS) + row * size * width
            highest, total = LEAST, 0.0
            for first in range(0, size, CHUNK):
                values = read_floats(start + width * first, half, room[: min(CHUNK, size - first)])
                highest = _highest(values, highest)
                total += _sum(values)
            tops[row] = top = number(np.uint32(_order(highest)))
            means[row] = total / size
            total = 0.0
            for first in range(0, size, CHUNK):
                values = read_floats(start + width * first, half, room[: min(CHUNK, size - first)])
                total += _exponentials(values, top)
                if half:
                    write_halves(start + width * first, values)
            sums[row] = total


@cfunc(types.void(types.int64), cache=True)
def weigh(block: int) -> None:
    """Each row times its factor and plus its shift, and at the target plus its gain."""
    rows, share = read_int(block + 8 * ROWS), read_int(block + 8 * SHARE)
    size, half = read_int(block + 8 * SIZE), read_int(block + 8 * HALF)
    width = 2 if half else 4
    factors, shifts = floats(read_int(block + 8 * FACTORS), rows), read_int(block + 8 * SHIFTS)
    gains, targets = (
        floats(read_int(block + 8 * GAINS), rows),
        whole_numbers(read_int(block + 8 * TARGETS), rows),
    )
    room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * LOGITS) + row * size * width
            factor = factors[row]
            shift = floats(shifts, rows)[row] if shifts else NOTHING
            for first in range(0, size, CHUNK):
                values = read_floats(start + width * first, half, room[: min(CHUNK, size - first)])
                for i in range(len(values)):
                    values[i] = values[i] * factor + shift
                target = targets[row] - first
                if 0 <= target < len(values):
                    values[target] += gains[row]
                if half:
                    write_halves(start + width * first, values)
