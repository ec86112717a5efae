"""Functions that call the Triton kernels on tensors, with the same interface and results as in `cpu`.

The functions do not synchronize with the device, so they cannot raise an error for infeasible bounds: the
weights of an infeasible row are NaN.
"""

# A Triton kernel is launched as `kernel[grid](...)` and takes options that are not in its signature.
# pyright: reportIndexIssue=false, reportCallIssue=false

from contextlib import AbstractContextManager, nullcontext

import torch
import triton

from regard.errors import UsageError
from regard.kernels.backend import Backend
from regard.kernels.cpu import KernelFallbackError, broadcast_rows
from regard.kernels.places import NORMALIZER_CODES
from regard.kernels.triton_reductions import INTERPRETED
from regard.kernels.triton_rows import backward_rows, backward_scan, forward_rows, forward_scan
from regard.types import Tensor

__all__ = ["TRITON"]

MAX_ROW_LENGTH = 1 << 14  # maximum number of positions per row, limited by the registers
ELEMENTS_PER_WARP = 1 << 8  # number of elements of each operand per warp
MAX_ROWS = (1 << 31) - (1 << 20)  # maximum number of rows, whose indices have 32 bits


def _device_context(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context in which the tensor's device is the current one, where Triton launches kernels.

    Raises:
        UsageError: The tensor is not on CUDA and Triton does not run in its interpreter.
    """
    if tensor.device.type == "cuda":
        return torch.cuda.device(tensor.device)
    if not INTERPRETED:
        raise UsageError(
            f"kernels: 'triton' requires tensors on CUDA, but these are on {tensor.device.type}; use 'auto'"
        )
    return nullcontext()


def _tile_shape(size: int, rows: int) -> tuple[int, int, int, int]:
    """Return K, R and L of a tile (see `triton_solvers`) and its number of warps.

    Raises:
        KernelFallbackError: There are too many rows, or they are too long.
    """
    padded = triton.next_power_of_2(size)
    if padded > MAX_ROW_LENGTH or rows > MAX_ROWS:
        raise KernelFallbackError(f"{rows} rows of {size} positions exceed the limits of the Triton kernels")
    # Several short rows share a warp.
    warps = max(1, min(16, padded // ELEMENTS_PER_WARP))
    together = min(max(1, ELEMENTS_PER_WARP // padded), triton.next_power_of_2(rows))
    lanes = min(padded, 8 if together > 2 else 16 if together == 2 else padded)
    return padded // lanes, together, lanes, warps


def _prepare_operand(operand: Tensor | None, scores: Tensor, rows: int) -> tuple[Tensor, int, int, int]:
    """Return an operand in contiguous memory, its mode HOW (see `triton_rows`), `every` and `count`."""
    if operand is None:  # Triton needs a valid pointer even if it is not used
        return scores, 0, 1, 1
    if operand.dtype == torch.bool:
        operand = operand.view(torch.uint8)
    laid, every, count = broadcast_rows(operand, scores.shape, rows)
    return laid, 1 if every == 1 and count == rows else 2, every, count


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

    The arguments and results are those of `cpu._forward`, except for the treatment of infeasible rows.

    Args:
        name: The normalizer; a key of `places.NORMALIZER_CODES`.
        scores: [..., S], float32 or float64.
        upper: Upper bounds, broadcastable to the scores, in their dtype; None if the normalizer has none.
        lower: Lower bounds, likewise; None means 0.
        mask: Broadcastable to the scores, True where a position may be attended to; None means all.
        raise_on_failure: Has no effect; infeasible rows are NaN.

    Returns:
        The weights, and the status of each position as uint8: 0 masked, 1 at its lower bound, 2 strictly
        between its bounds (free), 3 at its upper bound. The status is None without bounds.

    Raises:
        KernelFallbackError: There are too many rows, or they are too long.
        UsageError: The tensors are not on CUDA and Triton does not run in its interpreter.
    """
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    status = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    num_elements, size = scores.numel(), scores.shape[-1]
    if not num_elements:
        return weights, status
    rows = num_elements // size
    k, r, lanes, warps = _tile_shape(size, rows)
    mask_operand, lower_operand, upper_operand = (
        _prepare_operand(mask, scores, rows),
        _prepare_operand(lower, scores, rows),
        _prepare_operand(upper, scores, rows),
    )
    with _device_context(scores):
        forward_rows[(triton.cdiv(rows, r),)](
            scores,
            mask_operand[0],
            upper_operand[0],
            lower_operand[0],
            weights,
            weights if status is None else status,
            rows,
            size,
            *mask_operand[2:],
            *upper_operand[2:],
            *lower_operand[2:],
            KIND=NORMALIZER_CODES[name],
            MASK=mask_operand[1],
            BOUND=upper_operand[1],
            LEAST=lower_operand[1],
            K=k,
            R=r,
            L=lanes,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return weights, status


def _backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Compute the gradients of the scores and, on request, the bounds; see `Backend.backward`."""
    gradient = gradient.contiguous()
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    num_elements, size = weights.numel(), weights.shape[-1]
    if not num_elements:
        return by_scores, by_upper, by_lower
    rows = num_elements // size
    k, r, lanes, warps = _tile_shape(size, rows)
    with _device_context(weights):
        backward_rows[(triton.cdiv(rows, r),)](
            gradient,
            weights,
            weights if status is None else status,
            by_scores,
            by_scores if by_upper is None else by_upper,
            by_scores if by_lower is None else by_lower,
            rows,
            size,
            KIND=NORMALIZER_CODES[name],
            BOUNDED=status is not None,
            BOUND=upper,
            LEAST=lower,
            K=k,
            R=r,
            L=lanes,
            num_warps=warps,
        )
    return by_scores, by_upper, by_lower


def _scan_tile(size: int, batch: int) -> tuple[int, int]:
    """Return the length of a tile that holds one row, and its number of warps.

    The number of warps is twice that of `_forward`, because the steps of a sentence run one after another.
    """
    k, _, lanes, _ = _tile_shape(size, batch)
    return k * lanes, max(1, min(16, 2 * k * lanes // ELEMENTS_PER_WARP))


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
        heads_per_budget: Must be 1; rows cannot share a fertility here.
        raise_on_failure: Has no effect; an infeasible step and all later steps of the sentence are NaN.

    Returns:
        The weights and the status of each position, both [B, T, S]; see `_forward`.

    Raises:
        KernelFallbackError: There are too many sentences, or they are too long.
        UsageError: The tensors are not on CUDA and Triton does not run in its interpreter.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    weights, status = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    batch, steps, size = scores.shape
    if not scores.numel():
        return weights, status
    length, warps = _scan_tile(size, batch)
    mask_operand = _prepare_operand(mask, scores, batch * steps)
    # Triton passes scalars as float32, so the rounding error of the factor is passed as well.
    rounded = float(torch.tensor(exhaustion, dtype=torch.float32))
    with _device_context(scores):
        forward_scan[(batch,)](
            scores,
            fertility,
            mask_operand[0],
            weights,
            status,
            steps,
            size,
            *mask_operand[2:],
            rounded,
            exhaustion - rounded,
            KIND=NORMALIZER_CODES[name],
            MASK=mask_operand[1],
            LENGTH=length,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return weights, status


def _scan_backward(
    name: str, gradient: Tensor, weights: Tensor, status: Tensor, heads_per_budget: int
) -> tuple[Tensor, Tensor]:
    """Compute the gradients with respect to the scores [B, T, S] and the fertility [B, S] of a scan."""
    gradient = gradient.contiguous()
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        length, warps = _scan_tile(size, batch)
        with _device_context(weights):
            backward_scan[(batch,)](
                gradient,
                weights,
                status,
                scores,
                fertility,
                steps,
                size,
                KIND=NORMALIZER_CODES[name],
                LENGTH=length,
                num_warps=warps,
            )
    return scores, fertility


TRITON = Backend(_forward, _backward, _scan_forward, _scan_backward)
