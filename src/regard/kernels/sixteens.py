"""Vectors of sixteen float32 for Numba kernels, with inner products and weighted sums.

As in `lanes`, the vector type guarantees vector code. LLVM does not vectorize the equivalent scalar loops,
which are too short or too deeply nested. Memory is addressed in bytes.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import models, register_model

from regard.kernels.floats import float32_array
from regard.kernels.lanes import intrinsic

__all__ = ["inner_product", "weighted_sum"]

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
def _fill(typingctx: Any, value: Any) -> Any:
    """Return a vector with the value in every lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        one = builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), args[0], ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), _COUNT), [0] * _COUNT)
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)

    return _sixteen(types.float32), make


@intrinsic
def _load(typingctx: Any, address: Any) -> Any:
    """Load sixteen float32 from an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.PointerType()), typ=_VECTOR, align=4)

    return _sixteen(types.int64), make


@intrinsic
def _store(typingctx: Any, address: Any, value: Any) -> Any:
    """Store sixteen float32 at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.PointerType()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, value), make


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, of, "llvm.fma.v16f32"), args)

    return _sixteen(a, b, c), make


@intrinsic
def _total(typingctx: Any, value: Any) -> Any:
    """Return the sum of the lanes, in unspecified order."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        add = cgutils.get_or_insert_function(builder.module, of, "llvm.vector.reduce.fadd.v16f32")
        return builder.call(add, [ir.Constant(_FLOAT, 0.0), args[0]], fastmath=("reassoc",))

    return types.float32(value), make


@njit(fastmath={"contract"})
def inner_product(left, right, size):
    """Return the inner product of two vectors of `size` float32 at the addresses `left` and `right`."""
    found, whole = _fill(_NOTHING), size - size % _COUNT
    for i in range(0, whole, _COUNT):
        found = _fma(_load(left + 4 * i), _load(right + 4 * i), found)
    total = _total(found)
    if whole < size:
        a, b = float32_array(left + 4 * whole, size - whole), float32_array(right + 4 * whole, size - whole)
        for i in range(size - whole):
            total += a[i] * b[i]
    return total


@njit(fastmath={"contract"})
def weighted_sum(out, weights, addresses, num_vectors, offset, size):
    """Write a weighted sum of vectors.

    Args:
        out: Address of the result, `size` float32.
        weights: Address of the weights, float32.
        addresses: Array of base addresses, one per vector.
        num_vectors: Number of vectors.
        offset: Offset in bytes of each vector from its base address.
        size: Size of the vectors.
    """
    shares, whole = float32_array(weights, num_vectors), size - size % _COUNT
    for i in range(0, whole, _COUNT):
        total = _fill(_NOTHING)
        for j in range(num_vectors):
            total = _fma(_fill(shares[j]), _load(addresses[j] + offset + 4 * i), total)
        _store(out + 4 * i, total)
    rest = float32_array(out + 4 * whole, size - whole)
    for i in range(size - whole):
        rest[i] = _NOTHING
        for j in range(num_vectors):
            rest[i] += shares[j] * float32_array(addresses[j] + offset + 4 * whole, size - whole)[i]
