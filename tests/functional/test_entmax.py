"""Tests of entmax against the `entmax` package (Peters et al. 2019), and of its alpha."""

import entmax as entmax_package
import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck, gradgradcheck

from problems import free_problems
from regard.functional import entmax, entmax15, sparsemax
from regard.functional.dispatch import apply_to_largest

DOUBLE = torch.float64
many = settings(max_examples=40)
OURS = {"sparsemax": sparsemax, "entmax15": entmax15}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("scale", [0.1, 1, 10])
def test_value_and_gradient_match_the_entmax_package(name, dtype, scale) -> None:
    scores = (torch.randn(30, 40, dtype=dtype) * scale).requires_grad_()
    ours, theirs = OURS[name](scores), getattr(entmax_package, name)(scores, dim=-1)
    assert_equal_with_gradients(ours, theirs, scores, 1e-4 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("alpha", [1.05, 1.3, 1.5, 1.9, 2.0, 2.7, 4.0])
@pytest.mark.parametrize("size", [12, 1000])
def test_alpha_matches_bisection_of_the_entmax_package(alpha, size) -> None:
    scores = torch.randn(30, size, dtype=DOUBLE)
    scores[0] /= 100  # its support is the whole row
    powers = torch.full((), alpha, dtype=DOUBLE)
    ours = entmax(scores.requires_grad_(), powers)
    theirs = entmax_package.entmax_bisect(scores, alpha, n_iter=60)
    assert_equal_with_gradients(ours, theirs, scores, 1e-6)


def assert_equal_with_gradients(ours, theirs, scores: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours, theirs, atol=2e-6 if ours.dtype == torch.float32 else 1e-8, rtol=0)
    upstream = torch.randn_like(ours)
    found, expected = (torch.autograd.grad(each, scores, upstream)[0] for each in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("alpha", [1.1, 1.4, 2.3, 3.5])
def test_gradcheck_in_scores_and_alpha(alpha) -> None:
    scores = torch.randn(4, 6, dtype=DOUBLE, requires_grad=True)
    mask = torch.rand(4, 6) < 0.8
    power = torch.tensor(alpha, dtype=DOUBLE, requires_grad=True)
    assert gradcheck(lambda z, a: entmax(z, a, mask=mask), (scores, power))
    each = (alpha + 0.1 * torch.rand(4, 1, dtype=DOUBLE)).requires_grad_()
    assert gradcheck(lambda z, a: entmax(z, a, mask=mask), (scores, each))
    smooth = torch.randn(3, 4, dtype=DOUBLE).mul(0.2).requires_grad_()  # of full support
    assert gradgradcheck(entmax, (smooth, power), atol=1e-4)


def test_alpha_broadcasts_over_rows_for_any_dim() -> None:
    scores = torch.randn(2, 3, 5, 4, dtype=DOUBLE)
    alphas = 1 + torch.rand(3, 1, 1, dtype=DOUBLE)  # one alpha per head
    found = entmax(scores, alphas)
    for head in range(3):
        torch.testing.assert_close(found[:, head], entmax(scores[:, head], alphas[head, 0, 0]))
    turned = entmax(scores.movedim(-1, 1), alphas.squeeze(-1)[None, None], dim=1)
    torch.testing.assert_close(turned.movedim(1, -1), found)
    with pytest.raises(ValueError, match="alpha has 3 values along dim -1"):
        entmax(torch.zeros(2, 3), torch.full((3,), 1.5))


@given(problem=free_problems())
@many
def test_restriction_to_the_largest_scores_does_not_change_the_result(problem) -> None:
    scores = problem.scores.masked_fill(~problem.usable, -torch.inf).requires_grad_()
    expected, upstream = entmax(scores, 1.3), torch.randn(scores.shape, dtype=DOUBLE)
    (gradient,) = torch.autograd.grad(expected, scores, upstream)
    for k in (1, 2, 5):
        weights = apply_to_largest(lambda z: entmax(z, 1.3), scores, k)
        torch.testing.assert_close(weights, expected, atol=1e-9, rtol=0)
        torch.testing.assert_close(
            torch.autograd.grad(weights, scores, upstream)[0], gradient, atol=1e-9, rtol=1e-7
        )
