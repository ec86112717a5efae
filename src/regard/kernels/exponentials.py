"""The Numba kernels of `regard.kernels.likelihood`, which process one row of logits at a time.

A row is processed in chunks that fit the cache. bfloat16 logits are converted to float32 chunk by chunk.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import (
    LEAST,
    exp,
    floats,
    highest_order,
    number,
    order,
    read_floats,
    whole_numbers,
    write_halves,
)
from regard.kernels.likelihood import (
    BIAS,
    FACTORS,
    FOUND,
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

__all__ = ["exponentiate", "normalise", "weigh"]

NOTHING = np.float32(0)


@njit(fastmath={"reassoc"})
def _sum(values):
    """Return the sum of the values."""
    total = np.float32(0)
    for i in range(len(values)):
        total += values[i]
    return total


@njit(fastmath={"reassoc"})
def _exponentials(values, top):
    """Replace each value by exp(value - top) and return the sum."""
    total = np.float32(0)
    for i in range(len(values)):
        values[i] = exp(values[i] - top)
        total += values[i]
    return total


@cfunc(types.void(types.int64), cache=True)
def exponentiate(block: int) -> None:
    """Replace the logits z of each row by exp(z - max z), and write max z, mean z and the sum of the results.

    The argument block is that of `regard.kernels.likelihood`.
    """
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
            # The maximum is taken over integers in the order of the floats, which LLVM vectorizes.
            highest, total = LEAST, 0.0
            for first in range(0, size, CHUNK):
                values = read_floats(start + width * first, half, room[: min(CHUNK, size - first)])
                highest = highest_order(values, highest)
                total += _sum(values)
            tops[row] = top = number(np.uint32(order(highest)))
            means[row] = total / size
            total = 0.0
            for first in range(0, size, CHUNK):
                values = read_floats(start + width * first, half, room[: min(CHUNK, size - first)])
                total += _exponentials(values, top)
                if half:
                    write_halves(start + width * first, values)
            sums[row] = total


@njit(fastmath={"reassoc"})
def _powers(values, top):
    """Return the sum of exp(value - top)."""
    total = np.float32(0)
    for i in range(len(values)):
        total += exp(values[i] - top)
    return total


@cfunc(types.void(types.int64), cache=True)
def normalise(block: int) -> None:
    """Write z + bias - log sum exp(z + bias) for the logits z of each row."""
    rows, share = read_int(block + 8 * ROWS), read_int(block + 8 * SHARE)
    size, half = read_int(block + 8 * SIZE), read_int(block + 8 * HALF)
    width = 2 if half else 4
    bias = floats(read_int(block + 8 * BIAS), size)
    room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * LOGITS) + row * size * width
            found = floats(read_int(block + 8 * FOUND) + 4 * row * size, size)
            highest, total = LEAST, 0.0
            for first in range(0, size, CHUNK):
                count = min(CHUNK, size - first)
                values = read_floats(start + width * first, half, room[:count])
                part, added = found[first : first + count], bias[first : first + count]
                for i in range(count):
                    part[i] = values[i] + added[i]
                highest = highest_order(part, highest)
            top = number(np.uint32(order(highest)))
            for first in range(0, size, CHUNK):
                total += _powers(found[first : first + CHUNK], top)
            log_normalizer = np.float32(top + np.log(total))
            for i in range(size):
                found[i] -= log_normalizer


@cfunc(types.void(types.int64), cache=True)
def weigh(block: int) -> None:
    """Multiply each row by its factor, add its shift, and add its gain at the target."""
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
