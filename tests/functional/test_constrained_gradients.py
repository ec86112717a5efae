"""Tests of the gradients of transformations with bounds, in scores and bounds, including kinks."""

import pytest
import torch
from hypothesis import settings
from torch.autograd import gradcheck, gradgradcheck

from problems import BOUNDED, Problem
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
every = pytest.mark.parametrize("name", BOUNDED)
versions = pytest.mark.parametrize("version", ["auto", "reference"])
many = settings(max_examples=30)


def smooth() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return scores, upper bounds, lower bounds and a mask.

    Some positions are at either bound, some are free and none is near a kink.
    """
    scores, upper = torch.randn(4, 6, dtype=DOUBLE) * 2, 0.15 + 0.4 * torch.rand(4, 6, dtype=DOUBLE)
    lower = 0.06 * torch.rand(4, 6, dtype=DOUBLE)
    mask = torch.rand(4, 6) < 0.8
    mask[:, :3] = True
    upper[:, :3] = 0.4 + 0.1 * torch.rand(4, 3, dtype=DOUBLE)
    return scores.requires_grad_(), upper.requires_grad_(), lower.requires_grad_(), mask


@every
@versions
def test_gradcheck_and_gradgradcheck(name, version) -> None:
    scores, upper, lower, mask = smooth()
    with use_backend(version):
        assert gradcheck(lambda z, u, low: BOUNDED[name](z, u, low, mask=mask), (scores, upper, lower))
        assert gradcheck(lambda z, u: BOUNDED[name](z, u, mask=mask), (scores, upper))
        again = (scores, upper, lower)
        assert gradgradcheck(lambda z, u, low: BOUNDED[name](z, u, low, mask=mask), again, fast_mode=True)


@every
@versions
def test_broadcast_bounds_receive_summed_gradients(name, version) -> None:
    scores = torch.randn(2, 3, 4, 5, dtype=DOUBLE, requires_grad=True)
    for shape in [(5,), (), (1,), (4, 1), (2, 1, 1, 5), (3, 1, 5), (2, 1, 4, 5), (2, 3, 1, 1)]:
        upper = (0.3 + 0.1 * torch.rand(shape, dtype=DOUBLE)).requires_grad_()
        lower = (0.05 * torch.rand(shape, dtype=DOUBLE)).requires_grad_()
        with use_backend(version):
            assert gradcheck(BOUNDED[name], (scores, upper, lower), fast_mode=True)
            full = [each.detach().expand(2, 3, 4, 5).clone().requires_grad_() for each in (upper, lower)]
            upstream = torch.randn(2, 3, 4, 5, dtype=DOUBLE)
            found = torch.autograd.grad(BOUNDED[name](scores, upper, lower), (upper, lower), upstream)
            expected = torch.autograd.grad(BOUNDED[name](scores, *full), full, upstream)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other.sum_to_size(shape))


def difference_quotient(name: str, problem: Problem, step: float, direction: torch.Tensor) -> torch.Tensor:
    """Return the one-sided difference quotient of the weights as the upper bounds increase."""
    before = problem.apply(BOUNDED[name])
    after = Problem(problem.scores, problem.upper + step * direction).apply(BOUNDED[name])
    return (after - before) / step


@every
@versions
@pytest.mark.parametrize(
    "upper",
    [
        [0.2, 0.3, 0.5],  # the weights equal the bounds
        [0.5, 0.5, 0.7],  # the first two suffice, and the last score is far below
        [1.0, 1.0, 1.0],
        [0.0, 1.0, 1.0],  # exhausted positions with the highest scores
        [0.0, 0.75, 0.25],
    ],
)
def test_gradient_without_free_positions_is_the_one_sided_derivative(name, version, upper) -> None:
    gap = 100.0 if name == "constrained_softmax" else 3.0
    scores = torch.tensor([[2.0, 1.1, -gap]] * 4, dtype=DOUBLE, requires_grad=True)
    bounds = torch.tensor([upper] * 4, dtype=DOUBLE, requires_grad=True)
    if upper[0] == 1.0:
        scores = (torch.tensor([[gap, 0.3, 0.1]] * 4, dtype=DOUBLE)).requires_grad_()
    upstream, direction = torch.randn(4, 3, dtype=DOUBLE), torch.rand(4, 3, dtype=DOUBLE)
    with use_backend(version):
        weights = BOUNDED[name](scores, bounds)
        by_scores, by_upper = torch.autograd.grad(weights, (scores, bounds), upstream)
        change = difference_quotient(name, Problem(scores.detach(), bounds.detach()), 1e-7, direction)
    torch.testing.assert_close(by_scores, torch.zeros_like(by_scores))
    torch.testing.assert_close((by_upper * direction).sum(-1), (change * upstream).sum(-1), atol=1e-5, rtol=0)


@every
@versions
def test_exhausted_position_has_the_one_sided_derivative(name, version) -> None:
    # In constrained sparsemax, an exhausted position with weight 0 has derivative 0. In constrained softmax,
    # exp(z) > 0 always exceeds a bound of 0.
    scores = torch.tensor([[3.0, 0.5, 0.1, -9.0]], dtype=DOUBLE, requires_grad=True)
    upper = torch.tensor([[0.0, 0.9, 0.9, 0.0]], dtype=DOUBLE, requires_grad=True)
    upstream = torch.randn(1, 4, dtype=DOUBLE)
    with use_backend(version):
        weights = BOUNDED[name](scores, upper)
        _, by_upper = torch.autograd.grad(weights, (scores, upper), upstream)
        problem = Problem(scores.detach(), upper.detach())
        for i in range(4):
            direction = torch.nn.functional.one_hot(torch.tensor([i]), 4).double()
            change = (difference_quotient(name, problem, 1e-7, direction) * upstream).sum()
            torch.testing.assert_close(by_upper[0, i], change, atol=1e-5, rtol=0)


@every
def test_position_exactly_at_its_bound_is_free(name) -> None:
    scores = torch.tensor([0.5, 0.25, 0.25], dtype=DOUBLE)
    if name == "constrained_softmax":
        scores = scores.log()
    scores.requires_grad_()
    upper = torch.tensor([0.5, 1.0, 1.0], dtype=DOUBLE, requires_grad=True)
    upstream = torch.randn(3, dtype=DOUBLE)
    by_scores, by_upper = torch.autograd.grad(BOUNDED[name](scores, upper), (scores, upper), upstream)
    free = BOUNDED[name](scores, torch.ones(3, dtype=DOUBLE))
    (expected,) = torch.autograd.grad(free, scores, upstream)
    torch.testing.assert_close(by_scores, expected)
    assert (by_upper == 0).all()
