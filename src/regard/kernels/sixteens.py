"""Sixteen float32 numbers at a time for Numba kernels, and what is made of them: inner products, mixtures.

As with `lanes`, these types make sure of vector code where loops written one number at a time would be too
short, or too many in one another, for LLVM to find it. Memory is addressed in bytes.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import models, register_model

from regard.kernels.floats import floats
from regard.kernels.lanes import intrinsic

__all__ = ["inner_product", "mixture"]

_COUNT = 16
_FLOAT, _NOTHING = ir.FloatType(), np.float32(0)
_VECTOR = ir.VectorType(_FLOAT, _COUNT)


class _SixteenType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Sixteen")


_sixteen = _SixteenType()


@register_model(_SixteenType)
class _SixteenModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic
def _all(typingctx: Any, value: Any) -> Any:
    """One number sixteen times."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        one = builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), _COUNT), [0] * _COUNT)
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)

    return _sixteen(types.float32), make


@intrinsic
def _load(typingctx: Any, address: Any) -> Any:
    """Sixteen numbers at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType()), typ=_VECTOR, align=4)

    return _sixteen(types.int64), make


@intrinsic
def _store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write them there."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.PointerType()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, value), make


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """The sum of a * b and c, rounded once."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, of, "llvm.fma.v16f32"), args)

    return _sixteen(a, b, c), make


@intrinsic
def _total(typingctx: Any, value: Any) -> Any:
    """Their sum, in whatever order is fast."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        add = cgutils.get_or_insert_function(builder.module, of, "llvm.vector.reduce.fadd.v16f32")
        return builder.call(add, [ir.Constant(_FLOAT, 0.0), args[0]], fastmath=("reassoc",))

    return types.float32(value), make


@njit(fastmath={"contract"})
def inner_product(left, right, count):
    """Of so many numbers at one address and so many at another."""
    found, whole = _all(_NOTHING), count - count % _COUNT
    for i in range(0, whole, _COUNT):
        found = _fma(_load(left + 4 * i), _load(right + 4 * i), found)
    total = _total(found)
    if whole < count:
        a, b = floats(left + 4 * whole, count - whole), floats(right + 4 * whole, count - whole)
        for i in range(count - whole):
            total += a[i] * b[i]
    return total


@njit(fastmath={"contract"})
def mixture(found, weights, places, vectors, offset, count):
    """Write a weighted sum, so many numbers, of so many vectors that lie so many bytes after each place."""
    shares, whole = floats(weights, vectors), count - count % _COUNT
    for i in range(0, whole, _COUNT):
        total = _all(_NOTHING)
        for j in range(vectors):
            total = _fma(_all(shares[j]), _load(places[j] + offset + 4 * i), total)
        _store(found + 4 * i, total)
    rest = floats(found + 4 * whole, count - whole)
    for i in range(count - whole):
        rest[i] = _NOTHING
        for j in range(vectors):
            rest[i] += shares[j] * floats(places[j] + offset + 4 * whole, count - whole)[i]
