"""The normalizers and their gradients on a CPU, row by row; `thresholds` computes the weights of a row."""

from typing import Any

import numpy as np
import torch

from regard.kernels._numba.thresholds import PADDING, SUMS, solve_bounded, solve_unbounded
from regard.kernels.backend import KernelFallbackError
from regard.kernels.compilation import njit
from regard.kernels.normalizers import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    LOWER,
    NORMALIZER_CODES,
    UPPER,
)
from regard.kernels.threads import run_rows
from regard.types import Tensor


@njit
def padded_length(size):
    """Return the length of the scratch memory of a row."""
    return (size + PADDING - 1) // PADDING * PADDING


@njit
def load_row(values, row, out):
    """Copy a row to scratch memory as float64."""
    for i in range(values.shape[1]):
        out[i] = values[row, i]


@njit
def mask_row(mask, row, z):
    """Set the scores of a row to -inf where the mask is False."""
    for i in range(mask.shape[1]):
        z[i] = z[i] if mask[row, i] else -np.inf


@njit(cache=True, nogil=True)
def _unbounded_rows(begin, end, normalizer, scores, mask, weights):
    """Write the weights of sparsemax or 1.5-entmax; returns False if a row needs the reference.

    Args:
        begin: First row.
        end: Last row + 1.
        normalizer: The normalizer.
        scores: [N, S].
        mask: [N, S]; no rows if there is none.
        weights: [N, S]; output.
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


@njit(cache=True, nogil=True)
def _bounded_rows(begin, end, normalizer, scores, upper, lower, mask, near, slack, weights, status):
    """Write the weights and the status; returns False if a row needs the reference.

    Args:
        begin: First row.
        end: Last row + 1.
        normalizer: The normalizer.
        scores: [N, S].
        upper: Upper bounds, [N, S].
        lower: Lower bounds, [N, S]; no rows if there are none.
        mask: [N, S]; no rows if there is none.
        near: Distance from a bound that counts as a tie.
        slack: Tolerance of the sums of the bounds.
        weights: [N, S]; output.
        status: [N, S]; output.
    """
    size = scores.shape[1]
    length = padded_length(size)
    z, u, low = np.full(length, -np.inf), np.zeros(length), np.zeros(length)
    e, p, states = np.zeros(length), np.zeros(length), np.zeros(length, np.uint8)
    for row in range(begin, end):
        load_row(scores, row, z)
        load_row(upper, row, u)
        if len(lower):
            load_row(lower, row, low)
        if len(mask):
            mask_row(mask, row, z)
        if not solve_bounded(normalizer, z, u, low, near, slack, e, p, states):
            return False
        for i in range(size):
            weights[row, i] = p[i]
        for i in range(size):
            status[row, i] = states[i]
    return True


@njit(fastmath=SUMS, error_model="numpy")
def mean_gradient(normalizer, g, p, status):
    """Replace the weights p by s, and return m; the gradient of the scores is s (g - m).

    s is the derivative of a free weight for a fixed threshold: 1 (sparsemax), p (softmax) or sqrt(p)
    (1.5-entmax). m is the mean of the gradient g over the free positions, weighted by s. The gradient of an
    active bound is g - m.
    """
    total, slope = 0.0, 0.0
    for i in range(len(g)):
        s = p[i] if normalizer == CONSTRAINED_SOFTMAX else np.sqrt(p[i]) if normalizer == ENTMAX15 else 1.0
        p[i] = s if status[i] == FREE else 0.0
        total += p[i] * g[i] if status[i] == FREE else 0.0
        slope += p[i]
    return total / slope if slope > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _backward_rows(begin, end, normalizer, gradient, weights, status, by_scores, by_upper, by_lower):
    """Write the gradients of the scores and, if they have rows, of the upper and lower bounds.

    Args:
        begin: First row.
        end: Last row + 1.
        normalizer: The normalizer.
        gradient: [N, S].
        weights: [N, S].
        status: [N, S], no rows for a normalizer without bounds.
        by_scores: [N, S]; output.
        by_upper: [N, S] or no rows; output.
        by_lower: [N, S] or no rows; output.
    """
    size = gradient.shape[1]
    length = padded_length(size)
    g, p, states = np.zeros(length), np.zeros(length), np.zeros(length, np.uint8)
    for row in range(begin, end):
        load_row(gradient, row, g)
        load_row(weights, row, p)
        if len(status):
            for i in range(size):
                states[i] = status[row, i]
        else:
            for i in range(size):
                states[i] = FREE if p[i] > 0.0 else 0
        mean = mean_gradient(normalizer, g, p, states)
        for i in range(size):
            by_scores[row, i] = p[i] * (g[i] - mean) if states[i] == FREE else 0.0
        if len(by_upper):
            for i in range(size):
                by_upper[row, i] = g[i] - mean if states[i] == UPPER else 0.0
        if len(by_lower):
            for i in range(size):
                by_lower[row, i] = g[i] - mean if states[i] == LOWER else 0.0
    return True


ABSENT = {dtype: np.empty((0, 0), dtype) for dtype in map(np.dtype, ("float32", "float64", "uint8", "bool"))}
"""Arrays without rows, which stand for absent operands."""
_NO_MASK, _NO_STATUS = ABSENT[np.dtype("bool")], ABSENT[np.dtype("uint8")]


def as_rows(tensor: Tensor) -> Any:
    """Return a contiguous tensor as an array [N, S] that shares its memory."""
    array = tensor.detach().numpy()
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])


def expand_rows(operand: Tensor | None, shape: torch.Size, absent: Any) -> Any:
    """Return an operand, broadcast to the shape of the scores, as an array [N, S]; `absent` if it is None."""
    if operand is None:
        return absent
    return as_rows((operand if operand.shape == shape else operand.expand(shape)).contiguous())


def tolerances(dtype: torch.dtype) -> tuple[float, float]:
    """Return the distance from a bound that counts as a tie, and the tolerance of the sums of bounds."""
    return (1e-9, 1e-9) if dtype == torch.float64 else (1e-6, 1e-4)


def forward(
    name: str, scores: Tensor, upper: Tensor | None, lower: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights and the status; see `kernels.normalizers`.

    Raises:
        KernelFallbackError: A row is infeasible, has a score of NaN or +inf, or needs more than float64.
    """
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    status = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    shape, rows, out, code = scores.shape, as_rows(scores), as_rows(weights), NORMALIZER_CODES[name]
    masks = expand_rows(mask, shape, _NO_MASK)
    if status is None:
        exact = run_rows(_unbounded_rows, len(rows), rows.size, code, rows, masks, out)
    else:
        absent = ABSENT[rows.dtype]
        bounds = expand_rows(upper, shape, absent), expand_rows(lower, shape, absent)
        operands = rows, *bounds, masks, *tolerances(scores.dtype)
        exact = run_rows(_bounded_rows, len(rows), rows.size, code, *operands, out, as_rows(status))
    if not exact:
        raise KernelFallbackError
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    out = as_rows(by_scores)
    run_rows(
        _backward_rows,
        len(out),
        out.size,
        NORMALIZER_CODES[name],
        as_rows(gradient.contiguous()),
        as_rows(weights),
        _NO_STATUS if status is None else as_rows(status),
        out,
        *(ABSENT[out.dtype] if bound is None else as_rows(bound) for bound in (by_upper, by_lower)),
    )
    return by_scores, by_upper, by_lower
