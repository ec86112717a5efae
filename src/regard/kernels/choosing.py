"""The Numba kernel of `regard.kernels.largest`: top-k per row with block pruning.

A first pass finds the maximum of each block of 64 values. The second pass skips blocks whose maximum is below
the k-th largest value found so far.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import LOWEST_ORDER_KEY, float32_array, float_bits, int64_array, order_key
from regard.kernels.largest import (
    TOPK_INDICES,
    TOPK_INPUT,
    TOPK_K,
    TOPK_ROWS,
    TOPK_ROWS_PER_TICKET,
    TOPK_SIZE,
    TOPK_TICKET,
    TOPK_VALUES,
)
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["topk_kernel"]

BLOCK_SIZE = 64
_ZERO, MAX_ORDER_KEY = np.float32(0), np.int32(0x7FFFFFFF)
INFINITY_BITS = np.int32(0x7F800000)


@njit
def _order_key(value):
    """Return an integer that orders values as floats are ordered, with -0 equal to 0 and NaN above all."""
    pattern = np.int32(float_bits(value + _ZERO))
    # The comparison uses integers only; otherwise LLVM does not vectorize loops over this function.
    return MAX_ORDER_KEY if np.int32(pattern & MAX_ORDER_KEY) > INFINITY_BITS else order_key(pattern)


@njit
def _max_order_key(values):
    """Return the maximum of `_order_key` over the values."""
    highest = LOWEST_ORDER_KEY
    for i in range(len(values)):
        found = _order_key(values[i])
        highest = found if found > highest else highest
    return highest


@njit
def _kth_bound(block_maxima, room):
    """Return a lower bound of the k-th largest order key: the k-th largest block maximum, k = len(room)."""
    room[:] = LOWEST_ORDER_KEY
    for top in block_maxima:
        if top > room[-1]:
            i = len(room) - 1
            while i > 0 and room[i - 1] < top:
                room[i] = room[i - 1]
                i -= 1
            room[i] = top
    return room[-1]


@njit
def _insert(value, position, values, positions, filled):
    """Insert a value into a list sorted in descending order; if the list is full, its last value is dropped.

    Args:
        value: The value.
        position: Its position in the row.
        values: The sorted values.
        positions: Their positions in the row.
        filled: Number of values in the list.
    """
    i = min(filled, len(values) - 1)
    while i > 0 and _order_key(values[i - 1]) < _order_key(value):
        values[i], positions[i] = values[i - 1], positions[i - 1]
        i -= 1
    values[i], positions[i] = value, position


@cfunc(types.void(types.int64), cache=True)
def topk_kernel(block: int) -> None:
    """Write the k largest values of each row and their positions."""
    rows, rows_per_ticket = read_int(block + 8 * TOPK_ROWS), read_int(block + 8 * TOPK_ROWS_PER_TICKET)
    size, count = read_int(block + 8 * TOPK_SIZE), read_int(block + 8 * TOPK_K)
    block_maxima, room = np.empty((size + BLOCK_SIZE - 1) // BLOCK_SIZE, np.int32), np.empty(count, np.int32)
    while True:
        begin = rows_per_ticket * atomic_add(block + 8 * TOPK_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + rows_per_ticket, rows)):
            start = read_int(block + 8 * TOPK_INPUT) + 4 * row * size
            top_values = float32_array(read_int(block + 8 * TOPK_VALUES) + 4 * row * count, count)
            top_positions = int64_array(read_int(block + 8 * TOPK_INDICES) + 8 * row * count, count)
            for i in range(len(block_maxima)):
                block_maxima[i] = _max_order_key(
                    float32_array(start + 4 * BLOCK_SIZE * i, min(BLOCK_SIZE, size - BLOCK_SIZE * i))
                )
            # Values below this bound are not among the k largest. Equal values may be, since ties are
            # resolved in favor of the first.
            filled, bound = 0, _kth_bound(block_maxima, room)
            for i in range(len(block_maxima)):
                if block_maxima[i] < bound or (filled == count and block_maxima[i] == bound):
                    continue
                values = float32_array(start + 4 * BLOCK_SIZE * i, min(BLOCK_SIZE, size - BLOCK_SIZE * i))
                for j in range(len(values)):
                    key = _order_key(values[j])
                    if key > bound or (filled < count and key == bound):
                        _insert(values[j], BLOCK_SIZE * i + j, top_values, top_positions, filled)
                        filled = min(filled + 1, count)
                        bound = max(bound, _order_key(top_values[filled - 1])) if filled == count else bound
