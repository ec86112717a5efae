"""The Numba kernel of `regard.kernels.cached`: softmax attention for one query row at a time.

For each row and head the kernel computes the scores of all positions, their softmax, and the weighted sum of
the values.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.cached import (
    CONTEXTS,
    HALF,
    HEADS,
    KEY,
    KEY_STRIDE,
    KEYS,
    MASK,
    OWNERS,
    QUERIES,
    ROWS,
    SCALE,
    SHARE,
    SLOTS,
    TICKET,
    VALUE,
    VALUE_STRIDE,
    VALUES,
    WEIGHTS,
    WORDS,
)
from regard.kernels.floats import exp, floats, number, read_floats, truths, whole_numbers, write_halves
from regard.kernels.sixteens import inner_product, mixture
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["attend"]

NOTHING = np.float32(0)
LANES = 16
HIDDEN = np.float32(-np.inf)


@njit(fastmath={"reassoc"}, error_model="numpy")
def _weigh(scores, count):
    """Replace the first `count` scores by their softmax; the length of the array is a multiple of 16."""
    top = HIDDEN
    for i in range(count):
        top = scores[i] if scores[i] > top else top
    for i in range(count, len(scores)):
        scores[i] = HIDDEN
    total = np.float32(0)
    for first in range(0, len(scores), LANES):
        for i in range(LANES):  # a fixed trip count lets LLVM vectorize even very short rows
            scores[first + i] = exp(scores[first + i] - top)
            total += scores[first + i]
    for i in range(count):
        scores[i] /= total


@njit
def _single(address, half, room, count):
    """Return the address of `count` values in float32; bfloat16 values are converted into `room`."""
    if not half:
        return address
    read_floats(address, half, floats(room, count))
    return room


@njit
def _attend(block, memory, numbers):
    """Compute attention for all rows with the scratch memory that is passed in.

    The function works on addresses rather than arrays, because Numba counts references to arrays and would
    do so for every position.

    Args:
        block: Address of the argument block of `regard.kernels.cached`.
        memory: Scratch memory, float32.
        numbers: Scratch memory, int64.
    """
    rows, heads, words = read_int(block + 8 * ROWS), read_int(block + 8 * HEADS), read_int(block + 8 * WORDS)
    of_key, of_value = read_int(block + 8 * KEY), read_int(block + 8 * VALUE)
    key_stride, value_stride = read_int(block + 8 * KEY_STRIDE), read_int(block + 8 * VALUE_STRIDE)
    half, share = read_int(block + 8 * HALF), read_int(block + 8 * SHARE)
    size = 2 if half else 4
    scale = number(np.uint32(read_int(block + 8 * SCALE)))
    queries, contexts = read_int(block + 8 * QUERIES), read_int(block + 8 * CONTEXTS)
    keys, values = read_int(block + 8 * KEYS), read_int(block + 8 * VALUES)
    named, masked = read_int(block + 8 * SLOTS), read_int(block + 8 * MASK)
    owners, wanted = whole_numbers(read_int(block + 8 * OWNERS), rows), read_int(block + 8 * WEIGHTS)
    # Layout of the scratch memory. Keys and values have space there only if they must be converted.
    converted = words if half else 0
    asked_room = np.int64(memory.ctypes.data)
    found_room = asked_room + 4 * heads * of_key
    key_rooms = found_room + 4 * heads * of_value
    value_rooms = key_rooms + 4 * heads * of_key * converted
    weights_room = value_rooms + 4 * heads * of_value * converted
    of_words = np.int64(numbers.ctypes.data)
    which = whole_numbers(of_words, words)
    key_places = whole_numbers(of_words + 8 * words, words)
    value_places = whole_numbers(of_words + 16 * words, words)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            asked = _single(queries + size * row * heads * of_key, half, asked_room, heads * of_key)
            text = row if named else owners[row]
            slots, seen = whole_numbers(named + 8 * row * words, words), truths(masked + text * words, words)
            # Collect the addresses of the keys and values of the positions that are not masked.
            count = 0
            for j in range(words):
                if masked and not seen[j]:
                    continue
                slot = slots[j] if named else text * words + j
                key, room = keys + size * slot * key_stride, key_rooms + 4 * count * heads * of_key
                key_places[count] = _single(key, half, room, heads * of_key)
                value, room = values + size * slot * value_stride, value_rooms + 4 * count * heads * of_value
                value_places[count] = _single(value, half, room, heads * of_value)
                which[count] = j
                count += 1
            start = contexts + size * row * heads * of_value
            found = found_room if half else start
            weights = floats(weights_room, (count + LANES - 1) // LANES * LANES)
            for h in range(heads):
                begins = 4 * h * of_key
                for j in range(count):
                    weights[j] = scale * inner_product(asked + begins, key_places[j] + begins, of_key)
                _weigh(weights, count)
                begins = 4 * h * of_value
                mixture(found + begins, weights_room, value_places, count, begins, of_value)
                if wanted:
                    written = floats(wanted + 4 * (row * heads + h) * words, words)
                    written[:] = NOTHING
                    for j in range(count):
                        written[which[j]] = weights[j]
            if half:
                write_halves(start, floats(found, heads * of_value))


@cfunc(types.void(types.int64), cache=True)
def attend(block: int) -> None:
    """Compute softmax attention for the rows of an argument block; see `regard.kernels.cached`."""
    words, half = read_int(block + 8 * WORDS), read_int(block + 8 * HALF)
    each = read_int(block + 8 * HEADS) * (read_int(block + 8 * KEY) + read_int(block + 8 * VALUE))
    numbers = each * (1 + (words if half else 0)) + words + LANES
    _attend(block, np.empty(numbers, np.float32), np.empty(3 * words, np.int64))
