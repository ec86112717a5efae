"""The normalizers and their gradients on a CPU; `thresholds` computes the weights of a row.

The constrained normalizers are computed sentence by sentence, over one or more time steps, by the recurrence
of `regard.functional.scans`. A constrained normalizer is a scan of one step, whose fertility is the upper
bound. If H adjacent rows (attention heads) share a fertility, the gradient of p_t is g_t plus the mean of
their d_t.
"""

from typing import Any

import numpy as np
import torch

from regard.kernels._numba.rows import (
    NO_MASK,
    NO_STATUS,
    expand_rows,
    load_row,
    mask_row,
    padded_length,
    run_rows,
)
from regard.kernels._numba.thresholds import SUMS, solve_bounded, solve_unbounded
from regard.kernels.backend import KernelFallbackError
from regard.kernels.compilation import njit
from regard.kernels.normalizers import (
    CONSTRAINED_SOFTMAX,
    ENTMAX15,
    FREE,
    LOWER,
    NORMALIZER_CODES,
    UPPER,
    bound_tolerances,
)
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


@njit
def _load_bounds(fertility, row, spent, exhaustion, z, u):
    """Write the upper bounds of a step, and add the exhaustion term to its scores."""
    for i in range(fertility.shape[1]):
        left = fertility[row, i] - spent[i]
        u[i] = 0.0 if left < 0.0 else left  # NaN stays NaN
        z[i] += exhaustion * u[i] if fertility[row, i] < np.inf else 0.0


@njit(cache=True, nogil=True)
def _forward_groups(
    begin, end, failed, normalizer, scan, exhaustion, heads, tolerances, scores, fertility, lower, mask,
    weights, status,
):  # fmt: skip
    """Write the weights and the status for groups of rows that share a fertility.

    Scores, weights, status, lower bounds and mask are [B T, S], the last two without rows if absent; the
    fertility is [B, S]. If `scan` is False, there is one step, whose upper bounds it has. `failed` becomes
    True for a group with a step that needs a higher precision. `tolerances` are the `bound_tolerances`.
    """
    size, steps = scores.shape[1], len(scores) // len(fertility)
    length = padded_length(size)
    dtype = scores.dtype
    near, slack = tolerances
    z, u, low = np.full(length, -np.inf, dtype), np.zeros(length, dtype), np.zeros(length, dtype)
    e, p, states = np.zeros(length, dtype), np.zeros(length, dtype), np.zeros(length, np.uint8)
    spent, received = np.zeros(length), np.zeros(length)
    for group in range(begin, end):
        if scan:
            spent[:] = 0.0
        for step in range(steps):
            if scan:
                received[:] = 0.0
            for sentence in range(group * heads, group * heads + heads):
                row = sentence * steps + step
                load_row(scores, row, z)
                if scan:
                    _load_bounds(fertility, sentence, spent, exhaustion, z, u)
                else:
                    load_row(fertility, sentence, u)
                if len(lower):
                    load_row(lower, row, low)
                if len(mask):
                    mask_row(mask, row, z)
                if not solve_bounded(normalizer, z, u, low, near, slack, e, p, states):
                    failed[group] = True
                for i in range(size):
                    weights[row, i] = p[i]
                for i in range(size):
                    status[row, i] = states[i]
                if scan:
                    for i in range(size):
                        received[i] += p[i]
            if scan:
                for i in range(size):
                    spent[i] += received[i] / heads
    return True


@njit(fastmath=SUMS, error_model="numpy")
def _mean_gradient(normalizer, g, p, status):
    """Replace the weights p by the slopes s, and return m (see `kernels.normalizers.normalizer_backward`)."""
    real = p.dtype.type
    zero, one, total, slope = real(0.0), real(1.0), real(0.0), real(0.0)
    for i in range(len(g)):
        s = p[i] if normalizer == CONSTRAINED_SOFTMAX else np.sqrt(p[i]) if normalizer == ENTMAX15 else one
        p[i] = s if status[i] == FREE else zero
        total += p[i] * g[i] if status[i] == FREE else zero
        slope += p[i]
    return total / slope if slope > zero else zero


@njit(cache=True, nogil=True)
def _backward_groups(
    begin, end, normalizer, gradient, weights, status, heads, by_scores, by_fertility, by_lower, loosened
):
    """Write the gradients of the scores and, where they have rows, of the fertilities and lower bounds.

    The operands have the shapes of those of `_forward_groups`; there is no status without bounds.
    `loosened`, [B, S], are zeros in float64: scratch memory for the sum of du over the later steps, which is
    -d. It has no rows for a single step.
    """
    scan = len(loosened) > 0
    size, steps = gradient.shape[1], len(gradient) // len(loosened) if scan else 1
    length = padded_length(size)
    dtype, zero = weights.dtype, weights.dtype.type(0.0)
    g, p, states = np.zeros(length, dtype), np.zeros(length, dtype), np.zeros(length, np.uint8)
    shared = np.zeros(size)
    for group in range(begin, end):
        first = group * heads
        for step in range(steps - 1, -1, -1):
            if scan:
                shared[:] = 0.0
                for sentence in range(first, first + heads):
                    for i in range(size):
                        shared[i] += loosened[sentence, i] / heads
            for sentence in range(first, first + heads):
                row = sentence * steps + step
                load_row(weights, row, p)
                load_row(gradient, row, g)
                if scan:
                    for i in range(size):
                        g[i] -= shared[i]
                if len(status):
                    for i in range(size):
                        states[i] = status[row, i]
                else:
                    for i in range(size):
                        states[i] = FREE if p[i] > 0.0 else 0
                mean = _mean_gradient(normalizer, g, p, states)
                for i in range(size):
                    by_scores[row, i] = p[i] * (g[i] - mean) if states[i] == FREE else zero
                if scan:
                    for i in range(size):
                        loosened[sentence, i] += g[i] - mean if states[i] == UPPER else zero
                elif len(by_fertility):
                    for i in range(size):
                        by_fertility[row, i] = g[i] - mean if states[i] == UPPER else zero
                if len(by_lower):
                    for i in range(size):
                        by_lower[row, i] = g[i] - mean if states[i] == LOWER else zero
        if scan:
            for sentence in range(first, first + heads):
                for i in range(size):
                    by_fertility[sentence, i] = loosened[sentence, i]
    return True


