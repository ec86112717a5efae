"""The element-wise part of an LSTM cell, forward and backward: on a CPU in one pass over memory.

The matrix multiplications that give the pre-activations of the gates are done elsewhere.
"""

from typing import Any

import torch

from regard.kernels._reference import lstm as reference
from regard.kernels._reference.lstm import fast_tanh
from regard.kernels.backend import apply, backend_module, first_order, use_numba
from regard.types import Tensor

__all__ = ["fast_tanh", "lstm_step", "supports_lstm"]


def supports_lstm(from_input: Tensor, from_hidden: Tensor, cell_state: Tensor) -> bool:
    """Return whether the Numba kernels support these operands on this machine."""
    return (
        use_numba(from_input, from_hidden, cell_state)
        and from_hidden.dtype in (torch.float32, torch.bfloat16)
        and from_input.dtype == from_hidden.dtype
        and cell_state.dtype == torch.float32
        and from_input.shape == from_hidden.shape == (*cell_state.shape[:-1], 4 * cell_state.shape[-1])
        and cell_state.numel() > 0
    )


class _LstmStep(torch.autograd.Function):
    """The autograd function of `lstm_step`."""

    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor]:
        fused = supports_lstm(from_input, from_hidden, cell_state)
        ctx.backend = backend_module("numba" if fused else "reference", "lstm")
        hidden, next_cell, saved = ctx.backend.forward(from_input, from_hidden, cell_state)
        ctx.save_for_backward(*saved)
        return hidden, next_cell

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, cell_grad = ctx.backend.backward(*grads, ctx.saved_tensors)
        return gates, gates, cell_grad


def lstm_step(from_input: Tensor, from_hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute one step of an LSTM cell (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

    The pre-activations of the gates are the sum of `from_input` and `from_hidden`. A backend is a module with
    `forward`, which also returns the tensors that its function `backward` needs.

    Args:
        from_input: Projection of the input, [..., 4 D]: input gate, forget gate, output gate and candidate.
        from_hidden: Projection of the hidden state, of the same shape.
        cell_state: Cell state before the step, [..., D], in float32 or better.

    Returns:
        The hidden state in the dtype of `from_hidden`, and the cell state after the step.
    """
    operands = (from_input, from_hidden, cell_state)
    if torch.is_grad_enabled() and any(x.requires_grad for x in operands):
        return apply(_LstmStep, *operands)
    # Without gradients the kernels save little time, but their import takes a second.
    return reference.forward(*operands)[:2]
