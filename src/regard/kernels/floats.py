"""Numbers for Numba kernels one by one: arrays at an address, bfloat16 as float32, bits, order, exponentials.

A loop over these that may not write what it reads becomes vector code.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.np.numpy_support import carray

from regard.kernels.lanes import intrinsic

__all__ = [
    "LEAST",
    "bits",
    "exp",
    "floats",
    "highest_order",
    "integers",
    "number",
    "order",
    "read_floats",
    "small_integers",
    "truths",
    "whole_numbers",
    "write_halves",
]

_FLOAT, _BITS = ir.FloatType(), ir.IntType(32)


def _pointer_to(kind: Any) -> Any:
    @intrinsic
    def pointer(typingctx: Any, address: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.PointerType())

        return types.CPointer(kind)(types.int64), make

    return pointer


_floats_at, _halves_at, _wholes_at, _integers_at, _small_at, _truths_at = (
    _pointer_to(kind)
    for kind in (types.float32, types.uint16, types.int64, types.int32, types.int8, types.uint8)
)


@intrinsic
def bits(typingctx: Any, value: Any) -> Any:
    """The bits of a float32."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _BITS)

    return types.uint32(types.float32), make


@intrinsic
def number(typingctx: Any, bits: Any) -> Any:
    """The float32 of these bits."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _FLOAT)

    return types.float32(types.uint32), make


@njit
def floats(address, count):
    """The float32 numbers at an address."""
    return carray(_floats_at(address), count)


@njit
def whole_numbers(address, count):
    """The int64 numbers at an address."""
    return carray(_wholes_at(address), count)


@njit
def integers(address, count):
    """The int32 numbers at an address."""
    return carray(_integers_at(address), count)


@njit
def small_integers(address, count):
    """The int8 numbers at an address."""
    return carray(_small_at(address), count)


@njit
def truths(address, count):
    """The truth values at an address, 0 or 1 each."""
    return carray(_truths_at(address), count)


@njit
def read_floats(address, half, room):
    """As many numbers as there is room for: where they lie, or, bfloat16 made float32, in `room`."""
    if not half:
        return floats(address, len(room))
    short = carray(_halves_at(address), len(room))
    for i in range(len(room)):
        room[i] = number(np.uint32(short[i]) << np.uint32(16))
    return room


@njit
def write_halves(address, values):
    """Write numbers as bfloat16, rounded to the nearest, ties to even; what is no number stays none."""
    short = carray(_halves_at(address), len(values))
    for i in range(len(values)):
        found = bits(values[i])
        rounded = (found + np.uint32(0x7FFF) + ((found >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        short[i] = np.uint16(rounded) if values[i] == values[i] else np.uint16(0x7FC0)


_NEGATIVE, _REST = np.int32(31), np.int32(0x7FFFFFFF)
LEAST = np.int32(-0x80000000)
"""Below the order of any number."""


@njit
def order(pattern):
    """Bits of a float32 as an integer in the order of the numbers; twice gives the bits back."""
    return np.int32(pattern ^ ((pattern >> _NEGATIVE) & _REST))


@njit
def highest_order(values, highest):
    """The highest of these and one before, as `order` has them."""
    for i in range(len(values)):
        found = order(np.int32(bits(values[i])))
        highest = found if found > highest else highest
    return highest


# 2^n, n = round(x / log 2), times the exponential of the rest, |rest| <= log(2) / 2, by its Taylor series;
# log 2 in two parts, of which the first times n is exact.
_TURN, _HIGH, _LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
_SHIFT, _FLOOR = np.float32(12582912.0), np.float32(-87.0)
_SERIES = tuple(np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2))


@njit(fastmath={"contract"})
def exp(x):
    """The exponential of a float32 of at most 0; 0 below -87."""
    bounded = _FLOOR if x < _FLOOR else x
    shifted = bounded * _TURN + _SHIFT  # the last bits of which are n
    n = shifted - _SHIFT
    rest = bounded - n * _HIGH - n * _LOW
    series = _SERIES[0]
    for i in range(1, 6):
        series = series * rest + _SERIES[i]
    power = number((bits(shifted) + np.uint32(127)) << np.uint32(23))
    found = (series * rest * rest + rest + np.float32(1)) * power
    return np.float32(0) if x < _FLOOR else found
