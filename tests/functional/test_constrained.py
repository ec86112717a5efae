"""Tests of the transformations with bounds: optimality, infeasible problems, and gradients at kinks."""

import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck, gradgradcheck

from problems import BOUNDED, FREE, Problem, bounded_problems
from regard.errors import InfeasibleBoundsError
from regard.functional import check_bounds
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
INF = torch.inf
every = pytest.mark.parametrize("name", BOUNDED)
versions = pytest.mark.parametrize("version", ["auto", "reference"])
few = settings(max_examples=30)
FORM = {"constrained_softmax": lambda x: x.clamp_max(700).exp(), "constrained_sparsemax": lambda x: x}


def bisected(name: str, problem: Problem) -> torch.Tensor:
    """Solve clip(form(z - level), l, u) for the level by bisection, as an independent oracle."""
    usable = problem.usable
    z = problem.scores.masked_fill(~usable, 0)
    upper = problem.upper.clamp_max(1).masked_fill(~usable, 0)
    lower = torch.zeros_like(z) if problem.lower is None else problem.lower.masked_fill(~usable, 0)
    low, high = z.amin(-1, keepdim=True) - 800, z.amax(-1, keepdim=True) + 800

    def at(level: torch.Tensor) -> torch.Tensor:
        return torch.minimum(torch.maximum(FORM[name](z - level), lower), upper)

    for _ in range(100):
        middle = (low + high) / 2
        enough = at(middle).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    return at(low)


@every
@versions
@given(problem=bounded_problems())
@few
def test_solution_equals_bisection(name, version, problem) -> None:
    with use_backend(version):
        p = problem.apply(BOUNDED[name])
    expected = bisected(name, problem)
    there = problem.usable.any(-1)
    torch.testing.assert_close(p[there], expected[there], atol=1e-8, rtol=0)


@every
@versions
@given(problem=bounded_problems())
@few
def test_loose_bounds_give_the_unconstrained_transformation(name, version, problem) -> None:
    for loose in (1.0, 7.0, INF):
        z = problem.scores.clone().requires_grad_()
        u = torch.full_like(z, loose).requires_grad_()
        plain = FREE[name.removeprefix("constrained_")]
        with use_backend(version):
            bounded, free = Problem(z, u, mask=problem.mask).apply(BOUNDED[name]), plain(z, mask=problem.mask)
            torch.testing.assert_close(bounded, free, atol=1e-12, rtol=0)
            upstream = torch.randn_like(free)
            by_z, by_u = torch.autograd.grad(bounded, (z, u), upstream)
            (expected,) = torch.autograd.grad(free, z, upstream)
        torch.testing.assert_close(by_z, expected, atol=1e-10, rtol=0)
        assert (by_u.abs() <= 1e-10).all()


@every
@versions
@pytest.mark.parametrize(
    ("upper", "lower", "message"),
    [
        ([0.2] * 4, None, r"the only row: .* sum to 0\.8, but must sum to at least 1"),
        ([1.0] * 4, [0.3] * 4, r"lower bounds sum to 1\.2, but must sum to at most 1"),
        ([0.5, 1, 1, 1], [0.6, 0, 0, 0], "a bound is negative, or a lower bound exceeds its upper bound"),
        ([1.0] * 4, [-0.1, 0, 0, 0], "a bound is negative"),
        ([-0.5, 1, 1, 1], None, "a bound is negative"),
        ([0.3, 0.3, 0.3, 0.09999], [-0.1, 0, 0, 0], "a bound is negative"),
    ],
)
def test_infeasible_bounds_raise_with_the_reason(name, version, upper, lower, message) -> None:
    bounds = [None if bound is None else torch.tensor(bound) for bound in (upper, lower)]
    with use_backend(version), pytest.raises(InfeasibleBoundsError, match=message):
        BOUNDED[name](torch.randn(4), *bounds)


@every
@versions
def test_fully_masked_row_is_feasible(name, version) -> None:
    scores = torch.randn(3, 4, requires_grad=True)
    upper = torch.full((3, 4), 0.3).index_fill(0, torch.tensor([1]), 0.0).requires_grad_()
    mask = torch.tensor([[True], [False], [True]])
    with use_backend(version):
        weights = BOUNDED[name](scores, upper, mask=mask)
        by_scores, by_upper = torch.autograd.grad(weights, (scores, upper), torch.randn(3, 4))
    assert (weights[1] == 0).all()
    assert (by_scores[1] == 0).all()
    assert (by_upper[1] == 0).all()
    assert by_scores.isfinite().all()


@every
@versions
def test_bounds_within_tolerance_of_feasible_are_rescaled(name, version) -> None:
    for dtype, short in ((torch.float32, 5e-5), (DOUBLE, 5e-10)):
        upper = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=dtype) * (1 - short)
        scores = torch.tensor([-1.0, 5.0, 2.0, 9.0], dtype=dtype, requires_grad=True)
        with use_backend(version):
            weights = BOUNDED[name](scores, upper)
            torch.testing.assert_close(
                weights, upper / upper.sum(), atol=1e-7 if dtype == torch.float32 else 1e-12, rtol=0
            )
            (gradient,) = torch.autograd.grad(weights, scores, torch.randn(4, dtype=dtype))
            assert (gradient == 0).all()
            with pytest.raises(InfeasibleBoundsError):
                BOUNDED[name](scores, upper * (1 - 3 * short))


def test_check_bounds_raises_with_the_row_and_enough_digits() -> None:
    upper = torch.full((2, 4), 0.3)
    check_bounds(upper)
    check_bounds(upper.T, dim=0)
    with pytest.raises(InfeasibleBoundsError, match=r"row \[1\]"):
        check_bounds(upper, mask=torch.tensor([[True] * 4, [True, True, True, False]]))
    with pytest.raises(InfeasibleBoundsError, match="lower"):
        check_bounds(upper, torch.tensor(0.3))
    with pytest.raises(InfeasibleBoundsError, match=r"sum to 0\.999999996,"):
        check_bounds(torch.full((4,), 0.25 - 1e-9, dtype=DOUBLE))


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
