"""Arguments of the normalizer kernels, and input and output of their blocks of eight rows.

Rows are located with the argument block, transposed into vectors of eight lanes, one vector per column, and
written back.
"""

from collections import namedtuple
from typing import Any

from regard.kernels._numba.arithmetic import any_lane, fill_lanes
from regard.kernels._numba.memory import (
    load_bytes,
    load_tile,
    prefetch,
    prefetch_to_write,
    read_arguments,
    read_int,
    store_bytes,
    store_tile,
    store_vector,
    write_int,
)
from regard.kernels.compilation import njit
from regard.kernels.threads import argument_block

_INF = float("inf")

Operands = namedtuple(
    "Operands",
    (
        "scores",
        "mask",
        "upper_bound",
        "lower_bound",
        "fertility",
        "weights",
        "status",
        "gradient",
        "scores_gradient",
        "upper_gradient",
        "lower_gradient",
        "fertility_gradient",
    ),
)

Arguments = argument_block(
    "failed",  # output: not 0 if a row has no valid result
    "normalizer",  # a value of NORMALIZER_CODES
    "is_float64",  # 1 if the tensors are float64, 0 if they are float32
    "rows",  # number of rows; of a scan, the number of sentences
    "size",  # S
    "steps",  # number of steps of a scan, T
    "exhaustion",  # exhaustion factor of a scan, as the bits of a double
    "heads_per_budget",  # of a scan: number of adjacent rows that share one fertility
    num_operands=len(Operands._fields),
)
arguments_of = read_arguments(Arguments)

OPERANDS = Operands(*(Arguments.operands.offset + 24 * i for i in range(len(Operands._fields))))
"""Offset in bytes of each operand in the argument block."""

_ROWS, _FAILED = Arguments.rows.offset, Arguments.failed.offset


@njit
def find_rows(
    table: int, block: int, operand: int, first: int, stride: int, steps: int = 1, step: int = 0
) -> int:
    """Write the addresses of eight rows of an operand to a table.

    Args:
        table: Address of the table, eight int64.
        block: Address of the argument block.
        operand: Offset of the operand in the argument block.
        first: Index of the first row. Indices beyond the last row are replaced by the last row.
        stride: Distance between rows, in bytes.
        steps: Number of rows of the operand per row of the block; in a scan, the number of time steps.
        step: Index of the row to use among these.

    Returns:
        The address of the operand, 0 if it is absent.
    """
    address = read_int(block + operand)
    if address:
        every, count = read_int(block + operand + 8), read_int(block + operand + 16)
        last = read_int(block + _ROWS) - 1
        for i in range(8):
            row = min(first + i, last) * steps + step
            # Apply the broadcasting rule; the division is skipped where it would change nothing.
            if every != 1 or row >= count:
                row = row // every % count
            write_int(table + 8 * i, address + row * stride)
    return address


@njit
def prefetch_rows(block: int, operand: int, first: int, stride: int, writing: bool) -> None:
    """Prefetch into the cache eight rows that the next block will read or write."""
    address = read_int(block + operand)
    if address and read_int(block + operand + 8) == 1 and first + 8 <= read_int(block + operand + 16):
        address += first * stride
        # One prefetch per cache line of 64 bytes.
        for at in range(address, address + 8 * stride, 64):
            if writing:
                prefetch_to_write(at)
            else:
                prefetch(at)


@njit
def read_rows(wide: int, table: int, size: int, out: int) -> None:
    """Read the `size` values of each of eight rows as vectors at `out`."""
    for column in range(0, size, 8):
        load_tile(wide, table, column, size - column, out + 64 * column)


@njit
def write_rows(wide: int, table: int, rows: int, size: int, found: int) -> None:
    """Write vectors back to rows; the reverse of `read_rows`."""
    for column in range(0, size, 8):
        store_tile(wide, table, column, rows, size - column, found + 64 * column)


@njit
def read_byte_rows(table: int, size: int, out: int) -> None:
    """Read eight rows of bytes as vectors of doubles at `out`."""
    for column in range(0, size, 8):
        load_bytes(table, column, size - column, out + 64 * column)


@njit
def write_byte_rows(table: int, rows: int, size: int, found: int) -> None:
    """Write vectors back to rows of bytes; the reverse of `read_byte_rows`."""
    for column in range(0, size, 8):
        store_bytes(table, column, rows, size - column, found + 64 * column)


@njit
def read_scores(
    wide: int, table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0
) -> None:
    """Read eight rows of scores as vectors; an odd number of positions is padded with a masked one."""
    find_rows(table, block, OPERANDS.scores, first, count * (8 if wide else 4), steps, step)
    read_rows(wide, table, count, out)
    if count & 1:
        store_vector(out + 64 * count, fill_lanes(-_INF))


@njit
def read_mask(table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0) -> int:
    """Read eight rows of the mask as vectors at `out`; returns `out`, or 0 if there is no mask."""
    if not find_rows(table, block, OPERANDS.mask, first, count, steps, step):
        return 0
    read_byte_rows(table, count, out)
    return out


@njit
def set_failed(block: int, rows: Any) -> None:
    """Set the argument `failed` if any of these rows is infeasible or its threshold was not found."""
    if any_lane(rows):
        write_int(block + _FAILED, 1)
