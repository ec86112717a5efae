"""Tests of the transformations without bounds, from scores to distributions."""

import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck, gradgradcheck

from problems import FREE, Problem, free_problems
from regard.functional import softmax, sparsemax
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
every = pytest.mark.parametrize("name", FREE)
many = settings(max_examples=40)


@every
@given(problem=free_problems())
@many
def test_rows_are_distributions_over_unmasked_positions(name, problem) -> None:
    usable = problem.usable
    weights = problem.to(torch.float32).apply(FREE[name])
    assert (weights >= 0).all()
    assert (weights[~usable] == 0).all()
    torch.testing.assert_close(weights.double().sum(-1), usable.any(-1).double(), atol=1e-6, rtol=0)


@every
@given(problem=free_problems())
@many
def test_masked_equals_shortened_and_batch_equals_single(name, problem) -> None:
    weights = problem.apply(FREE[name])
    for row, keep, found in zip(problem.scores, problem.usable, weights, strict=True):
        if keep.any():
            torch.testing.assert_close(found[keep], FREE[name](row[keep]), atol=1e-12, rtol=1e-9)


@every
@given(problem=free_problems())
@many
def test_shift_invariance_and_permutation_equivariance(name, problem) -> None:
    weights = problem.apply(FREE[name])
    shifted = problem.apply(FREE[name], problem.scores + 3)
    torch.testing.assert_close(shifted, weights, atol=1e-10, rtol=0)
    if name == "fusedmax":  # depends on the order of the positions
        return
    order = torch.randperm(weights.shape[-1])
    permuted = problem.each(lambda one: one[:, order]).apply(FREE[name])
    torch.testing.assert_close(permuted, weights[:, order], atol=1e-12, rtol=0)


@every
@given(problem=free_problems())
@many
def test_constant_upstream_gradient_gives_zero(name, problem) -> None:
    scores = problem.scores.clone().requires_grad_()
    weights = problem.apply(FREE[name], scores)
    (gradient,) = torch.autograd.grad(weights, scores, torch.full_like(weights, 3.0))
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-9, rtol=0)


@every
@pytest.mark.parametrize("version", ["auto", "reference"])
def test_gradcheck_and_gradgradcheck(name, version) -> None:
    scores = torch.randn(5, 6, dtype=DOUBLE, requires_grad=True)
    mask = torch.rand(5, 6) < 0.8
    with use_backend(version):
        assert gradcheck(lambda z: FREE[name](z, mask=mask), scores)
        assert gradgradcheck(lambda z: FREE[name](z, mask=mask), scores, atol=1e-4)


@every
def test_masked_scores_have_zero_gradient_and_empty_rows_no_nan(name) -> None:
    scores = (
        (torch.randn(3, 3) / 5)
        .masked_fill(torch.tensor([[False], [False], [True]]), -torch.inf)
        .requires_grad_()
    )
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    weights = FREE[name](scores, mask=mask)
    assert torch.equal(weights[1:], torch.zeros(2, 3))
    (gradient,) = torch.autograd.grad(weights, scores, torch.randn(3, 3))
    assert (gradient[~mask] == 0).all()
    assert (gradient[1:] == 0).all()
    assert (gradient[0, mask[0]] != 0).all()
    assert torch.equal(FREE[name](scores[2].detach()), torch.zeros(3))


@every
def test_any_dim_and_half_precision_are_supported(name) -> None:
    scores = torch.randn(3, 4, 5)
    mask = torch.rand(4, 1) < 0.7
    for dim in (0, 1, -2, -3):
        transposed = FREE[name](scores.movedim(dim, -1), mask=mask.expand(3, 4, 5).movedim(dim, -1)).movedim(
            -1, dim
        )
        torch.testing.assert_close(FREE[name](scores, mask=mask, dim=dim), transposed)
    for dtype, atol in ((torch.bfloat16, 4e-3), (torch.float16, 5e-4)):
        half = scores.to(dtype).requires_grad_()
        weights = FREE[name](half)
        assert weights.dtype == dtype
        torch.testing.assert_close(weights.float(), FREE[name](half.float()), atol=atol, rtol=0)
        (gradient,) = torch.autograd.grad(weights.float().square().sum(), half)
        assert gradient.dtype == dtype


@every
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4), (0,)])
def test_empty_tensors_stay_empty(name, shape) -> None:
    scores = torch.zeros(shape, requires_grad=True)
    weights = FREE[name](scores)
    assert weights.shape == shape
    assert torch.autograd.grad(weights.sum(), scores)[0].shape == shape


@every
def test_inputs_are_not_modified(name) -> None:
    problem = Problem(torch.randn(4, 5), mask=torch.rand(4, 5) < 0.5)
    before = problem.each(torch.clone)
    problem.apply(FREE[name])
    assert torch.equal(problem.scores, before.scores)
    assert torch.equal(problem.mask, before.mask)


def test_sparsemax_and_softmax_of_malaviya_et_al_2018_figure_1() -> None:
    rounds = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=DOUBLE)
    expected = torch.tensor([[0.7, 0.3, 0], [0.4, 0.6, 0], [0, 0.15, 0.85]], dtype=DOUBLE)
    torch.testing.assert_close(sparsemax(rounds), expected)
    soft = torch.tensor([[0.5217, 0.3497, 0.1286], [0.3610, 0.4409, 0.1981], [0.1820, 0.2714, 0.5466]])
    torch.testing.assert_close(softmax(rounds).float(), soft, atol=5e-5, rtol=0)


@given(problem=free_problems())
@many
def test_sparsemax_is_the_projection_onto_the_simplex(problem) -> None:
    # Optimality (Martins & Astudillo 2016, Prop. 1): p_i = z_i - tau on the support, z_i <= tau off it.
    weights, usable = problem.apply(sparsemax), problem.usable
    support = weights > 0
    tau = torch.where(support, problem.scores - weights, torch.inf).amin(-1, keepdim=True)
    assert ((problem.scores - weights - tau)[support] <= 1e-9).all()
    assert (problem.scores <= tau + 1e-9)[usable & ~support].all()
