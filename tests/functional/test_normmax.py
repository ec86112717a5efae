"""Tests of normmax, and of the losses of any alpha."""

import entmax as entmax_package
import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck, gradgradcheck

from problems import free_problems
from regard import nn
from regard.functional import (
    entmax,
    entmax_loss,
    normmax,
    normmax_loss,
)

DOUBLE = torch.float64
many = settings(max_examples=40)
LOSSES = {
    "entmax 1.2": (lambda z, y, **o: entmax_loss(z, y, 1.2, **o), lambda z: entmax(z, 1.2), 1 / 0.2),
    "entmax 3": (lambda z, y, **o: entmax_loss(z, y, 3.0, **o), lambda z: entmax(z, 3.0), 1 / 2),
    "normmax 2": (normmax_loss, normmax, 1.0),
    "normmax 5": (lambda z, y, **o: normmax_loss(z, y, 5.0, **o), lambda z: normmax(z, 5.0), 1.0),
}


@pytest.mark.parametrize("alpha", [1.2, 2.0, 5.0, 10.0])
def test_value_and_gradient_match_the_entmax_package(alpha) -> None:
    scores = torch.randn(20, 8, dtype=DOUBLE, requires_grad=True)
    ours = normmax(scores, alpha)
    theirs = entmax_package.normmax_bisect(scores, torch.tensor(alpha, dtype=DOUBLE), n_iter=60)
    torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)
    upstream = torch.randn(20, 8, dtype=DOUBLE)
    found, expected = (torch.autograd.grad(one, scores, upstream)[0] for one in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


@given(problem=free_problems())
@many
def test_normmax_meets_the_optimality_conditions(problem) -> None:
    """z - tau = (p / |p|)^(alpha - 1) on the support, and z <= tau elsewhere."""
    for alpha in (1.5, 2.0, 4.0):
        weights = normmax(problem.scores, alpha, mask=problem.mask)
        for z, p, keep in zip(problem.scores, weights, problem.usable, strict=True):
            assert (p[~keep] == 0).all()
            if not keep.any() or z[keep].abs().max() > 100:
                continue
            z, p = z[keep], p[keep]
            assert float(p.sum()) == pytest.approx(1)
            levels = z - (p / torch.linalg.vector_norm(p, alpha)) ** (alpha - 1)
            tau = levels[p.argmax()]
            torch.testing.assert_close(levels[p > 0], tau.expand_as(levels[p > 0]), atol=1e-7, rtol=0)
            assert (z[p == 0] <= tau + 1e-7).all()


def test_gradients_of_normmax_are_numerical_gradients() -> None:
    scores = torch.randn(4, 6, dtype=DOUBLE, requires_grad=True)
    alphas = torch.tensor([[1.3], [2.0], [3.0], [4.0]], dtype=DOUBLE)
    assert gradcheck(lambda z: normmax(z, alphas), scores)
    assert gradcheck(lambda z: normmax(z, 1.7, 0, mask=torch.eye(6)[:4] == 0), scores)
    smooth = (0.1 * torch.randn(3, 4, dtype=DOUBLE)).requires_grad_()
    assert gradgradcheck(lambda z: normmax(z, 2.5), smooth, atol=1e-4)


def test_normmax_in_float32_and_with_large_alpha() -> None:
    """The values are those of the tests of the `entmax` package."""
    scores = torch.tensor([0, 0.25, 0.5, 0.75, 1])
    expected = torch.tensor([0.0000, 0.0239, 0.1746, 0.3254, 0.4761])
    torch.testing.assert_close(normmax(scores), expected, atol=1e-4, rtol=0)
    expected = torch.tensor([0.0000, 0.0000, 0.3330, 0.3334, 0.3336])
    torch.testing.assert_close(normmax(scores, 1000.0), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2e4, float("nan")])
def test_alpha_out_of_range_is_refused(alpha) -> None:
    zeros, targets = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)
    calls = [
        lambda: normmax(zeros, alpha),
        lambda: normmax(zeros, torch.tensor(alpha)),
        lambda: normmax_loss(zeros, targets, alpha),
        lambda: nn.Normmax(alpha),
        lambda: nn.NormmaxLoss(alpha),
        lambda: entmax_loss(zeros, targets, alpha),
        lambda: nn.EntmaxLoss(alpha),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="alpha is"):
            call()
    with pytest.raises(ValueError, match=r"below 1 no weight would be 0"):
        entmax(zeros, 0.5)
    with pytest.raises(ValueError, match=r"alpha\.detach"):
        normmax(zeros, torch.tensor(2.0, requires_grad=True))


# --- losses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
def test_loss_matches_its_transformation(name) -> None:
    loss, predict, margin = LOSSES[name]
    scores = torch.randn(8, 6, dtype=DOUBLE, requires_grad=True)
    targets = torch.randint(6, (8,))
    losses = loss(scores, targets, reduction="none")
    assert (losses > 0).all()
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    torch.testing.assert_close(gradient, predict(scores) - torch.nn.functional.one_hot(targets, 6))
    assert gradcheck(lambda z: loss(z, targets, reduction="none"), scores)
    # 0 from the margin on, positive below it.
    for gap, positive in ((1.001 * margin, False), (0.9 * margin, True)):
        far = torch.zeros(1, 6, dtype=DOUBLE)
        far[0, 2] = gap
        assert bool(loss(far, torch.tensor([2])) > 1e-12) == positive


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0, 3.0])
def test_losses_match_the_entmax_package(alpha) -> None:
    scores, targets = torch.randn(10, 7, dtype=DOUBLE), torch.randint(7, (10,))
    theirs = entmax_package.entmax_bisect_loss(scores, targets, alpha)
    torch.testing.assert_close(entmax_loss(scores, targets, alpha, reduction="none"), theirs)
    torch.testing.assert_close(nn.EntmaxLoss(alpha, reduction="none")(scores, targets), theirs)
    theirs = entmax_package.normmax_bisect_loss(scores, targets, alpha)
    torch.testing.assert_close(normmax_loss(scores, targets, alpha, reduction="none"), theirs)
    torch.testing.assert_close(nn.NormmaxLoss(alpha, reduction="none")(scores, targets), theirs)


def test_second_derivatives_of_losses() -> None:
    scores, targets = (0.1 * torch.randn(3, 4, dtype=DOUBLE)).requires_grad_(), torch.tensor([0, 1, -100])
    for loss, _, _ in LOSSES.values():
        assert gradgradcheck(lambda z, loss=loss: loss(z, targets, reduction="none"), scores, atol=1e-4)
