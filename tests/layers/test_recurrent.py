"""Tests of the recurrent cells and layers against PyTorch and finite differences."""

import pytest
import torch
from torch import nn

from regard.layers.recurrent import RecurrentLayer, lstm_cell

DOUBLE = torch.float64


def test_gradcheck_of_the_cell() -> None:
    shares = [torch.randn(s, dtype=DOUBLE, requires_grad=True) for s in ((2, 12), (2, 12), (2, 3))]
    assert torch.autograd.gradcheck(lambda a, b, c: lstm_cell(a, b, (c, c)), shares)


def test_lstm_saturates_without_overflow() -> None:
    shares = torch.tensor([[1e4, -1e4, 1e4, -1e4], [-1e4, 1e4, -1e4, 1e4], [torch.nan, 0, 0, 0]])
    hidden, memory = lstm_cell(shares, torch.zeros_like(shares), (torch.ones(3, 1),) * 2)
    assert memory[:2].tolist() == [[-1.0], [1.0]]
    torch.testing.assert_close(hidden[:2], torch.tensor([[-1.0], [0.0]]).tanh(), rtol=1e-6, atol=1e-7)
    assert memory[2].isnan() and hidden[2].isnan()


def reference(layer: RecurrentLayer, inputs: int) -> nn.Module:
    """Return PyTorch's layer with the same weights. Its LSTM gates are i, f, g, o and regard's i, f, o, g."""
    ours = layer.recurrence
    width, directions = ours.hidden_size, ours.num_directions
    peer = nn.LSTM(inputs, width, batch_first=True, bidirectional=directions == 2, dtype=DOUBLE)

    def arranged(matrix: torch.Tensor) -> torch.Tensor:
        return torch.cat([matrix.chunk(4, dim=0)[gate] for gate in (0, 1, 3, 2)])

    with torch.no_grad():
        for k in range(directions):
            suffix = "_reverse" if k else ""
            block = slice(4 * k * width, 4 * (k + 1) * width)
            getattr(peer, "weight_ih_l0" + suffix).copy_(arranged(ours.input_weight[:, block].t()))
            getattr(peer, "weight_hh_l0" + suffix).copy_(arranged(ours.hidden_weight[k].t()))
            getattr(peer, "bias_ih_l0" + suffix).copy_(arranged(ours.bias[block]))
            getattr(peer, "bias_hh_l0" + suffix).zero_()
    return peer


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_layer_equals_pytorch_on_packed_sequences(direction) -> None:
    layer = RecurrentLayer(5, 6, direction).double()
    peer = reference(layer, 5)
    x = torch.randn(3, 7, 5, dtype=DOUBLE, requires_grad=True)
    lengths = torch.tensor([7, 3, 1])
    ours, finals = layer(x, lengths)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    theirs, last = peer(packed)
    theirs, _ = nn.utils.rnn.pad_packed_sequence(theirs, batch_first=True)
    real = torch.arange(7) < lengths.unsqueeze(1)
    torch.testing.assert_close(ours[real], theirs[real])
    for mine, its in zip(finals, last, strict=True):
        torch.testing.assert_close(mine, its.transpose(0, 1).flatten(1))
    goal = torch.randn_like(ours[real])
    (mine,) = torch.autograd.grad((ours[real] * goal).sum() + finals[0].sum(), x)
    (its,) = torch.autograd.grad((theirs[real] * goal).sum() + last[0].sum(), x)
    torch.testing.assert_close(mine, its)


def test_backward_layer_equals_forward_layer_on_reversed_input() -> None:
    layer = RecurrentLayer(4, 6, "backward").double()
    forward = RecurrentLayer(4, 6, "forward").double()
    forward.load_state_dict(layer.state_dict())
    x = torch.randn(1, 5, 4, dtype=DOUBLE)
    lengths = torch.tensor([5])
    states, finals = layer(x, lengths)
    expected, expected_finals = forward(x.flip(1), lengths)
    torch.testing.assert_close(states, expected.flip(1))
    torch.testing.assert_close(finals[1], expected_finals[1])


def test_lstm_memory_is_float32_in_half_precision() -> None:
    layer, x = RecurrentLayer(4, 6).bfloat16(), torch.randn(2, 3, 4, dtype=torch.bfloat16)
    _, (hidden, memory) = layer(x, torch.tensor([3, 2]))
    assert hidden.dtype == torch.bfloat16 and memory.dtype == torch.float32
