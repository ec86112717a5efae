"""Tests of the fused log-likelihood of a linear output layer against log_softmax."""

import pytest
import torch

from regard.functional import linear_log_likelihood, linear_log_softmax

DOUBLE = torch.float64


def plain(hidden, weight, bias, targets):
    log_probs = torch.log_softmax(hidden @ weight.t() + bias, dim=-1)
    return log_probs.gather(1, targets.unsqueeze(1)).squeeze(1), log_probs.mean(-1)


TOLERANCE = {
    DOUBLE: {},
    torch.float32: {"rtol": 1e-5, "atol": 2e-5},
    # The logits and their gradients are rounded to bfloat16.
    torch.bfloat16: {"rtol": 2e-2, "atol": 5e-2},
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1, {}),
        (2600, {}),
        (11, {"max_logits": 22}),
        (11, {"max_logits": 1}),
        (11, {"keep_exponentials": False}),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_values_and_gradients_match_log_softmax(size, options, dtype, chunked, monkeypatch) -> None:
    if chunked:
        monkeypatch.setattr("regard.functional.likelihood.CHUNK_BYTES", 1)
        monkeypatch.setattr("regard.functional.likelihood.MIN_CHUNK_ROWS", 3)
    inputs = [torch.randn(s).to(dtype).requires_grad_() for s in ((40, 6), (size, 6), (size,))]
    targets, goal = torch.randint(size, (40,), dtype=torch.int32), torch.randn(2, 40)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    found = linear_log_likelihood(*inputs, targets, return_mean=True, **options)
    expected = plain(*exact, targets.long())
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == (DOUBLE if dtype == DOUBLE else torch.float32)
        torch.testing.assert_close(a.double(), b, **TOLERANCE[dtype])
    by_found = torch.autograd.grad((found[0] * goal[0] + found[1] * goal[1]).sum(), inputs)
    by_exact = torch.autograd.grad((expected[0] * goal[0] + expected[1] * goal[1]).sum(), exact)
    for a, b in zip(by_found, by_exact, strict=True):
        torch.testing.assert_close(a.double(), b, **TOLERANCE[dtype])


@pytest.mark.parametrize("fused", [True, False])
def test_logits_of_ten_thousand_neither_overflow_nor_underflow(fused) -> None:
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=fused)
    weight, bias = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    found, _ = linear_log_likelihood(hidden, weight, bias, torch.tensor([0, 0]))
    torch.testing.assert_close(found.detach(), torch.tensor([0.0, -2e4]))


def test_empty_batch_gives_zero_gradients() -> None:
    hidden, weight, bias = torch.zeros(0, 3), torch.randn(5, 3, requires_grad=True), torch.zeros(5)
    found, _ = linear_log_likelihood(hidden.requires_grad_(), weight, bias, torch.zeros(0, dtype=torch.int64))
    found.sum().backward()
    assert found.shape == (0,) and torch.equal(weight.grad, torch.zeros_like(weight))


def test_autocast_gradients_have_the_dtype_of_the_weights() -> None:
    inputs = [torch.randn(s, requires_grad=True) for s in ((7, 5), (11, 5), (11,))]
    targets = torch.randint(11, (7,))
    with torch.autocast("cpu", torch.bfloat16):
        value = linear_log_likelihood(*inputs, targets)[0].sum()
    expected = torch.autograd.grad(linear_log_likelihood(*inputs, targets)[0].sum(), inputs)
    for a, b in zip(torch.autograd.grad(value, inputs), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 3, 2100), (0, 2, 5)])
def test_linear_log_softmax_matches_log_softmax(shape, dtype):
    rows, contexts, size = shape
    hidden, weight, bias = torch.randn(rows, contexts, 8), torch.randn(size, 8), 5 * torch.randn(size)
    bias[0] = -torch.inf
    hidden[:1] *= 10
    hidden, weight, bias = (x.to(dtype) for x in (hidden, weight, bias))
    expected = torch.log_softmax((hidden @ weight.t()).double() + bias.double(), dim=-1)
    with torch.inference_mode():
        found = linear_log_softmax(hidden, weight, bias)
    assert found.shape == (rows, contexts, size)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    # Logits reach 100, so their error is a number of units in the last place of 100.
    unit = 64 * 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, rtol=unit, atol=100 * unit)
    recorded = linear_log_softmax(hidden.requires_grad_(), weight, bias)
    assert recorded.requires_grad
    torch.testing.assert_close(recorded.detach().double(), expected, rtol=unit, atol=100 * unit)
