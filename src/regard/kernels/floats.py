"""Scalar functions for Numba kernels: arrays at an address, bfloat16 conversion, bit casts and exponentials.

LLVM vectorizes loops over these functions, provided that a loop cannot write to the memory it reads.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.np.numpy_support import carray

from regard.kernels.lanes import intrinsic

__all__ = [
    "LOWEST_ORDER_KEY",
    "bool_array",
    "exp_float32",
    "float32_array",
    "float_bits",
    "float_from_bits",
    "int8_array",
    "int32_array",
    "int64_array",
    "max_order_key",
    "order_key",
    "read_float32",
    "write_bfloat16",
]

_FLOAT, _BITS = ir.FloatType(), ir.IntType(32)


def _pointer_to(kind: Any) -> Any:
    """Return an intrinsic that converts an address to a pointer to values of a type."""

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
def float_bits(typingctx: Any, value: Any) -> Any:
    """Return the bits of a float32 as an unsigned integer."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _BITS)

    return types.uint32(types.float32), make


@intrinsic
def float_from_bits(typingctx: Any, bits: Any) -> Any:
    """Return the float32 with the given bits."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _FLOAT)

    return types.float32(types.uint32), make


@njit
def float32_array(address, count):
    """Return the array of `count` float32 at an address, without a copy."""
    return carray(_floats_at(address), count)


@njit
def int64_array(address, count):
    """Return the array of `count` int64 at an address, without a copy."""
    return carray(_wholes_at(address), count)


@njit
def int32_array(address, count):
    """Return the array of `count` int32 at an address, without a copy."""
    return carray(_integers_at(address), count)


@njit
def int8_array(address, count):
    """Return the array of `count` int8 at an address, without a copy."""
    return carray(_small_at(address), count)


@njit
def bool_array(address, count):
    """Return the array of `count` booleans at an address as uint8, 0 or 1, without a copy."""
    return carray(_truths_at(address), count)


@njit
def read_float32(address, half, room):
    """Return `len(room)` values at an address as float32; if `half`, bfloat16 is converted into `room`."""
    if not half:
        return float32_array(address, len(room))
    short = carray(_halves_at(address), len(room))
    for i in range(len(room)):
        room[i] = float_from_bits(np.uint32(short[i]) << np.uint32(16))
    return room


@njit
def write_bfloat16(address, values):
    """Write values as bfloat16, rounded to nearest with ties to even; NaN stays NaN."""
    short = carray(_halves_at(address), len(values))
    for i in range(len(values)):
        found = float_bits(values[i])
        rounded = (found + np.uint32(0x7FFF) + ((found >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        short[i] = np.uint16(rounded) if values[i] == values[i] else np.uint16(0x7FC0)


_NEGATIVE, _REST = np.int32(31), np.int32(0x7FFFFFFF)
LOWEST_ORDER_KEY = np.int32(-0x80000000)
"""An integer below the order key of every float."""


@njit
def order_key(pattern):
    """Map the bits of a float32 to an integer with the same order; applied twice, it returns the bits."""
    return np.int32(pattern ^ ((pattern >> _NEGATIVE) & _REST))


@njit
def max_order_key(values, highest):
    """Return the maximum of `highest` and the order keys of the values; see `order_key`."""
    for i in range(len(values)):
        found = order_key(np.int32(float_bits(values[i])))
        highest = found if found > highest else highest
    return highest


# exp(x) = 2^n exp(r) with n = round(x / log 2) and |r| <= log(2) / 2; exp(r) is computed by its Taylor
# series. log 2 is split into two parts, so that the product of n and the first part is exact (Cody & Waite).
_TURN, _HIGH, _LOW = np.float32(1.4426950408889634), np.float32(0.693359375), np.float32(-2.12194440e-4)
_SHIFT, _FLOOR = np.float32(12582912.0), np.float32(-87.0)
_SERIES = tuple(np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2))


@njit(fastmath={"contract"})
def exp_float32(x):
    """Return the exponential of a float32 x <= 0; the result is 0 for x < -87."""
    bounded = _FLOOR if x < _FLOOR else x
    shifted = bounded * _TURN + _SHIFT  # adding 1.5 * 2^23 leaves n in the last bits
    n = shifted - _SHIFT
    rest = bounded - n * _HIGH - n * _LOW
    series = _SERIES[0]
    for i in range(1, 6):
        series = series * rest + _SERIES[i]
    power = float_from_bits((float_bits(shifted) + np.uint32(127)) << np.uint32(23))
    found = (series * rest * rest + rest + np.float32(1)) * power
    return np.float32(0) if x < _FLOOR else found
