"""Tests of fusedmax: optimality, gradients, and agreement of kernel and reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems import free_problems
from regard.functional import fusedmax, sparsemax
from regard.functional.fusedmax import group_means, reference_fuse
from regard.kernels._numba.total_variation import fuse as compiled_fuse
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
many = settings(max_examples=60)
strengths = st.sampled_from([0.0, 0.05, 0.1, 0.5, 2.0])


@pytest.mark.parametrize("version", ["auto", "reference"])
def test_example_of_torchsparseattn(version) -> None:
    """The README of torchsparseattn (Niculae & Blondel 2017) has Fusedmax(alpha=.1) of (1, 2.1, 1.9)."""
    with use_backend(version):
        found = fusedmax(torch.tensor([1.0, 2.1, 1.9], dtype=DOUBLE), 0.1)
    torch.testing.assert_close(found, torch.tensor([0.0, 0.5, 0.5], dtype=DOUBLE))


@given(problem=free_problems(), strength=strengths)
@many
def test_total_variation_solution_meets_optimality_conditions(problem, strength) -> None:
    """x is optimal if some u with |u| <= lambda, u = lambda sign(x_{j+1} - x_j), satisfies z - x = -D^T u."""
    usable = problem.usable
    scores = problem.scores.masked_fill(~usable, 0)
    scale = 1 + scores.abs().max()
    for fuse in (reference_fuse, compiled_fuse):
        groups, changes = fuse(scores, usable, strength)
        found = group_means(scores, groups) + changes
        for z, x, keep in zip(scores, found, usable, strict=True):
            if not keep.any():
                continue
            dual = (x[keep] - z[keep]).cumsum(-1)  # the taut string minus the running sums
            assert abs(float(dual[-1])) <= 1e-9 * scale
            steps = x[keep].diff()
            assert (dual.abs() <= strength + 1e-9 * scale).all()
            apart = steps.abs() > 1e-9 * scale
            expected = strength * steps.sign()
            torch.testing.assert_close(dual[:-1][apart], expected[apart], atol=1e-8 * float(scale), rtol=0)


@given(problem=free_problems())
@many
def test_zero_strength_is_sparsemax_and_large_strength_is_uniform(problem) -> None:
    zero = problem.apply(lambda z, mask: fusedmax(z, 0.0, mask=mask))
    torch.testing.assert_close(zero, problem.apply(sparsemax), atol=1e-9, rtol=0)
    usable = problem.usable
    uniform = usable.to(DOUBLE) / usable.sum(-1, keepdim=True).clamp_min(1)
    large = problem.apply(lambda z, mask: fusedmax(z, 1e6, mask=mask))
    torch.testing.assert_close(large, uniform, atol=1e-9, rtol=0)


@pytest.mark.parametrize("strength", [0.05, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_kernel_equals_reference_in_value_and_gradient(strength, dtype) -> None:
    scores = torch.randn(200, 23, dtype=dtype, requires_grad=True)
    mask, upstream = torch.rand(200, 23) < 0.8, torch.randn(200, 23, dtype=dtype)
    results = []
    for version in ("numba", "reference"):
        with use_backend(version):
            weights = fusedmax(scores, strength, mask=mask)
        results.append((weights, *torch.autograd.grad(weights, scores, upstream)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5 if dtype == torch.float32 else 1e-12, rtol=0)


def test_neighbors_are_fused_across_masked_positions() -> None:
    scores = torch.tensor([1.0, 2.1, 9.0, 1.9])
    weights = fusedmax(scores, mask=torch.tensor([True, True, False, True]))
    torch.testing.assert_close(weights, torch.tensor([0.0, 0.5, 0.0, 0.5]))


@pytest.mark.parametrize("version", ["numba", "reference"])
def test_very_low_score_does_not_change_other_weights(version) -> None:
    scores = torch.tensor([1.0, 0.0, 2.0, 1.5, 0.0, 1.9], dtype=DOUBLE)
    results = []
    for lowest in (-1e6, -1e17, -1e30):
        scores[1] = lowest
        with use_backend(version):
            results.append(fusedmax(scores))
    for one in results[1:]:
        torch.testing.assert_close(one, results[0])
    assert (results[0] > 0).sum() == 3


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_invalid_strength_raises(strength) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        fusedmax(torch.zeros(3), strength)
