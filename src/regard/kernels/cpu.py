"""Calls of the CPU kernels on tensors."""

import ctypes

import torch

from regard.kernels import places
from regard.kernels.places import MAPS
from regard.kernels.pool import load, run
from regard.types import Tensor

__all__ = ["Declined", "backward", "broadcast", "forward", "scan_backward", "scan_forward"]

FEW = 1 << 11  # numbers; see `run`

_Block = ctypes.c_int64 * places.LENGTH


class Declined(Exception):
    """The kernel leaves the answer to the reference: no distribution fits, or a level was not found."""


def _call(name: str, block: "ctypes.Array[ctypes.c_int64]", numbers: int, rows: int) -> None:
    """Run a kernel over its rows, eight at a time."""
    kernel = load("scans" if name.startswith("scan") else "rows", name)
    run(kernel, block, places.SHARE, (rows + 7) // 8, numbers < FEW)


def broadcast(operand: Tensor, shape: torch.Size, rows: int) -> tuple[Tensor, int, int]:
    """An operand of rows as it lies in memory, and how a row r of the scores finds its own.

    Args:
        operand: Broadcasts to `shape`.
        shape: That of the scores.
        rows: How many rows of the last dimension they have.
    """
    if operand.shape == shape:
        return operand.contiguous(), 1, rows
    size = shape[-1]
    full = operand.expand(*operand.shape[:-1], size) if operand.dim() else operand.expand(size)
    lead = (1,) * (len(shape) - full.dim()) + tuple(full.shape[:-1])
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
    """The arguments that every call has."""
    block = _Block()
    block[places.MAP], block[places.WIDE] = MAPS[name], like.dtype == torch.float64
    block[places.ROWS], block[places.SIZE] = rows, like.shape[-1]
    return block


def _put(
    block: "ctypes.Array[ctypes.c_int64]", place: int, operand: Tensor | None, count: int, every: int = 1
) -> None:
    """Put an operand, contiguous, in its place: row r of the scores is its row (r // every) % count."""
    if operand is not None:
        block[place], block[place + 1], block[place + 2] = operand.data_ptr(), every, count


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
        decline: Whether to raise rather than answer NaN.

    Raises:
        Declined: The reference should answer.
    """
    scores = scores.contiguous()
    shape, size = scores.shape, scores.shape[-1]
    numbers = scores.numel()
    weights = torch.empty_like(scores)
    rests = None if upper is None else torch.empty_like(scores, dtype=torch.uint8)
    if not numbers:
        return weights, rests
    rows = numbers // size
    block = _block(name, scores, rows)
    kept = []  # what is laid out anew lives until the kernel is done
    for place, operand in ((places.MASK, mask), (places.UPPER_BOUND, upper), (places.LOWER_BOUND, lower)):
        if operand is not None:
            laid, every, count = broadcast(operand, shape, rows)
            kept.append(laid)
            _put(block, place, laid, count, every)
    _put(block, places.SCORES, scores, rows)
    _put(block, places.WEIGHTS, weights, rows)
    _put(block, places.RESTS, rests, rows)
    _call("forward", block, numbers, rows)
    if decline and block[places.DECLINED]:
        raise Declined
    return weights, rests


def backward(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the scores and, where asked for, of the bounds, in the shape of the scores."""
    gradient = gradient.contiguous()
    by_scores = torch.empty_like(weights)
    by_upper = torch.empty_like(weights) if upper else None
    by_lower = torch.empty_like(weights) if lower else None
    numbers = weights.numel()
    if numbers:
        rows = numbers // weights.shape[-1]
        block = _block(name, weights, rows)
        _put(block, places.WEIGHTS, weights, rows)
        _put(block, places.RESTS, rests, rows)
        _put(block, places.GRADIENT, gradient, rows)
        _put(block, places.SCORES_GRADIENT, by_scores, rows)
        _put(block, places.UPPER_GRADIENT, by_upper, rows)
        _put(block, places.LOWER_GRADIENT, by_lower, rows)
        _call("backward", block, numbers, rows)
    return by_scores, by_upper, by_lower


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
        fertility: [B, S], in their dtype; contiguous.
        exhaustion: What a word's bound is multiplied by, to be added to its score.
        mask: Broadcasts to the scores.
        heads: 1, 2, 4 or 8 neighbouring rows share what they receive.
        decline: Whether to raise rather than answer NaN.

    Raises:
        Declined: The reference should answer.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    batch, steps, _ = scores.shape
    weights, rests = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    if not scores.numel():
        return weights, rests
    rows = batch * steps
    block = _block(name, scores, batch)
    block[places.STEPS], block[places.HEADS] = steps, heads
    block[places.EXHAUSTION] = ctypes.c_int64.from_buffer(ctypes.c_double(exhaustion)).value
    if mask is not None:
        mask, every, count = broadcast(mask, scores.shape, rows)
        _put(block, places.MASK, mask, count, every)
    _put(block, places.SCORES, scores, rows)
    _put(block, places.WEIGHTS, weights, rows)
    _put(block, places.RESTS, rests, rows)
    _put(block, places.FERTILITY, fertility, batch)
    _call("scan_forward", block, scores.numel(), batch)
    if decline and block[places.DECLINED]:
        raise Declined
    return weights, rests


def scan_backward(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor, heads: int
) -> tuple[Tensor, Tensor]:
    """Gradients of the scores [B, T, S] and of the fertility [B, S]."""
    gradient = gradient.contiguous()
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        rows = batch * steps
        block = _block(name, weights, batch)
        block[places.STEPS], block[places.HEADS] = steps, heads
        _put(block, places.WEIGHTS, weights, rows)
        _put(block, places.RESTS, rests, rows)
        _put(block, places.GRADIENT, gradient, rows)
        _put(block, places.SCORES_GRADIENT, scores, rows)
        _put(block, places.FERTILITY_GRADIENT, fertility, batch)
        _call("scan_backward", block, weights.numel(), batch)
    return scores, fertility
