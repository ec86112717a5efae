"""The element-wise part of an LSTM cell on a CPU; the kernels process one row of gates at a time."""

import numpy as np
import torch
from numba import types

from regard.kernels._numba.arithmetic import exp_float32
from regard.kernels._numba.memory import (
    claim_units,
    float32_array,
    read_arguments,
    read_float32,
    write_bfloat16,
)
from regard.kernels.compilation import cfunc, njit
from regard.kernels.threads import argument_block, run_kernel
from regard.types import Tensor

_MIN_PARALLEL_SIZE = 1 << 13  # elements below which a single thread is faster; see `run_kernel`

_Arguments = argument_block(
    "hidden_size",  # D
    # 1 if pre-activations, hidden state and their gradients are bfloat16; all other tensors are float32.
    "is_bfloat16",
    *("from_input", "from_hidden", "gates"),  # [B, 4 D]
    *("cell", "next_cell", "cell_tanh", "hidden"),  # [B, D]
    *("grad_hidden", "grad_next_cell", "grad_cell"),  # [B, D]
    "grad_gates",  # [B, 4 D]
)
_arguments_of = read_arguments(_Arguments)

ONE, TWICE = np.float32(1), np.float32(-2)


# The error model of NumPy allows division by zero. Python's would add a branch to each division.
@njit(error_model="numpy")
def _sigmoid(x):
    """Return 1 / (1 + exp(-x)); `exp_float32` requires a nonpositive argument."""
    power = exp_float32(-abs(x))
    return (power if x < 0 else ONE) / (ONE + power)


@njit(error_model="numpy")
def _tanh(x):
    """Return tanh(x) = sign(x) (1 - exp(-2 |x|)) / (1 + exp(-2 |x|))."""
    power = exp_float32(TWICE * abs(x))
    found = (ONE - power) / (ONE + power)
    return -found if x < 0 else found


@njit
def _split_gates(active):
    """Split the activations into input gate, forget gate, output gate and candidate."""
    width = len(active) // 4
    return (
        active[:width],
        active[width : 2 * width],
        active[2 * width : 3 * width],
        active[3 * width :],
    )


@cfunc(types.void(types.int64))
def lstm_forward_kernel(block: int) -> None:
    """Write the activations, the cell state after the step, its tanh, and the hidden state."""
    args = _arguments_of(block)
    width, half = args.hidden_size, args.is_bfloat16
    size = 2 if half else 4
    inputs_scratch, scratch, hidden_scratch = (
        np.empty(4 * width, np.float32),
        np.empty(4 * width, np.float32),
        np.empty(width, np.float32),
    )
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            wide, narrow = row * 4 * width, row * width  # offsets of the row in [B, 4 D] and [B, D]
            inputs = read_float32(args.from_input + size * wide, half, inputs_scratch)
            recurrent = read_float32(args.from_hidden + size * wide, half, scratch)
            active = float32_array(args.gates + 4 * wide, 4 * width)
            cell_state = float32_array(args.cell + 4 * narrow, width)
            next_cell = float32_array(args.next_cell + 4 * narrow, width)
            cell_tanh = float32_array(args.cell_tanh + 4 * narrow, width)
            for i in range(3 * width):
                active[i] = _sigmoid(inputs[i] + recurrent[i])
            for i in range(3 * width, 4 * width):
                active[i] = _tanh(inputs[i] + recurrent[i])
            input_gate, forget_gate, output_gate, candidate = _split_gates(active)
            for i in range(width):
                next_cell[i] = forget_gate[i] * cell_state[i] + input_gate[i] * candidate[i]
            for i in range(width):
                cell_tanh[i] = _tanh(next_cell[i])
            start = args.hidden + size * narrow
            hidden = hidden_scratch if half else float32_array(start, width)
            for i in range(width):
                hidden[i] = output_gate[i] * cell_tanh[i]
            if half:
                write_bfloat16(start, hidden)
        begin, end = claim_units(block)


