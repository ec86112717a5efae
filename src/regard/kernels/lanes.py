"""Vectors for Numba kernels: eight rows at a time, one in each lane.

Numba writes scalar loops and leaves it to LLVM whether they become vector code. These types make it sure:
`Lanes` is eight doubles, `Mask` eight booleans, with the arithmetic of NumPy, and `load_tile` and
`store_tile` turn eight rows of a matrix into lanes and back. LLVM cuts them to the width the processor has.
Numbers in memory are float32 or, where `wide`, float64; lanes are always doubles, exact enough for score gaps
of 1e4 without further care.

Memory is addressed by integers (`Tensor.data_ptr()`), in bytes.
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
    "WIDTH",
    "any_lane",
    "atomic_add",
    "atomic_min",
    "exp",
    "fma",
    "lane",
    "load",
    "load_bytes",
    "load_tile",
    "maximum",
    "minimum",
    "prefetch",
    "prefetch_to_write",
    "read_double",
    "read_int",
    "root",
    "select",
    "spread",
    "store",
    "store_bytes",
    "store_tile",
    "unordered",
    "write_int",
]

WIDTH = 8

_double, _float, _int, _byte, _bit = (
    ir.DoubleType(),
    ir.FloatType(),
    ir.IntType(64),
    ir.IntType(8),
    ir.IntType(1),
)
_vector, _bits = ir.VectorType(_double, WIDTH), ir.VectorType(_bit, WIDTH)
_floats, _bytes, _ints = ir.VectorType(_float, WIDTH), ir.VectorType(_byte, WIDTH), ir.VectorType(_int, WIDTH)


def intrinsic(made: Callable[..., Any]) -> Callable[..., Any]:
    """An intrinsic as a kernel calls it: without the typing context."""
    return _intrinsic(made)


class LanesType(types.Type):
    """Eight doubles."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


class MaskType(types.Type):
    """Eight booleans."""

    def __init__(self) -> None:
        super().__init__(name="Mask")


lanes, mask = LanesType(), MaskType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector)


@register_model(MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _bits)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    """A scalar in every lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _number(value: float) -> Any:
    return ir.Constant(_vector, [value] * WIDTH)


def _is(kind: Any, *expected: type) -> bool:
    return isinstance(kind, expected)


@intrinsic
def spread(typingctx: Any, value: Any) -> Any:
    """A double in every lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, context.cast(builder, args[0], signature.args[0], types.float64), _vector)

    return lanes(value), make


def _operation(result: Any, emit: Callable[[Any, Any, Any], Any], *kinds: Any) -> Any:
    """An intrinsic of two vectors."""

    @intrinsic
    def operation(typingctx: Any, a: Any, b: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, args[0], args[1])

        return result(a, b), make

    return operation


def _ordered(sign: str) -> Callable[[Any, Any, Any], Any]:
    return lambda builder, a, b: builder.fcmp_ordered(sign, a, b)


_arithmetic = {
    operator.add: _operation(lanes, lambda builder, a, b: builder.fadd(a, b)),
    operator.iadd: _operation(lanes, lambda builder, a, b: builder.fadd(a, b)),
    operator.sub: _operation(lanes, lambda builder, a, b: builder.fsub(a, b)),
    operator.mul: _operation(lanes, lambda builder, a, b: builder.fmul(a, b)),
    operator.truediv: _operation(lanes, lambda builder, a, b: builder.fdiv(a, b)),
    operator.lt: _operation(mask, _ordered("<")),
    operator.le: _operation(mask, _ordered("<=")),
    operator.gt: _operation(mask, _ordered(">")),
    operator.ge: _operation(mask, _ordered(">=")),
    operator.eq: _operation(mask, _ordered("==")),
    operator.ne: _operation(mask, lambda builder, a, b: builder.fcmp_unordered("!=", a, b)),
}
_logic = {
    operator.and_: _operation(mask, lambda builder, a, b: builder.and_(a, b)),
    operator.or_: _operation(mask, lambda builder, a, b: builder.or_(a, b)),
    operator.xor: _operation(mask, lambda builder, a, b: builder.xor(a, b)),
}


def _overloaded(symbol: Any, operation: Any) -> None:
    @overload(symbol)
    def of_lanes(a, b):
        if _is(a, LanesType) and _is(b, LanesType):
            return lambda a, b: operation(a, b)
        if _is(a, LanesType) and _is(b, types.Float, types.Integer):
            return lambda a, b: operation(a, spread(b))
        if _is(a, types.Float, types.Integer) and _is(b, LanesType):
            return lambda a, b: operation(spread(a), b)
        return None


def _overloaded_logic(symbol: Any, operation: Any) -> None:
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

    return mask(a), make


