"""The Numba kernels of `regard.kernels.lstm`, which process one row of gates at a time."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import exp_float32, float32_array, read_float32, write_bfloat16
from regard.kernels.lstm import (
    LSTM_CELL,
    LSTM_CELL_TANH,
    LSTM_FROM_HIDDEN,
    LSTM_FROM_INPUT,
    LSTM_GATES,
    LSTM_GRAD_CELL,
    LSTM_GRAD_GATES,
    LSTM_GRAD_HIDDEN,
    LSTM_GRAD_NEXT_CELL,
    LSTM_HIDDEN,
    LSTM_HIDDEN_SIZE,
    LSTM_IS_BFLOAT16,
    LSTM_NEXT_CELL,
    LSTM_ROWS,
    LSTM_ROWS_PER_TICKET,
    LSTM_TICKET,
)
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["lstm_backward_kernel", "lstm_forward_kernel"]

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


@cfunc(types.void(types.int64), cache=True)
def lstm_forward_kernel(block: int) -> None:
    """Write the activations, the cell state after the step, its tanh, and the hidden state."""
    rows, width, rows_per_ticket = (
        read_int(block + 8 * LSTM_ROWS),
        read_int(block + 8 * LSTM_HIDDEN_SIZE),
        read_int(block + 8 * LSTM_ROWS_PER_TICKET),
    )
    half = read_int(block + 8 * LSTM_IS_BFLOAT16)
    size = 2 if half else 4
    inputs_room, room, hidden_room = (
        np.empty(4 * width, np.float32),
        np.empty(4 * width, np.float32),
        np.empty(width, np.float32),
    )
    while True:
        begin = rows_per_ticket * atomic_add(block + 8 * LSTM_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + rows_per_ticket, rows)):
            wide, narrow = row * 4 * width, row * width  # offsets of the row in [B, 4 D] and [B, D]
            inputs = read_float32(read_int(block + 8 * LSTM_FROM_INPUT) + size * wide, half, inputs_room)
            recurrent = read_float32(read_int(block + 8 * LSTM_FROM_HIDDEN) + size * wide, half, room)
            active = float32_array(read_int(block + 8 * LSTM_GATES) + 4 * wide, 4 * width)
            cell_state = float32_array(read_int(block + 8 * LSTM_CELL) + 4 * narrow, width)
            next_cell = float32_array(read_int(block + 8 * LSTM_NEXT_CELL) + 4 * narrow, width)
            cell_tanh = float32_array(read_int(block + 8 * LSTM_CELL_TANH) + 4 * narrow, width)
            for i in range(3 * width):
                active[i] = _sigmoid(inputs[i] + recurrent[i])
            for i in range(3 * width, 4 * width):
                active[i] = _tanh(inputs[i] + recurrent[i])
            input_gate, forget_gate, output_gate, candidate = _split_gates(active)
            for i in range(width):
                next_cell[i] = forget_gate[i] * cell_state[i] + input_gate[i] * candidate[i]
            for i in range(width):
                cell_tanh[i] = _tanh(next_cell[i])
            start = read_int(block + 8 * LSTM_HIDDEN) + size * narrow
            hidden = hidden_room if half else float32_array(start, width)
            for i in range(width):
                hidden[i] = output_gate[i] * cell_tanh[i]
            if half:
                write_bfloat16(start, hidden)


@cfunc(types.void(types.int64), cache=True)
def lstm_backward_kernel(block: int) -> None:
    """Write the gradients of the pre-activations of the gates and of the cell state before the step."""
    rows, width, rows_per_ticket = (
        read_int(block + 8 * LSTM_ROWS),
        read_int(block + 8 * LSTM_HIDDEN_SIZE),
        read_int(block + 8 * LSTM_ROWS_PER_TICKET),
    )
    half = read_int(block + 8 * LSTM_IS_BFLOAT16)
    size = 2 if half else 4
    room, gates_room = np.empty(width, np.float32), np.empty(4 * width, np.float32)
    while True:
        begin = rows_per_ticket * atomic_add(block + 8 * LSTM_TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + rows_per_ticket, rows)):
            wide, narrow = row * 4 * width, row * width
            hidden_grad = read_float32(read_int(block + 8 * LSTM_GRAD_HIDDEN) + size * narrow, half, room)
            next_grad = float32_array(read_int(block + 8 * LSTM_GRAD_NEXT_CELL) + 4 * narrow, width)
            active = float32_array(read_int(block + 8 * LSTM_GATES) + 4 * wide, 4 * width)
            cell_state = float32_array(read_int(block + 8 * LSTM_CELL) + 4 * narrow, width)
            cell_tanh = float32_array(read_int(block + 8 * LSTM_CELL_TANH) + 4 * narrow, width)
            cell_grad = float32_array(read_int(block + 8 * LSTM_GRAD_CELL) + 4 * narrow, width)
            start = read_int(block + 8 * LSTM_GRAD_GATES) + size * wide
            gates_grad = gates_room if half else float32_array(start, 4 * width)
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
