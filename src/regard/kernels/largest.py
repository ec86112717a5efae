"""The k largest values of each row on a CPU, with ties resolved in favor of lower positions."""

import ctypes

import torch

from regard.kernels.pool import load_kernel, run_kernel
from regard.kernels.versions import use_numba
from regard.types import Float, Int, Tensor

__all__ = ["supports_topk", "topk"]

_MIN_PARALLEL_SIZE = 1 << 13  # elements below which a single thread is faster; see `run_kernel`

# Layout of the kernel's argument block: indices into an array of int64.
TOPK_TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
TOPK_ROWS = 1
TOPK_SIZE = 2  # V
TOPK_K = 3  # k
TOPK_ROWS_PER_TICKET = 4  # number of rows per ticket
TOPK_INPUT, TOPK_VALUES, TOPK_INDICES = 5, 6, 7  # addresses: [N, V], [N, k], [N, k]
TOPK_NUM_ARGS = 8

_Block = ctypes.c_int64 * TOPK_NUM_ARGS


def supports_topk(values: Tensor) -> bool:
    """Return whether the kernel supports these values; they must not require gradients."""
    recorded = torch.is_grad_enabled() and values.requires_grad
    return use_numba(values) and values.dtype == torch.float32 and values.is_contiguous() and not recorded


def topk(values: Float[Tensor, "N V"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the k largest values of each row and their positions, in descending order.

    Unlike `torch.topk`, ties are resolved in favor of lower positions. NaN counts as larger than any number.

    Args:
        values: Values that satisfy `supports_topk`.
        k: k, at most V.
    """
    rows, size = values.shape
    found = values.new_empty(rows, k)
    places = values.new_empty(rows, k, dtype=torch.int64)
    if found.numel():
        block = _Block()
        block[TOPK_ROWS], block[TOPK_SIZE], block[TOPK_K] = rows, size, k
        block[TOPK_INPUT], block[TOPK_VALUES], block[TOPK_INDICES] = values.data_ptr(), found.data_ptr(), places.data_ptr()
        run_kernel(load_kernel("choosing", "topk_kernel"), block, TOPK_ROWS_PER_TICKET, rows, values.numel() < _MIN_PARALLEL_SIZE)
    return found, places
