"""The Numba kernels of `regard.kernels.lstm`, which process one row of gates at a time."""

import numpy as np
from numba import cfunc, njit, types

from regard.kernels.floats import exp, floats, read_floats, write_halves
from regard.kernels.lstm import (
    ACTIVE,
    AFTER,
    AFTER_GRADIENT,
    FROM_HIDDEN,
    FROM_INPUT,
    GATES_GRADIENT,
    HALF,
    HIDDEN,
    HIDDEN_GRADIENT,
    MEMORY,
    MEMORY_GRADIENT,
    ROWS,
    SHARE,
    SQUASHED,
    TICKET,
    WIDTH,
)
from regard.kernels.tiles import atomic_add, read_int

__all__ = ["lstm_backward", "lstm_forward"]

ONE, TWICE = np.float32(1), np.float32(-2)


# The error model of NumPy allows division by zero. Python's would add a branch to each division.
@njit(error_model="numpy")
def _sigmoid(x):
    """Return 1 / (1 + exp(-x)); `exp` requires a nonpositive argument."""
    power = exp(-abs(x))
    return (power if x < 0 else ONE) / (ONE + power)


@njit(error_model="numpy")
def _tanh(x):
    """Return tanh(x) = sign(x) (1 - exp(-2 |x|)) / (1 + exp(-2 |x|))."""
    power = exp(TWICE * abs(x))
    found = (ONE - power) / (ONE + power)
    return -found if x < 0 else found


@njit
def _quarters(active):
    """Split the activations into input gate, forget gate, output gate and candidate."""
    width = len(active) // 4
    return active[:width], active[width : 2 * width], active[2 * width : 3 * width], active[3 * width :]


@cfunc(types.void(types.int64), cache=True)
def lstm_forward(block: int) -> None:
    """Write the activations, the cell state after the step, its tanh, and the hidden state."""
    rows, width, share = read_int(block + 8 * ROWS), read_int(block + 8 * WIDTH), read_int(block + 8 * SHARE)
    half = read_int(block + 8 * HALF)
    size = 2 if half else 4
    inputs_room, room, hidden_room = (
        np.empty(4 * width, np.float32),
        np.empty(4 * width, np.float32),
        np.empty(width, np.float32),
    )
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            wide, narrow = row * 4 * width, row * width  # offsets of the row in [B, 4 D] and [B, D]
            inputs = read_floats(read_int(block + 8 * FROM_INPUT) + size * wide, half, inputs_room)
            recurrent = read_floats(read_int(block + 8 * FROM_HIDDEN) + size * wide, half, room)
            active = floats(read_int(block + 8 * ACTIVE) + 4 * wide, 4 * width)
            memory = floats(read_int(block + 8 * MEMORY) + 4 * narrow, width)
            after = floats(read_int(block + 8 * AFTER) + 4 * narrow, width)
            squashed = floats(read_int(block + 8 * SQUASHED) + 4 * narrow, width)
            for i in range(3 * width):
                active[i] = _sigmoid(inputs[i] + recurrent[i])
            for i in range(3 * width, 4 * width):
                active[i] = _tanh(inputs[i] + recurrent[i])
            enter, keep, leave, candidate = _quarters(active)
            for i in range(width):
                after[i] = keep[i] * memory[i] + enter[i] * candidate[i]
            for i in range(width):
                squashed[i] = _tanh(after[i])
            start = read_int(block + 8 * HIDDEN) + size * narrow
            hidden = hidden_room if half else floats(start, width)
            for i in range(width):
                hidden[i] = leave[i] * squashed[i]
            if half:
                write_halves(start, hidden)


@cfunc(types.void(types.int64), cache=True)
def lstm_backward(block: int) -> None:
    """Write the gradients of the pre-activations of the gates and of the cell state before the step."""
    rows, width, share = read_int(block + 8 * ROWS), read_int(block + 8 * WIDTH), read_int(block + 8 * SHARE)
    half = read_int(block + 8 * HALF)
    size = 2 if half else 4
    room, gates_room = np.empty(width, np.float32), np.empty(4 * width, np.float32)
    while True:
        begin = share * atomic_add(block + 8 * TICKET, 1)
        if begin >= rows:
            break
        for row in range(begin, min(begin + share, rows)):
            wide, narrow = row * 4 * width, row * width
            by_hidden = read_floats(read_int(block + 8 * HIDDEN_GRADIENT) + size * narrow, half, room)
            by_after = floats(read_int(block + 8 * AFTER_GRADIENT) + 4 * narrow, width)
            active = floats(read_int(block + 8 * ACTIVE) + 4 * wide, 4 * width)
            memory = floats(read_int(block + 8 * MEMORY) + 4 * narrow, width)
            squashed = floats(read_int(block + 8 * SQUASHED) + 4 * narrow, width)
            by_memory = floats(read_int(block + 8 * MEMORY_GRADIENT) + 4 * narrow, width)
            start = read_int(block + 8 * GATES_GRADIENT) + size * wide
            gates = gates_room if half else floats(start, 4 * width)
            enter, keep, leave, candidate = _quarters(active)
            for i in range(width):
                total = by_after[i] + by_hidden[i] * leave[i] * (ONE - squashed[i] * squashed[i])
                by_memory[i] = total * keep[i]
                gates[i] = total * candidate[i] * enter[i] * (ONE - enter[i])
                gates[width + i] = total * memory[i] * keep[i] * (ONE - keep[i])
                gates[2 * width + i] = by_hidden[i] * squashed[i] * leave[i] * (ONE - leave[i])
                gates[3 * width + i] = total * enter[i] * (ONE - candidate[i] * candidate[i])
            if half:
                write_halves(start, gates)
