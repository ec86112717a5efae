"""The Numba kernel of `regard.kernels.dropout`; it works on chunks of 1,024 elements, which fit the cache."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.dropout import (
    DROPOUT_CHUNKS_PER_TICKET,
    DROPOUT_COUNT,
    DROPOUT_GATE,
    DROPOUT_GATE_IS_BFLOAT16,
    DROPOUT_INPUT,
    DROPOUT_INPUT_IS_BFLOAT16,
    DROPOUT_OUTPUT,
    DROPOUT_OUTPUT_IS_BFLOAT16,
    DROPOUT_RELU,
    DROPOUT_RESIDUAL,
    DROPOUT_RESOLUTION,
    DROPOUT_SEED,
    DROPOUT_THRESHOLD,
    DROPOUT_TICKET,
)
from regard.kernels.floats import float32_array, read_float32, write_bfloat16
from regard.kernels.pool import CHUNK_SIZE
from regard.kernels.splitmix import GAMMA, splitmix64
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["dropout_kernel"]


@njit
def _fill_random(seed, first, noise):
    """Fill `noise` with the random numbers of the seed from index `first` on."""
    for i in range(len(noise)):
        noise[i] = splitmix64(seed + GAMMA * np.uint64(first + i + 1))


@cfunc(types.void(types.int64), cache=True, error_model="numpy")
def dropout_kernel(block: int) -> None:
    """Apply dropout to the tensors of an argument block; see `regard.kernels.dropout`."""
    count, elements_per_ticket = (
        read_int(block + 8 * DROPOUT_COUNT),
        CHUNK_SIZE * read_int(block + 8 * DROPOUT_CHUNKS_PER_TICKET),
    )
    x, residual, gate = (
        read_int(block + 8 * DROPOUT_INPUT),
        read_int(block + 8 * DROPOUT_RESIDUAL),
        read_int(block + 8 * DROPOUT_GATE),
    )
    out, relu = read_int(block + 8 * DROPOUT_OUTPUT), read_int(block + 8 * DROPOUT_RELU)
    half_x, half_out = (
        read_int(block + 8 * DROPOUT_INPUT_IS_BFLOAT16),
        read_int(block + 8 * DROPOUT_OUTPUT_IS_BFLOAT16),
    )
    half_gate = read_int(block + 8 * DROPOUT_GATE_IS_BFLOAT16)
    seed, level = (
        np.uint64(read_int(block + 8 * DROPOUT_SEED)),
        np.uint16(read_int(block + 8 * DROPOUT_THRESHOLD)),
    )
    scale, zero = (
        np.float32(DROPOUT_RESOLUTION / (DROPOUT_RESOLUTION - read_int(block + 8 * DROPOUT_THRESHOLD))),
        np.float32(0),
    )
    noise = np.empty(CHUNK_SIZE // 4, np.uint64)
    samples = noise.view(np.uint16)
    # Separate buffers: LLVM does not vectorize a loop that might write to the memory it reads.
    room, result_room = np.empty(CHUNK_SIZE, np.float32), np.empty(CHUNK_SIZE, np.float32)
    other_room = np.empty(CHUNK_SIZE, np.float32)
    while True:
        begin = elements_per_ticket * atomic_add(block + 8 * DROPOUT_TICKET, 1)
        if begin >= count:
            break
        for first in range(begin, min(begin + elements_per_ticket, count), CHUNK_SIZE):
            size = min(CHUNK_SIZE, count - first)
            values = read_float32(x + (2 if half_x else 4) * first, half_x, room[:size])
            result = result_room[:size] if half_out else float32_array(out + 4 * first, size)
            if gate:
                gate_values = read_float32(
                    gate + (2 if half_gate else 4) * first, half_gate, other_room[:size]
                )
                for i in range(size):
                    result[i] = zero if gate_values[i] <= 0 else values[i] * scale
            else:
                _fill_random(seed, first // 4, noise)
                if relu:
                    for i in range(size):
                        result[i] = values[i] * scale if samples[i] >= level and not values[i] < 0 else zero
                else:
                    for i in range(size):
                        result[i] = values[i] * scale if samples[i] >= level else zero
            if residual:
                added = read_float32(residual + (2 if half_out else 4) * first, half_out, other_room[:size])
                for i in range(size):
                    result[i] += added[i]
            if half_out:
                write_bfloat16(out + 2 * first, result)
