"""Memory access for Numba kernels: arguments, arrays at an address, and transposed tiles of eight rows.

Addresses are integers (`Tensor.data_ptr()`) in bytes. Tensors are float32 or, if `wide`, float64. Vectors
(see `arithmetic`) are always doubles.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # pyright: ignore[reportPrivateImportUsage]

from regard.kernels._numba.arithmetic import (
    BYTES,
    DOUBLE,
    FLOATS,
    INT,
    INTS,
    NUM_LANES,
    VECTOR,
    call_llvm,
    emits,
    float_bits,
    float_from_bits,
    lanes_type,
    splat,
)
from regard.kernels.compilation import njit


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.PointerType())


def _at(builder: Any, address: Any, offset: int) -> Any:
    return _pointer(builder, builder.add(address, ir.Constant(INT, offset)))


@emits(types.int64, types.int64)
def read_int(builder: Any, address: Any) -> Any:
    """Load an int64 from an address."""
    return builder.load(_pointer(builder, address), typ=INT, align=8)


@emits(types.void, types.int64, types.int64)
def write_int(builder: Any, address: Any, value: Any) -> None:
    """Store an int64 at an address."""
    builder.store(value, _pointer(builder, address), align=8)


@emits(types.float64, types.int64)
def read_double(builder: Any, address: Any) -> Any:
    """Load a double from an address."""
    return builder.load(_pointer(builder, address), typ=DOUBLE, align=8)


@emits(types.int64, types.int64, types.int64)
def _atomic_add(builder: Any, address: Any, value: Any) -> Any:
    """Add atomically to an int64 that is shared between threads, and return its previous value."""
    return builder.atomic_rmw("add", _pointer(builder, address), value, "monotonic")


@njit
def claim_units(block):
    """Claim the next units of work; returns the first one and the last one + 1, or an empty range.

    The first three arguments of a block are those that `threads.argument_block` adds.
    """
    share, units = read_int(block + 8), read_int(block + 16)
    begin = share * _atomic_add(block, 1)
    return begin, min(begin + share, units)


@emits(types.void, types.Array(types.uint8, 1, "C"))
def keep_alive(builder: Any, array: Any) -> None:
    """Keep the memory of an array of bytes alive up to this call.

    Numba frees an array after its last use, and does not count the use of its address.
    """


def _pointer_to(kind: Any) -> Any:
    """Return an intrinsic that converts an address to a pointer to values of a type."""
    return emits(types.CPointer(kind), types.int64)(_pointer)


def read_arguments(block_type: Any) -> Any:
    """Return a compiled function that returns the fields of a block, as the attributes of a record.

    The field `operands` is not among the attributes.

    Args:
        block_type: The result of `threads.argument_block`.
    """
    fields = [(name, types.int64) for name, kind in block_type._fields_ if kind is ctypes.c_int64]
    pointer = _pointer_to(types.Record.make_c_struct(fields))

    @njit
    def arguments(block):
        return carray(pointer(block), 1)[0]

    return arguments


_float32_at, _uint16_at, _int64_at, _uint8_at = (
    _pointer_to(kind) for kind in (types.float32, types.uint16, types.int64, types.uint8)
)


@njit
def float32_array(address, count):
    """Return the array of `count` float32 at an address, without a copy."""
    return carray(_float32_at(address), count)


@njit
def int64_array(address, count):
    """Return the array of `count` int64 at an address, without a copy."""
    return carray(_int64_at(address), count)


@njit
def bool_array(address, count):
    """Return the array of `count` booleans at an address as uint8, 0 or 1, without a copy."""
    return carray(_uint8_at(address), count)


@njit
def read_float32(address, half, scratch):
    """Return `len(scratch)` values at an address as float32; if `half`, `scratch` gets them from bfloat16."""
    if not half:
        return float32_array(address, len(scratch))
    short = carray(_uint16_at(address), len(scratch))
    for i in range(len(scratch)):
        scratch[i] = float_from_bits(np.uint32(short[i]) << np.uint32(16))
    return scratch


@njit
def write_bfloat16(address, values):
    """Write values as bfloat16, rounded to nearest with ties to even; NaN stays NaN."""
    short = carray(_uint16_at(address), len(values))
    for i in range(len(values)):
        found = float_bits(values[i])
        rounded = (found + np.uint32(0x7FFF) + ((found >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        short[i] = np.uint16(rounded) if values[i] == values[i] else np.uint16(0x7FC0)


@emits(lanes_type, types.int64)
def load_vector(builder: Any, address: Any) -> Any:
    """Load a vector of eight doubles from an address."""
    return builder.load(_pointer(builder, address), typ=VECTOR, align=8)


@emits(types.void, types.int64, lanes_type)
def store_vector(builder: Any, address: Any, value: Any) -> None:
    """Store a vector of eight doubles at an address."""
    builder.store(value, _pointer(builder, address), align=8)


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
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


def _row(builder: Any, table: Any, i: int, offset: Any) -> Any:
    """Return the pointer `offset` bytes after the i-th address of a table."""
    address = builder.load(_at(builder, table, 8 * i), typ=INT, align=8)
    return _pointer(builder, builder.add(address, offset))


def _first_lanes(builder: Any, count: Any) -> Any:
    """Return the mask of the first `count` lanes."""
    index = ir.Constant(INTS, list(range(NUM_LANES)))
    return builder.icmp_signed("<", index, splat(builder, count, INTS))


def _tile_loader(kind: Any, letters: str, size: int, rest: Any, widen: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic like `load_tile` for one type of elements of `size` bytes."""

    @emits(types.void, *[types.int64] * 4)
    def load(builder: Any, table: Any, offset: Any, columns: Any, out: Any) -> None:
        inside, align = _first_lanes(builder, columns), ir.Constant(ir.IntType(32), size)
        name, default = f"llvm.masked.load.v{NUM_LANES}{letters}.p0", ir.Constant(kind, [rest] * NUM_LANES)
        found = [
            call_llvm(builder, name, kind, [_row(builder, table, i, offset), align, inside, default])
            for i in range(NUM_LANES)
        ]
        for i, column in enumerate(_transpose(builder, found)):
            builder.store(widen(builder, column), _at(builder, out, 8 * NUM_LANES * i), align=8)

    return load


