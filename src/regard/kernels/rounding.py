"""The Numba kernels of `regard.kernels.int8`: quantization of rows and scaling of the integer results."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import bits, floats, integers, number, small_integers
from regard.kernels.int8 import BIAS, COLUMNS, FROM, LEVELS, ROWS, SCALES, SHARE, SIZE, TICKET, TO
from regard.kernels.pool import CHUNK
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["round_rows", "scale_sums"]

_MAGNITUDE, _INFINITE = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
# 1.5 * 2^23: adding it to a number leaves the nearest integer, ties to even, in the last bits of the sum.
_SHIFT = np.float32(12582912.0)
_LEVELS = np.float32(LEVELS)


@njit
def _greatest(values):
    """Return the bits of the maximum magnitude, at least those of infinity if a value is not finite."""
    found = np.int32(0)
    for i in range(len(values)):
        one = np.int32(bits(values[i])) & _MAGNITUDE
        found = one if one > found else found
    return found


@cfunc(types.void(types.int64), cache=True, error_model="numpy")
def round_rows(block: int) -> None:
    """Quantize each row to int8 and write its scale, which is NaN if a value of the row is not finite."""
    rows, size, share = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE), read_int(block + 8 * SHARE)
    scales = floats(read_int(block + 8 * SCALES), rows)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            values = floats(read_int(block + 8 * FROM) + 4 * row * size, size)
            out = small_integers(read_int(block + 8 * TO) + row * size, size)
            greatest = _greatest(values)
            top = number(np.uint32(greatest))
            if 0 < greatest < _INFINITE:
                scales[row] = top / _LEVELS
                factor = _LEVELS / top
                for i in range(size):
                    out[i] = np.int8(bits(values[i] * factor + _SHIFT))
            else:
                scales[row] = np.float32(0) if greatest == 0 else np.float32(np.nan)
                for i in range(size):
                    out[i] = np.int8(0)


@njit
def _scale(out, sums, scale, columns, bias):
    """Multiply the sums of a row by its scale and those of the columns, and add the bias if there is one."""
    if bias:
        added = floats(bias, len(out))
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i] + added[i]
    else:
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i]


@cfunc(types.void(types.int64), cache=True)
def scale_sums(block: int) -> None:
    """Convert integer sums to float32, multiply them by the scales of row and column, and add the bias."""
    rows, size, share = read_int(block + 8 * ROWS), read_int(block + 8 * SIZE), read_int(block + 8 * SHARE)
    scales, columns = floats(read_int(block + 8 * SCALES), rows), floats(read_int(block + 8 * COLUMNS), size)
    bias = read_int(block + 8 * BIAS)
    # A separate buffer: LLVM does not vectorize a loop that might write to the memory it reads.
    room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            for first in range(0, size, CHUNK):
                count, start = min(CHUNK, size - first), 4 * (row * size + first)
                sums = integers(read_int(block + 8 * FROM) + start, count)
                for i in range(count):
                    room[i] = np.float32(sums[i])
                _scale(
                    floats(read_int(block + 8 * TO) + start, count),
                    room[:count],
                    scales[row],
                    columns[first : first + count],
                    bias + 4 * first if bias else 0,
                )
