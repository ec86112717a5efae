"""Constrained attention over all time steps on a CPU, sentence by sentence.

With scores z_t, fertility f, cumulative attention beta_t and upper bounds u_t (Malaviya et al., 2018):

    u_t = max(0, f - beta_{t-1}),   p_t = normalizer(z_t + c u_t, u_t),   beta_t = beta_{t-1} + p_t

The exhaustion term c u_t is added only where f is finite, and no gradient flows through it. In the backward
pass let d_t be the gradient of beta_t (0 after the last step) and du_t the gradient of u_t. Then the gradient
of p_t is g_t + d_t, and d_{t-1} = d_t - du_t. The gradient of f is the sum of all du_t. At an exhausted
position (f = beta) the one-sided derivative for increasing f is used.

If H adjacent rows (attention heads) share a fertility, beta is the mean over these rows, and the gradient of
p_t is g_t plus the mean of their d_t.
"""

import numpy as np
import torch

from regard.kernels._numba.normalizers import (
    ABSENT,
    as_rows,
    expand_rows,
    load_row,
    mask_row,
    mean_gradient,
    padded_length,
    tolerances,
)
from regard.kernels._numba.thresholds import solve_bounded
from regard.kernels.backend import KernelFallbackError
from regard.kernels.compilation import njit
from regard.kernels.normalizers import FREE, NORMALIZER_CODES, UPPER
from regard.kernels.threads import run_rows
from regard.types import Tensor


@njit
def _load_bounds(fertility, row, spent, exhaustion, z, u):
    """Write the upper bounds of a step, and add the exhaustion term to its scores."""
    for i in range(fertility.shape[1]):
        left = fertility[row, i] - spent[i]
        u[i] = 0.0 if left < 0.0 else left  # NaN stays NaN
        z[i] += exhaustion * u[i] if fertility[row, i] < np.inf else 0.0


@njit(cache=True, nogil=True)
def _forward_groups(
    begin,
    end,
    normalizer,
    scores,
    fertility,
    exhaustion,
    mask,
    heads,
    near,
    slack,
    weights,
    status,
):
    """Write the weights and the status; returns False if a step needs the reference.

    Args:
        begin: First group of rows that share a fertility.
        end: Last group + 1.
        normalizer: The normalizer.
        scores: [B T, S].
        fertility: [B, S].
        exhaustion: The factor c.
        mask: [B T, S]; no rows if there is none.
        heads: Number of rows of a group.
        near: Distance from a bound that counts as a tie.
        slack: Tolerance of the sums of the bounds.
        weights: [B T, S]; output.
        status: [B T, S]; output.
    """
    size, steps = scores.shape[1], len(scores) // len(fertility)
    length = padded_length(size)
    z, u, low = np.full(length, -np.inf), np.zeros(length), np.zeros(length)
    e, p, states = np.zeros(length), np.zeros(length), np.zeros(length, np.uint8)
    spent, received = np.zeros(length), np.zeros(length)
    for group in range(begin, end):
        spent[:] = 0.0
        for step in range(steps):
            received[:] = 0.0
            for sentence in range(group * heads, group * heads + heads):
                row = sentence * steps + step
                load_row(scores, row, z)
                _load_bounds(fertility, sentence, spent, exhaustion, z, u)
                if len(mask):
                    mask_row(mask, row, z)
                if not solve_bounded(normalizer, z, u, low, near, slack, e, p, states):
                    return False
                for i in range(size):
                    weights[row, i] = p[i]
                    received[i] += p[i]
                for i in range(size):
                    status[row, i] = states[i]
            for i in range(size):
                spent[i] += received[i] / heads
    return True


@njit(cache=True, nogil=True)
def _backward_groups(
    begin, end, normalizer, gradient, weights, status, heads, by_scores, by_fertility, loosened
):
    """Write the gradients of the scores and of the fertilities.

    Args:
        begin: First group of rows that share a fertility.
        end: Last group + 1.
        normalizer: The normalizer.
        gradient: [B T, S].
        weights: [B T, S].
        status: [B T, S].
        heads: Number of rows of a group.
        by_scores: [B T, S]; output.
        by_fertility: [B, S]; output.
        loosened: [B, S], float64 zeros; scratch memory for the sum of du over the later steps, which is -d.
    """
    size, steps = gradient.shape[1], len(gradient) // len(by_fertility)
    length = padded_length(size)
    g, p, states = np.zeros(length), np.zeros(length), np.zeros(length, np.uint8)
    shared = np.zeros(size)
    for group in range(begin, end):
        first = group * heads
        for step in range(steps - 1, -1, -1):
            shared[:] = 0.0
            for sentence in range(first, first + heads):
                for i in range(size):
                    shared[i] += loosened[sentence, i] / heads
            for sentence in range(first, first + heads):
                row = sentence * steps + step
                load_row(weights, row, p)
                for i in range(size):
                    g[i] = gradient[row, i] - shared[i]
                for i in range(size):
                    states[i] = status[row, i]
                mean = mean_gradient(normalizer, g, p, states)
                for i in range(size):
                    by_scores[row, i] = p[i] * (g[i] - mean) if states[i] == FREE else 0.0
                for i in range(size):
                    loosened[sentence, i] += g[i] - mean if states[i] == UPPER else 0.0
        for sentence in range(first, first + heads):
            for i in range(size):
                by_fertility[sentence, i] = loosened[sentence, i]
    return True


def forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
) -> tuple[Tensor, Tensor]:
    """Compute the weights and the status of all steps; see `kernels.scans`.

    Raises:
        KernelFallbackError: A step is infeasible, has a score of NaN or +inf, or needs more than float64.
    """
    scores = scores.contiguous()
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    rows = as_rows(scores)
    exact = run_rows(
        _forward_groups,
        len(scores) // heads_per_budget,
        rows.size,
        NORMALIZER_CODES[name],
        rows,
        as_rows(fertility.contiguous()),
        float(exhaustion),
        expand_rows(mask, scores.shape, ABSENT[np.dtype("bool")]),
        heads_per_budget,
        *tolerances(scores.dtype),
        as_rows(weights),
        as_rows(status),
    )
    if not exact:
        raise KernelFallbackError
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the scores [B, T, S] and of the fertility [B, S]; see `kernels.scans`."""
    batch, _, size = weights.shape
    by_scores, by_fertility = torch.empty_like(weights), weights.new_empty(batch, size)
    run_rows(
        _backward_groups,
        batch // heads_per_budget,
        weights.numel(),
        NORMALIZER_CODES[name],
        as_rows(gradient.contiguous()),
        as_rows(weights),
        as_rows(status),
        heads_per_budget,
        as_rows(by_scores),
        as_rows(by_fertility),
        np.zeros((batch, size)),
    )
    return by_scores, by_fertility
