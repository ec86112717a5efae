"""Blocks of eight rows: where kernels find their arguments, and how rows become vectors and back.

A kernel's arguments are int64 in one block of memory, in the order below. An operand takes three: its
address, 0 if it is absent, and two numbers by which row r of the scores finds its own row, (r // every) %
count: that covers an operand that broadcasts over leading, trailing or middle dimensions.
"""

from typing import Any

from numba import njit

from regard.kernels.lanes import any_lane, lane
from regard.kernels.tiles import (
    atomic_min,
    load_bytes,
    load_tile,
    prefetch,
    prefetch_to_write,
    read_int,
    store_bytes,
    store_tile,
    write_int,
)

__all__ = [
    "ARGUMENTS",
    "CONSTRAINED_SOFTMAX",
    "CONSTRAINED_SPARSEMAX",
    "ENTMAX15",
    "EXHAUSTION",
    "FERTILITY",
    "FERTILITY_GRADIENT",
    "GRADIENT",
    "INFEASIBLE",
    "LOWER_BOUND",
    "LOWER_GRADIENT",
    "MAP",
    "MASK",
    "NONE",
    "RESTS",
    "ROWS",
    "SCORES",
    "SCORES_GRADIENT",
    "SHARE",
    "SIZE",
    "SPARSEMAX",
    "STEPS",
    "TICKET",
    "UNSOLVED",
    "UPPER_BOUND",
    "UPPER_GRADIENT",
    "WEIGHTS",
    "WIDE",
    "fetch",
    "find_rows",
    "read_bytes",
    "read_rows",
    "report",
    "write_bytes",
    "write_rows",
]

SPARSEMAX, ENTMAX15, CONSTRAINED_SOFTMAX, CONSTRAINED_SPARSEMAX = range(4)

# Where an argument stands in the block.
TICKET = 0  # the next share of the rows
INFEASIBLE = 1  # comes out: the first row that no distribution fits, or -1
UNSOLVED = 2  # comes out: not 0 where a row's level was not found
MAP = 3
WIDE = 4  # whether the numbers are float64, else float32
ROWS = 5
SIZE = 6  # S
SCORES = 7  # operands take three places each
MASK = 10
UPPER_BOUND = 13
LOWER_BOUND = 16
WEIGHTS = 19
RESTS = 22
GRADIENT = 25
SCORES_GRADIENT = 28
UPPER_GRADIENT = 31
LOWER_GRADIENT = 34
STEPS = 37  # of a scan, T; its rows are sentences
EXHAUSTION = 38  # as the bits of a double
FERTILITY = 39
FERTILITY_GRADIENT = 42
SHARE = 45  # how many blocks of eight rows go with a ticket
ARGUMENTS = 46

NONE = 1 << 62  # no row


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
def write_bytes(table: int, offset: int, rows: int, size: int, found: int) -> None:
    """The reverse."""
    for column in range(0, size, 8):
        store_bytes(table, offset + column, rows, size - column, found + 64 * column)


@njit
def report(block: int, first: int, infeasible: Any, unsolved: Any) -> None:
    """Tell of rows that went wrong."""
    rows = read_int(block + 8 * ROWS)
    if any_lane(infeasible):
        for i in range(8):
            if lane(infeasible, i):
                atomic_min(block + 8 * INFEASIBLE, min(first + i, rows - 1))
    if any_lane(unsolved):
        atomic_min(block + 8 * UNSOLVED, -1)
