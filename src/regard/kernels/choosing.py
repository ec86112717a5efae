"""The Numba kernel of `regard.kernels.largest`: top-k per row with block pruning.

A first pass finds the maximum of each block of 64 values. The second pass skips blocks whose maximum is below
the k-th largest value found so far.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import LEAST, bits, floats, order, whole_numbers
from regard.kernels.largest import COUNT, FOUND, PLACES, ROWS, SHARE, SIZE, TICKET, VALUES
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["choose"]

BLOCK = 64
NOTHING, MOST = np.float32(0), np.int32(0x7FFFFFFF)
INFINITE = np.int32(0x7F800000)


@njit
def _order(value):
    """Return an integer that orders values as floats are ordered, with -0 equal to 0 and NaN above all."""
    pattern = np.int32(bits(value + NOTHING))
    # The comparison uses integers only; otherwise LLVM does not vectorize loops over this function.
    return MOST if np.int32(pattern & MOST) > INFINITE else order(pattern)


@njit
def _highest(values):
    """Return the maximum of `_order` over the values."""
    highest = LEAST
    for i in range(len(values)):
        found = _order(values[i])
        highest = found if found > highest else highest
    return highest


@njit
def _bound(tops, room):
    """Return a lower bound of the k-th largest order: the k-th largest of the block maxima, k = len(room)."""
    room[:] = LEAST
    for top in tops:
        if top > room[-1]:
            i = len(room) - 1
            while i > 0 and room[i - 1] < top:
                room[i] = room[i - 1]
                i -= 1
            room[i] = top
    return room[-1]


@njit
def _insert(value, place, found, places, filled):
    """Insert a value into a list sorted in descending order; if the list is full, its last value is dropped.

    Args:
        value: The value.
        place: Its position in the row.
        found: The sorted values.
        places: Their positions in the row.
        filled: Number of values in the list.
    """
    i = min(filled, len(found) - 1)
    while i > 0 and _order(found[i - 1]) < _order(value):
        found[i], places[i] = found[i - 1], places[i - 1]
        i -= 1
    found[i], places[i] = value, place


@cfunc(types.void(types.int64), cache=True)
def choose(block: int) -> None:
    """Write the k largest values of each row and their positions."""
    rows, share = read_int(block + 8 * ROWS), read_int(block + 8 * SHARE)
    size, count = read_int(block + 8 * SIZE), read_int(block + 8 * COUNT)
    tops, room = np.empty((size + BLOCK - 1) // BLOCK, np.int32), np.empty(count, np.int32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * VALUES) + 4 * row * size
            found = floats(read_int(block + 8 * FOUND) + 4 * row * count, count)
            places = whole_numbers(read_int(block + 8 * PLACES) + 8 * row * count, count)
            for i in range(len(tops)):
                tops[i] = _highest(floats(start + 4 * BLOCK * i, min(BLOCK, size - BLOCK * i)))
            # Values below this bound are not among the k largest. Equal values may be, since ties are
            # resolved in favor of the first.
            filled, least = 0, _bound(tops, room)
            for i in range(len(tops)):
                if tops[i] < least or (filled == count and tops[i] == least):
                    continue
                values = floats(start + 4 * BLOCK * i, min(BLOCK, size - BLOCK * i))
                for j in range(len(values)):
                    place = _order(values[j])
                    if place > least or (filled < count and place == least):
                        _insert(values[j], BLOCK * i + j, found, places, filled)
                        filled = min(filled + 1, count)
                        least = max(least, _order(found[filled - 1])) if filled == count else least
