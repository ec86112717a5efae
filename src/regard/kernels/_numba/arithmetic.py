"""Arithmetic for Numba kernels: vectors of eight doubles, one row per lane, and functions of one float32.

Numba emits scalar loops, and LLVM decides whether to vectorize them. The vector types of this module
guarantee vector code: `Lanes` holds eight doubles and `Mask` eight booleans, with the operators of NumPy.
LLVM splits them into vectors of the width that the processor has. Lanes are always doubles, which are precise
enough for score differences of 1e4 without further measures. LLVM vectorizes loops over the functions of
float32, provided that a loop cannot write to the memory it reads.

The types and intrinsics are written in LLVM's intermediate representation, through parts of Numba that may
change between its minor versions. `pyproject.toml` therefore limits Numba to the versions that were tested.
"""

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from regard.kernels.compilation import njit

NUM_LANES = 8

DOUBLE, FLOAT, INT, INT32 = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
VECTOR, BITS = ir.VectorType(DOUBLE, NUM_LANES), ir.VectorType(ir.IntType(1), NUM_LANES)
FLOATS, BYTES, INTS = (ir.VectorType(kind, NUM_LANES) for kind in (FLOAT, ir.IntType(8), INT))


class LanesType(types.Type):
    """The Numba type of a vector of eight doubles."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


class MaskType(types.Type):
    """The Numba type of a vector of eight booleans."""

    def __init__(self) -> None:
        super().__init__(name="Mask")


lanes_type, mask_type = LanesType(), MaskType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


@register_model(MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, BITS)


def emits(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declare a Numba intrinsic; the decorated function emits its LLVM code, given the builder and operands.

    Args:
        result: The Numba type of the result.
        arguments: The Numba types of the arguments.
    """

    def declare(emit: Callable[..., Any]) -> Any:
        @wraps(emit)  # Numba reads the number of arguments from the signature
        def definition(typingctx: Any, *given: Any) -> Any:
            def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = emit(builder, *args)
                return context.get_dummy_value() if result is types.void else found

            return result(*arguments), make

        return intrinsic(definition)

    return declare


def call_llvm(builder: Any, name: str, result: Any, operands: list[Any], **options: Any) -> Any:
    """Emit a call of one of LLVM's own functions.

    Args:
        builder: The builder.
        name: Name of the function, including its overloaded types.
        result: LLVM type of the result.
        operands: The operands.
        options: Options of the call.
    """
    signature = ir.FunctionType(result, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, operands, **options)


def splat(builder: Any, value: Any, kind: Any) -> Any:
    """Emit the code that copies a scalar to every lane of a vector of the type `kind`."""
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(
        one, undefined, ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count)
    )


@emits(lanes_type, types.float64)
def fill_lanes(builder: Any, value: Any) -> Any:
    """Return a vector with the value in every lane."""
    return splat(builder, value, VECTOR)


def _arithmetic(method: str) -> Any:
    return emits(lanes_type, lanes_type, lanes_type)(lambda builder, a, b: getattr(builder, method)(a, b))


def _comparison(sign: str) -> Any:
    compare = "fcmp_unordered" if sign == "!=" else "fcmp_ordered"
    return emits(mask_type, lanes_type, lanes_type)(
        lambda builder, a, b: getattr(builder, compare)(sign, a, b)
    )


def _logic(method: str) -> Any:
    return emits(mask_type, mask_type, mask_type)(lambda builder, a, b: getattr(builder, method)(a, b))


def _overload_for_lanes(symbol: Any, operation: Any) -> None:
    """Define a Python operator on `Lanes`; a scalar operand is copied to every lane."""

    @overload(symbol)
    def of_lanes(a, b):
        if isinstance(a, LanesType) and isinstance(b, LanesType):
            return lambda a, b: operation(a, b)
        if isinstance(a, LanesType) and isinstance(b, (types.Float, types.Integer)):
            return lambda a, b: operation(a, fill_lanes(b))
        if isinstance(a, (types.Float, types.Integer)) and isinstance(b, LanesType):
            return lambda a, b: operation(fill_lanes(a), b)
        return None


