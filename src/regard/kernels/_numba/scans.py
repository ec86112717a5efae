"""Constrained attention over all time steps on a CPU, for eight sentences at a time.

With scores z_t, fertility f, cumulative attention beta_t and upper bounds u_t (Malaviya et al., 2018):

    u_t = max(0, f - beta_{t-1}),   p_t = normalizer(z_t + c u_t, u_t),   beta_t = beta_{t-1} + p_t

The exhaustion term c u_t is added only where f is finite, and no gradient flows through it. In the backward
pass let d_t be the gradient of beta_t (0 after the last step) and du_t the gradient of u_t. Then the gradient
of p_t is g_t + d_t, and d_{t-1} = d_t - du_t. The gradient of f is the sum of all du_t. At an exhausted
position (f = beta) the one-sided derivative for increasing f is used.

If H adjacent rows (attention heads) share a fertility, beta is the mean over these rows, and the gradient of
p_t is g_t plus the mean of their d_t.
"""

import ctypes

import numpy as np
import torch
from numba import types

from regard.kernels._numba.arithmetic import any_lane, fill_lanes, group_mean, maximum, select_lanes
from regard.kernels._numba.extreme_scores import apply_mask, solve_shifted
from regard.kernels._numba.memory import claim_units, keep_alive, load_vector, read_double, store_vector
from regard.kernels._numba.normalizers import prepare_arguments, run_blocks, set_operand
from regard.kernels._numba.row_blocks import (
    OPERANDS,
    Arguments,
    arguments_of,
    find_rows,
    read_byte_rows,
    read_mask,
    read_rows,
    read_scores,
    set_failed,
    write_byte_rows,
    write_rows,
)
from regard.kernels._numba.weights import (
    bound_gradient,
    clip_bounds,
    mark_invalid,
    prepare_scores,
    score_gradient,
    solve_constrained_softmax,
    solve_constrained_sparsemax,
)
from regard.kernels.backend import KernelFallbackError, broadcast_rows
from regard.kernels.compilation import cfunc, njit
from regard.kernels.normalizers import CONSTRAINED_SPARSEMAX, UPPER
from regard.types import Tensor

_INF = float("inf")

EXHAUSTION = Arguments.exhaustion.offset


@njit
def exhaust_scores(size: int, scores: int, fertility: int, spent: int, exhaustion: float) -> None:
    """Add the exhaustion term, c times the upper bound, to the scores at positions with finite fertility."""
    for at in range(0, size, 64):
        f = load_vector(fertility + at)
        bound = maximum(f - load_vector(spent + at), fill_lanes(0.0))
        store_vector(
            scores + at,
            load_vector(scores + at) + select_lanes(f < _INF, bound * exhaustion, fill_lanes(0.0)),
        )


