"""The element-wise part of an LSTM cell on a CPU, forward and backward, in one pass over memory.

The matrix multiplications that give the pre-activations of the gates are done elsewhere.
"""

import ctypes

import torch

from regard.kernels.pool import load, run
from regard.kernels.versions import on_cpu
from regard.types import Tensor

__all__ = ["fits", "lstm_backward", "lstm_forward"]

FEW = 1 << 13  # elements below which a single thread is faster; see `run`

# Layout of the kernels' argument block: indices into an array of int64.
TICKET = 0  # counter of the shares of rows that have been claimed; see `pool`
ROWS = 1
WIDTH = 2  # D
SHARE = 3  # number of rows per ticket
HALF = 4  # 1 if pre-activations, hidden state and their gradients are bfloat16; all else is float32
# Addresses.
FROM_INPUT, FROM_HIDDEN, ACTIVE = 5, 6, 7  # [B, 4 D]
MEMORY, AFTER, SQUASHED, HIDDEN = 8, 9, 10, 11  # [B, D]
HIDDEN_GRADIENT, AFTER_GRADIENT, MEMORY_GRADIENT = 12, 13, 14  # [B, D]
GATES_GRADIENT = 15  # [B, 4 D]
LENGTH = 16

_Block = ctypes.c_int64 * LENGTH


def fits(from_input: Tensor, from_hidden: Tensor, memory: Tensor) -> bool:
    """Return whether the kernels support these operands on this machine."""
    return (
        on_cpu(from_input, from_hidden, memory)
        and from_hidden.dtype in (torch.float32, torch.bfloat16)
        and from_input.dtype == from_hidden.dtype
        and memory.dtype == torch.float32
        and from_input.shape == from_hidden.shape == (*memory.shape[:-1], 4 * memory.shape[-1])
        and memory.numel() > 0
    )


def _call(name: str, memory: Tensor, half: bool, places: dict[int, Tensor]) -> None:
    """Fill the argument block and run a kernel over the rows of the cell state."""
    block, width = _Block(), memory.shape[-1]
    rows = memory.numel() // width
    block[ROWS], block[WIDTH], block[HALF] = rows, width, half
    for place, operand in places.items():
        block[place] = operand.data_ptr()
    run(load("gates", name), block, SHARE, rows, memory.numel() < FEW)


def lstm_forward(
    from_input: Tensor, from_hidden: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Compute one step of an LSTM cell (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

    The pre-activations of the gates are the sum of `from_input` and `from_hidden`.

    Args:
        from_input: Projection of the input, [..., 4 D], float32 or bfloat16: input gate, forget gate, output
            gate and candidate.
        from_hidden: Projection of the hidden state, of the same shape and dtype.
        memory: Cell state before the step, [..., D], float32.

    Returns:
        The hidden state in the dtype of the projections, the cell state after the step, and the tensors that
        `lstm_backward` needs.
    """
    from_input, from_hidden, memory = from_input.contiguous(), from_hidden.contiguous(), memory.contiguous()
    hidden = torch.empty_like(memory, dtype=from_hidden.dtype)
    after, squashed = torch.empty_like(memory), torch.empty_like(memory)
    active = torch.empty_like(from_hidden, dtype=torch.float32)
    places = {FROM_INPUT: from_input, FROM_HIDDEN: from_hidden, MEMORY: memory}
    places |= {ACTIVE: active, AFTER: after, SQUASHED: squashed, HIDDEN: hidden}
    _call("lstm_forward", memory, from_hidden.dtype == torch.bfloat16, places)
    return hidden, after, (active, memory, squashed)


def lstm_backward(
    by_hidden: Tensor, by_after: Tensor, kept: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of one step.

    Args:
        by_hidden: Gradient with respect to the hidden state, [..., D].
        by_after: Gradient with respect to the cell state after the step, [..., D].
        kept: The tensors that `lstm_forward` returned for this purpose.

    Returns:
        The gradient with respect to the pre-activations, [..., 4 D], in the dtype of `by_hidden`, and with
        respect to the cell state before the step, [..., D].
    """
    active, memory, squashed = kept
    by_hidden, by_after = by_hidden.contiguous(), by_after.contiguous()
    gates = torch.empty_like(active, dtype=by_hidden.dtype)
    by_memory = torch.empty_like(memory)
    places = {HIDDEN_GRADIENT: by_hidden, AFTER_GRADIENT: by_after, ACTIVE: active, MEMORY: memory}
    places |= {SQUASHED: squashed, GATES_GRADIENT: gates, MEMORY_GRADIENT: by_memory}
    _call("lstm_backward", memory, by_hidden.dtype == torch.bfloat16, places)
    return gates, by_memory