def _overload_for_masks(symbol: Any, operation: Any) -> None:
    """Define a Python operator on `Mask`."""

    @overload(symbol)
    def of_masks(a, b):
        if isinstance(a, MaskType) and isinstance(b, MaskType):
            return lambda a, b: operation(a, b)
        return None


for _symbols, _method in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub,), "fsub"),
    ((operator.mul,), "fmul"),
    ((operator.truediv,), "fdiv"),
):
    for _symbol in _symbols:
        _overload_for_lanes(_symbol, _arithmetic(_method))
for _symbol, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _overload_for_lanes(_symbol, _comparison(_sign))
for _symbol, _method in ((operator.and_, "and_"), (operator.or_, "or_")):
    _overload_for_masks(_symbol, _logic(_method))


@emits(mask_type, mask_type)
def _not(builder: Any, a: Any) -> Any:
    return builder.not_(a)


@overload(operator.invert)
def _invert(a):
    return (lambda a: _not(a)) if isinstance(a, MaskType) else None


@emits(lanes_type, mask_type, lanes_type, lanes_type)
def select_lanes(builder: Any, condition: Any, a: Any, b: Any) -> Any:
    """Return a where the mask is True and b elsewhere, lane by lane."""
    return builder.select(condition, a, b)


@emits(lanes_type, lanes_type, lanes_type)
def minimum(builder: Any, a: Any, b: Any) -> Any:
    """Return the minimum of two vectors; b if an operand is NaN, because the comparison is then False."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


@emits(lanes_type, lanes_type, lanes_type)
def maximum(builder: Any, a: Any, b: Any) -> Any:
    """Return the maximum of two vectors; b if an operand is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@emits(types.boolean, mask_type)
def any_lane(builder: Any, condition: Any) -> Any:
    """Return whether the mask is True in any lane."""
    packed = builder.bitcast(condition, ir.IntType(NUM_LANES))
    return builder.icmp_unsigned("!=", packed, ir.Constant(ir.IntType(NUM_LANES), 0))


def _lane_swap(distance: int) -> Any:
    """Return an intrinsic that exchanges lanes i and i XOR distance."""
    order = ir.Constant(ir.VectorType(INT32, NUM_LANES), [i ^ distance for i in range(NUM_LANES)])
    return emits(lanes_type, lanes_type)(
        lambda builder, a: builder.shuffle_vector(a, ir.Constant(VECTOR, ir.Undefined), order)
    )


_swap1, _swap2, _swap4 = _lane_swap(1), _lane_swap(2), _lane_swap(4)


@njit(inline="always")
def group_mean(x: Any, count: int) -> Any:
    """Return in each lane the mean of its group of `count` adjacent lanes; `count` is 1, 2, 4 or 8."""
    if count >= 2:
        x = x + _swap1(x)
    if count >= 4:
        x = x + _swap2(x)
    if count >= 8:
        x = x + _swap4(x)
    return x * fill_lanes(1.0 / count)


@emits(lanes_type, lanes_type, lanes_type)
def _times_power_of_two(builder: Any, value: Any, exponent: Any) -> Any:
    """Return value * 2^exponent; the exponent is a double with an integral value."""
    # Build the power from its bits: a double has a biased exponent above 52 bits of mantissa.
    biased = builder.add(builder.fptosi(exponent, INTS), ir.Constant(INTS, [1023] * NUM_LANES))
    power = builder.bitcast(builder.shl(biased, ir.Constant(INTS, [52] * NUM_LANES)), VECTOR)
    return builder.fmul(value, power)


@emits(lanes_type, lanes_type)
def _rint(builder: Any, value: Any) -> Any:
    """Round to the nearest integer."""
    return call_llvm(builder, f"llvm.rint.v{NUM_LANES}f64", VECTOR, [value])


@emits(lanes_type, lanes_type)
def sqrt(builder: Any, value: Any) -> Any:
    """Return the square root."""
    return call_llvm(builder, f"llvm.sqrt.v{NUM_LANES}f64", VECTOR, [value])


@emits(lanes_type, lanes_type, lanes_type, lanes_type)
def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    return call_llvm(builder, f"llvm.fma.v{NUM_LANES}f64", VECTOR, [a, b, c])


