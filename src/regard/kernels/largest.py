"""The k largest values of each row on a CPU, with ties resolved in favor of lower positions."""

import ctypes

import torch

from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Float, Int, Tensor

__all__ = ["fits", "largest"]

FEW = 1 << 13  # elements below which a single thread is faster; see `run`

# Layout of the kernel's argument block: indices into an array of int64.
TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
ROWS = 1
SIZE = 2  # V
COUNT = 3  # k
SHARE = 4  # number of rows per ticket
VALUES, FOUND, PLACES = 5, 6, 7  # addresses: [N, V], [N, k], [N, k]
LENGTH = 8

_Block = ctypes.c_int64 * LENGTH


def fits(values: Tensor) -> bool:
    """Return whether the kernel supports these values; they must not require gradients."""
    recorded = torch.is_grad_enabled() and values.requires_grad
    return on_cpu(values) and values.dtype == torch.float32 and values.is_contiguous() and not recorded


def largest(values: Float[Tensor, "N V"], count: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the k largest values of each row and their positions, in descending order.

    Unlike `torch.topk`, ties are resolved in favor of lower positions. NaN counts as larger than any number.

    Args:
        values: Values that satisfy `fits`.
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
