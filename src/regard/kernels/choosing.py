"""The kernel of `regard.kernels.largest`: blocks of a row that hold nothing larger are passed by."""

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
    """Where a number stands among all: what is none above all, zero of either sign in one place."""
    pattern = np.int32(bits(value + NOTHING))
    # Of integers alone, or the loop over it is not made into vector code.
    return MOST if np.int32(pattern & MOST) > INFINITE else order(pattern)


@njit
def _highest(values):
    """The highest of these orders."""
    highest = LEAST
    for i in range(len(values)):
        found = _order(values[i])
        highest = found if found > highest else highest
    return highest


@njit
def _bound(tops, room):
    """An order that as many numbers reach as there is room: the least of so many tops, the largest."""
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
            # What is below cannot be among the largest; of equals the first come, so that these may.
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