@njit
def exp(x: Any) -> Any:
    """Return the exponential with an error of at most 2 units in the last place, or 0 for x < -708.

    exp(x) = 2^n exp(r) with x = n log 2 + r and |r| <= log(2) / 2. The Taylor series of exp(r) up to r^12 has
    a truncation error below 2e-16.
    """
    low = x < -708.0
    x = minimum(maximum(x, fill_lanes(-708.0)), fill_lanes(708.0))
    n = _rint(x * 1.4426950408889634)
    r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    y = fill_lanes(1.0 / 479001600.0)
    y = fma(y, r, fill_lanes(1.0 / 39916800.0))
    y = fma(y, r, fill_lanes(1.0 / 3628800.0))
    y = fma(y, r, fill_lanes(1.0 / 362880.0))
    y = fma(y, r, fill_lanes(1.0 / 40320.0))
    y = fma(y, r, fill_lanes(1.0 / 5040.0))
    y = fma(y, r, fill_lanes(1.0 / 720.0))
    y = fma(y, r, fill_lanes(1.0 / 120.0))
    y = fma(y, r, fill_lanes(1.0 / 24.0))
    y = fma(y, r, fill_lanes(1.0 / 6.0))
    y = fma(y, r, fill_lanes(0.5))
    y = fma(y, r, fill_lanes(1.0))
    y = fma(y, r, fill_lanes(1.0))
    return select_lanes(low, fill_lanes(0.0), _times_power_of_two(y, n))


@emits(types.uint32, types.float32)
def float_bits(builder: Any, value: Any) -> Any:
    """Return the bits of a float32 as an unsigned integer."""
    return builder.bitcast(value, INT32)


@emits(types.float32, types.uint32)
def float_from_bits(builder: Any, bits: Any) -> Any:
    """Return the float32 with the given bits."""
    return builder.bitcast(bits, FLOAT)


_SIGN_SHIFT, _MAGNITUDE = np.int32(31), np.int32(0x7FFFFFFF)
LOWEST_ORDER_KEY = np.int32(-0x80000000)
"""An integer below the order key of every float."""


@njit
def order_key(pattern):
    """Map the bits of a float32 to an integer with the same order; applied twice, it returns the bits."""
    return np.int32(pattern ^ ((pattern >> _SIGN_SHIFT) & _MAGNITUDE))


@njit
def max_order_key(values, highest):
    """Return the maximum of `highest` and the order keys of the values; see `order_key`."""
    for i in range(len(values)):
        found = order_key(np.int32(float_bits(values[i])))
        highest = found if found > highest else highest
    return highest


# exp(x) = 2^n exp(r) with n = round(x / log 2) and |r| <= log(2) / 2; exp(r) is computed by its Taylor
# series. log 2 is split into two parts, so that the product of n and the first part is exact (Cody & Waite).
_INVERSE_LOG2, _LOG2_HIGH = np.float32(1.4426950408889634), np.float32(0.693359375)
_LOG2_LOW = np.float32(-2.12194440e-4)
_ROUNDING_SHIFT, _MIN_EXPONENT = np.float32(12582912.0), np.float32(-87.0)
_SERIES = tuple(np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2))


@njit(fastmath={"contract"})
def exp_float32(x):
    """Return the exponential of a float32 x <= 0; the result is 0 for x < -87."""
    bounded = _MIN_EXPONENT if x < _MIN_EXPONENT else x
    shifted = bounded * _INVERSE_LOG2 + _ROUNDING_SHIFT  # adding 1.5 * 2^23 leaves n in the last bits
    n = shifted - _ROUNDING_SHIFT
    rest = bounded - n * _LOG2_HIGH - n * _LOG2_LOW
    series = _SERIES[0]
    for i in range(1, 6):
        series = series * rest + _SERIES[i]
    power = float_from_bits((float_bits(shifted) + np.uint32(127)) << np.uint32(23))
    found = (series * rest * rest + rest + np.float32(1)) * power
    return np.float32(0) if x < _MIN_EXPONENT else found
