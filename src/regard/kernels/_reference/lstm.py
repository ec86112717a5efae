"""The element-wise part of an LSTM cell in PyTorch operations, forward and backward, with fused gates."""

import torch

from regard.types import Tensor


def fast_tanh(x: Tensor) -> Tensor:
    """Compute tanh(x) = 2 sigmoid(2x) - 1, in less than half the time of PyTorch's tanh on a CPU.

    The absolute error is as small as that of `torch.tanh`.
    """
    return torch.sigmoid(x + x).mul_(2).sub_(1)


def forward(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Compute one step; see `kernels.lstm`."""
    # Half-precision pre-activations are added in the dtype of the cell state, float32 or better.
    gates = from_input.to(cell_state.dtype) + from_hidden.to(cell_state.dtype)
    width = cell_state.shape[-1]
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


def backward(grad_hidden: Tensor, grad_cell: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Compute the gradients of one step; see `kernels.lstm`."""
    sigmoids, candidate, cell_state, cell_tanh = saved
    input_gate, forget_gate, output_gate = sigmoids.chunk(3, dim=-1)
    width, dtype = cell_state.shape[-1], grad_hidden.dtype
    grad_hidden = grad_hidden.to(cell_state.dtype)
    total = grad_cell + grad_hidden * output_gate * (1 - cell_tanh * cell_tanh)
    gates = torch.empty((*cell_state.shape[:-1], 4 * width), dtype=cell_state.dtype, device=cell_state.device)
    torch.mul(total, candidate, out=gates[..., :width])
    torch.mul(total, cell_state, out=gates[..., width : 2 * width])
    torch.mul(grad_hidden, cell_tanh, out=gates[..., 2 * width : 3 * width])
    gates[..., : 3 * width] *= sigmoids * (1 - sigmoids)  # derivative of the three sigmoids at once
    torch.mul(total * input_gate, 1 - candidate * candidate, out=gates[..., 3 * width :])
    return gates.to(dtype), total * forget_gate
