"""Recurrent cells: LSTM (Hochreiter & Schmidhuber, 1997) and GRU (Cho et al., 2014).

A cell computes a step from the gates' pre-activations. The matrix multiplications that produce these belong
to the layer, which batches them over time steps where it can. The backward passes are written out, with one
fused pass over the gates instead of a dozen small operations. Tests compare them with autograd in float64.

The order of the gates is input, forget, output, candidate (LSTM) and reset, update, candidate (GRU).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from regard.kernels.backend import apply, first_order
from regard.kernels.lstm import fast_tanh, lstm_step
from regard.types import Float, Tensor

__all__ = ["CELLS", "CellKind", "CellState", "RecurrentCell", "gru_cell", "lstm_cell"]

CellKind = Literal["lstm", "gru"]
CellState = tuple[Tensor, ...]


def lstm_cell(
    from_input: Float[Tensor, "*B G"], from_hidden: Float[Tensor, "*B G"], state: CellState
) -> CellState:
    """Compute one LSTM step.

    i, f, o are the sigmoid and g is the tanh of the summed pre-activations; c' = f c + i g; h' = o tanh(c').

    Args:
        from_input: The input's share of the gates' pre-activations, bias included, [..., 4 D].
        from_hidden: The previous hidden state's share, [..., 4 D].
        state: Hidden state and cell state (h, c), each [..., D]; c is in float32 or better.

    Returns:
        The new (h, c).
    """
    return lstm_step(from_input, from_hidden, state[1])


class _GruCell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> Tensor:
        exact = torch.promote_types(torch.float32, hidden.dtype)
        width = hidden.shape[-1]
        inputs, recurrent = from_input.to(exact), from_hidden.to(exact)
        sigmoids = torch.sigmoid(inputs[..., : 2 * width] + recurrent[..., : 2 * width])
        reset, update = sigmoids.chunk(2, dim=-1)
        projected_state = recurrent[..., 2 * width :]
        candidate = fast_tanh(torch.addcmul(inputs[..., 2 * width :], reset, projected_state))
        after = candidate + update * (hidden.to(exact) - candidate)
        ctx.save_for_backward(sigmoids, candidate, projected_state, hidden)
        ctx.dtypes = from_input.dtype, from_hidden.dtype, hidden.dtype
        return after.to(hidden.dtype)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sigmoids, candidate, projected_state, hidden = ctx.saved_tensors
        reset, update = sigmoids.chunk(2, dim=-1)
        grad = grads[0].to(candidate.dtype)
        pre = grad * (1 - update) * (1 - candidate * candidate)
        pair = torch.cat([pre * projected_state, grad * (hidden.to(grad.dtype) - candidate)], dim=-1)
        pair = pair * sigmoids * (1 - sigmoids)
        inputs, recurrent, state = ctx.dtypes
        return (
            torch.cat([pair, pre], dim=-1).to(inputs),
            torch.cat([pair, pre * reset], dim=-1).to(recurrent),
            (grad * update).to(state),
        )


def gru_cell(
    from_input: Float[Tensor, "*B G"], from_hidden: Float[Tensor, "*B G"], state: CellState
) -> CellState:
    """Compute one GRU step.

    r, u are the sigmoid of the summed pre-activations; n = tanh(x_n + r h_n); h' = n + u (h - n). As in
    PyTorch's GRU, the reset gate multiplies the projected state and not the state itself.

    Args:
        from_input: The input's share of the pre-activations, bias included, [..., 3 D].
        from_hidden: The hidden state's share, its own bias included, [..., 3 D].
        state: The hidden state (h,), [..., D].

    Returns:
        The new (h,).
    """
    return (apply(_GruCell, from_input, from_hidden, state[0]),)


@dataclass(frozen=True)
class RecurrentCell:
    """A type of cell: its step function, number of gates and number of state tensors."""

    step: Callable[[Tensor, Tensor, CellState], CellState]
    num_gates: int
    num_states: int


CELLS: dict[CellKind, RecurrentCell] = {
    "lstm": RecurrentCell(lstm_cell, 4, 2),
    "gru": RecurrentCell(gru_cell, 3, 1),
}
