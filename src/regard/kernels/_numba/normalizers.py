"""The normalizers and their gradients on a CPU, row by row; `thresholds` computes the weights of a row."""

import numpy as np
import torch

from regard.kernels._numba.rows import expand_rows, mask_row, padded_length, run_rows
from regard.kernels._numba.scans import run_backward, run_forward
from regard.kernels._numba.thresholds import solve_unbounded
from regard.kernels.backend import KernelFallbackError
from regard.kernels.compilation import njit
from regard.kernels.normalizers import ENTMAX15, NORMALIZER_CODES
from regard.types import Tensor


@njit(cache=True, nogil=True)
def _unbounded_rows(begin, end, normalizer, scores, mask, weights):
    """Write the weights of sparsemax or 1.5-entmax, [N, S]; returns False if a row needs the reference.

    The mask is [N, S], without rows if there is none.
    """
    size = scores.shape[1]
    length = padded_length(size)
    z, p = np.full(length, -np.inf), np.zeros(length)
    scale = 0.5 if normalizer == ENTMAX15 else 1.0
    for row in range(begin, end):
        for i in range(size):
            z[i] = scores[row, i] * scale
        if len(mask):
            mask_row(mask, row, z)
        if not solve_unbounded(normalizer, z, p):
            return False
        for i in range(size):
            weights[row, i] = p[i]
    return True


def forward(
    name: str, scores: Tensor, upper: Tensor | None, lower: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights and the status; see `kernels.normalizers`.

    Raises:
        KernelFallbackError: A row is infeasible, has a score of NaN or +inf, or needs more than float64.
    """
    if upper is not None:
        return run_forward(name, scores, upper.expand(scores.shape), False, lower, 0.0, mask, 1)
    weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
    shape, out = scores.shape, expand_rows(weights, scores.shape, "float32")
    rows, masks = expand_rows(scores, shape, "float32"), expand_rows(mask, shape, "bool")
    if not run_rows(_unbounded_rows, len(rows), rows.size, NORMALIZER_CODES[name], rows, masks, out):
        raise KernelFallbackError
    return weights, None


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    by_scores = run_backward(name, gradient, weights, status, 1, by_upper, by_lower, scan=False)
    return by_scores, by_upper, by_lower
