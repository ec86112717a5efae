"""Fused softmax operations on logits for a CPU: exponentials, log-softmax and the gradient of the NLL."""

import ctypes

import torch

from regard.kernels.pool import load_kernel, run_kernel
from regard.kernels.versions import use_numba
from regard.types import Tensor

__all__ = ["exp_logits", "log_softmax", "nll_gradient", "supports_softmax"]

_MIN_PARALLEL_SIZE = 1 << 13  # elements below which a single thread is faster; see `run_kernel`

# Layout of the kernels' argument block: indices into an array of int64.
SOFTMAX_TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
SOFTMAX_ROWS = 1
SOFTMAX_SIZE = 2  # V
SOFTMAX_ROWS_PER_TICKET = 3  # number of rows per ticket
SOFTMAX_IS_BFLOAT16 = 4  # 1 if the logits are bfloat16, 0 if they are float32
SOFTMAX_LOGITS = 5  # this and all following entries are addresses
SOFTMAX_MAXIMA, SOFTMAX_MEANS, SOFTMAX_SUMS = 6, 7, 8
SOFTMAX_FACTORS, SOFTMAX_SHIFTS, SOFTMAX_GAINS, SOFTMAX_TARGETS = 9, 10, 11, 12
SOFTMAX_BIAS, SOFTMAX_OUTPUT = 13, 14
SOFTMAX_NUM_ARGS = 15

_Block = ctypes.c_int64 * SOFTMAX_NUM_ARGS


def _call(name: str, logits: Tensor, operands: dict[int, Tensor]) -> None:
    """Fill the argument block and run a kernel over the rows of the logits."""
    assert logits.is_contiguous() and all(operand.is_contiguous() for operand in operands.values())
    rows, size = logits.shape
    if not logits.numel():
        return
    block = _Block()
    block[SOFTMAX_ROWS], block[SOFTMAX_SIZE], block[SOFTMAX_IS_BFLOAT16] = (
        rows,
        size,
        logits.dtype == torch.bfloat16,
    )
    block[SOFTMAX_LOGITS] = logits.data_ptr()
    for index, operand in operands.items():
        block[index] = operand.data_ptr()
    run_kernel(
        load_kernel("exponentials", name),
        block,
        SOFTMAX_ROWS_PER_TICKET,
        rows,
        logits.numel() < _MIN_PARALLEL_SIZE,
    )


def supports_softmax(logits: Tensor) -> bool:
    """Return whether the kernels support these logits on this machine."""
    return use_numba(logits) and logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


def exp_logits(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Replace the logits of each row, in place, by exp(logit - max).

    Args:
        logits: [N, V], float32 or bfloat16, contiguous.

    Returns:
        For each row the maximum of the logits, their mean, and the sum of the exponentials: [N], float32.
    """
    tops, means, sums = (logits.new_empty(len(logits), dtype=torch.float32) for _ in range(3))
    _call("exp_kernel", logits, {SOFTMAX_MAXIMA: tops, SOFTMAX_MEANS: means, SOFTMAX_SUMS: sums})
    return tops, means, sums


def nll_gradient(
    exp_values: Tensor, factors: Tensor, shifts: Tensor | None, gains: Tensor, targets: Tensor
) -> None:
    """Replace each row, in place, by factor * exp_values + shift + gain * onehot(target).

    With suitable coefficients this is the gradient of a (label-smoothed) negative log-likelihood.

    Args:
        exp_values: The exponentials, [N, V], float32 or bfloat16, contiguous.
        factors: Factor of each row, [N].
        shifts: Term added to all elements of a row, [N]. Default: 0.
        gains: Term added at the target, [N].
        targets: Index of the target, [N], in [0, V).
    """
    coefficients = {SOFTMAX_FACTORS: factors, SOFTMAX_GAINS: gains} | (
        {} if shifts is None else {SOFTMAX_SHIFTS: shifts}
    )
    operands = {index: operand.to(torch.float32).contiguous() for index, operand in coefficients.items()}
    _call("gradient_kernel", exp_values, operands | {SOFTMAX_TARGETS: targets.to(torch.int64).contiguous()})


def log_softmax(logits: Tensor, bias: Tensor) -> Tensor:
    """Compute the log-softmax of logits + bias.

    Args:
        logits: [N, V], float32 or bfloat16, contiguous. float32 logits are overwritten with the result.
        bias: [V].

    Returns:
        The log-probabilities, [N, V], float32.
    """
    found = logits if logits.dtype == torch.float32 else torch.empty_like(logits, dtype=torch.float32)
    _call(
        "log_softmax_kernel",
        logits,
        {SOFTMAX_BIAS: bias.to(torch.float32).contiguous(), SOFTMAX_OUTPUT: found},
    )
    return found