@intrinsic
def select(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """Lane by lane, a where the mask holds, else b; both `Lanes`."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return (lanes(condition, a, b), make) if _is(a, LanesType) and _is(b, LanesType) else None


minimum = _operation(lanes, lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
maximum = _operation(lanes, lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def unordered(typingctx: Any, a: Any) -> Any:
    """Where a lane is NaN."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fcmp_unordered("uno", args[0], args[0])

    return mask(a), make


@intrinsic
def any_lane(typingctx: Any, condition: Any) -> Any:
    """Whether the mask holds in any lane."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        packed = builder.bitcast(args[0], ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", packed, ir.Constant(ir.IntType(WIDTH), 0))

    return types.boolean(condition), make


@intrinsic
def lane(typingctx: Any, vector: Any, index: Any) -> Any:
    """The number in one lane, a double; of a mask, a boolean."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(
            args[0], context.cast(builder, args[1], signature.args[1], types.int64)
        )

    return (types.boolean if _is(vector, MaskType) else types.float64)(vector, index), make


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.PointerType())


def _at(builder: Any, address: Any, offset: int) -> Any:
    return _pointer(builder, builder.add(address, ir.Constant(_int, offset)))


@intrinsic
def load(typingctx: Any, address: Any) -> Any:
    """Eight doubles at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=_vector, align=8)

    return lanes(types.int64), make


@intrinsic
def store(typingctx: Any, address: Any, value: Any) -> Any:
    """Write eight doubles at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0]), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, value), make


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Eight vectors of eight, transposed by exchanging blocks of 1, 2 and 4 lanes."""
    for step in (1, 2, 4):
        after = list(rows)
        for i in range(WIDTH):
            if i & step:
                continue
            a, b = rows[i], rows[i | step]
            first = [k if not k & step else WIDTH + k - step for k in range(WIDTH)]
            second = [k + step if not k & step else WIDTH + k for k in range(WIDTH)]
            index = ir.VectorType(ir.IntType(32), WIDTH)
            after[i] = builder.shuffle_vector(a, b, ir.Constant(index, first))
            after[i | step] = builder.shuffle_vector(a, b, ir.Constant(index, second))
        rows = after
    return rows


def _masked(builder: Any, kind: Any, letters: str, loading: bool) -> Any:
    """LLVM's masked load or store for a vector type."""
    mode = "load" if loading else "store"
    pointer, align = ir.PointerType(), ir.IntType(32)
    of = (
        ir.FunctionType(kind, [pointer, align, _bits, kind])
        if loading
        else ir.FunctionType(ir.VoidType(), [kind, pointer, align, _bits])
    )
    return cgutils.get_or_insert_function(builder.module, of, f"llvm.masked.{mode}.v{WIDTH}{letters}.p0")


def _row(builder: Any, table: Any, i: int, offset: Any) -> Any:
    """The pointer to row i of a table of addresses, so many bytes on."""
    address = builder.load(_at(builder, table, 8 * i), typ=_int, align=8)
    return _pointer(builder, builder.add(address, offset))


def _first(builder: Any, count: Any) -> Any:
    """The mask of the first `count` lanes."""
    every = ir.Constant(_ints, list(range(WIDTH)))
    return builder.icmp_signed("<", every, _splat(builder, count, _ints))


