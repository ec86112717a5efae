"""Exponentials, likelihoods and the gradient of likelihoods of logits, each in one pass on a CPU."""

import ctypes

import torch

from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Tensor

__all__ = ["exponentials", "fits", "log_softmax", "weigh_exponentials"]

FEW = 1 << 13  # numbers; see `run`

# The kernels' arguments: int64 in one block of memory.
TICKET = 0  # the next share of the rows
ROWS = 1
SIZE = 2  # V
SHARE = 3  # how many rows go with a ticket
HALF = 4  # whether logits are bfloat16, else float32
LOGITS = 5  # the address; so are the rest
TOPS, MEANS, SUMS = 6, 7, 8
FACTORS, SHIFTS, GAINS, TARGETS = 9, 10, 11, 12
BIAS, FOUND = 13, 14
LENGTH = 15

_Block = ctypes.c_int64 * LENGTH


def _call(name: str, logits: Tensor, places: dict[int, Tensor]) -> None:
    """Run a kernel over the rows of the logits."""
    assert logits.is_contiguous() and all(operand.is_contiguous() for operand in places.values())
    rows, size = logits.shape
    if not logits.numel():
        return
    block = _Block()
    block[ROWS], block[SIZE], block[HALF] = rows, size, logits.dtype == torch.bfloat16
    block[LOGITS] = logits.data_ptr()
    for place, operand in places.items():
        block[place] = operand.data_ptr()
    run(load("exponentials", name), block, SHARE, rows, logits.numel() < FEW)


def fits(logits: Tensor) -> bool:
    """Whether the kernels take these logits on this machine."""
    return on_cpu(logits) and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


def exponentials(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Write exp(logits - top) over the logits.

    Args:
        logits: [N, V], float32 or bfloat16, contiguous.

    Returns:
        The highest logit of each row, top; the mean of its logits; the sum of its exponentials: [N], float32.
    """
    tops, means, sums = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(3))
    _call("exponentiate", logits, {TOPS: tops, MEANS: means, SUMS: sums})
    return tops, means, sums


def weigh_exponentials(
    powers: Tensor, factors: Tensor, shifts: Tensor | None, gains: Tensor, targets: Tensor
) -> None:
    """Write factor * powers + shift + gain * onehot(target) over each row of the exponentials.

    Args:
        powers: [N, V], float32 or bfloat16, contiguous.
        factors: [N].
        shifts: [N]; none: 0.
        gains: [N].
        targets: [N], in [0, V).
    """
    operands = {FACTORS: factors, GAINS: gains} | ({} if shifts is None else {SHIFTS: shifts})
    places = {place: operand.to(torch.float32).contiguous() for place, operand in operands.items()}
    _call("weigh", powers, places | {TARGETS: targets.to(torch.int64).contiguous()})


def log_softmax(logits: Tensor, bias: Tensor) -> Tensor:
    """The logarithm of the softmax of logits to which the bias is still to be added.

    Args:
        logits: [N, V], float32 or bfloat16, contiguous; float32 is written over.
        bias: [V].

    Returns:
        [N, V], float32.
    """
    found = logits if logits.dtype == torch.float32 else torch.empty_like(logits, dtype=torch.float32)
    _call("normalise", logits, {BIAS: bias.to(torch.float32).contiguous(), FOUND: found})
    return found