@cfunc(types.void(types.int64))
def scan_forward_kernel(block: int) -> None:
    """Write the weights and the status of all sentences and steps."""
    args = arguments_of(block)
    kind, wide = args.normalizer, args.is_float64
    rows, count = args.rows, args.size
    steps, exhaustion = args.steps, read_double(block + EXHAUSTION)
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(7 * room + 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, powers = z + room, z + 2 * room, z + 3 * room
    fertility, spent, raw, table = z + 4 * room, z + 5 * room, z + 6 * room, z + 7 * room
    heads = args.heads_per_budget
    begin, end = claim_units(block)
    while begin < end:
        for first in range(8 * begin, min(8 * end, rows), 8):
            left = min(8, rows - first)
            find_rows(table, block, OPERANDS.fertility, first, stride)
            read_rows(wide, table, count, fertility)
            for at in range(0, size, 64):
                store_vector(spent + at, fill_lanes(0.0))
            for step in range(steps):
                read_scores(wide, table, block, first, count, z, steps, step)
                masked = read_mask(table, block, first, count, mask, steps, step)
                for at in range(0, size, 64):
                    remaining = load_vector(fertility + at) - load_vector(spent + at)
                    # Unlike `maximum`, this keeps NaN, so that the steps after an invalid one are NaN, too.
                    store_vector(u + at, select_lanes(remaining < 0.0, fill_lanes(0.0), remaining))
                exhaust_scores(size, z, fertility, spent, exhaustion)
                poison = prepare_scores(size, z, masked, 1.0)
                most, level, infeasible, sick = clip_bounds(size, z, u, 0, wide)
                poison = select_lanes(infeasible, fill_lanes(np.nan), poison + sick)
                if kind == CONSTRAINED_SPARSEMAX:
                    unsolved, again, _ = solve_constrained_sparsemax(
                        size, z, u, 0, level, most, infeasible, poison, wide, powers, mask
                    )
                    found = powers
                else:
                    unsolved, again, _, _ = solve_constrained_softmax(
                        size, z, powers, u, 0, most, infeasible, poison, wide, mask
                    )
                    found = z
                if any_lane(again):
                    # The solver has overwritten the scores, so they are read again.
                    read_scores(wide, table, block, first, count, raw, steps, step)
                    exhaust_scores(size, raw, fertility, spent, exhaustion)
                    apply_mask(size, raw, read_mask(table, block, first, count, mask, steps, step))
                    unsolved = solve_shifted(
                        kind, size, raw, z, powers, u, 0, most, infeasible, again, poison, wide, mask
                    )
                set_failed(block, infeasible | unsolved)
                mark_invalid(size, mask, (poison != 0.0) | unsolved)
                for at in range(0, size, 64):
                    store_vector(
                        spent + at, load_vector(spent + at) + group_mean(load_vector(found + at), heads)
                    )
                find_rows(table, block, OPERANDS.status, first, count, steps, step)
                write_byte_rows(table, left, count, mask)
                find_rows(table, block, OPERANDS.weights, first, stride, steps, step)
                write_rows(wide, table, left, count, found)
        begin, end = claim_units(block)
    keep_alive(scratch)


@cfunc(types.void(types.int64))
def scan_backward_kernel(block: int) -> None:
    """Write the gradients of the scores and of the fertility."""
    args = arguments_of(block)
    kind, wide = args.normalizer, args.is_float64
    rows, count, steps = args.rows, args.size, args.steps
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(4 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, loosened, table = g + room, g + 2 * room, g + 3 * room, g + 4 * room
    heads = args.heads_per_budget
    begin, end = claim_units(block)
    while begin < end:
        for first in range(8 * begin, min(8 * end, rows), 8):
            left = min(8, rows - first)
            for at in range(0, size, 64):
                store_vector(loosened + at, fill_lanes(0.0))
            for back in range(steps):
                step = steps - 1 - back
                find_rows(table, block, OPERANDS.gradient, first, stride, steps, step)
                read_rows(wide, table, count, g)
                find_rows(table, block, OPERANDS.weights, first, stride, steps, step)
                read_rows(wide, table, count, weights)
                find_rows(table, block, OPERANDS.status, first, count, steps, step)
                read_byte_rows(table, count, rests)
                # `loosened` is the sum of du over the later steps, which is -d.
                for at in range(0, size, 64):
                    store_vector(g + at, load_vector(g + at) - group_mean(load_vector(loosened + at), heads))
                mean = score_gradient(kind, size, g, weights, rests)
                find_rows(table, block, OPERANDS.scores_gradient, first, stride, steps, step)
                write_rows(wide, table, left, count, weights)
                for at in range(0, size, 64):
                    tight = bound_gradient(load_vector(g + at), mean, load_vector(rests + at), UPPER)
                    store_vector(loosened + at, load_vector(loosened + at) + tight)
            find_rows(table, block, OPERANDS.fertility_gradient, first, stride)
            write_rows(wide, table, left, count, loosened)
        begin, end = claim_units(block)
    keep_alive(scratch)


def forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
    *,
    raise_on_failure: bool,
) -> tuple[Tensor, Tensor]:
    """Compute the weights and the status of all steps; see `kernels.scans`."""
    scores, fertility = scores.contiguous(), fertility.contiguous()
    batch, steps, _ = scores.shape
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    if not scores.numel():
        return weights, status
    rows = batch * steps
    block = prepare_arguments(name, scores, batch, steps=steps, heads_per_budget=heads_per_budget)
    # The block holds int64 only, so the double is stored by its bits.
    block.exhaustion = ctypes.c_int64.from_buffer(ctypes.c_double(exhaustion)).value
    if mask is not None:
        mask, every, count = broadcast_rows(mask, scores.shape, rows)
        set_operand(block, "mask", mask, count, every)
    for key, operand in (("scores", scores), ("weights", weights), ("status", status)):
        set_operand(block, key, operand, rows)
    set_operand(block, "fertility", fertility, batch)
    run_blocks(scan_forward_kernel, block, scores.numel())
    if raise_on_failure and block.failed:
        raise KernelFallbackError
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the scores [B, T, S] and of the fertility [B, S]; see `kernels.scans`."""
    batch, steps, size = weights.shape
    by_scores, by_fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        block = prepare_arguments(name, weights, batch, steps=steps, heads_per_budget=heads_per_budget)
        operands = {
            "weights": weights,
            "status": status,
            "gradient": gradient.contiguous(),
            "scores_gradient": by_scores,
        }
        for key, operand in operands.items():
            set_operand(block, key, operand, batch * steps)
        set_operand(block, "fertility_gradient", by_fertility, batch)
        run_blocks(scan_backward_kernel, block, weights.numel())
    return by_scores, by_fertility
