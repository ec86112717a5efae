"""The element-wise part of an LSTM cell on a CPU; the kernels process one row of gates at a time."""

from collections.abc import Callable

import numpy as np
import torch

from regard.kernels.compilation import njit
from regard.kernels.threads import run_rows
from regard.types import Tensor

ONE, TWICE = np.float32(1), np.float32(-2)
# exp(x) = 2^n exp(r) with n = round(x / log 2) and |r| <= log(2) / 2; exp(r) is computed by its Taylor
# series. log 2 is split into two parts, so that the product of n and the first part is exact (Cody & Waite).
_INVERSE_LOG2, _LOG2_HIGH = np.float32(1.4426950408889634), np.float32(0.693359375)
_LOG2_LOW = np.float32(-2.12194440e-4)
_ROUNDING_SHIFT, _MIN_EXPONENT = np.float32(12582912.0), np.float32(-87.0)
_SERIES = tuple(np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2))
_BIAS, _MANTISSA = np.int32(127), np.int32(23)


@njit(fastmath={"contract"})
def _exp(x):
    """Return the exponential of a float32 x <= 0, 0 for x < -87; unlike C's, loops over it are vectorized."""
    bounded = _MIN_EXPONENT if x < _MIN_EXPONENT else x
    shifted = np.float32(bounded * _INVERSE_LOG2 + _ROUNDING_SHIFT)  # 1.5 * 2^23 leaves n in the last bits
    n = shifted - _ROUNDING_SHIFT
    r = bounded - n * _LOG2_HIGH - n * _LOG2_LOW
    series = _SERIES[0]
    for i in range(1, 6):
        series = series * r + _SERIES[i]
    power = np.int32((shifted.view(np.int32) + _BIAS) << _MANTISSA).view(np.float32)
    return np.float32(0) if x < _MIN_EXPONENT else (series * r * r + r + ONE) * power


# The error model of NumPy allows division by zero. Python's would add a branch to each division.
@njit(error_model="numpy")
def _sigmoid(x):
    """Return 1 / (1 + exp(-x)); `_exp` requires a nonpositive argument."""
    power = _exp(-abs(x))
    return (power if x < 0 else ONE) / (ONE + power)


@njit(error_model="numpy")
def _tanh(x):
    """Return tanh(x) = sign(x) (1 - exp(-2 |x|)) / (1 + exp(-2 |x|))."""
    power = _exp(TWICE * abs(x))
    magnitude = (ONE - power) / (ONE + power)
    return -magnitude if x < 0 else magnitude


@njit(cache=True, nogil=True)
def _forward_rows(begin, end, from_input, from_hidden, gates, cell, next_cell, cell_tanh, hidden):
    """Write the activations, the cell state after the step, its tanh, and the hidden state of some rows.

    The first three arrays are [B, 4 D], the others [B, D], all float32.
    """
    width = cell.shape[1]
    for row in range(begin, end):
        for i in range(3 * width):
            gates[row, i] = _sigmoid(from_input[row, i] + from_hidden[row, i])
        for i in range(3 * width, 4 * width):
            gates[row, i] = _tanh(from_input[row, i] + from_hidden[row, i])
        for i in range(width):
            kept = gates[row, width + i] * cell[row, i]
            next_cell[row, i] = kept + gates[row, i] * gates[row, 3 * width + i]
        for i in range(width):
            cell_tanh[row, i] = _tanh(next_cell[row, i])
            hidden[row, i] = gates[row, 2 * width + i] * cell_tanh[row, i]
    return True


@njit(cache=True, nogil=True)
def _backward_rows(begin, end, grad_hidden, grad_next, gates, cell, cell_tanh, grad_gates, grad_cell):
    """Write the gradients of the pre-activations of the gates and of the cell state before the step."""
    width = cell.shape[1]
    for row in range(begin, end):
        for i in range(width):
            input_gate, forget_gate = gates[row, i], gates[row, width + i]
            output_gate, candidate = gates[row, 2 * width + i], gates[row, 3 * width + i]
            by_hidden, tanh = grad_hidden[row, i], cell_tanh[row, i]
            total = grad_next[row, i] + by_hidden * output_gate * (ONE - tanh * tanh)
            grad_cell[row, i] = total * forget_gate
            grad_gates[row, i] = total * candidate * input_gate * (ONE - input_gate)
            grad_gates[row, width + i] = total * cell[row, i] * forget_gate * (ONE - forget_gate)
            grad_gates[row, 2 * width + i] = by_hidden * tanh * output_gate * (ONE - output_gate)
            grad_gates[row, 3 * width + i] = total * input_gate * (ONE - candidate * candidate)
    return True


def _run(kernel: Callable[..., bool], *operands: Tensor) -> None:
    """Run a kernel over the rows of contiguous float32 tensors."""
    arrays = [operand.detach().numpy().reshape(-1, operand.shape[-1]) for operand in operands]
    run_rows(kernel, len(arrays[0]), arrays[0].size, *arrays)


def forward(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Compute one step; see `kernels.lstm`."""
    dtype = from_hidden.dtype
    from_input, from_hidden, cell_state = (
        x.float().contiguous() for x in (from_input, from_hidden, cell_state)
    )
    hidden, next_cell, cell_tanh = (torch.empty_like(cell_state) for _ in range(3))
    gates = torch.empty_like(from_hidden)
    _run(_forward_rows, from_input, from_hidden, gates, cell_state, next_cell, cell_tanh, hidden)
    return hidden.to(dtype), next_cell, (gates, cell_state, cell_tanh)


def backward(
    grad_hidden: Tensor, grad_cell: Tensor, saved: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of one step; see `kernels.lstm`."""
    gates, cell_state, cell_tanh = saved
    by_hidden, by_next = grad_hidden.float().contiguous(), grad_cell.contiguous()
    grad_gates, grad_before = torch.empty_like(gates), torch.empty_like(cell_state)
    _run(_backward_rows, by_hidden, by_next, gates, cell_state, cell_tanh, grad_gates, grad_before)
    return grad_gates.to(grad_hidden.dtype), grad_before
