"""Calls of the CPU kernels on tensors."""

import ctypes
from collections.abc import Callable
from functools import cache

import torch

from regard.kernels.pool import run
from regard.types import Tensor

__all__ = ["Declined", "backward", "forward"]

MAPS = {"sparsemax": 0, "entmax15": 1, "constrained_softmax": 2, "constrained_sparsemax": 3}

FEW = 1 << 11  # numbers: below, waking a second thread costs more than it saves


@cache
def _kernel(name: str) -> tuple[Callable[[int], None], int]:
    """A compiled kernel as ctypes calls it, and its address; Numba is imported by the first."""
    from regard.kernels import rows, scans

    found = getattr(scans if name.startswith("scan") else rows, name)
    return ctypes.CFUNCTYPE(None, ctypes.c_int64)(found.address), found.address


def _call(name: str, block: "ctypes.Array[ctypes.c_int64]", numbers: int, rows: int) -> None:
    """Run a kernel over its rows, in shares large enough that threads seldom meet at an edge."""
    function, address = _kernel(name)
    blocks = (rows + 7) // 8
    block[_SHARE] = share = blocks if numbers < FEW else max(1, blocks // (4 * torch.get_num_threads()))
    run(function, address, ctypes.addressof(block), (blocks + share - 1) // share)


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


class Declined(Exception):
    """The kernel leaves the answer to the reference: no distribution fits, or a level was not found."""


# The block's places: see `rows`.
_SCORES, _MASK, _UPPER, _LOWER = 7, 10, 13, 16
_WEIGHTS, _RESTS, _GRADIENT, _OUT = 19, 22, 25, 28
_STEPS, _EXHAUSTION, _FERTILITY, _FERTILITY_OUT = 37, 38, 39, 42
_SHARE = 45
_Block = ctypes.c_int64 * 46


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
    block = _Block(
        0, 1 << 62, 0, MAPS[name], scores.dtype == torch.float64, rows, size, scores.data_ptr(), 1, rows
    )
    kept = []
    for place, operand in ((_MASK, mask), (_UPPER, upper), (_LOWER, lower)):
        if operand is not None:
            laid, every, count = broadcast(operand, shape, rows)
            kept.append(laid)
            block[place], block[place + 1], block[place + 2] = laid.data_ptr(), every, count
    block[_WEIGHTS], block[_WEIGHTS + 1], block[_WEIGHTS + 2] = weights.data_ptr(), 1, rows
    if rests is not None:
        block[_RESTS], block[_RESTS + 1], block[_RESTS + 2] = rests.data_ptr(), 1, rows
    _call("forward", block, numbers, rows)
    if decline and (block[1] != 1 << 62 or block[2]):
        raise Declined
    return weights, rests


def backward(
    name: str, gradient: Tensor, weights: Tensor, rests: Tensor | None, upper: bool, lower: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the scores and, where asked for, of the bounds, in the shape of the scores."""
    gradient = gradient.contiguous()
    numbers, size = weights.numel(), weights.shape[-1]
    made = [
        torch.empty_like(weights),
        *(torch.empty_like(weights) if each else None for each in (upper, lower)),
    ]
    if numbers:
        rows = numbers // size
        block = _Block(0, 1 << 62, 0, MAPS[name], weights.dtype == torch.float64, rows, size)
        places = (_WEIGHTS, _RESTS, _GRADIENT, _OUT, _OUT + 3, _OUT + 6)
        for place, operand in zip(places, (weights, rests, gradient, *made), strict=True):
            if operand is not None:
                block[place], block[place + 1], block[place + 2] = operand.data_ptr(), 1, rows
        _call("backward", block, numbers, rows)
    return made[0], made[1], made[2]  # pyright: ignore[reportReturnType]


def scan_forward(
    name: str, scores: Tensor, fertility: Tensor, exhaustion: float, mask: Tensor | None, *, decline: bool
) -> tuple[Tensor, Tensor]:
    """A map with bounds over the steps of decoding: the weights, and where each position rests.

    Args:
        name: Of the map.
        scores: [B, T, S], float32 or float64.
        fertility: [B, S], in their dtype; contiguous.
        exhaustion: What a word's bound is multiplied by, to be added to its score.
        mask: Broadcasts to the scores.
        decline: Whether to raise rather than answer NaN.

    Raises:
        Declined: The reference should answer.
    """
    scores, fertility = scores.contiguous(), fertility.contiguous()
    batch, steps, size = scores.shape
    weights, rests = torch.empty_like(scores), torch.empty_like(scores, dtype=torch.uint8)
    if not scores.numel():
        return weights, rests
    rows = batch * steps
    block = _Block(0, 1 << 62, 0, MAPS[name], scores.dtype == torch.float64, batch, size)
    block[_STEPS] = steps
    block[_EXHAUSTION] = ctypes.c_int64.from_buffer(ctypes.c_double(exhaustion)).value
    laid = None if mask is None else broadcast(mask, scores.shape, rows)
    if laid is not None:
        block[_MASK], block[_MASK + 1], block[_MASK + 2] = laid[0].data_ptr(), laid[1], laid[2]
    for place, operand, count in (
        (_SCORES, scores, rows),
        (_WEIGHTS, weights, rows),
        (_RESTS, rests, rows),
        (_FERTILITY, fertility, batch),
    ):
        block[place], block[place + 1], block[place + 2] = operand.data_ptr(), 1, count
    _call("scan_forward", block, scores.numel(), batch)
    if decline and (block[1] != 1 << 62 or block[2]):
        raise Declined
    return weights, rests


def scan_backward(name: str, gradient: Tensor, weights: Tensor, rests: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the scores [B, T, S] and of the fertility [B, S]."""
    gradient = gradient.contiguous()
    batch, steps, size = weights.shape
    scores, fertility = torch.empty_like(weights), weights.new_zeros(batch, size)
    if weights.numel():
        block = _Block(0, 1 << 62, 0, MAPS[name], weights.dtype == torch.float64, batch, size)
        block[_STEPS] = steps
        for place, operand, count in (
            (_WEIGHTS, weights, batch * steps),
            (_RESTS, rests, batch * steps),
            (_GRADIENT, gradient, batch * steps),
            (_OUT, scores, batch * steps),
            (_FERTILITY_OUT, fertility, batch),
        ):
            block[place], block[place + 1], block[place + 2] = operand.data_ptr(), 1, count
        _call("scan_backward", block, weights.numel(), batch)
    return scores, fertility
