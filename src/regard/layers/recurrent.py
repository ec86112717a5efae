"""The LSTM (Hochreiter & Schmidhuber, 1997): a cell and layers.

The cell computes a step from the gates' pre-activations. Its backward pass is written out, with one fused
pass over the gates instead of a dozen small operations. Tests compare it with autograd in float64. The order
of the gates is input, forget, output, candidate.

`RecurrentWeights` holds the weights of one layer. `RecurrentLayer` runs it over a sequence in one or both
directions. The matrix multiplications of the inputs are computed for all steps at once, and both directions
advance together.
"""

import math
from typing import Any, Literal

import torch
from torch import nn

from regard.kernels.backend import apply, first_order
from regard.kernels.matmul import linear
from regard.layers.linear import StepLinear, to_compute
from regard.types import Float, Int, Tensor

Direction = Literal["forward", "backward", "bidirectional"]
CellState = tuple[Tensor, Tensor]
"""The hidden state h and the cell state c, which is in float32 or better."""


def _compute_cell(
    from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return h and c after one step, and for the backward pass the gates and tanh(c)."""
    # Half-precision pre-activations are added in the dtype of the cell state, float32 or better.
    gates = from_input.to(cell_state.dtype) + from_hidden.to(cell_state.dtype)
    width = cell_state.shape[-1]
    # The three sigmoid gates are adjacent, so that a single call computes them all.
    gates[..., : 3 * width].sigmoid_()
    gates[..., 3 * width :].tanh_()
    input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)
    next_cell = torch.addcmul(forget_gate * cell_state, input_gate, candidate)
    cell_tanh = torch.tanh(next_cell)
    return (output_gate * cell_tanh).to(from_hidden.dtype), next_cell, gates, cell_tanh


class _LstmCell(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, from_hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor]:
        hidden, next_cell, gates, cell_tanh = _compute_cell(from_input, from_hidden, cell_state)
        ctx.save_for_backward(gates, cell_state, cell_tanh)
        return hidden, next_cell

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, cell_state, cell_tanh = ctx.saved_tensors
        input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)
        width = cell_state.shape[-1]
        grad_hidden, grad_cell = grads[0].to(cell_state.dtype), grads[1]
        # The cell state affects the loss through the next cell state and through the hidden state. Each
        # g (1 - y^2) and g (y - y^2) is computed without a temporary copy: these are passes over memory.
        by_tanh = grad_hidden * output_gate
        total = torch.addcmul(by_tanh, by_tanh, cell_tanh * cell_tanh, value=-1).add_(grad_cell)
        gate_grads = torch.empty_like(gates)
        sigmoids, sigmoid_grads = gates[..., : 3 * width], gate_grads[..., : 3 * width]
        torch.mul(total, candidate, out=gate_grads[..., :width])
        torch.mul(total, cell_state, out=gate_grads[..., width : 2 * width])
        torch.mul(grad_hidden, cell_tanh, out=gate_grads[..., 2 * width : 3 * width])
        sigmoid_grads.mul_(sigmoids).addcmul_(sigmoid_grads, sigmoids, value=-1)
        by_candidate = total * input_gate
        torch.addcmul(
            by_candidate, by_candidate, candidate * candidate, value=-1, out=gate_grads[..., 3 * width :]
        )
        gate_grads = gate_grads.to(grads[0].dtype)
        return gate_grads, gate_grads, total.mul_(forget_gate)


def lstm_cell(
    from_input: Float[Tensor, "*B G"], from_hidden: Float[Tensor, "*B G"], state: CellState
) -> CellState:
    """Compute the state (h, c) after one LSTM step (Hochreiter & Schmidhuber, 1997; Gers et al., 2000).

    i, f, o are the sigmoid and g is the tanh of the summed pre-activations; c' = f c + i g; h' = o tanh(c').

    Args:
        from_input: The share of the input in the pre-activations of the gates, with biases.
        from_hidden: The share of the hidden state.
        state: The state before the step.
    """
    if torch.is_grad_enabled():
        return apply(_LstmCell, from_input, from_hidden, state[1])
    # A step of search is so short that an autograd Function would take a noticeable share of it.
    return _compute_cell(from_input, from_hidden, state[1])[:2]


class RecurrentWeights(nn.Module):
    """The weights of one recurrent layer, for one direction or for two directions concatenated.

    Args:
        input_size: Width of the input.
        hidden_size: Width of the hidden state of each direction.
        num_directions: Number of directions, 1 or 2.
    """

    def __init__(self, input_size: int, hidden_size: int, num_directions: int = 1) -> None:
        """Initialize the parameters uniformly in +-1/sqrt(width), like PyTorch's recurrent layers."""
        super().__init__()
        self.hidden_size, self.num_directions = hidden_size, num_directions
        gates = 4 * hidden_size
        self.input_weight = nn.Parameter(torch.empty(input_size, num_directions * gates))
        self.hidden_weight = nn.Parameter(torch.empty(num_directions, hidden_size, gates))
        self.bias = nn.Parameter(torch.empty(num_directions * gates))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size))

    def project_inputs(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B G"]:
        """Compute the share of the pre-activations of the first inputs, as wide as x, with bias."""
        weight = to_compute(self.input_weight[: x.shape[-1]])
        return linear(x.to(weight.dtype), weight, self.bias.to(weight.dtype))


class RecurrentLayer(nn.Module):
    """A recurrent layer over padded sequences.

    The backward direction starts at the last real token of each sequence, so it does not process padding
    before real tokens. States beyond the end of a sequence are computed but not used.

    Args:
        input_size: Width of the input.
        output_size: Width of the output; with both directions, each has half of it.
        direction: `forward`, `backward` or `bidirectional`.
    """

    def __init__(self, input_size: int, output_size: int, direction: Direction = "bidirectional") -> None:
        """Create the parameters."""
        super().__init__()
        both = direction == "bidirectional"
        self.direction: Direction = direction
        self.recurrence = RecurrentWeights(
            input_size, output_size // 2 if both else output_size, 2 if both else 1
        )

    def forward(
        self, x: Float[Tensor, "B S I"], lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B S D"], CellState]:
        """Run over the sequences.

        Args:
            x: Inputs, padded on the right.
            lengths: Number of tokens of each sequence, at least 1.

        Returns:
            The hidden states in source order for either direction, and the state after each sequence's last
            step, each [B, D], with the directions concatenated.
        """
        batch, steps, _ = x.shape
        cell, directions = self.recurrence, self.recurrence.num_directions
        # The positions of each sequence from last to first, for the backward direction, except for padding.
        positions = torch.arange(steps, device=lengths.device).unsqueeze(0)
        flipped = lengths.unsqueeze(1) - 1 - positions
        reversal = torch.where(flipped >= 0, flipped, positions)
        gates = cell.project_inputs(x).view(batch, steps, directions, -1)
        parts = [gates[:, :, k] for k in range(directions)]
        if self.direction != "forward":
            parts[-1] = _reorder(parts[-1], reversal)
        # Time is the first axis, so that each step is a contiguous slice.
        inputs = torch.stack([part.transpose(0, 1) for part in parts], dim=1)  # (S, directions, B, G)
        hidden_linear = StepLinear.prepare(cell.hidden_weight)
        hidden = gates.new_zeros(directions, batch, cell.hidden_size)
        state: CellState = hidden, hidden.to(torch.promote_types(torch.float32, hidden.dtype))
        states: list[CellState] = []
        for step in inputs.unbind(0):
            state = lstm_cell(step, hidden_linear(state[0]), state)
            states.append(state)
        stacked = [torch.stack(tensors) for tensors in zip(*states, strict=True)]
        # In both directions, the final state is the one after `lengths` steps.
        last = (lengths - 1).to(x.device).view(1, 1, batch, 1).expand(1, directions, batch, cell.hidden_size)
        final_hidden, final_cell = (
            tensor.gather(0, last)[0].transpose(0, 1).reshape(batch, directions * cell.hidden_size)
            for tensor in stacked
        )
        outputs = [stacked[0][:, k].transpose(0, 1) for k in range(directions)]  # each (B, S, width)
        if self.direction != "forward":
            outputs[-1] = _reorder(outputs[-1], reversal)
        return torch.cat(outputs, dim=-1), (final_hidden, final_cell)


def _reorder(x: Float[Tensor, "B S D"], order: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
    """Gather the positions `order` of each sequence."""
    return x.gather(1, order.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
