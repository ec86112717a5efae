"""Tests of scores of any finite magnitude, such as the minimum of a dtype used in place of a mask."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import BOUNDED, FREE, LARGEST, SCANS, Problem, assert_distributions, extreme_problems
from regard.functional import constrained_sparsemax, entmax, entmax15_loss, sparsemax_loss
from regard.kernels.backend import use_backend

NORMALIZERS = {**FREE, **BOUNDED}
DTYPES = [torch.float32, torch.float64, torch.bfloat16]
bounded = pytest.mark.parametrize("name", BOUNDED)
every = pytest.mark.parametrize("name", NORMALIZERS)
versions = pytest.mark.parametrize("version", ["numba", "reference"])
many = settings(max_examples=60)


def solved(problem: Problem) -> torch.Tensor:
    """Solve constrained sparsemax in rational numbers, without rounding."""
    assert problem.upper is not None
    rows = []
    for row in range(len(problem.scores)):
        there = problem.usable[row]
        z = [Fraction(x) for x in problem.scores[row, there].tolist()]
        upper = [Fraction(min(x, 1.0)) for x in problem.upper[row, there].tolist()]
        lower = [Fraction(x) for x in problem.lower[row, there].tolist()] if problem.lower is not None else []
        found = torch.zeros(len(there), dtype=torch.float64)
        found[there] = torch.tensor(_solved(z, upper, lower or [Fraction(0)] * len(z)), dtype=torch.float64)
        rows.append(found)
    return torch.stack(rows)


def _solved(z: list[Fraction], upper: list[Fraction], lower: list[Fraction]) -> list[float]:
    """Solve one row: between breakpoints the sum of the weights is linear in the threshold."""
    if not z or sum(upper) <= 1:
        return [float(u / sum(upper)) for u in upper]
    rows = list(zip(z, upper, lower, strict=True))
    levels = sorted({score - bound for score, *bounds in rows for bound in bounds})

    def at(level: Fraction) -> list[Fraction]:
        return [max(low, min(u, score - level)) for score, u, low in rows]

    reached = max(level for level in levels if sum(at(level)) >= 1)
    higher = [level for level in levels if level > reached]
    if higher and sum(at(reached)) > 1:
        high_sum, low_sum = sum(at(reached)), sum(at(higher[0]))
        reached += (higher[0] - reached) * (high_sum - 1) / (high_sum - low_sum)
    return [float(p) for p in at(reached)]


@every
@versions
@given(data=st.data())
@many
def test_finite_scores_give_distributions_and_finite_gradients(name, version, data) -> None:
    problem = data.draw(extreme_problems(bounds=name in BOUNDED))
    scores = problem.scores.clone().requires_grad_()
    with use_backend(version):
        weights = problem.apply(NORMALIZERS[name], scores)
        (gradient,) = torch.autograd.grad(weights, scores, torch.randn(weights.shape))
    assert_distributions(problem, weights.detach())
    assert gradient.isfinite().all()


@bounded
@given(problem=extreme_problems())
@many
def test_kernel_equals_reference_at_any_magnitude(name, problem) -> None:
    found = []
    for version in ("numba", "reference"):
        made = problem.each(lambda one: one if one.dtype == torch.bool else one.clone().requires_grad_())
        with use_backend(version):
            weights = made.apply(BOUNDED[name])
            upstream = torch.linspace(1, 3, weights.shape[-1]).square().expand(weights.shape)
            found.append([weights, *torch.autograd.grad(weights, (made.scores, made.upper), upstream)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@versions
@given(problem=extreme_problems())
@many
def test_constrained_sparsemax_matches_exact_rational_solution(version, problem) -> None:
    with use_backend(version):
        weights = problem.apply(constrained_sparsemax)
    torch.testing.assert_close(weights.double(), solved(problem), atol=1e-6, rtol=0)


@bounded
@versions
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_minimum_acts_as_a_mask_if_feasible(name, version, dtype) -> None:
    scores = torch.randn(40, 12).to(dtype)
    hidden = torch.rand(40, 12) < 0.4
    hidden[:, :3] = False
    upper = torch.full((40, 12), 0.4)
    with use_backend(version):
        found = BOUNDED[name](scores.masked_fill(hidden, torch.finfo(dtype).min), upper)
        expected = BOUNDED[name](scores, upper, mask=~hidden)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@bounded
@versions
@pytest.mark.parametrize("minimum", [-1e16, -LARGEST])
def test_mass_beyond_the_bounds_goes_to_arbitrarily_low_scores(name, version, minimum) -> None:
    scores = torch.tensor([0.3, 0.1, -0.2, minimum, minimum, minimum], requires_grad=True)
    upper = torch.tensor([0.3, 0.3, 0.25, 0.4, 0.4, 0.4])
    with use_backend(version):
        weights = BOUNDED[name](scores, upper)
        (gradient,) = torch.autograd.grad(weights[4], scores)
    torch.testing.assert_close(weights, torch.tensor([0.3, 0.3, 0.25, 0.05, 0.05, 0.05]))
    share = 1.0 if name == "constrained_sparsemax" else 0.05
    expected = torch.tensor([0, 0, 0, -share / 3, 2 * share / 3, -share / 3])
    torch.testing.assert_close(gradient, expected)


@bounded
@versions
def test_huge_score_keeps_precision_of_lower_scores(name, version) -> None:
    low = torch.tensor([0.3, 0.1, -0.2])
    scores = torch.cat([torch.tensor([1e20]), low])
    plain = FREE[name.removeprefix("constrained_")]
    with use_backend(version):
        weights = BOUNDED[name](scores, torch.tensor([0.5, 1.0, 1.0, 1.0]))
    expected = 0.5 * plain(low if name == "constrained_softmax" else 2 * low)
    torch.testing.assert_close(weights, torch.cat([torch.tensor([0.5]), expected]))


@bounded
@versions
def test_first_position_to_leave_its_bound_is_found_next_to_huge_scores(name, version) -> None:
    """Every position is at a bound. The gradient of a bound refers to the position that would move first."""
    scores = torch.tensor([0.3, 0.5, -1e20, LARGEST])
    upper = torch.tensor([0.3, 0.3, 0.5, 0.4], requires_grad=True)
    with use_backend(version):
        weights = BOUNDED[name](scores, upper, mask=torch.tensor([True, True, False, True]))
        (gradient,) = torch.autograd.grad(weights, upper, torch.tensor([1.0, 2.0, 4.0, 8.0]))
    torch.testing.assert_close(weights, torch.tensor([0.3, 0.3, 0.0, 0.4]))
    torch.testing.assert_close(gradient, torch.tensor([0.0, 1.0, 0.0, 7.0]))


@versions
@pytest.mark.parametrize("scan", SCANS.values())
@given(data=st.data())
@settings(max_examples=30)
def test_scans_of_finite_scores_give_distributions_and_finite_gradients(scan, version, data) -> None:
    problem = data.draw(extreme_problems(rows=4))
    scores, fertility = problem.scores.unsqueeze(0), problem.upper[:1].clone()
    fertility[..., 0] = torch.inf  # a sink
    mask = None if problem.mask is None else problem.mask[:1] | (torch.arange(scores.shape[-1]) == 0)
    operands = [one.clone().requires_grad_() for one in (scores, fertility)]
    with use_backend(version):
        weights = scan(*operands, mask=mask)
        gradients = torch.autograd.grad(weights, operands, torch.randn(weights.shape))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4), atol=2e-6, rtol=0)
    assert all(gradient.isfinite().all() for gradient in gradients)


@versions
@pytest.mark.parametrize("loss", [sparsemax_loss, entmax15_loss])
@given(problem=extreme_problems(bounds=False))
@settings(max_examples=30)
def test_losses_of_finite_scores_have_finite_gradients(loss, version, problem) -> None:
    scores = problem.scores.clone().requires_grad_()
    targets = torch.randint(scores.shape[-1], (len(scores),))
    with use_backend(version):
        losses = loss(scores, targets, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert (losses >= 0).all()  # infinite where the difference of two scores exceeds float32
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient.sum(-1), torch.zeros(len(scores)), atol=2e-6, rtol=0)


@pytest.mark.parametrize("alpha", [1.00001, 1.2, 2.5, 4.0])
@given(problem=extreme_problems(bounds=False))
@settings(max_examples=30)
def test_entmax_has_finite_first_and_second_derivatives(alpha, problem) -> None:
    scores, power = problem.scores.clone().requires_grad_(), torch.tensor(alpha, requires_grad=True)
    weights = problem.apply(lambda z, mask: entmax(z, power, mask=mask), scores)
    assert_distributions(problem, weights.detach())
    first = torch.autograd.grad(weights, (scores, power), torch.randn(weights.shape), create_graph=True)
    assert all(one.isfinite().all() for one in first)
    (second,) = torch.autograd.grad(first[0], scores, torch.randn(weights.shape), allow_unused=True)
    assert second is None or second.isfinite().all()
