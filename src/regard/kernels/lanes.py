"""Vector types for Numba kernels: eight rows at a time, one row per lane.

Numba emits scalar loops, and LLVM decides whether to vectorize them. The types of this module guarantee
vector code: `Lanes` holds eight doubles and `Mask` eight booleans, with the operators of NumPy. LLVM splits
them into vectors of the width that the processor has. Lanes are always doubles, which are precise enough for
score differences of 1e4 without further measures. `tiles` transposes rows in memory into lanes and back.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, overload, register_model

__all__ = [
    "BIT",
    "BITS",
    "BYTES",
    "DOUBLE",
    "FLOATS",
    "INT",
    "INTS",
    "NUM_LANES",
    "VECTOR",
    "any_lane",
    "exp",
    "fill_lanes",
    "fma",
    "get_lane",
    "group_mean",
    "intrinsic",
    "is_nan",
    "lanes_type",
    "maximum",
    "minimum",
    "select_lanes",
    "splat",
    "sqrt",
]

NUM_LANES = 8

DOUBLE, FLOAT, INT, BYTE, BIT = (
    ir.DoubleType(),
    ir.FloatType(),
    ir.IntType(64),
    ir.IntType(8),
    ir.IntType(1),
)
VECTOR, BITS = ir.VectorType(DOUBLE, NUM_LANES), ir.VectorType(BIT, NUM_LANES)
FLOATS, BYTES, INTS = (
    ir.VectorType(FLOAT, NUM_LANES),
    ir.VectorType(BYTE, NUM_LANES),
    ir.VectorType(INT, NUM_LANES),
)


def intrinsic(made: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a Numba intrinsic, typed as kernels call it: without the typing context."""
    return _intrinsic(made)


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


def splat(builder: Any, value: Any, kind: Any) -> Any:
    """Emit the code that copies a scalar to every lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), NUM_LANES), [0] * NUM_LANES)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _number(value: float) -> Any:
    return ir.Constant(VECTOR, [value] * NUM_LANES)


def _is(kind: Any, *expected: type) -> bool:
    return isinstance(kind, expected)


@intrinsic
def fill_lanes(typingctx: Any, value: Any) -> Any:
    """Return a vector with the value in every lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat(builder, context.cast(builder, args[0], signature.args[0], types.float64), VECTOR)

    return lanes_type(value), make


def _operation(result: Any, emit: Callable[[Any, Any, Any], Any], *kinds: Any) -> Any:
    """Return an intrinsic with two vectors as operands."""

    @intrinsic
    def operation(typingctx: Any, a: Any, b: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, args[0], args[1])

        return result(a, b), make

    return operation


def _ordered(sign: str) -> Callable[[Any, Any, Any], Any]:
    return lambda builder, a, b: builder.fcmp_ordered(sign, a, b)


_arithmetic = {
    operator.add: _operation(lanes_type, lambda builder, a, b: builder.fadd(a, b)),
    operator.iadd: _operation(lanes_type, lambda builder, a, b: builder.fadd(a, b)),
    operator.sub: _operation(lanes_type, lambda builder, a, b: builder.fsub(a, b)),
    operator.mul: _operation(lanes_type, lambda builder, a, b: builder.fmul(a, b)),
    operator.truediv: _operation(lanes_type, lambda builder, a, b: builder.fdiv(a, b)),
    operator.lt: _operation(mask_type, _ordered("<")),
    operator.le: _operation(mask_type, _ordered("<=")),
    operator.gt: _operation(mask_type, _ordered(">")),
    operator.ge: _operation(mask_type, _ordered(">=")),
    operator.eq: _operation(mask_type, _ordered("==")),
    operator.ne: _operation(mask_type, lambda builder, a, b: builder.fcmp_unordered("!=", a, b)),
}
_logic = {
    operator.and_: _operation(mask_type, lambda builder, a, b: builder.and_(a, b)),
    operator.or_: _operation(mask_type, lambda builder, a, b: builder.or_(a, b)),
    operator.xor: _operation(mask_type, lambda builder, a, b: builder.xor(a, b)),
}


def _overloaded(symbol: Any, operation: Any) -> None:
    """Define a Python operator on `Lanes`; a scalar operand is copied to every lane."""

    @overload(symbol)
    def of_lanes(a, b):
        if _is(a, LanesType) and _is(b, LanesType):
            return lambda a, b: operation(a, b)
        if _is(a, LanesType) and _is(b, types.Float, types.Integer):
            return lambda a, b: operation(a, fill_lanes(b))
        if _is(a, types.Float, types.Integer) and _is(b, LanesType):
            return lambda a, b: operation(fill_lanes(a), b)
        return None