def forward(
    name: str, scores: Tensor, upper: Tensor | None, lower: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights and the status; see `kernels.normalizers`.

    Raises:
        KernelFallbackError: A row is infeasible, has a score of NaN or +inf, or needs more than float64.
    """
    if upper is not None:
        return scan_forward(name, scores, upper, 0.0, mask, 1, lower, scan=False)
    weights = torch.empty_like(scores, memory_format=torch.contiguous_format)
    shape, out = scores.shape, expand_rows(weights, scores.shape, None)
    rows, masks = expand_rows(scores, shape, None), expand_rows(mask, shape, NO_MASK)
    if not run_rows(_unbounded_rows, len(rows), rows.size, NORMALIZER_CODES[name], rows, masks, out):
        raise KernelFallbackError
    return weights, None


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    by_scores = _run_backward(name, gradient, weights, status, 1, by_upper, by_lower, scan=False)
    return by_scores, by_upper, by_lower


def scan_forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
    lower: Tensor | None = None,
    scan: bool = True,
) -> tuple[Tensor, Tensor]:
    """Compute the weights and the status; see `kernels.normalizers`. Without `scan`, scores are [..., S].

    Raises:
        KernelFallbackError: A step is infeasible, has a score of NaN or +inf, or needs more than float64.
    """
    scores = scores.contiguous()
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    shape = scores.shape
    rows = expand_rows(scores, shape, None)
    operands = [
        rows,
        expand_rows(fertility, fertility.shape if scan else shape, None),
        expand_rows(lower, shape, rows[:0]),
        expand_rows(mask, shape, NO_MASK),
        expand_rows(weights, shape, None),
        expand_rows(status, shape, None),
    ]
    tolerances = bound_tolerances(scores.dtype)
    settings = NORMALIZER_CODES[name], scan, float(exhaustion), heads_per_budget, tolerances
    failed = np.zeros(len(operands[1]) // heads_per_budget, np.bool_)
    run_rows(_forward_groups, len(failed), rows.size, failed, *settings, *operands)
    if failed.any():
        if rows.dtype == np.float64:
            raise KernelFallbackError
        _solve_in_double(failed, settings, operands)
    return weights, status


def _solve_in_double(chosen: np.ndarray, settings: tuple[Any, ...], operands: list[np.ndarray]) -> None:
    """Compute some groups of `_forward_groups` in float64, and write their weights and status.

    Copies in float64 need no further version of the kernel, which would take seconds to compile.

    Raises:
        KernelFallbackError: as `scan_forward`.
    """
    groups = [operand.reshape(len(chosen), -1, operand.shape[1]) for operand in operands]
    parts = [group[chosen].reshape(-1, group.shape[2]) for group in groups]
    parts = [part.astype(np.float64) if part.dtype == np.float32 else part for part in parts]
    failed = np.zeros(np.count_nonzero(chosen), np.bool_)
    run_rows(_forward_groups, len(failed), parts[0].size, failed, *settings, *parts)
    if failed.any():
        raise KernelFallbackError
    for group, part in zip(groups[-2:], parts[-2:], strict=True):
        group[chosen] = part.reshape(len(failed), *group.shape[1:])


def scan_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the scores [B, T, S] and of the fertility [B, S]."""
    by_fertility = weights.new_empty(len(weights), weights.shape[-1])
    by_scores = _run_backward(
        name, gradient, weights, status, heads_per_budget, by_fertility, None, scan=True
    )
    return by_scores, by_fertility


def _run_backward(
    name: str,
    gradient: Tensor,
    weights: Tensor,
    status: Tensor | None,
    heads: int,
    by_fertility: Tensor | None,
    by_lower: Tensor | None,
    *,
    scan: bool,
) -> Tensor:
    """Return the gradient of the scores, and write those of the fertilities and lower bounds."""
    by_scores = torch.empty_like(weights)
    shape, out = weights.shape, expand_rows(by_scores, weights.shape, None)
    count = len(weights) if scan else len(out)
    run_rows(
        _backward_groups,
        count // heads,
        out.size,
        NORMALIZER_CODES[name],
        expand_rows(gradient, shape, None),
        expand_rows(weights, shape, None),
        expand_rows(status, shape, NO_STATUS),
        heads,
        out,
        out[:0] if by_fertility is None else by_fertility.view(count, -1).numpy(),
        expand_rows(by_lower, shape, out[:0]),
        np.zeros((count if scan else 0, shape[-1])),
    )
    return by_scores