def _tile_storer(kind: Any, letters: str, size: int, narrow: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic like `store_tile` for one type of elements of `size` bytes."""

    @emits(types.void, *[types.int64] * 5)
    def store(builder: Any, table: Any, offset: Any, rows: Any, columns: Any, found: Any) -> None:
        inside, align = _first_lanes(builder, columns), ir.Constant(ir.IntType(32), size)
        name = f"llvm.masked.store.v{NUM_LANES}{letters}.p0"
        values = [
            narrow(builder, builder.load(_at(builder, found, 8 * NUM_LANES * i), typ=VECTOR, align=8))
            for i in range(NUM_LANES)
        ]
        for i, row in enumerate(_transpose(builder, values)):
            with builder.if_then(builder.icmp_signed("<", ir.Constant(INT, i), rows), likely=True):
                operands = [row, _row(builder, table, i, offset), align, inside]
                call_llvm(builder, name, ir.VoidType(), operands)

    return store


_load_float32 = _tile_loader(FLOATS, "f32", 4, 0.0, lambda builder, v: builder.fpext(v, VECTOR))
_load_float64 = _tile_loader(VECTOR, "f64", 8, 0.0, lambda builder, v: v)
load_bytes = _tile_loader(BYTES, "i8", 1, 0, lambda builder, v: builder.uitofp(v, VECTOR))
_store_float32 = _tile_storer(FLOATS, "f32", 4, lambda builder, v: builder.fptrunc(v, FLOATS))
_store_float64 = _tile_storer(VECTOR, "f64", 8, lambda builder, v: v)
store_bytes = _tile_storer(BYTES, "i8", 1, lambda builder, v: builder.fptoui(v, BYTES))


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
        _load_float64(table, 8 * offset, columns, out)
    else:
        _load_float32(table, 4 * offset, columns, out)


@njit
def store_tile(wide: int, table: int, offset: int, rows: int, columns: int, found: int) -> None:
    """Store vectors to the first `rows` rows and `columns` columns; the reverse of `load_tile`."""
    if wide:
        _store_float64(table, 8 * offset, rows, columns, found)
    else:
        _store_float32(table, 4 * offset, rows, columns, found)


def _prefetcher(writing: int) -> Any:
    """Return an intrinsic that prefetches the cache line at an address for reading (0) or writing (1)."""

    @emits(types.void, types.int64)
    def line(builder: Any, address: Any) -> None:
        hints = [ir.Constant(ir.IntType(32), hint) for hint in (writing, 2, 1)]
        call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), [_pointer(builder, address), *hints])

    return line


prefetch, prefetch_to_write = _prefetcher(0), _prefetcher(1)
