"""The element-wise part of an LSTM cell on a CPU, forward and backward, in one pass over memory.

The matrix multiplications that give the pre-activations of the gates are done elsewhere.
"""

import ctypes

import torch

from regard.kernels.pool import load_kernel, run_kernel
from regard.kernels.versions import use_numba
from regard.types import Tensor

__all__ = ["lstm_backward", "lstm_forward", "supports_lstm"]

_MIN_PARALLEL_SIZE = 1 << 13  # elements below which a single thread is faster; see `run_kernel`

# Layout of the kernels' argument block: indices into an array of int64.
LSTM_TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
LSTM_ROWS = 1
LSTM_HIDDEN_SIZE = 2  # D
LSTM_ROWS_PER_TICKET = 3  # number of rows per ticket
# 1 if pre-activations, hidden state and their gradients are bfloat16; all other tensors are float32.
LSTM_IS_BFLOAT16 = 4
# Addresses.
LSTM_FROM_INPUT, LSTM_FROM_HIDDEN, LSTM_GATES = 5, 6, 7  # [B, 4 D]
LSTM_CELL, LSTM_NEXT_CELL, LSTM_CELL_TANH, LSTM_HIDDEN = 8, 9, 10, 11  # [B, D]
LSTM_GRAD_HIDDEN, LSTM_GRAD_NEXT_CELL, LSTM_GRAD_CELL = 12, 13, 14  # [B, D]
LSTM_GRAD_GATES = 15  # [B, 4 D]
LSTM_NUM_ARGS = 16

_Block = ctypes.c_int64 * LSTM_NUM_ARGS


def supports_lstm(from_input: Tensor, from_hidden: Tensor, cell_state: Tensor) -> bool:
    """Return whether the kernels support these operands on this machine."""
    return (
        use_numba(from_input, from_hidden, cell_state)
        and from_hidden.dtype in (torch.float32, torch.bfloat16)
        and from_input.dtype == from_hidden.dtype
        and cell_state.dtype == torch.float32
        and from_input.shape == from_hidden.shape == (*cell_state.shape[:-1], 4 * cell_state.shape[-1])
        and cell_state.numel() > 0
    )


def _call(name: str, cell_state: Tensor, is_bfloat16: bool, operands: dict[int, Tensor]) -> None:
    """Fill the argument block and run a kernel over the rows of the cell state."""
    block, width = _Block(), cell_state.shape[-1]
    rows = cell_state.numel() // width
    block[LSTM_ROWS], block[LSTM_HIDDEN_SIZE], block[LSTM_IS_BFLOAT16] = rows, width, is_bfloat16
    for index, operand in operands.items():
        block[index] = operand.data_ptr()
    run_kernel(
        load_kernel("gates", name), block, LSTM_ROWS_PER_TICKET, rows, cell_state.numel() < _MIN_PARALLEL_SIZE
    )


def lstm_forward(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Compute one step of an LSTM cell (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

    The pre-activations of the gates are the sum of `from_input` and `from_hidden`.

    Args:
        from_input: Projection of the input, [..., 4 D], float32 or bfloat16: input gate, forget gate, output
            gate and candidate.
        from_hidden: Projection of the hidden state, of the same shape and dtype.
        cell_state: Cell state before the step, [..., D], float32.

    Returns:
        The hidden state in the dtype of the projections, the cell state after the step, and the tensors that
        `lstm_backward` needs.
    """
    from_input, from_hidden, cell_state = (
        from_input.contiguous(),
        from_hidden.contiguous(),
        cell_state.contiguous(),
    )
    hidden = torch.empty_like(cell_state, dtype=from_hidden.dtype)
    next_cell, cell_tanh = torch.empty_like(cell_state), torch.empty_like(cell_state)
    active = torch.empty_like(from_hidden, dtype=torch.float32)
    operands = {LSTM_FROM_INPUT: from_input, LSTM_FROM_HIDDEN: from_hidden, LSTM_CELL: cell_state}
    operands |= {
        LSTM_GATES: active,
        LSTM_NEXT_CELL: next_cell,
        LSTM_CELL_TANH: cell_tanh,
        LSTM_HIDDEN: hidden,
    }
    _call("lstm_forward_kernel", cell_state, from_hidden.dtype == torch.bfloat16, operands)
    return hidden, next_cell, (active, cell_state, cell_tanh)


def lstm_backward(
    grad_hidden: Tensor, grad_cell: Tensor, saved: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of one step.

    Args:
        grad_hidden: Gradient with respect to the hidden state, [..., D].
        grad_cell: Gradient with respect to the cell state after the step, [..., D].
        saved: The tensors that `lstm_forward` returned for this purpose.

    Returns:
        The gradient with respect to the pre-activations, [..., 4 D], in the dtype of `grad_hidden`, and with
        respect to the cell state before the step, [..., D].
    """
    active, cell_state, cell_tanh = saved
    grad_hidden, grad_cell = grad_hidden.contiguous(), grad_cell.contiguous()
    gates_grad = torch.empty_like(active, dtype=grad_hidden.dtype)
    cell_grad = torch.empty_like(cell_state)
    operands = {
        LSTM_GRAD_HIDDEN: grad_hidden,
        LSTM_GRAD_NEXT_CELL: grad_cell,
        LSTM_GATES: active,
        LSTM_CELL: cell_state,
    }
    operands |= {LSTM_CELL_TANH: cell_tanh, LSTM_GRAD_GATES: gates_grad, LSTM_GRAD_CELL: cell_grad}
    _call("lstm_backward_kernel", cell_state, grad_hidden.dtype == torch.bfloat16, operands)
    return gates_grad, cell_grad
