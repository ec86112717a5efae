"""The normalizers and their gradients on a CPU, in blocks of eight rows.

`row_blocks` reads and writes the rows, `weights` computes the weights of a block, and `extreme_scores`
repeats this for rows with extreme scores.
"""

from typing import Any

import numpy as np
import torch
from numba import types

from regard.kernels._numba.arithmetic import any_lane, fill_lanes, select_lanes
from regard.kernels._numba.extreme_scores import apply_mask, solve_shifted
from regard.kernels._numba.memory import claim_units, keep_alive
from regard.kernels._numba.row_blocks import (
    OPERANDS,
    Arguments,
    arguments_of,
    find_rows,
    prefetch_rows,
    read_byte_rows,
    read_mask,
    read_rows,
    read_scores,
    set_failed,
    write_byte_rows,
    write_rows,
)
from regard.kernels._numba.weights import (
    clip_bounds,
    mark_invalid,
    prepare_scores,
    score_gradient,
    solve_constrained_softmax,
    solve_constrained_sparsemax,
    solve_unbounded,
    write_bound_gradient,
)
from regard.kernels.backend import KernelFallbackError, broadcast_rows
from regard.kernels.compilation import cfunc
from regard.kernels.normalizers import (
    CONSTRAINED_SPARSEMAX,
    ENTMAX15,
    LOWER,
    NORMALIZER_CODES,
    SPARSEMAX,
    UPPER,
)
from regard.kernels.threads import run_kernel
from regard.types import Tensor


@cfunc(types.void(types.int64))
def forward_kernel(block: int) -> None:
    """Write the weights and, for normalizers with bounds, the status of all rows."""
    args = arguments_of(block)
    kind, wide = args.normalizer, args.is_float64
    rows, count = args.rows, args.size
    # A vector of eight doubles has 64 bytes. The number of positions is padded to an even number for the
    # solvers, and scratch arrays to a multiple of 8 for the tiles.
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(6 * room + 6 * 64, np.uint8)
    z = scratch.ctypes.data
    mask, u, low, powers, raw = z + room, z + 2 * room, z + 3 * room, z + 4 * room, z + 5 * room
    table = z + 6 * room
    begin, end = claim_units(block)
    while begin < end:
        for first in range(8 * begin, min(8 * end, rows), 8):
            read_scores(wide, table, block, first, count, z)
            prefetch_rows(block, OPERANDS.scores, first + 8, stride, False)
            prefetch_rows(block, OPERANDS.upper_bound, first + 8, stride, False)
            prefetch_rows(block, OPERANDS.weights, first, stride, True)
            prefetch_rows(block, OPERANDS.status, first, count, True)
            # 1.5-entmax has the form max(z / 2 - tau, 0)^2, hence the halved scores (Peters et al., 2019).
            poison = prepare_scores(
                size, z, read_mask(table, block, first, count, mask), 0.5 if kind == ENTMAX15 else 1.0
            )
            left, found = min(8, rows - first), z
            if kind == SPARSEMAX or kind == ENTMAX15:
                solve_unbounded(kind, size, z, poison)
            else:
                find_rows(table, block, OPERANDS.upper_bound, first, stride)
                read_rows(wide, table, count, u)
                least = 0
                if find_rows(table, block, OPERANDS.lower_bound, first, stride):
                    read_rows(wide, table, count, low)
                    least = low
                most, least_level, infeasible, sick = clip_bounds(size, z, u, least, wide)
                poison = select_lanes(infeasible, fill_lanes(np.nan), poison + sick)
                if kind == CONSTRAINED_SPARSEMAX:
                    # From here on the memory of the mask holds the status of the positions.
                    unsolved, again, _ = solve_constrained_sparsemax(
                        size, z, u, least, least_level, most, infeasible, poison, wide, powers, mask
                    )
                    found = powers
                else:
                    unsolved, again, _, _ = solve_constrained_softmax(
                        size, z, powers, u, least, most, infeasible, poison, wide, mask
                    )
                if any_lane(again):
                    read_scores(wide, table, block, first, count, raw)
                    apply_mask(size, raw, read_mask(table, block, first, count, mask))
                    unsolved = solve_shifted(
                        kind, size, raw, z, powers, u, least, most, infeasible, again, poison, wide, mask
                    )
                set_failed(block, infeasible | unsolved)
                mark_invalid(size, mask, (poison != 0.0) | unsolved)
                find_rows(table, block, OPERANDS.status, first, count)
                write_byte_rows(table, left, count, mask)
            find_rows(table, block, OPERANDS.weights, first, stride)
            write_rows(wide, table, left, count, found)
        begin, end = claim_units(block)
    keep_alive(scratch)