def _load_tile(kind: Any, letters: str, size: int, rest: Any, widen: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def tile(typingctx: Any, table: Any, offset: Any, columns: Any, out: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table, offset, columns, out = args
            inside = _first(builder, columns)
            read = _masked(builder, kind, letters, True)
            align = ir.Constant(ir.IntType(32), size)
            found = [
                builder.call(read, [_row(builder, table, i, offset), align, inside, ir.Constant(kind, rest)])
                for i in range(WIDTH)
            ]
            for i, each in enumerate(_transposed(builder, found)):
                builder.store(widen(builder, each), _at(builder, out, 8 * WIDTH * i), align=8)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), make

    return tile


def _store_tile(kind: Any, letters: str, size: int, narrow: Callable[[Any, Any], Any]) -> Any:
    @intrinsic
    def tile(typingctx: Any, table: Any, offset: Any, rows: Any, columns: Any, found: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table, offset, rows, columns, found = args
            inside = _first(builder, columns)
            write = _masked(builder, kind, letters, False)
            align = ir.Constant(ir.IntType(32), size)
            values = [
                narrow(builder, builder.load(_at(builder, found, 8 * WIDTH * i), typ=_vector, align=8))
                for i in range(WIDTH)
            ]
            for i, each in enumerate(_transposed(builder, values)):
                with builder.if_then(builder.icmp_signed("<", ir.Constant(_int, i), rows), likely=True):
                    builder.call(write, [each, _row(builder, table, i, offset), align, inside])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), make

    return tile


_load_single = _load_tile(_floats, "f32", 4, [0.0] * WIDTH, lambda builder, v: builder.fpext(v, _vector))
_load_double = _load_tile(_vector, "f64", 8, [0.0] * WIDTH, lambda builder, v: v)
load_bytes = _load_tile(_bytes, "i8", 1, [0] * WIDTH, lambda builder, v: builder.uitofp(v, _vector))
_store_single = _store_tile(_floats, "f32", 4, lambda builder, v: builder.fptrunc(v, _floats))
_store_double = _store_tile(_vector, "f64", 8, lambda builder, v: v)
store_bytes = _store_tile(_bytes, "i8", 1, lambda builder, v: builder.fptoui(v, _bytes))


@njit
def load_tile(wide: int, table: int, offset: int, columns: int, out: int) -> None:
    """Eight rows, up to eight columns of a matrix into eight vectors; those of missing columns are zero.

    Args:
        wide: Whether the numbers are float64, else float32.
        table: Where the addresses of the eight rows stand.
        offset: How many numbers on from there the columns begin.
        columns: How many columns there are.
        out: Where the vectors go, one a column; there is room for eight.
    """
    if wide:
        _load_double(table, 8 * offset, columns, out)
    else:
        _load_single(table, 4 * offset, columns, out)


@njit
def store_tile(wide: int, table: int, offset: int, rows: int, columns: int, found: int) -> None:
    """The reverse of `load_tile`: writes the first `rows` rows, and the columns that there are."""
    if wide:
        _store_double(table, 8 * offset, rows, columns, found)
    else:
        _store_single(table, 4 * offset, rows, columns, found)


@intrinsic
def _scaled(typingctx: Any, value: Any, exponent: Any) -> Any:
    """The value times 2 to a whole power that is given as a double."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = builder.fptosi(args[1], _ints)
        biased = builder.add(whole, ir.Constant(_ints, [1023] * WIDTH))
        power = builder.bitcast(builder.shl(biased, ir.Constant(_ints, [52] * WIDTH)), _vector)
        return builder.fmul(args[0], power)

    return lanes(value, exponent), make


@intrinsic
def _nearest(typingctx: Any, value: Any) -> Any:
    """The nearest whole number."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_vector, [_vector])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, of, f"llvm.rint.v{WIDTH}f64"), args
        )

    return lanes(value), make


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """The sum of a * b and c, rounded once."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_vector, [_vector] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, of, f"llvm.fma.v{WIDTH}f64"), args)

    return lanes(a, b, c), make


@njit
def exp(x: Any) -> Any:
    """The exponential to 2 units in the last place, 0 below -708.

    x = n log 2 + r with |r| <= log 2 / 2; the series of exp r to r^12 leaves out less than 2e-16.
    """
    low = x < -708.0
    x = minimum(maximum(x, spread(-708.0)), spread(708.0))
    n = _nearest(x * 1.4426950408889634)
    r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    y = spread(1.0 / 479001600.0)
    y = fma(y, r, spread(1.0 / 39916800.0))
    y = fma(y, r, spread(1.0 / 3628800.0))
    y = fma(y, r, spread(1.0 / 362880.0))
    y = fma(y, r, spread(1.0 / 40320.0))
    y = fma(y, r, spread(1.0 / 5040.0))
    y = fma(y, r, spread(1.0 / 720.0))
    y = fma(y, r, spread(1.0 / 120.0))
    y = fma(y, r, spread(1.0 / 24.0))
    y = fma(y, r, spread(1.0 / 6.0))
    y = fma(y, r, spread(0.5))
    y = fma(y, r, spread(1.0))
    y = fma(y, r, spread(1.0))
    return select(low, spread(0.0), _scaled(y, n))


@intrinsic
def atomic_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to an int64 that threads share; returns what it was."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "monotonic")

    return types.int64(types.int64, types.int64), make


@intrinsic
def atomic_min(typingctx: Any, address: Any, value: Any) -> Any:
    """Lower an int64 that threads share to a value; returns what it was."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("min", _pointer(builder, args[0]), args[1], "monotonic")

    return types.int64(types.int64, types.int64), make


@intrinsic
def read_int(typingctx: Any, address: Any) -> Any:
    """The int64 at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=_int, align=8)

    return types.int64(types.int64), make


@intrinsic
def write_int(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0]), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


@intrinsic
def root(typingctx: Any, value: Any) -> Any:
    """The square root."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = ir.FunctionType(_vector, [_vector])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, of, f"llvm.sqrt.v{WIDTH}f64"), args
        )

    return lanes(value), make


@intrinsic
def read_double(typingctx: Any, address: Any) -> Any:
    """The double at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=_double, align=8)

    return types.float64(types.int64), make


def _prefetch(writing: int) -> Any:
    @intrinsic
    def line(typingctx: Any, address: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = ir.IntType(32)
            of = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
            call = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch.p0")
            hints = [ir.Constant(number, hint) for hint in (writing, 2, 1)]
            builder.call(call, [_pointer(builder, args[0]), *hints])
            return context.get_dummy_value()

        return types.void(types.int64), make

    return line


prefetch, prefetch_to_write = _prefetch(0), _prefetch(1)
