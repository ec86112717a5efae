"""Laws of all transformations of scores into distributions."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from problems import BOUNDED, FREE, Problem, assert_distributions, bounded_problems, free_problems
from regard.functional import sparsemax
from regard.kernels.backend import use_backend

DOUBLE = torch.float64
NORMALIZERS = {**FREE, **BOUNDED}
every = pytest.mark.parametrize("name", NORMALIZERS)
free = pytest.mark.parametrize("name", FREE)
versions = pytest.mark.parametrize("version", ["auto", "reference"])
many = settings(max_examples=40)


def problems(data, name: str) -> Problem:
    return data.draw(free_problems() if name in FREE else bounded_problems())


@every
@given(data=st.data())
@many
def test_rows_are_distributions_within_the_bounds(name, data) -> None:
    problem = problems(data, name).to(torch.float32)
    assert_distributions(problem, problem.apply(NORMALIZERS[name]), 1e-6)


@every
@given(data=st.data())
@many
def test_masked_equals_shortened_and_batch_equals_single(name, data) -> None:
    problem = problems(data, name)
    weights = problem.apply(NORMALIZERS[name])
    for row, keep in enumerate(problem.usable):
        if keep.any():
            alone = replace(problem.each(lambda one, row=row, keep=keep: one[row, keep]), mask=None)
            found = alone.apply(NORMALIZERS[name])
            torch.testing.assert_close(weights[row, keep], found, atol=1e-12, rtol=1e-9)


@every
@given(data=st.data())
@many
def test_shift_invariance_and_permutation_equivariance(name, data) -> None:
    problem = problems(data, name)
    weights = problem.apply(NORMALIZERS[name])
    shifted = problem.apply(NORMALIZERS[name], problem.scores + 3)
    torch.testing.assert_close(shifted, weights, atol=1e-10, rtol=0)
    if name == "fusedmax":  # depends on the order of the positions
        return
    order = torch.randperm(weights.shape[-1])
    permuted = problem.each(lambda one: one[:, order]).apply(NORMALIZERS[name])
    torch.testing.assert_close(permuted, weights[:, order], atol=1e-11, rtol=0)


@every
@versions
@given(data=st.data())
@many
def test_gradients_are_zero_for_constant_upstream_and_at_masked_positions(name, version, data) -> None:
    problem = problems(data, name)
    problem = problem.each(lambda one: one if one.dtype == torch.bool else one.clone().requires_grad_())
    inputs = [each for each in (problem.scores, problem.upper, problem.lower) if each is not None]
    with use_backend(version):
        weights = problem.apply(NORMALIZERS[name])
        constant = torch.autograd.grad(weights, inputs, torch.full_like(weights, 3.0), retain_graph=True)
        gradients = torch.autograd.grad(weights, inputs, torch.randn_like(weights))
    for zero, gradient in zip(constant, gradients, strict=True):
        torch.testing.assert_close(zero, torch.zeros_like(zero), atol=1e-9, rtol=0)
        assert gradient.isfinite().all() and (gradient[~problem.usable] == 0).all()


@free
@versions
def test_gradcheck_and_gradgradcheck(name, version) -> None:
    scores = torch.randn(5, 6, dtype=DOUBLE, requires_grad=True)
    mask = torch.rand(5, 6) < 0.8
    with use_backend(version):
        assert gradcheck(lambda z: FREE[name](z, mask=mask), scores)
        assert gradgradcheck(lambda z: FREE[name](z, mask=mask), scores, atol=1e-4)


@free
def test_half_precision_is_supported(name) -> None:
    scores = torch.randn(3, 4, 5)
    for dtype, atol in ((torch.bfloat16, 4e-3), (torch.float16, 5e-4)):
        half = scores.to(dtype).requires_grad_()
        weights = FREE[name](half)
        assert weights.dtype == dtype
        torch.testing.assert_close(weights.float(), FREE[name](half.float()), atol=atol, rtol=0)
        assert torch.autograd.grad(weights.float().square().sum(), half)[0].dtype == dtype


@every
@versions
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4), (0,)])
def test_empty_tensors_stay_empty(name, version, shape) -> None:
    scores, upper = torch.zeros(shape, requires_grad=True), torch.ones(shape, requires_grad=True)
    inputs = (scores,) if name in FREE else (scores, upper)
    with use_backend(version):
        weights = NORMALIZERS[name](*inputs)
        for each in (weights, *torch.autograd.grad(weights.sum(), inputs)):
            assert each.shape == shape


@every
def test_inputs_are_not_modified(name) -> None:
    problem = Problem(torch.randn(4, 5), mask=torch.rand(4, 5) < 0.5)
    if name in BOUNDED:
        problem = replace(problem, upper=torch.full((4, 5), 1.5))
    before = problem.each(torch.clone)
    problem.apply(NORMALIZERS[name])
    for one, other in ((problem.scores, before.scores), (problem.mask, before.mask)):
        assert torch.equal(one, other)


@given(problem=free_problems())
@many
def test_sparsemax_is_the_projection_onto_the_simplex(problem) -> None:
    # Optimality (Martins & Astudillo 2016, Prop. 1): p_i = z_i - tau on the support, z_i <= tau off it.
    weights, usable = problem.apply(sparsemax), problem.usable
    support = weights > 0
    tau = torch.where(support, problem.scores - weights, torch.inf).amin(-1, keepdim=True)
    assert ((problem.scores - weights - tau)[support] <= 1e-9).all()
    assert (problem.scores <= tau + 1e-9)[usable & ~support].all()
