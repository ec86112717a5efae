"""Input and output of blocks of eight rows for the CPU kernels.

Rows are located with the argument block (`places`), transposed into vectors of eight lanes, one vector per
column, and written back.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, fill_lanes
from regard.kernels.places import FAILED, MASK, ROWS, SCORES
from regard.kernels.tiles import (
    load_bytes,
    load_tile,
    prefetch,
    prefetch_to_write,
    read_int,
    store_vector,
    store_bytes,
    store_tile,
    write_int,
)

__all__ = [
    "set_failed",
    "prefetch_rows",
    "find_rows",
    "read_byte_rows",
    "read_mask",
    "read_rows",
    "read_scores",
    "write_byte_rows",
    "write_rows",
]

_INF = float("inf")


@njit
def find_rows(
    table: int, block: int, operand: int, first: int, stride: int, steps: int = 1, step: int = 0
) -> int:
    """Write the addresses of eight rows of an operand to a table.

    Args:
        table: Address of the table, eight int64.
        block: Address of the argument block.
        operand: Index of the operand in the argument block.
        first: Index of the first row. Indices beyond the last row are replaced by the last row.
        stride: Distance between rows, in bytes.
        steps: Number of rows of the operand per row of the block; in a scan, the number of time steps.
        step: Index of the row to use among these.

    Returns:
        The address of the operand, 0 if it is absent.
    """
    address = read_int(block + 8 * operand)
    if address:
        every, count, last = (
            read_int(block + 8 * operand + 8),
            read_int(block + 8 * operand + 16),
            read_int(block + 8 * ROWS) - 1,
        )
        for i in range(8):
            row = min(first + i, last) * steps + step
            # Apply the broadcasting rule of `places`; the division is skipped where it would change nothing.
            if every != 1 or row >= count:
                row = row // every % count
            write_int(table + 8 * i, address + row * stride)
    return address


@njit
def prefetch_rows(block: int, operand: int, first: int, stride: int, writing: bool) -> None:
    """Prefetch into the cache eight rows that the next block will read or write."""
    address = read_int(block + 8 * operand)
    if address and read_int(block + 8 * operand + 8) == 1 and first + 8 <= read_int(block + 8 * operand + 16):
        address += first * stride
        # One prefetch per cache line of 64 bytes.
        for at in range(address, address + 8 * stride, 64):
            if writing:
                prefetch_to_write(at)
            else:
                prefetch(at)


@njit
def read_rows(wide: int, table: int, offset: int, size: int, out: int) -> None:
    """Read `size` values of each of eight rows, starting at an offset, as vectors at `out`."""
    for column in range(0, size, 8):
        load_tile(wide, table, offset + column, size - column, out + 64 * column)


@njit
def write_rows(wide: int, table: int, offset: int, rows: int, size: int, found: int) -> None:
    """Write vectors back to rows; the reverse of `read_rows`."""
    for column in range(0, size, 8):
        store_tile(wide, table, offset + column, rows, size - column, found + 64 * column)


@njit
def read_byte_rows(table: int, offset: int, size: int, out: int) -> None:
    """Read eight rows of bytes as vectors of doubles at `out`."""
    for column in range(0, size, 8):
        load_bytes(table, offset + column, size - column, out + 64 * column)


@njit
def read_scores(
    wide: int, table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0
) -> None:
    """Read eight rows of scores as vectors; an odd number of positions is padded with a masked one."""
    find_rows(table, block, SCORES, first, count * (8 if wide else 4), steps, step)
    read_rows(wide, table, 0, count, out)
    if count & 1:
        store_vector(out + 64 * count, fill_lanes(-_INF))


@njit
def read_mask(table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0) -> int:
    """Read eight rows of the mask as vectors at `out`; returns `out`, or 0 if there is no mask."""
    if not find_rows(table, block, MASK, first, count, steps, step):
        return 0
    read_byte_rows(table, 0, count, out)
    return out


@njit
def write_byte_rows(table: int, offset: int, rows: int, size: int, found: int) -> None:
    """Write vectors back to rows of bytes; the reverse of `read_byte_rows`."""
    for column in range(0, size, 8):
        store_bytes(table, offset + column, rows, size - column, found + 64 * column)


@njit
def set_failed(block: int, rows: Any) -> None:
    """Set the flag `FAILED` if any of these rows is infeasible or its threshold was not found."""
    if any_lane(rows):
        write_int(block + 8 * FAILED, 1)
