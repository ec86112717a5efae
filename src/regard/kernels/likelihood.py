"""Fused softmax operations on logits for a CPU: exponentials, log-softmax and the gradient of the NLL."""

import ctypes

import torch

from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Tensor

__all__ = ["exponentials", "fits", "log_softmax", "weigh_exponentials"]

FEW = 1 << 13  # elements below which a single thread is faster; see `run`

# Layout of the kernels' argument block: indices into an array of int64.
TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
ROWS = 1
SIZE = 2  # V
SHARE = 3  # number of rows per ticket
HALF = 4  # 1 if the logits are bfloat16, 0 if they are float32
LOGITS = 5  # this and all following entries are addresses
TOPS, MEANS, SUMS = 6, 7, 8
FACTORS, SHIFTS, GAINS, TARGETS = 9, 10, 11, 12
BIAS, FOUND = 13, 14
LENGTH = 15

_Block = ctypes.c_int64 * LENGTH


def _call(name: str, logits: Tensor, places: dict[int, Tensor]) -> None:
    """Fill the argument block and run a kernel over the rows of the logits."""
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
    """Return whether the kernels support these logits on this machine."""
    return on_cpu(logits) and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


def exponentials(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Replace the logits of each row, in place, by exp(logit - max).

    Args:
        logits: [N, V], float32 or bfloat16, contiguous.

    Returns:
        For each row the maximum of the logits, their mean, and the sum of the exponentials: [N], float32.
    """
    tops, means, sums = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(3))
    _call("exponentiate", logits, {TOPS: tops, MEANS: means, SUMS: sums})
    return tops, means, sums


def weigh_exponentials(
    powers: Tensor, factors: Tensor, shifts: Tensor | None, gains: Tensor, targets: Tensor
) -> None:
    """Replace each row, in place, by factor * powers + shift + gain * onehot(target).

    With suitable coefficients this is the gradient of a (label-smoothed) negative log-likelihood.

    Args:
        powers: The exponentials, [N, V], float32 or bfloat16, contiguous.
        factors: Factor of each row, [N].
        shifts: Term added to all elements of a row, [N]. Default: 0.
        gains: Term added at the target, [N].
        targets: Index of the target, [N], in [0, V).
    """
    operands = {FACTORS: factors, GAINS: gains} | ({} if shifts is None else {SHIFTS: shifts})
    places = {place: operand.to(torch.float32).contiguous() for place, operand in operands.items()}
    _call("weigh", powers, places | {TARGETS: targets.to(torch.int64).contiguous()})


def log_softmax(logits: Tensor, bias: Tensor) -> Tensor:
    """Compute the log-softmax of logits + bias.

    Args:
        logits: [N, V], float32 or bfloat16, contiguous. float32 logits are overwritten with the result.
        bias: [V].

    Returns:
        The log-probabilities, [N, V], float32.
    """
    found = logits if logits.dtype == torch.float32 else torch.empty_like(logits, dtype=torch.float32)
    _call("normalise", logits, {BIAS: bias.to(torch.float32).contiguous(), FOUND: found})
    return found
