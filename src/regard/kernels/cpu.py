"""Functions that call the CPU kernels of the normalizers on tensors; `gpu` has the same interface."""

import ctypes

import torch

from regard.kernels import places
from regard.kernels.backend import Backend
from regard.kernels.places import NORMALIZER_CODES
from regard.kernels.pool import load_kernel, run_kernel
from regard.types import Tensor

__all__ = ["NUMBA", "KernelFallbackError", "broadcast_rows"]

_MIN_PARALLEL_SIZE = 1 << 11  # elements below which a single thread is faster; see `run_kernel`

_Block = ctypes.c_int64 * places.NUM_ARGS


class KernelFallbackError(Exception):
    """The kernel has no valid result: a row is infeasible or too long, or a threshold was not found.

    The caller then uses the reference implementation, which raises the appropriate error.
    """


def _call(name: str, block: "ctypes.Array[ctypes.c_int64]", num_elements: int, rows: int) -> None:
    """Run a kernel over its rows, in blocks of eight."""
    kernel = load_kernel("scans" if name.startswith("scan") else "rows", name)
    run_kernel(kernel, block, places.BLOCKS_PER_TICKET, (rows + 7) // 8, num_elements < _MIN_PARALLEL_SIZE)


def broadcast_rows(operand: Tensor, shape: torch.Size, rows: int) -> tuple[Tensor, int, int]:
    """Return an operand in contiguous memory and the two numbers that implement its broadcasting.

    Row r of the scores uses row (r // every) % count of the operand. Broadcasting over leading, trailing or
    middle dimensions thus needs no copy.

    Args:
        operand: A tensor that broadcasts to `shape`.
        shape: Shape of the scores.
        rows: Number of rows of the scores, counting all dimensions but the last.

    Returns:
        The contiguous operand, `every` and `count`.
    """
    if operand.shape == shape:
        return operand.contiguous(), 1, rows
    size = shape[-1]
    full = operand.expand(*operand.shape[:-1], size) if operand.dim() else operand.expand(size)
    lead = (1,) * (len(shape) - full.dim()) + tuple(full.shape[:-1])
    # The leading dimensions over which the operand does not broadcast. If they are adjacent, the rule above
    # suffices; otherwise the operand is expanded.
    own = [i for i, length in enumerate(lead) if length != 1]
    if not own:
        return full.reshape(1, size).contiguous(), 1, 1
    if all(lead[i] == shape[i] for i in range(own[0], own[-1] + 1)):
        every = 1
        for length in shape[own[-1] + 1 : -1]:
            every *= length
        count = 1
        for i in range(own[0], own[-1] + 1):
            count *= shape[i]
        return full.contiguous(), every, count
    return operand.expand(shape).contiguous(), 1, rows


def _block(name: str, like: Tensor, rows: int) -> "ctypes.Array[ctypes.c_int64]":
    """Return an argument block with the entries that all kernels need."""
    block = _Block()
    block[places.NORMALIZER], block[places.IS_FLOAT64] = NORMALIZER_CODES[name], like.dtype == torch.float64
    block[places.ROWS], block[places.SIZE] = rows, like.shape[-1]
    return block


def _set_operand(
    block: "ctypes.Array[ctypes.c_int64]", place: int, operand: Tensor | None, count: int, every: int = 1
) -> None:
    """Store a contiguous operand in the argument block; row r of the scores uses row (r // every) % count."""
    if operand is not None:
        block[place], block[place + 1], block[place + 2] = operand.data_ptr(), every, count


def _forward(
    name: str,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
    *,
    raise_on_failure: bool,
) -> tuple[Tensor, Tensor | None]:
    """Compute the weights of a normalizer, and the status of each position if it has bounds.

    Args:
        name: The normalizer; a key of `places.NORMALIZER_CODES`.
        scores: [..., S], float32 or float64.
        upper: Upper bounds, broadcastable to the scores, in their dtype; None if the normalizer has none.
        lower: Lower bounds, likewise; None means 0.
        mask: Broadcastable to the scores, True where a position may be attended to; None means all.
        raise_on_failure: Whether to raise `KernelFallbackError` for rows without a valid result, instead of
            returning NaN.

    Returns:
        The weights, and the status of each position as uint8: 0 masked, 1 at its lower bound, 2 strictly
        between its bounds (free), 3 at its upper bound. The status is None without bounds.

    Raises:
        KernelFallbackError: A row has no valid result and `raise_on_failure` is True.
    """
    scores = scores.contiguous()
    shape, size = scores.shape, scores.shape[-1]
    num_elements = scores.numel()
    weights = torch.empty_like(scores)
    status = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    if not num_elements:
        return weights, status
    rows = num_elements // size
    block = _block(name, scores, rows)
    operands = []  # keeps contiguous copies alive until the kernel has finished
    for place, operand in ((places.MASK, mask), (places.UPPER_BOUND, upper), (places.LOWER_BOUND, lower)):
        if operand is not None:
            laid, every, count = broadcast_rows(operand, shape, rows)
            operands.append(laid)
            _set_operand(block, place, laid, count, every)
    _set_operand(block, places.SCORES, scores, rows)
    _set_operand(block, places.WEIGHTS, weights, rows)
    _set_operand(block, places.STATUS, status, rows)
    _call("forward_kernel", block, num_elements, rows)
    if raise_on_failure and block[places.FAILED]:
        raise KernelFallbackError
    return weights, status


def _backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients with respect to the scores and, on request, the bounds.

    Args:
        name: The normalizer.
        gradient: Gradient with respect to the weights, [..., S].
        weights: The weights that `_forward` returned.
        status: The status that `_forward` returned.
        upper: Whether to compute the gradient of the upper bounds.
        lower: Whether to compute the gradient of the lower bounds.

    Returns:
        The gradients of the scores, the upper bounds and the lower bounds, each in the shape of the scores.
    """
    gradient = gradient.contiguous()
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    num_elements = weights.numel()
    if num_elements:
        rows = num_elements // weights.shape[-1]
        block = _block(name, weights, rows)
        _set_operand(block, places.WEIGHTS, weights, rows)
        _set_operand(block, places.STATUS, status, rows)
        _set_operand(block, places.GRADIENT, gradient, rows)
        _set_operand(block, places.SCORES_GRADIENT, by_scores, rows)
        _set_operand(block, places.UPPER_GRADIENT, by_upper, rows)
        _set_operand(block, places.LOWER_GRADIENT, by_lower, rows)
        _call("backward_kernel", block, num_elements, rows)
    return by_scores, by_upper, by_lower


def _scan_forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads_per_budget: int,
    *,
    raise_on_failure: bool,
) -> tuple[Tensor, Tensor]:
    """Compute a constrained normalizer over all time steps; see `scans` for the recurrence.

    Args:
        name: The normalizer.
        scores: [B, T, S], float32 or float64.
        fertility: [B, S], in the dtype of the scores.
        exhaustion: Factor c; c times the remaining fertility of a position is added to its score.
        mask: Broadcastable to the scores, True where a position may be attended to.
        heads_per_budget: Number of adjacent rows that share one fertility: 1, 2, 4 or 8.
        raise_on_failure: Whether to raise `KernelFallbackError` for steps without a valid result, instead of
            returning NaN.

    Returns:
        The weights and the status of each position, both [B, T, S]; see `_forward`.

    Raises:
        KernelFallbackError: A step has no valid result and `raise_on_failure` is True.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    batch, steps, _ = scores.shape
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    if not scores.numel():
        return weights, status
    rows = batch * steps
    block = _block(name, scores, batch)
    block[places.STEPS], block[places.HEADS_PER_BUDGET] = steps, heads_per_budget
    # The block holds int64 only, so the double is stored by its bits.
    block[places.EXHAUSTION] = ctypes.c_int64.from_buffer(ctypes.c_double(exhaustion)).value
    if mask is not None:
        mask, every, count = broadcast_rows(mask, scores.shape, rows)
        _set_operand(block, places.MASK, mask, count, every)
    _set_operand(block, places.SCORES, scores, rows)
    _set_operand(block, places.WEIGHTS, weights, rows)
    _set_operand(block, places.STATUS, status, rows)
    _set_operand(block, places.FERTILITY, fertility, batch)
    _call("scan_forward_kernel", block, scores.numel(), batch)
    if raise_on_failure and block[places.FAILED]:
        raise KernelFallbackError
    return weights, status


def _scan_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients with respect to the scores [B, T, S] and the fertility [B, S] of a scan."""
    gradient = gradient.contiguous()
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        rows = batch * steps
        block = _block(name, weights, batch)
        block[places.STEPS], block[places.HEADS_PER_BUDGET] = steps, heads_per_budget
        _set_operand(block, places.WEIGHTS, weights, rows)
        _set_operand(block, places.STATUS, status, rows)
        _set_operand(block, places.GRADIENT, gradient, rows)
        _set_operand(block, places.SCORES_GRADIENT, scores, rows)
        _set_operand(block, places.FERTILITY_GRADIENT, fertility, batch)
        _call("scan_backward_kernel", block, weights.numel(), batch)
    return scores, fertility


NUMBA = Backend(_forward, _backward, _scan_forward, _scan_backward)
