"""The Numba kernel of `regard.kernels.cached`: softmax attention for one query row at a time.

For each row and head the kernel computes the scores of all positions, their softmax, and the weighted sum of
the values.
"""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.cached import (
    ATTN_CONTEXTS,
    ATTN_HEADS,
    ATTN_IS_BFLOAT16,
    ATTN_KEY_SIZE,
    ATTN_KEY_STRIDE,
    ATTN_KEYS,
    ATTN_MASK,
    ATTN_POSITIONS,
    ATTN_QUERIES,
    ATTN_ROWS,
    ATTN_ROWS_PER_TICKET,
    ATTN_SCALE,
    ATTN_SENTENCES,
    ATTN_SLOTS,
    ATTN_TICKET,
    ATTN_VALUE_SIZE,
    ATTN_VALUE_STRIDE,
    ATTN_VALUES,
    ATTN_WEIGHTS,
)
from regard.kernels.floats import (
    bool_array,
    exp_float32,
    float32_array,
    float_from_bits,
    int64_array,
    read_float32,
    write_bfloat16,
)
from regard.kernels.sixteens import inner_product, weighted_sum
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["attention_kernel"]

_ZERO = np.float32(0)
VECTOR_WIDTH = 16
MASKED_SCORE = np.float32(-np.inf)


@njit(fastmath={"reassoc"}, error_model="numpy")
def _softmax(scores, count):
    """Replace the first `count` scores by their softmax; the length of the array is a multiple of 16."""
    top = MASKED_SCORE
    for i in range(count):
        top = scores[i] if scores[i] > top else top
    for i in range(count, len(scores)):
        scores[i] = MASKED_SCORE
    total = np.float32(0)
    for first in range(0, len(scores), VECTOR_WIDTH):
        for i in range(VECTOR_WIDTH):  # a fixed trip count lets LLVM vectorize even very short rows
            scores[first + i] = exp_float32(scores[first + i] - top)
            total += scores[first + i]
    for i in range(count):
        scores[i] /= total


@njit
def _as_float32(address, half, room, count):
    """Return the address of `count` values in float32; bfloat16 values are converted into `room`."""
    if not half:
        return address
    read_float32(address, half, float32_array(room, count))
    return room


@njit
def _attention_rows(block, memory, integers):
    """Compute attention for all rows with the scratch memory that is passed in.

    The function works on addresses rather than arrays, because Numba counts references to arrays and would
    do so for every position.

    Args:
        block: Address of the argument block of `regard.kernels.cached`.
        memory: Scratch memory, float32.
        integers: Scratch memory, int64.
    """
    rows, heads, length = (
        read_int(block + 8 * ATTN_ROWS),
        read_int(block + 8 * ATTN_HEADS),
        read_int(block + 8 * ATTN_POSITIONS),
    )
    key_size, value_size = read_int(block + 8 * ATTN_KEY_SIZE), read_int(block + 8 * ATTN_VALUE_SIZE)
    key_stride, value_stride = read_int(block + 8 * ATTN_KEY_STRIDE), read_int(block + 8 * ATTN_VALUE_STRIDE)
    half, rows_per_ticket = (
        read_int(block + 8 * ATTN_IS_BFLOAT16),
        read_int(block + 8 * ATTN_ROWS_PER_TICKET),
    )
    size = 2 if half else 4
    scale = float_from_bits(np.uint32(read_int(block + 8 * ATTN_SCALE)))
    queries, contexts = read_int(block + 8 * ATTN_QUERIES), read_int(block + 8 * ATTN_CONTEXTS)
    keys, values = read_int(block + 8 * ATTN_KEYS), read_int(block + 8 * ATTN_VALUES)
    slots_address, mask_address = read_int(block + 8 * ATTN_SLOTS), read_int(block + 8 * ATTN_MASK)
    sentences, weights_out = (
        int64_array(read_int(block + 8 * ATTN_SENTENCES), rows),
        read_int(block + 8 * ATTN_WEIGHTS),
    )
    # Layout of the scratch memory. Keys and values have space there only if they must be converted.
    converted = length if half else 0
    query_room = np.int64(memory.ctypes.data)
    context_room = query_room + 4 * heads * key_size
    key_rooms = context_room + 4 * heads * value_size
    value_rooms = key_rooms + 4 * heads * key_size * converted
    weights_room = value_rooms + 4 * heads * value_size * converted
    index_room = np.int64(integers.ctypes.data)
    positions = int64_array(index_room, length)
    key_addresses = int64_array(index_room + 8 * length, length)
    value_addresses = int64_array(index_room + 16 * length, length)
    while True:
        begin = rows_per_ticket * atomic_add(block + 8 * ATTN_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + rows_per_ticket, rows)):
            query = _as_float32(queries + size * row * heads * key_size, half, query_room, heads * key_size)
            sentence = row if slots_address else sentences[row]
            slots, mask = (
                int64_array(slots_address + 8 * row * length, length),
                bool_array(mask_address + sentence * length, length),
            )
            # Collect the addresses of the keys and values of the positions that are not masked.
            count = 0
            for j in range(length):
                if mask_address and not mask[j]:
                    continue
                slot = slots[j] if slots_address else sentence * length + j
                key, room = keys + size * slot * key_stride, key_rooms + 4 * count * heads * key_size
                key_addresses[count] = _as_float32(key, half, room, heads * key_size)
                value, room = (
                    values + size * slot * value_stride,
                    value_rooms + 4 * count * heads * value_size,
                )
                value_addresses[count] = _as_float32(value, half, room, heads * value_size)
                positions[count] = j
                count += 1
            start = contexts + size * row * heads * value_size
            context = context_room if half else start
            weights = float32_array(weights_room, (count + VECTOR_WIDTH - 1) // VECTOR_WIDTH * VECTOR_WIDTH)
            for h in range(heads):
                offset = 4 * h * key_size
                for j in range(count):
                    weights[j] = scale * inner_product(query + offset, key_addresses[j] + offset, key_size)
                _softmax(weights, count)
                offset = 4 * h * value_size
                weighted_sum(context + offset, weights_room, value_addresses, count, offset, value_size)
                if weights_out:
                    row_weights = float32_array(weights_out + 4 * (row * heads + h) * length, length)
                    row_weights[:] = _ZERO
                    for j in range(count):
                        row_weights[positions[j]] = weights[j]
            if half:
                write_bfloat16(start, float32_array(context, heads * value_size))


@cfunc(types.void(types.int64), cache=True)
def attention_kernel(block: int) -> None:
    """Compute softmax attention for the rows of an argument block; see `regard.kernels.cached`."""
    length, half = read_int(block + 8 * ATTN_POSITIONS), read_int(block + 8 * ATTN_IS_BFLOAT16)
    row_size = read_int(block + 8 * ATTN_HEADS) * (
        read_int(block + 8 * ATTN_KEY_SIZE) + read_int(block + 8 * ATTN_VALUE_SIZE)
    )
    num_floats = row_size * (1 + (length if half else 0)) + length + VECTOR_WIDTH
    _attention_rows(block, np.empty(num_floats, np.float32), np.empty(3 * length, np.int64))