@cfunc(types.void(types.int64))
def backward_kernel(block: int) -> None:
    """Write the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    args = arguments_of(block)
    kind, wide = args.normalizer, args.is_float64
    rows, count = args.rows, args.size
    size, stride = 128 * ((count + 1) // 2), count * (8 if wide else 4)
    room = 64 * ((count + 7) // 8 * 8)
    scratch = np.empty(3 * room + 64, np.uint8)
    g = scratch.ctypes.data
    weights, rests, table = g + room, g + 2 * room, g + 3 * room
    begin, end = claim_units(block)
    while begin < end:
        for first in range(8 * begin, min(8 * end, rows), 8):
            left = min(8, rows - first)
            find_rows(table, block, OPERANDS.gradient, first, stride)
            read_rows(wide, table, count, g)
            prefetch_rows(block, OPERANDS.gradient, first + 8, stride, False)
            prefetch_rows(block, OPERANDS.weights, first + 8, stride, False)
            prefetch_rows(block, OPERANDS.status, first + 8, count, False)
            prefetch_rows(block, OPERANDS.scores_gradient, first + 8, stride, True)
            prefetch_rows(block, OPERANDS.upper_gradient, first + 8, stride, True)
            if kind != CONSTRAINED_SPARSEMAX:  # whose gradient depends on the status only
                find_rows(table, block, OPERANDS.weights, first, stride)
                read_rows(wide, table, count, weights)
            bounded = find_rows(table, block, OPERANDS.status, first, count)
            if bounded:
                read_byte_rows(table, count, rests)
            mean = score_gradient(kind, size, g, weights, rests if bounded else 0)
            find_rows(table, block, OPERANDS.scores_gradient, first, stride)
            write_rows(wide, table, left, count, weights)
            if find_rows(table, block, OPERANDS.upper_gradient, first, stride):
                write_bound_gradient(size, g, mean, rests, UPPER, weights)
                write_rows(wide, table, left, count, weights)
            if find_rows(table, block, OPERANDS.lower_gradient, first, stride):
                write_bound_gradient(size, g, mean, rests, LOWER, weights)
                write_rows(wide, table, left, count, weights)
        begin, end = claim_units(block)
    keep_alive(scratch)


_NUMBER_INDEX = {name: 3 * i for i, name in enumerate(OPERANDS._fields)}
_MIN_PARALLEL_SIZE = 1 << 11  # elements below which a single thread is faster; see `run_kernel`


def prepare_arguments(name: str, like: Tensor, rows: int, **arguments: int) -> Any:
    """Return an argument block with the arguments that all kernels need, and others."""
    codes = NORMALIZER_CODES[name], like.dtype == torch.float64
    return Arguments(normalizer=codes[0], is_float64=codes[1], rows=rows, size=like.shape[-1], **arguments)


def set_operand(block: Any, name: str, operand: Tensor | None, count: int, every: int = 1) -> None:
    """Store a contiguous operand in the argument block; row r of the scores uses row (r // every) % count."""
    if operand is not None:
        numbers, i = block.operands, _NUMBER_INDEX[name]
        numbers[i], numbers[i + 1], numbers[i + 2] = operand.data_ptr(), every, count


def run_blocks(kernel: Any, block: Any, num_elements: int) -> None:
    """Run a kernel over its rows, in blocks of eight."""
    run_kernel(kernel, block, (block.rows + 7) // 8, single_threaded=num_elements < _MIN_PARALLEL_SIZE)


def forward(
    name: str,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
    *,
    raise_on_failure: bool,
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights and the status; see `kernels.normalizers`."""
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    status = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    num_elements = scores.numel()
    if not num_elements:
        return weights, status
    rows = num_elements // scores.shape[-1]
    block = prepare_arguments(name, scores, rows)
    operands = []  # keeps contiguous copies alive until the kernel has finished
    for key, operand in (("mask", mask), ("upper_bound", upper), ("lower_bound", lower)):
        if operand is not None:
            laid, every, count = broadcast_rows(operand, scores.shape, rows)
            operands.append(laid)
            set_operand(block, key, laid, count, every)
    for key, operand in (("scores", scores), ("weights", weights), ("status", status)):
        set_operand(block, key, operand, rows)
    run_blocks(forward_kernel, block, num_elements)
    if raise_on_failure and block.failed:
        raise KernelFallbackError
    return weights, status


def backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, of the bounds; see `kernels.normalizers`."""
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    if weights.numel():
        rows = weights.numel() // weights.shape[-1]
        block = prepare_arguments(name, weights, rows)
        operands = {
            "weights": weights,
            "status": status,
            "gradient": gradient.contiguous(),
            "scores_gradient": by_scores,
            "upper_gradient": by_upper,
            "lower_gradient": by_lower,
        }
        for key, operand in operands.items():
            set_operand(block, key, operand, rows)
        run_blocks(backward_kernel, block, weights.numel())
    return by_scores, by_upper, by_lower
