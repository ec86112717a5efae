"""Tests of the kernels on rows of logits against PyTorch operations in float64."""

import math

import pytest
import torch

from regard.kernels.logits import exp_logits, log_softmax, nll_gradient


def test_exponentials_do_not_depend_on_threads() -> None:
    torch.manual_seed(0)
    logits, before, answers = torch.randn(300, 400), torch.get_num_threads(), []
    expected = logits.double()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            powers = logits.clone()
            answers.append((*exp_logits(powers), powers))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)
    tops, means, sums, powers = (x.double() for x in answers[0])
    assert torch.equal(tops, expected.amax(-1))
    torch.testing.assert_close(means, expected.mean(-1), rtol=1e-6, atol=1e-6)
    exact = (expected - expected.amax(-1, keepdim=True)).exp()
    torch.testing.assert_close(powers, exact, rtol=2e-6, atol=0)
    torch.testing.assert_close(sums, exact.sum(-1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_exponentials_underflow_to_zero_and_propagate_nan(dtype) -> None:
    logits = torch.tensor([[0.0, -100.0, -torch.inf, -86.0], [1.0, torch.nan, 2.0, 3.0]]).to(dtype)
    tops, _, sums = exp_logits(logits)
    assert tops[0] == 0 and sums[0] == 1
    assert logits[0, :3].tolist() == [1, 0, 0]
    torch.testing.assert_close(
        float(logits[0, 3]), math.exp(-86), rtol=1e-2 if dtype == torch.bfloat16 else 1e-6, atol=0
    )
    assert sums[1].isnan() and logits[1, 1].isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1025), (40, 300)])
def test_gradient_and_log_softmax_equal_pytorch(shape, dtype) -> None:
    logits, bias = torch.randn(shape).to(dtype), torch.randn(shape[1])
    expected = torch.log_softmax(logits.double() + bias.double(), dim=-1)
    torch.testing.assert_close(log_softmax(logits.clone(), bias).double(), expected, rtol=1e-5, atol=2e-5)
    factors, shifts, gains = torch.randn(3, shape[0])
    targets = torch.randint(shape[1], (shape[0],))
    for added in (None, shifts):
        found = logits.clone()
        nll_gradient(found, factors, added, gains, targets)
        expected = logits.double() * factors.double().unsqueeze(1)
        expected += 0 if added is None else added.double().unsqueeze(1)
        expected.scatter_add_(1, targets.unsqueeze(1), gains.double().unsqueeze(1))
        tolerance = 1e-6 if dtype == torch.float32 else 1e-2
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
