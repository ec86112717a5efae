"""Tests of the LSTM step: the Numba kernels agree with the reference in float64."""

import pytest
import torch

from regard.kernels.lstm import lstm_step, supports_lstm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 7, 33), (40, 300)])
def test_lstm_kernels_equal_the_reference(shape, dtype) -> None:
    torch.manual_seed(1)
    *rows, width = shape
    shares = [(3 * torch.randn(*rows, 4 * width)).to(dtype) for _ in range(2)]
    memory = torch.randn(*shape)
    goals = [torch.randn(*shape).to(dtype), torch.randn(*shape)]
    assert supports_lstm(*shares, memory)

    def answers(*inputs: torch.Tensor) -> list[torch.Tensor]:
        inputs = tuple(x.clone().requires_grad_() for x in inputs)
        found = lstm_step(*inputs)
        by = torch.autograd.grad(found, inputs, [g.to(x.dtype) for g, x in zip(goals, found, strict=True)])
        return [*(x.detach() for x in found), *by]

    found, expected = answers(*shares, memory), answers(*(x.double() for x in (*shares, memory)))
    tolerance = {"rtol": 1e-5, "atol": 2e-6} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, **tolerance)
    assert [x.dtype for x in found] == [dtype, torch.float32, dtype, dtype, torch.float32]


@pytest.mark.parametrize("fused", [True, False])
def test_lstm_saturates_without_overflow(fused) -> None:
    shares = torch.tensor([[1e4, -1e4, 1e4, -1e4], [-1e4, 1e4, -1e4, 1e4], [torch.nan, 0, 0, 0]])
    hidden, memory = lstm_step(shares, torch.zeros_like(shares, requires_grad=fused), torch.ones(3, 1))
    assert memory[:2].tolist() == [[-1.0], [1.0]]
    torch.testing.assert_close(hidden[:2], torch.tensor([[-1.0], [0.0]]).tanh(), rtol=1e-6, atol=1e-7)
    assert memory[2].isnan() and hidden[2].isnan()
