"""The element-wise part of an LSTM cell, forward and backward: on a CPU in one pass over memory.

The matrix multiplications that give the pre-activations of the gates are done elsewhere.
"""

from typing import Any

import torch

from regard.kernels.backend import apply, backend_module, first_order, use_numba
from regard.types import Tensor

__all__ = ["fast_tanh", "lstm_step", "reference_backward", "reference_forward", "supports_lstm"]


def fast_tanh(x: Tensor) -> Tensor:
    """Compute tanh(x) = 2 sigmoid(2x) - 1, in less than half the time of PyTorch's tanh on a CPU.

    The absolute error is as small as that of `torch.tanh`.
    """
    return torch.sigmoid(x + x).mul_(2).sub_(1)


def reference_forward(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Compute one step; also returns the tensors that the backward pass needs."""
    # Half-precision pre-activations are added in the dtype of the cell state, float32 or better.
    gates = from_input.to(cell_state.dtype) + from_hidden.to(cell_state.dtype)
    width = cell_state.shape[-1]
    # The three sigmoid gates are adjacent, so that a single call computes them all.
    sigmoids = torch.sigmoid(gates[..., : 3 * width])
    candidate = fast_tanh(gates[..., 3 * width :])
    input_gate, forget_gate, output_gate = sigmoids.chunk(3, dim=-1)
    next_cell = torch.addcmul(forget_gate * cell_state, input_gate, candidate)
    cell_tanh = fast_tanh(next_cell)
    return (
        (output_gate * cell_tanh).to(from_hidden.dtype),
        next_cell,
        (sigmoids, candidate, cell_state, cell_tanh),
    )


def reference_backward(
    grad_hidden: Tensor, grad_cell: Tensor, saved: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the pre-activations of the gates and of the cell state."""
    sigmoids, candidate, cell_state, cell_tanh = saved
    input_gate, forget_gate, output_gate = sigmoids.chunk(3, dim=-1)
    width, dtype = cell_state.shape[-1], grad_hidden.dtype
    grad_hidden = grad_hidden.to(cell_state.dtype)
    # The cell state affects the loss through the next cell state and through the hidden state.
    total = grad_cell + grad_hidden * output_gate * (1 - cell_tanh * cell_tanh)
    gates = torch.empty((*cell_state.shape[:-1], 4 * width), dtype=cell_state.dtype, device=cell_state.device)
    torch.mul(total, candidate, out=gates[..., :width])
    torch.mul(total, cell_state, out=gates[..., width : 2 * width])
    torch.mul(grad_hidden, cell_tanh, out=gates[..., 2 * width : 3 * width])
    gates[..., : 3 * width] *= sigmoids * (1 - sigmoids)  # derivative of the three sigmoids at once
    torch.mul(total * input_gate, 1 - candidate * candidate, out=gates[..., 3 * width :])
    return gates.to(dtype), total * forget_gate


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
        ctx.fused = supports_lstm(from_input, from_hidden, cell_state)
        forward = backend_module("numba", "lstm").forward if ctx.fused else reference_forward
        hidden, next_cell, saved = forward(from_input, from_hidden, cell_state)
        ctx.save_for_backward(*saved)
        return hidden, next_cell

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        backward = backend_module("numba", "lstm").backward if ctx.fused else reference_backward
        grad_hidden, grad_cell = grads
        gates, cell_grad = backward(grad_hidden, grad_cell, ctx.saved_tensors)
        return gates, gates, cell_grad


def lstm_step(from_input: Tensor, from_hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute one step of an LSTM cell (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

    The pre-activations of the gates are the sum of `from_input` and `from_hidden`.

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
    return reference_forward(*operands)[:2]
