"""The Numba kernel of `regard.kernels.dropout`; it works on chunks of 1,024 elements, which fit the cache."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.dropout import (
    COUNT,
    GATE,
    HALF_GATE,
    HALF_OUT,
    HALF_X,
    LEVEL,
    LEVELS,
    ONTO,
    OUT,
    RELU,
    SEED,
    SHARE,
    TICKET,
    X,
)
from regard.kernels.floats import floats, read_floats, write_halves
from regard.kernels.pool import CHUNK
from regard.kernels.splitmix import GAMMA, mix
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["drop"]


@njit
def _draw(seed, first, noise):
    """Fill `noise` with the random numbers of the seed from index `first` on."""
    for i in range(len(noise)):
        noise[i] = mix(seed + GAMMA * np.uint64(first + i + 1))


@cfunc(types.void(types.int64), cache=True, error_model="numpy")
def drop(block: int) -> None:
    """Apply dropout to the tensors of an argument block; see `regard.kernels.dropout`."""
    count, share = read_int(block + 8 * COUNT), CHUNK * read_int(block + 8 * SHARE)
    x, onto, gate = read_int(block + 8 * X), read_int(block + 8 * ONTO), read_int(block + 8 * GATE)
    out, relu = read_int(block + 8 * OUT), read_int(block + 8 * RELU)
    half_x, half_out = read_int(block + 8 * HALF_X), read_int(block + 8 * HALF_OUT)
    half_gate = read_int(block + 8 * HALF_GATE)
    seed, level = np.uint64(read_int(block + 8 * SEED)), np.uint16(read_int(block + 8 * LEVEL))
    scale, nothing = np.float32(LEVELS / (LEVELS - read_int(block + 8 * LEVEL))), np.float32(0)
    noise = np.empty(CHUNK // 4, np.uint64)
    samples = noise.view(np.uint16)
    # Separate buffers: LLVM does not vectorize a loop that might write to the memory it reads.
    room, found_room = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    other_room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= count:
            break
        for first in range(begin, min(begin + share, count), CHUNK):
            size = min(CHUNK, count - first)
            values = read_floats(x + (2 if half_x else 4) * first, half_x, room[:size])
            found = found_room[:size] if half_out else floats(out + 4 * first, size)
            if gate:
                passed = read_floats(gate + (2 if half_gate else 4) * first, half_gate, other_room[:size])
                for i in range(size):
                    found[i] = nothing if passed[i] <= 0 else values[i] * scale
            else:
                _draw(seed, first // 4, noise)
                if relu:
                    for i in range(size):
                        found[i] = values[i] * scale if samples[i] >= level and not values[i] < 0 else nothing
                else:
                    for i in range(size):
                        found[i] = values[i] * scale if samples[i] >= level else nothing
            if onto:
                added = read_floats(onto + (2 if half_out else 4) * first, half_out, other_room[:size])
                for i in range(size):
                    found[i] += added[i]
            if half_out:
                write_halves(out + 2 * first, found)