@cfunc(types.void(types.int64))
def lstm_backward_kernel(block: int) -> None:
    """Write the gradients of the pre-activations of the gates and of the cell state before the step."""
    args = _arguments_of(block)
    width, half = args.hidden_size, args.is_bfloat16
    size = 2 if half else 4
    scratch, gates_scratch = np.empty(width, np.float32), np.empty(4 * width, np.float32)
    begin, end = claim_units(block)
    while begin < end:
        for row in range(begin, end):
            wide, narrow = row * 4 * width, row * width
            hidden_grad = read_float32(args.grad_hidden + size * narrow, half, scratch)
            next_grad = float32_array(args.grad_next_cell + 4 * narrow, width)
            active = float32_array(args.gates + 4 * wide, 4 * width)
            cell_state = float32_array(args.cell + 4 * narrow, width)
            cell_tanh = float32_array(args.cell_tanh + 4 * narrow, width)
            cell_grad = float32_array(args.grad_cell + 4 * narrow, width)
            start = args.grad_gates + size * wide
            gates_grad = gates_scratch if half else float32_array(start, 4 * width)
            input_gate, forget_gate, output_gate, candidate = _split_gates(active)
            for i in range(width):
                total = next_grad[i] + hidden_grad[i] * output_gate[i] * (ONE - cell_tanh[i] * cell_tanh[i])
                cell_grad[i] = total * forget_gate[i]
                gates_grad[i] = total * candidate[i] * input_gate[i] * (ONE - input_gate[i])
                gates_grad[width + i] = total * cell_state[i] * forget_gate[i] * (ONE - forget_gate[i])
                gates_grad[2 * width + i] = (
                    hidden_grad[i] * cell_tanh[i] * output_gate[i] * (ONE - output_gate[i])
                )
                gates_grad[3 * width + i] = total * input_gate[i] * (ONE - candidate[i] * candidate[i])
            if half:
                write_bfloat16(start, gates_grad)
        begin, end = claim_units(block)


def _run(kernel: object, cell_state: Tensor, half: bool, **operands: Tensor) -> None:
    """Run a kernel over the rows of the cell state; all operands must be contiguous."""
    addresses = {name: operand.data_ptr() for name, operand in operands.items()}
    width = cell_state.shape[-1]
    block = _Arguments(hidden_size=width, is_bfloat16=half, **addresses)
    rows = cell_state.numel() // width
    run_kernel(kernel, block, rows, single_threaded=cell_state.numel() < _MIN_PARALLEL_SIZE)


def forward(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Compute one step; see `kernels.lstm`."""
    from_input, from_hidden, cell_state = (x.contiguous() for x in (from_input, from_hidden, cell_state))
    hidden = torch.empty_like(cell_state, dtype=from_hidden.dtype)
    next_cell, cell_tanh = torch.empty_like(cell_state), torch.empty_like(cell_state)
    active = torch.empty_like(from_hidden, dtype=torch.float32)
    _run(
        lstm_forward_kernel,
        cell_state,
        from_hidden.dtype == torch.bfloat16,
        from_input=from_input,
        from_hidden=from_hidden,
        gates=active,
        cell=cell_state,
        next_cell=next_cell,
        cell_tanh=cell_tanh,
        hidden=hidden,
    )
    return hidden, next_cell, (active, cell_state, cell_tanh)


def backward(
    grad_hidden: Tensor, grad_cell: Tensor, saved: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of one step; see `kernels.lstm`."""
    active, cell_state, cell_tanh = saved
    grad_hidden, grad_next_cell = grad_hidden.contiguous(), grad_cell.contiguous()
    grad_gates = torch.empty_like(active, dtype=grad_hidden.dtype)
    grad_cell = torch.empty_like(cell_state)
    _run(
        lstm_backward_kernel,
        cell_state,
        grad_hidden.dtype == torch.bfloat16,
        gates=active,
        cell=cell_state,
        cell_tanh=cell_tanh,
        grad_hidden=grad_hidden,
        grad_next_cell=grad_next_cell,
        grad_cell=grad_cell,
        grad_gates=grad_gates,
    )
    return grad_gates, grad_cell
