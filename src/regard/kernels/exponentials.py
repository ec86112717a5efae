"""The Numba kernels of `regard.kernels.likelihood`, which process one row of logits at a time.

A row is processed in chunks that fit the cache. bfloat16 logits are converted to float32 chunk by chunk.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import (
    LOWEST_ORDER_KEY,
    exp_float32,
    float32_array,
    float_from_bits,
    int64_array,
    max_order_key,
    order_key,
    read_float32,
    write_bfloat16,
)
from regard.kernels.likelihood import (
    SOFTMAX_BIAS,
    SOFTMAX_FACTORS,
    SOFTMAX_GAINS,
    SOFTMAX_IS_BFLOAT16,
    SOFTMAX_LOGITS,
    SOFTMAX_MAXIMA,
    SOFTMAX_MEANS,
    SOFTMAX_OUTPUT,
    SOFTMAX_ROWS,
    SOFTMAX_ROWS_PER_TICKET,
    SOFTMAX_SHIFTS,
    SOFTMAX_SIZE,
    SOFTMAX_SUMS,
    SOFTMAX_TARGETS,
    SOFTMAX_TICKET,
)
from regard.kernels.pool import CHUNK_SIZE
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["exp_kernel", "gradient_kernel", "log_softmax_kernel"]

_ZERO = np.float32(0)


@njit(fastmath={"reassoc"})
def _sum(values):
    """Return the sum of the values."""
    total = np.float32(0)
    for i in range(len(values)):
        total += values[i]
    return total


@njit(fastmath={"reassoc"})
def _replace_by_exp(values, top):
    """Replace each value by exp(value - top) and return the sum."""
    total = np.float32(0)
    for i in range(len(values)):
        values[i] = exp_float32(values[i] - top)
        total += values[i]
    return total


@cfunc(types.void(types.int64), cache=True)
def exp_kernel(block: int) -> None:
    """Replace the logits z of each row by exp(z - max z), and write max z, mean z and the sum of the results.

    The argument block is that of `regard.kernels.likelihood`.
    """
    rows, share = read_int(block + 8 * SOFTMAX_ROWS), read_int(block + 8 * SOFTMAX_ROWS_PER_TICKET)
    size, half = read_int(block + 8 * SOFTMAX_SIZE), read_int(block + 8 * SOFTMAX_IS_BFLOAT16)
    width = 2 if half else 4
    tops, means = (
        float32_array(read_int(block + 8 * SOFTMAX_MAXIMA), rows),
        float32_array(read_int(block + 8 * SOFTMAX_MEANS), rows),
    )
    sums = float32_array(read_int(block + 8 * SOFTMAX_SUMS), rows)
    room = np.empty(CHUNK_SIZE, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * SOFTMAX_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * SOFTMAX_LOGITS) + row * size * width
            # The maximum is taken over integers in the order of the floats, which LLVM vectorizes.
            highest, total = LOWEST_ORDER_KEY, 0.0
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, room[: min(CHUNK_SIZE, size - first)])
                highest = max_order_key(values, highest)
                total += _sum(values)
            tops[row] = top = float_from_bits(np.uint32(order_key(highest)))
            means[row] = total / size
            total = 0.0
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, room[: min(CHUNK_SIZE, size - first)])
                total += _replace_by_exp(values, top)
                if half:
                    write_bfloat16(start + width * first, values)
            sums[row] = total


@njit(fastmath={"reassoc"})
def _sum_exp(values, top):
    """Return the sum of exp(value - top)."""
    total = np.float32(0)
    for i in range(len(values)):
        total += exp_float32(values[i] - top)
    return total


@cfunc(types.void(types.int64), cache=True)
def log_softmax_kernel(block: int) -> None:
    """Write z + bias - log sum exp(z + bias) for the logits z of each row."""
    rows, share = read_int(block + 8 * SOFTMAX_ROWS), read_int(block + 8 * SOFTMAX_ROWS_PER_TICKET)
    size, half = read_int(block + 8 * SOFTMAX_SIZE), read_int(block + 8 * SOFTMAX_IS_BFLOAT16)
    width = 2 if half else 4
    bias = float32_array(read_int(block + 8 * SOFTMAX_BIAS), size)
    room = np.empty(CHUNK_SIZE, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * SOFTMAX_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * SOFTMAX_LOGITS) + row * size * width
            found = float32_array(read_int(block + 8 * SOFTMAX_OUTPUT) + 4 * row * size, size)
            highest, total = LOWEST_ORDER_KEY, 0.0
            for first in range(0, size, CHUNK_SIZE):
                count = min(CHUNK_SIZE, size - first)
                values = read_float32(start + width * first, half, room[:count])
                part, added = found[first : first + count], bias[first : first + count]
                for i in range(count):
                    part[i] = values[i] + added[i]
                highest = max_order_key(part, highest)
            top = float_from_bits(np.uint32(order_key(highest)))
            for first in range(0, size, CHUNK_SIZE):
                total += _sum_exp(found[first : first + CHUNK_SIZE], top)
            log_normalizer = np.float32(top + np.log(total))
            for i in range(size):
                found[i] -= log_normalizer


@cfunc(types.void(types.int64), cache=True)
def gradient_kernel(block: int) -> None:
    """Multiply each row by its factor, add its shift, and add its gain at the target."""
    rows, share = read_int(block + 8 * SOFTMAX_ROWS), read_int(block + 8 * SOFTMAX_ROWS_PER_TICKET)
    size, half = read_int(block + 8 * SOFTMAX_SIZE), read_int(block + 8 * SOFTMAX_IS_BFLOAT16)
    width = 2 if half else 4
    factors, shifts = (
        float32_array(read_int(block + 8 * SOFTMAX_FACTORS), rows),
        read_int(block + 8 * SOFTMAX_SHIFTS),
    )
    gains, targets = (
        float32_array(read_int(block + 8 * SOFTMAX_GAINS), rows),
        int64_array(read_int(block + 8 * SOFTMAX_TARGETS), rows),
    )
    room = np.empty(CHUNK_SIZE, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * SOFTMAX_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * SOFTMAX_LOGITS) + row * size * width
            factor = factors[row]
            shift = float32_array(shifts, rows)[row] if shifts else _ZERO
            for first in range(0, size, CHUNK_SIZE):
                values = read_float32(start + width * first, half, room[: min(CHUNK_SIZE, size - first)])
                for i in range(len(values)):
                    values[i] = values[i] * factor + shift
                target = targets[row] - first
                if 0 <= target < len(values):
                    values[target] += gains[row]
                if half:
                    write_bfloat16(start + width * first, values)
