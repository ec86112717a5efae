"""The kernel of `regard.kernels.dropout`: a thousand numbers at a time, which stay near while they are worked on."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types

from regard.kernels.dropout import (
    CHUNK,
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
from regard.kernels.lanes import intrinsic
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["drop"]


def _pointer_to(kind: Any) -> Any:
    @intrinsic
    def pointer(typingctx: Any, address: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.PointerType())

        return types.CPointer(kind)(types.int64), make

    return pointer


_floats_at, _halves_at = _pointer_to(types.float32), _pointer_to(types.uint16)

GAMMA, FIRST, SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@njit
def _draw(seed, first, noise):
    """Number i of `noise` is output first + i of SplitMix64."""
    for i in range(len(noise)):
        z = seed + GAMMA * np.uint64(first + i + 1)
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        noise[i] = z ^ (z >> np.uint64(31))


@njit
def _read(address, half, first, room):
    """Numbers from an address on: where they lie, or, bfloat16 made float32, in `room`."""
    if not half:
        return carray(_floats_at(address + 4 * first), len(room))
    short, bits = carray(_halves_at(address + 2 * first), len(room)), room.view(np.uint32)
    for i in range(len(bits)):
        bits[i] = np.uint32(short[i]) << np.uint32(16)
    return room


@njit
def _round(address, first, values):
    """Write numbers as bfloat16, rounded to the nearest, ties to even; what is no number stays none."""
    short, bits = carray(_halves_at(address + 2 * first), len(values)), values.view(np.uint32)
    for i in range(len(values)):
        odd = (bits[i] >> np.uint32(16)) & np.uint32(1)
        rounded = np.uint16((bits[i] + np.uint32(0x7FFF) + odd) >> np.uint32(16))
        short[i] = rounded if values[i] == values[i] else np.uint16(0x7FC0)


@cfunc(types.void(types.int64), cache=True)
def drop(block: int) -> None:
    """Drop and scale the block's numbers."""
    count, share = read_int(block + 8 * COUNT), CHUNK * read_int(block + 8 * SHARE)
    x, onto, gate = read_int(block + 8 * X), read_int(block + 8 * ONTO), read_int(block + 8 * GATE)
    out, relu = read_int(block + 8 * OUT), read_int(block + 8 * RELU)
    half_x, half_out = read_int(block + 8 * HALF_X), read_int(block + 8 * HALF_OUT)
    half_gate = read_int(block + 8 * HALF_GATE)
    seed, level = np.uint64(read_int(block + 8 * SEED)), np.uint16(read_int(block + 8 * LEVEL))
    scale, nothing = np.float32(LEVELS / (LEVELS - read_int(block + 8 * LEVEL))), np.float32(0)
    noise = np.empty(CHUNK // 4, np.uint64)
    draws = noise.view(np.uint16)
    # Rooms of their own: a loop that may write what it reads is not made into vector code.
    room, found_room = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    other_room = np.empty(CHUNK, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= count:
            break
        for first in range(begin, min(begin + share, count), CHUNK):
            size = min(CHUNK, count - first)
            values = _read(x, half_x, first, room[:size])
            found = found_room[:size] if half_out else carray(_floats_at(out + 4 * first), size)
            if gate:
                passed = _read(gate, half_gate, first, other_room[:size])
                for i in range(size):
                    found[i] = values[i] * scale if passed[i] > 0 else nothing
            else:
                _draw(seed, first // 4, noise)
                if relu:
                    for i in range(size):
                        found[i] = values[i] * scale if draws[i] >= level and not values[i] < 0 else nothing
                else:
                    for i in range(size):
                        found[i] = values[i] * scale if draws[i] >= level else nothing
            if onto:
                added = _read(onto, half_out, first, other_room[:size])
                for i in range(size):
                    found[i] += added[i]
            if half_out:
                _round(out, first, found)