def _overloaded_logic(symbol: Any, operation: Any) -> None:
    """Define a Python operator on `Mask`."""

    @overload(symbol)
    def of_masks(a, b):
        if _is(a, MaskType) and _is(b, MaskType):
            return lambda a, b: operation(a, b)
        return None


for _symbol, _found in _arithmetic.items():
    _overloaded(_symbol, _found)
for _symbol, _found in _logic.items():
    _overloaded_logic(_symbol, _found)


@overload(operator.invert)
def _invert(a):
    return (lambda a: _not(a)) if _is(a, MaskType) else None


@intrinsic
def _not(typingctx: Any, a: Any) -> Any:
    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.not_(args[0])

    return mask_type(a), make


@intrinsic
def select_lanes(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """Return a where the mask is True and b elsewhere, lane by lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return (lanes_type(condition, a, b), make) if _is(a, LanesType) and _is(b, LanesType) else None


# If an operand is NaN the comparison is False, so `minimum` and `maximum` return their second operand.
minimum = _operation(lanes_type, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
maximum = _operation(lanes_type, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def is_nan(typingctx: Any, a: Any) -> Any:
    """Return the mask of the lanes that are NaN."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fcmp_unordered("uno", args[0], args[0])

    return mask_type(a), make


@intrinsic
def any_lane(typingctx: Any, condition: Any) -> Any:
    """Return whether the mask is True in any lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packed = builder.bitcast(args[0], ir.IntType(NUM_LANES))
        return builder.icmp_unsigned("!=", packed, ir.Constant(ir.IntType(NUM_LANES), 0))

    return types.boolean(condition), make


def _lane_swap(distance: int) -> Any:
    """Return an intrinsic that exchanges lanes i and i XOR distance."""

    @intrinsic
    def swapped(typingctx: Any, a: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            order = [i ^ distance for i in range(NUM_LANES)]
            places = ir.Constant(ir.VectorType(ir.IntType(32), NUM_LANES), order)
            return builder.shuffle_vector(args[0], ir.Constant(VECTOR, ir.Undefined), places)

        return lanes_type(a), make

    return swapped


_swapped1, _swapped2, _swapped4 = _lane_swap(1), _lane_swap(2), _lane_swap(4)


@njit(inline="always")
def group_mean(x: Any, count: int) -> Any:
    """Return in each lane the mean of its group of `count` adjacent lanes; `count` is 1, 2, 4 or 8."""
    if count >= 2:
        x = x + _swapped1(x)
    if count >= 4:
        x = x + _swapped2(x)
    if count >= 8:
        x = x + _swapped4(x)
    return x * fill_lanes(1.0 / count)


@intrinsic
def get_lane(typingctx: Any, vector: Any, index: Any) -> Any:
    """Return the value of one lane: a double, or a boolean of a mask."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(
            args[0], context.cast(builder, args[1], signature.args[1], types.int64)
        )

    return (types.boolean if _is(vector, MaskType) else types.float64)(vector, index), make


@intrinsic
def _times_power_of_two(typingctx: Any, value: Any, exponent: Any) -> Any:
    """Return value * 2^exponent; the exponent is a double with an integral value."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Build the power from its bits: a double has a biased exponent above 52 bits of mantissa.
        whole = builder.fptosi(args[1], INTS)
        biased = builder.add(whole, ir.Constant(INTS, [1023] * NUM_LANES))
        power = builder.bitcast(builder.shl(biased, ir.Constant(INTS, [52] * NUM_LANES)), VECTOR)
        return builder.fmul(args[0], power)

    return lanes_type(value, exponent), make


@intrinsic
def _rint(typingctx: Any, value: Any) -> Any:
    """Round to the nearest integer."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, of, f"llvm.rint.v{NUM_LANES}f64"), args
        )

    return lanes_type(value), make


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(VECTOR, [VECTOR] * 3)
        return builder.call(
            cgutils.get_or_insert_function(builder.module, of, f"llvm.fma.v{NUM_LANES}f64"), args
        )

    return lanes_type(a, b, c), make


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


@intrinsic
def sqrt(typingctx: Any, value: Any) -> Any:
    """Return the square root."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(VECTOR, [VECTOR])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, of, f"llvm.sqrt.v{NUM_LANES}f64"), args
        )

    return lanes_type(value), make
