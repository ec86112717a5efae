"""Memory access for Numba kernels: vectors, transposed tiles of eight rows, and atomic integers.

Addresses are integers (`Tensor.data_ptr()`) in bytes. Tensors are float32 or, if `wide`, float64. Vectors
(see `lanes`) are always doubles.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from regard.kernels.lanes import (
    BITS,
    BYTES,
    DOUBLE,
    FLOATS,
    INT,
    INTS,
    NUM_LANES,
    VECTOR,
    intrinsic,
    lanes_type,
    splat,
)

__all__ = [
    "atomic_add",
    "keep_alive",
    "load_bytes",
    "load_tile",
    "load_vector",
    "prefetch",
    "prefetch_to_write",
    "read_double",
    "read_int",
    "store_bytes",
    "store_tile",
    "store_vector",
    "write_int",
]


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.PointerType())


def _at(builder: Any, address: Any, offset: int) -> Any:
    return _pointer(builder, builder.add(address, ir.Constant(INT, offset)))


@intrinsic
def load_vector(typingctx: Any, address: Any) -> Any:
    """Load a vector of eight doubles from an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=VECTOR, align=8)

    return lanes_type(types.int64), make


@intrinsic
def store_vector(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a vector of eight doubles at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0]), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, value), make


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose eight vectors of eight lanes by exchanging blocks of 1, 2 and 4 lanes."""
    for step in (1, 2, 4):
        after = list(rows)
        for i in range(NUM_LANES):
            if i & step:
                continue
            a, b = rows[i], rows[i | step]
            first = [k if not k & step else NUM_LANES + k - step for k in range(NUM_LANES)]
            second = [k + step if not k & step else NUM_LANES + k for k in range(NUM_LANES)]
            index = ir.VectorType(ir.IntType(32), NUM_LANES)
            after[i] = builder.shuffle_vector(a, b, ir.Constant(index, first))
            after[i | step] = builder.shuffle_vector(a, b, ir.Constant(index, second))
        rows = after
    return rows


def _masked(builder: Any, kind: Any, letters: str, loading: bool) -> Any:
    """Return LLVM's masked load or store function for a vector type."""
    mode = "load" if loading else "store"
    pointer, align = ir.PointerType(), ir.IntType(32)
    of = (
        ir.FunctionType(kind, [pointer, align, BITS, kind])
        if loading
        else ir.FunctionType(ir.VoidType(), [kind, pointer, align, BITS])
    )
    return cgutils.get_or_insert_function(builder.module, of, f"llvm.masked.{mode}.v{NUM_LANES}{letters}.p0")


def _row(builder: Any, table: Any, i: int, offset: Any) -> Any:
    """Return the pointer `offset` bytes after the i-th address of a table."""
    address = builder.load(_at(builder, table, 8 * i), typ=INT, align=8)
    return _pointer(builder, builder.add(address, offset))


def _first(builder: Any, count: Any) -> Any:
    """Return the mask of the first `count` lanes."""
    every = ir.Constant(INTS, list(range(NUM_LANES)))
    return builder.icmp_signed("<", every, splat(builder, count, INTS))


def _load_tile(kind: Any, letters: str, size: int, rest: Any, widen: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic like `load_tile` for one type of elements of `size` bytes."""

    @intrinsic
    def tile(typingctx: Any, table: Any, offset: Any, columns: Any, out: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table, offset, columns, out = args
            inside = _first(builder, columns)
            read = _masked(builder, kind, letters, True)
            align = ir.Constant(ir.IntType(32), size)
            found = [
                builder.call(read, [_row(builder, table, i, offset), align, inside, ir.Constant(kind, rest)])
                for i in range(NUM_LANES)
            ]
            for i, each in enumerate(_transposed(builder, found)):
                builder.store(widen(builder, each), _at(builder, out, 8 * NUM_LANES * i), align=8)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), make

    return tile


def _store_tile(kind: Any, letters: str, size: int, narrow: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic like `store_tile` for one type of elements of `size` bytes."""

    @intrinsic
    def tile(typingctx: Any, table: Any, offset: Any, rows: Any, columns: Any, found: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            table, offset, rows, columns, found = args
            inside = _first(builder, columns)
            write = _masked(builder, kind, letters, False)
            align = ir.Constant(ir.IntType(32), size)
            values = [
                narrow(builder, builder.load(_at(builder, found, 8 * NUM_LANES * i), typ=VECTOR, align=8))
                for i in range(NUM_LANES)
            ]
            for i, each in enumerate(_transposed(builder, values)):
                with builder.if_then(builder.icmp_signed("<", ir.Constant(INT, i), rows), likely=True):
                    builder.call(write, [each, _row(builder, table, i, offset), align, inside])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), make

    return tile


_load_single = _load_tile(FLOATS, "f32", 4, [0.0] * NUM_LANES, lambda builder, v: builder.fpext(v, VECTOR))
_load_double = _load_tile(VECTOR, "f64", 8, [0.0] * NUM_LANES, lambda builder, v: v)
load_bytes = _load_tile(BYTES, "i8", 1, [0] * NUM_LANES, lambda builder, v: builder.uitofp(v, VECTOR))
_store_single = _store_tile(FLOATS, "f32", 4, lambda builder, v: builder.fptrunc(v, FLOATS))
_store_double = _store_tile(VECTOR, "f64", 8, lambda builder, v: v)
store_bytes = _store_tile(BYTES, "i8", 1, lambda builder, v: builder.fptoui(v, BYTES))


@njit
def load_tile(wide: int, table: int, offset: int, columns: int, out: int) -> None:
    """Load up to eight columns of eight rows, transposed, into eight vectors; missing columns are 0.

    Args:
        wide: Whether the elements are float64, else float32.
        table: Address of a table with the addresses of the eight rows.
        offset: Index of the first column.
        columns: Number of columns; values above 8 count as 8.
        out: Address of the eight vectors, one per column.
    """
    if wide:
        _load_double(table, 8 * offset, columns, out)
    else:
        _load_single(table, 4 * offset, columns, out)


@njit
def store_tile(wide: int, table: int, offset: int, rows: int, columns: int, found: int) -> None:
    """Store vectors to the first `rows` rows and `columns` columns; the reverse of `load_tile`."""
    if wide:
        _store_double(table, 8 * offset, rows, columns, found)
    else:
        _store_single(table, 4 * offset, rows, columns, found)


@intrinsic
def atomic_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Add atomically to an int64 that is shared between threads, and return its previous value."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "monotonic")

    return types.int64(types.int64, types.int64), make


@intrinsic
def read_int(typingctx: Any, address: Any) -> Any:
    """Load an int64 from an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=INT, align=8)

    return types.int64(types.int64), make


@intrinsic
def write_int(typingctx: Any, address: Any, value: Any) -> Any:
    """Store an int64 at an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _pointer(builder, args[0]), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), make


@intrinsic
def read_double(typingctx: Any, address: Any) -> Any:
    """Load a double from an address."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0]), typ=DOUBLE, align=8)

    return types.float64(types.int64), make


@intrinsic
def keep_alive(typingctx: Any, array: Any) -> Any:
    """Keep the memory of an array alive up to this call.

    Numba frees an array after its last use, and does not count the use of its address.
    """

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), make


def _prefetch(writing: int) -> Any:
    """Return an intrinsic that prefetches the cache line at an address for reading (0) or writing (1)."""

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
