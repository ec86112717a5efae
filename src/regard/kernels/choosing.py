"""The kernel of `regard.kernels.largest`: blocks of a row that hold nothing larger are passed by."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import LEAST, bits, floats, order, whole_numbers
from regard.kernels.largest import COUNT, FOUND, PLACES, ROWS, SHARE, SIZE, TICKET, VALUES
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["choose"]

BLOCK = 64
NOTHING, MOST = np.float32(0), np.int32(0x7FFFFFFF)


@njit
def _order(value):
    """Where a number stands among all: what is none above all, zero of either sign in one place."""
    return MOST if value != value else order(np.int32(bits(value + NOTHING)))


@njit
def _highest(values):
    """The highest of these orders."""
    highest = LEAST
    for i in range(len(values)):
        found = _order(values[i])
        highest = found if found > highest else highest
    return highest


@njit
def _insert(value, place, found, places, filled):
    """Put a number in its place among so many that are there already, largest first; the last may go."""
    i = min(filled, len(found) - 1)
    while i > 0 and _order(found[i - 1]) < _order(value):
        found[i], places[i] = found[i - 1], places[i - 1]
        i -= 1
    found[i], places[i] = value, place


@cfunc(types.void(types.int64), cache=True)
def choose(block: int) -> None:
    """The largest numbers of each row, and where they stand."""
    rows, share = read_int(block + 8 * ROWS), read_int(block + 8 * SHARE)
    size, count = read_int(block + 8 * SIZE), read_int(block + 8 * COUNT)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            start = read_int(block + 8 * VALUES) + 4 * row * size
            found = floats(read_int(block + 8 * FOUND) + 4 * row * count, count)
            places = whole_numbers(read_int(block + 8 * PLACES) + 8 * row * count, count)
            filled, least = 0, LEAST
            for first in range(0, size, BLOCK):
                values = floats(start + 4 * first, min(BLOCK, size - first))
                if filled == count and _highest(values) <= least:
                    continue
                for i in range(len(values)):
                    if filled < count or _order(values[i]) > least:
                        _insert(values[i], first + i, found, places, filled)
                        filled = min(filled + 1, count)
                        least = _order(found[filled - 1])
