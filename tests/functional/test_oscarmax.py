"""Tests of oscarmax: optimality, gradients, and agreement of kernel and reference."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, minimize
from torch.autograd import gradcheck

from problems import free_problems
from regard.functional import oscarmax, sparsemax
from regard.kernels.backend import use_backend
from regard.kernels.oscar import cluster
from regard.kernels.total_variation import group_means
from regard.nn import Oscarmax

DOUBLE = torch.float64
many = settings(max_examples=40)
strengths = st.sampled_from([0.0, 0.02, 0.1, 0.5, 2.0])


def cost(q: torch.Tensor, z: torch.Tensor, strength: float) -> torch.Tensor:
    """Compute the definition, 1/2 |q - z|^2 + lambda sum_{i<j} max(q_i, q_j), for rows of q."""
    pairs = torch.maximum(q.unsqueeze(-1), q.unsqueeze(-2)).triu(1).sum((-1, -2))
    return 0.5 * (q - z).square().sum(-1) + strength * pairs


@pytest.mark.parametrize("version", ["auto", "reference"])
def test_two_scores_in_closed_form(version) -> None:
    """For z1 > z2, the penalty lowers z1 by lambda until both are equal."""
    with use_backend(version):
        apart = oscarmax(torch.tensor([0.5, 0.1], dtype=DOUBLE), 0.1)
        equal = oscarmax(torch.tensor([0.1, 0.5], dtype=DOUBLE), 0.4)
    torch.testing.assert_close(apart, torch.tensor([0.65, 0.35], dtype=DOUBLE))
    torch.testing.assert_close(equal, torch.tensor([0.5, 0.5], dtype=DOUBLE))


@pytest.mark.parametrize("strength", [0.03, 0.2])
def test_a_general_solver_finds_the_same_distribution(strength) -> None:
    """SLSQP on the epigraph form: minimize 1/2 |q - z|^2 + lambda sum t_ij with t_ij >= q_i, t_ij >= q_j."""
    generator = np.random.default_rng(0)
    size = 5
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    for _ in range(4):
        z = generator.normal(size=size).round(1)

        def value(x, z=z):
            return 0.5 * ((x[:size] - z) ** 2).sum() + strength * x[size:].sum()

        above = np.zeros((2 * len(pairs), size + len(pairs)))
        for k, (i, j) in enumerate(pairs):
            above[2 * k : 2 * k + 2, size + k] = 1
            above[2 * k, i] = above[2 * k + 1, j] = -1
        limits = [
            {"type": "ineq", "fun": lambda x, m=above: m @ x},
            {"type": "eq", "fun": lambda x: x[:size].sum() - 1},
        ]
        start = np.concatenate([np.full(size, 1 / size), np.full(len(pairs), 1 / size)])
        boxes = [(0, 1)] * len(start)
        solved = minimize(
            value, start, method="SLSQP", bounds=boxes, constraints=limits, options={"ftol": 1e-14}
        )
        assert solved.success
        found = oscarmax(torch.tensor(z), strength)
        np.testing.assert_allclose(found.numpy(), solved.x[:size], atol=2e-5)


@given(problem=free_problems(), strength=strengths)
@many
def test_no_other_distribution_has_lower_cost(problem, strength) -> None:
    weights = oscarmax(problem.scores, strength, mask=problem.mask)
    generator = torch.Generator().manual_seed(0)
    for z, p, keep in zip(problem.scores, weights, problem.usable, strict=True):
        if not keep.any() or z[keep].abs().max() > 100:  # rounding errors would exceed the tolerance below
            continue
        z, p = z[keep], p[keep]
        others = torch.distributions.Dirichlet(torch.full_like(z, 0.5)).sample((50,)) if len(z) > 1 else p
        share = 10 ** -(4 * torch.rand(50, 1, generator=generator, dtype=DOUBLE))
        assert (cost(p + share * (others - p), z, strength) >= cost(p, z, strength) - 1e-12).all()


@given(problem=free_problems(), strength=strengths)
@many
def test_clusters_are_those_of_isotonic_regression(problem, strength) -> None:
    usable = problem.usable
    scores = problem.scores.masked_fill(~usable, 0)
    scale = 1 + float(scores.abs().max())
    for backend in ("reference", "numba"):
        with use_backend(backend):
            groups, changes = cluster(scores, usable, strength)
        found = group_means(scores, groups) + changes
        for z, x, keep in zip(scores, found, usable, strict=True):
            kept = z[keep].numpy()
            if not len(kept):
                continue
            order = np.argsort(-kept, kind="stable")
            lowered = kept[order] - strength * (len(kept) - 1 - np.arange(len(kept)))
            expected = isotonic_regression(lowered, increasing=False).x
            np.testing.assert_allclose(x[keep].numpy()[order], expected, atol=1e-9 * scale)


@given(problem=free_problems())
@many
def test_zero_strength_is_sparsemax_and_large_strength_is_uniform(problem) -> None:
    zero = problem.apply(lambda z, mask: oscarmax(z, 0.0, mask=mask))
    torch.testing.assert_close(zero, problem.apply(sparsemax), atol=1e-9, rtol=0)
    usable = problem.usable
    uniform = usable.to(DOUBLE) / usable.sum(-1, keepdim=True).clamp_min(1)
    large = problem.apply(lambda z, mask: oscarmax(z, 1e6, mask=mask))
    torch.testing.assert_close(large, uniform, atol=1e-8, rtol=0)


@given(problem=free_problems(), strength=strengths)
@many
def test_order_of_positions_does_not_matter(problem, strength) -> None:
    size = problem.scores.shape[-1]
    order = torch.randperm(size, generator=torch.Generator().manual_seed(size))
    moved = problem.each(lambda one: one[..., order])
    one, other = (each.apply(lambda z, mask: oscarmax(z, strength, mask=mask)) for each in (problem, moved))
    torch.testing.assert_close(one[..., order], other, atol=1e-9, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_kernel_equals_reference_in_value_and_gradient(dtype) -> None:
    scores = torch.randn(100, 23, dtype=dtype, requires_grad=True)
    mask, upstream = torch.rand(100, 23) < 0.8, torch.randn(100, 23, dtype=dtype)
    for strength in (0.02, 0.2):
        results = []
        for version in ("numba", "reference"):
            with use_backend(version):
                weights = oscarmax(scores, strength, mask=mask)
            results.append((weights, *torch.autograd.grad(weights, scores, upstream)))
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, atol=2e-5 if dtype == torch.float32 else 1e-12, rtol=0)


@pytest.mark.parametrize("strength", [0.02, 0.1])
def test_gradcheck(strength) -> None:
    scores = torch.randn(5, 7, dtype=DOUBLE, requires_grad=True)
    assert gradcheck(lambda z: oscarmax(z, strength), scores)
    assert gradcheck(lambda z: oscarmax(z, strength, 0), scores)


def test_far_positions_with_similar_scores_get_equal_weights() -> None:
    scores = torch.tensor([2.1, 0.5, -3.0, 2.0])
    weights = Oscarmax(0.15)(scores, mask=torch.tensor([True, True, True, True]))
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.0, 0.0, 0.5]))
    assert repr(Oscarmax(0.2)) == "Oscarmax(strength=0.2, dim=-1)"


@pytest.mark.parametrize("strength", [-0.1, float("nan"), float("inf")])
def test_invalid_strength_raises(strength) -> None:
    for call in (lambda: oscarmax(torch.zeros(3), strength), lambda: Oscarmax(strength)):
        with pytest.raises(ValueError, match="at least 0"):
            call()
