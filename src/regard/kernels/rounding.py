"""The Numba kernels of `regard.kernels.int8`: quantization of rows and scaling of the integer results."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import float32_array, float_bits, float_from_bits, int8_array, int32_array
from regard.kernels.int8 import (
    INT8_BIAS,
    INT8_COLUMN_SCALES,
    INT8_COLUMNS,
    INT8_INPUT,
    INT8_MAX,
    INT8_OUTPUT,
    INT8_ROW_SCALES,
    INT8_ROWS,
    INT8_ROWS_PER_TICKET,
    INT8_TICKET,
)
from regard.kernels.pool import CHUNK_SIZE
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["dequantize_kernel", "quantize_kernel"]

_MAGNITUDE, _INFINITE = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
# 1.5 * 2^23: adding it to a number leaves the nearest integer, ties to even, in the last bits of the sum.
_SHIFT = np.float32(12582912.0)
_LEVELS = np.float32(INT8_MAX)


@njit
def _max_magnitude_bits(values):
    """Return the bits of the maximum magnitude, at least those of infinity if a value is not finite."""
    found = np.int32(0)
    for i in range(len(values)):
        one = np.int32(float_bits(values[i])) & _MAGNITUDE
        found = one if one > found else found
    return found


@cfunc(types.void(types.int64), cache=True, error_model="numpy")
def quantize_kernel(block: int) -> None:
    """Quantize each row to int8 and write its scale, which is NaN if a value of the row is not finite."""
    rows, size, share = (
        read_int(block + 8 * INT8_ROWS),
        read_int(block + 8 * INT8_COLUMNS),
        read_int(block + 8 * INT8_ROWS_PER_TICKET),
    )
    scales = float32_array(read_int(block + 8 * INT8_ROW_SCALES), rows)
    while True:
        begin = share * atomic_add(block + 8 * INT8_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            values = float32_array(read_int(block + 8 * INT8_INPUT) + 4 * row * size, size)
            out = int8_array(read_int(block + 8 * INT8_OUTPUT) + row * size, size)
            greatest = _max_magnitude_bits(values)
            top = float_from_bits(np.uint32(greatest))
            if 0 < greatest < _INFINITE:
                scales[row] = top / _LEVELS
                factor = _LEVELS / top
                for i in range(size):
                    out[i] = np.int8(float_bits(values[i] * factor + _SHIFT))
            else:
                scales[row] = np.float32(0) if greatest == 0 else np.float32(np.nan)
                for i in range(size):
                    out[i] = np.int8(0)


@njit
def _scale(out, sums, scale, columns, bias):
    """Multiply the sums of a row by its scale and those of the columns, and add the bias if there is one."""
    if bias:
        added = float32_array(bias, len(out))
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i] + added[i]
    else:
        for i in range(len(out)):
            out[i] = sums[i] * scale * columns[i]


@cfunc(types.void(types.int64), cache=True)
def dequantize_kernel(block: int) -> None:
    """Convert integer sums to float32, multiply them by the scales of row and column, and add the bias."""
    rows, size, share = (
        read_int(block + 8 * INT8_ROWS),
        read_int(block + 8 * INT8_COLUMNS),
        read_int(block + 8 * INT8_ROWS_PER_TICKET),
    )
    scales, columns = (
        float32_array(read_int(block + 8 * INT8_ROW_SCALES), rows),
        float32_array(read_int(block + 8 * INT8_COLUMN_SCALES), size),
    )
    bias = read_int(block + 8 * INT8_BIAS)
    # A separate buffer: LLVM does not vectorize a loop that might write to the memory it reads.
    room = np.empty(CHUNK_SIZE, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * INT8_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            for first in range(0, size, CHUNK_SIZE):
                count, start = min(CHUNK_SIZE, size - first), 4 * (row * size + first)
                sums = int32_array(read_int(block + 8 * INT8_INPUT) + start, count)
                for i in range(count):
                    room[i] = np.float32(sums[i])
                _scale(
                    float32_array(read_int(block + 8 * INT8_OUTPUT) + start, count),
                    room[:count],
                    scales[row],
                    columns[first : first + count],
                    bias + 4 * first if bias else 0,
                )
