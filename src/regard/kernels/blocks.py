"""Blocks of eight rows: how they are found (`places`), become vectors, and go back."""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, spread
from regard.kernels.places import DECLINED, MASK, ROWS, SCORES
from regard.kernels.tiles import (
    load_bytes,
    load_tile,
    prefetch,
    prefetch_to_write,
    read_int,
    store,
    store_bytes,
    store_tile,
    write_int,
)

__all__ = [
    "decline",
    "fetch",
    "find_rows",
    "read_bytes",
    "read_mask",
    "read_rows",
    "read_scores",
    "write_bytes",
    "write_rows",
]

INF = float("inf")


@njit
def find_rows(
    table: int, block: int, operand: int, first: int, stride: int, steps: int = 1, step: int = 0
) -> int:
    """Write the addresses of eight of an operand's rows.

    Args:
        table: Where they go.
        block: The arguments.
        operand: Which of them.
        first: The first row; those beyond the last repeat it.
        stride: From row to row, in bytes.
        steps: How many rows of the operand belong to a row of the block: the steps of a scan.
        step: Which of them is wanted.

    Returns:
        The operand's address, 0 where it is absent.
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
            if every != 1 or row >= count:
                row = row // every % count
            write_int(table + 8 * i, address + row * stride)
    return address


@njit
def fetch(block: int, operand: int, first: int, stride: int, writing: bool) -> None:
    """Have eight rows brought near that will be read, or written, one block later."""
    address = read_int(block + 8 * operand)
    if address and read_int(block + 8 * operand + 8) == 1 and first + 8 <= read_int(block + 8 * operand + 16):
        address += first * stride
        for at in range(address, address + 8 * stride, 64):
            if writing:
                prefetch_to_write(at)
            else:
                prefetch(at)


@njit
def read_rows(wide: int, table: int, offset: int, size: int, out: int) -> None:
    """Eight rows of `size` numbers, from an offset on, as vectors at `out`."""
    for column in range(0, size, 8):
        load_tile(wide, table, offset + column, size - column, out + 64 * column)


@njit
def write_rows(wide: int, table: int, offset: int, rows: int, size: int, found: int) -> None:
    """The reverse."""
    for column in range(0, size, 8):
        store_tile(wide, table, offset + column, rows, size - column, found + 64 * column)


@njit
def read_bytes(table: int, offset: int, size: int, out: int) -> None:
    """Eight rows of bytes as vectors."""
    for column in range(0, size, 8):
        load_bytes(table, offset + column, size - column, out + 64 * column)


@njit
def read_scores(
    wide: int, table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0
) -> None:
    """Eight rows of scores as vectors, an odd count rounded up with a position that may not be attended."""
    find_rows(table, block, SCORES, first, count * (8 if wide else 4), steps, step)
    read_rows(wide, table, 0, count, out)
    if count & 1:
        store(out + 64 * count, spread(-INF))


@njit
def read_mask(table: int, block: int, first: int, count: int, out: int, steps: int = 1, step: int = 0) -> int:
    """Eight rows of the mask as vectors, and where they are; 0 if there is none."""
    if not find_rows(table, block, MASK, first, count, steps, step):
        return 0
    read_bytes(table, 0, count, out)
    return out


@njit
def write_bytes(table: int, offset: int, rows: int, size: int, found: int) -> None:
    """The reverse."""
    for column in range(0, size, 8):
        store_bytes(table, offset + column, rows, size - column, found + 64 * column)


@njit
def decline(block: int, rows: Any) -> None:
    """Leave the answer to the reference where a row has none, or its level was not found."""
    if any_lane(rows):
        write_int(block + 8 * DECLINED, 1)
