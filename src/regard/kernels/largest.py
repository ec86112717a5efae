"""The largest numbers of each row, in one pass on a CPU."""

import ctypes

import torch

from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Float, Int, Tensor

__all__ = ["fits", "largest"]

FEW = 1 << 13  # numbers; see `run`

# The kernel's arguments: int64 in one block of memory.
TICKET = 0  # the next share of the rows
ROWS = 1
SIZE = 2  # V
COUNT = 3  # k
SHARE = 4  # how many rows go with a ticket
VALUES, FOUND, PLACES = 5, 6, 7  # addresses: [N, V], [N, k], [N, k]
LENGTH = 8

_Block = ctypes.c_int64 * LENGTH


def fits(values: Tensor) -> bool:
    """Whether the kernel takes these on this machine, where nothing is recorded."""
    recorded = torch.is_grad_enabled() and values.requires_grad
    return on_cpu(values) and values.dtype == torch.float32 and values.is_contiguous() and not recorded


def largest(values: Float[Tensor, "N V"], count: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """As `torch.topk` over the last axis; of equal numbers the first are taken, and come first.

    What is no number comes before all that are.

    Args:
        values: What `fits`.
        count: k, at most V.
    """
    rows, size = values.shape
    found = values.new_empty(rows, count)
    places = values.new_empty(rows, count, dtype=torch.int64)
    if found.numel():
        block = _Block()
        block[ROWS], block[SIZE], block[COUNT] = rows, size, count
        block[VALUES], block[FOUND], block[PLACES] = values.data_ptr(), found.data_ptr(), places.data_ptr()
        run(load("choosing", "choose"), block, SHARE, rows, values.numel() < FEW)
    return found, places
