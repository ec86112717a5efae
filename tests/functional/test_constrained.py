"""Tests of the transformations with bounds: optimality, invariances and infeasible problems."""

import pytest
import torch
from hypothesis import given, settings

from problems import BOUNDED, FREE, Problem, bounded_problems
from regard.errors import InfeasibleBoundsError
from regard.functional import check_bounds
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
INF = torch.inf
every = pytest.mark.parametrize("name", BOUNDED)
versions = pytest.mark.parametrize("version", ["auto", "reference"])
many = settings(max_examples=40)
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
def test_infeasible_bounds_raise_with_the_row_and_enough_digits(name, version) -> None:
    scores, upper = torch.randn(2, 3, 4, dtype=DOUBLE), torch.ones(2, 3, 4, dtype=DOUBLE)
    upper[1, 0] = 0.25 - 1e-9
    upper[1, 2] = 0.1
    mask = torch.tensor([True, True, False, False])
    with use_backend(version):
        with pytest.raises(InfeasibleBoundsError, match=r"row \[1, 0\] of \[2, 3\]: .* sum to 0\.999999996,"):
            BOUNDED[name](scores, upper)
        with pytest.raises(InfeasibleBoundsError, match=r"sum to 0\.9,"):
            BOUNDED[name](scores, 0.45, mask=mask)


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


def test_check_bounds_raises_with_the_row() -> None:
    upper = torch.full((2, 4), 0.3)
    check_bounds(upper)
    check_bounds(upper.T, dim=0)
    with pytest.raises(InfeasibleBoundsError, match=r"row \[1\]"):
        check_bounds(upper, mask=torch.tensor([[True] * 4, [True, True, True, False]]))
    with pytest.raises(InfeasibleBoundsError, match="lower"):
        check_bounds(upper, torch.tensor(0.3))
