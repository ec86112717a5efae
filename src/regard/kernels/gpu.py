"""Calls of the Triton kernels on tensors: the same functions, with the same results, as in `cpu`.

Nothing here waits for the device, so nothing is raised for bounds: a row that no distribution fits is NaN.
"""

# A kernel is launched by its grid in brackets, and takes options that its signature does not name.
# pyright: reportIndexIssue=false, reportCallIssue=false

from contextlib import AbstractContextManager, nullcontext

import torch
import triton

from regard.errors import UsageError
from regard.kernels.cpu import Declined, broadcast
from regard.kernels.places import MAPS
from regard.kernels.triton_reductions import INTERPRETED
from regard.kernels.triton_rows import backward_rows, backward_scan, forward_rows, forward_scan
from regard.types import Tensor

__all__ = ["backward", "forward", "scan_backward", "scan_forward"]

WIDEST = 1 << 14  # positions a row, as many as fit into registers
A_WARP = 1 << 8  # numbers of each operand that a warp holds
FURTHEST = (1 << 31) - (1 << 20)  # rows, counted in 32 bits


def _on(tensor: Tensor) -> AbstractContextManager[object]:
    """Make the tensor's device the current one, which is where Triton launches."""
    if tensor.device.type == "cuda":
        return torch.cuda.device(tensor.device)
    if not INTERPRETED:
        raise UsageError(f"kernels: triton wants tensors on CUDA, and these are on {tensor.device.type}")
    return nullcontext()


def _tile(size: int, rows: int) -> tuple[int, int, int, int]:
    """K, R, L of a tile, see `triton_solvers`, and its warps.

    Raises:
        Declined: Rows are too long or too many.
    """
    padded = triton.next_power_of_2(size)
    if padded > WIDEST or rows > FURTHEST:
        raise Declined(f"{rows} rows of {size} positions are more than the kernel holds")
    warps = max(1, min(16, padded // A_WARP))
    together = min(max(1, A_WARP // padded), triton.next_power_of_2(rows))
    lanes = min(padded, 8 if together > 2 else 16 if together == 2 else padded)
    return padded // lanes, together, lanes, warps


def _laid(operand: Tensor | None, scores: Tensor, rows: int) -> tuple[Tensor, int, int, int]:
    """An operand in memory, how it is found, and its two numbers; the scores stand in for an absent one."""
    if operand is None:
        return scores, 0, 1, 1
    if operand.dtype == torch.bool:
        operand = operand.view(torch.uint8)
    laid, every, count = broadcast(operand, scores.shape, rows)
    return laid, 1 if every == 1 and count == rows else 2, every, count


def forward(
    name: str,
    scores: Tensor,
    upper: Tensor | None,
    lower: Tensor | None,
    mask: Tensor | None,
    *,
    decline: bool,
) -> tuple[Tensor, Tensor | None]:
    """The weights, and for a map with bounds where each position rests (1 lower, 2 free, 3 upper, 0 masked).

    Args:
        name: Of the map.
        scores: [..., S], float32 or float64.
        upper: Broadcasts to them, in their dtype.
        lower: The same.
        mask: Broadcasts to them.
        decline: Has no effect: a row that no distribution fits is NaN.

    Raises:
        Declined: The reference should answer, for rows are too wide.
        UsageError: The tensors are not on CUDA, nor is Triton's interpreter at work.
    """
    scores = scores.contiguous()
    weights = torch.empty_like(scores)
    rests = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    numbers, size = scores.numel(), scores.shape[-1]
    if not numbers:
        return weights, rests
    rows = numbers // size
    k, r, lanes, warps = _tile(size, rows)
    seen, least, most = _laid(mask, scores, rows), _laid(lower, scores, rows), _laid(upper, scores, rows)
    with _on(scores):
        forward_rows[(triton.cdiv(rows, r),)](
            scores,
            seen[0],
            most[0],
            least[0],
            weights,
            weights if rests is None else rests,
            rows,
            size,
            *seen[2:],
            *most[2:],
            *least[2:],
            KIND=MAPS[name],
            MASK=seen[1],
            BOUND=most[1],
            LEAST=least[1],
            K=k,
            R=r,
            L=lanes,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return weights, rests


def backward(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the scores and, where asked for, of the bounds, in the shape of the scores."""
    gradient = gradient.contiguous()
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    numbers, size = weights.numel(), weights.shape[-1]
    if not numbers:
        return by_scores, by_upper, by_lower
    rows = numbers // size
    k, r, lanes, warps = _tile(size, rows)
    with _on(weights):
        backward_rows[(triton.cdiv(rows, r),)](
            gradient,
            weights,
            weights if rests is None else rests,
            by_scores,
            by_scores if by_upper is None else by_upper,
            by_scores if by_lower is None else by_lower,
            rows,
            size,
            KIND=MAPS[name],
            BOUNDED=rests is not None,
            BOUND=upper,
            LEAST=lower,
            K=k,
            R=r,
            L=lanes,
            num_warps=warps,
        )
    return by_scores, by_upper, by_lower


def _strip(size: int, batch: int) -> tuple[int, int]:
    """The length and the warps of a tile of one row.

    They are twice a map's warps, for a sentence's steps wait for each other.
    """
    k, _, lanes, _ = _tile(size, batch)
    return k * lanes, max(1, min(16, 2 * k * lanes // A_WARP))


def scan_forward(
    name: str,
    scores: Tensor,
    fertility: Tensor,
    exhaustion: float,
    mask: Tensor | None,
    heads: int,
    *,
    decline: bool,
) -> tuple[Tensor, Tensor]:
    """A map with bounds over the steps of decoding: the weights, and where each position rests.

    Args:
        name: Of the map.
        scores: [B, T, S], float32 or float64.
        fertility: [B, S], in their dtype.
        exhaustion: What a word's bound is multiplied by, to be added to its score.
        mask: Broadcasts to the scores.
        heads: 1: rows do not share.
        decline: Has no effect: a step that no distribution fits is NaN, and all after it.

    Raises:
        Declined: The reference should answer, for rows are too wide.
        UsageError: The tensors are not on CUDA, nor is Triton's interpreter at work.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    weights, rests = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    batch, steps, size = scores.shape
    if not scores.numel():
        return weights, rests
    length, warps = _strip(size, batch)
    seen = _laid(mask, scores, batch * steps)
    rounded = float(torch.tensor(exhaustion, dtype=torch.float32))
    with _on(scores):
        forward_scan[(batch,)](
            scores,
            fertility,
            seen[0],
            weights,
            rests,
            steps,
            size,
            *seen[2:],
            rounded,
            exhaustion - rounded,
            KIND=MAPS[name],
            MASK=seen[1],
            LENGTH=length,
            num_warps=warps,
            enable_fp_fusion=False,
        )
    return weights, rests


def scan_backward(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """Gradients of the scores [B, T, S] and of the fertility [B, S]."""
    gradient = gradient.contiguous()
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        length, warps = _strip(size, batch)
        with _on(weights):
            backward_scan[(batch,)](
                gradient,
                weights,
                rests,
                scores,
                fertility,
                steps,
                size,
                KIND=MAPS[name],
                LENGTH=length,
                num_warps=warps,
            )
    return scores, fertility
