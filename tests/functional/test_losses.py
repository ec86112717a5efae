"""Tests of the Fenchel-Young losses of sparse output distributions."""

import entmax as entmax_package
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from regard.functional import entmax, entmax15_loss, entmax_loss, sparsemax_loss

LOSSES = {
    "sparsemax": sparsemax_loss,
    "entmax15": entmax15_loss,
    "entmax 1.2": lambda z, y, **options: entmax_loss(z, y, 1.2, **options),
    "entmax 3": lambda z, y, **options: entmax_loss(z, y, 3.0, **options),
}
ALPHA = {"sparsemax": 2.0, "entmax15": 1.5, "entmax 1.2": 1.2, "entmax 3": 3.0}
every = pytest.mark.parametrize("name", LOSSES)
IGNORED = -100


def example(rows: int = 7, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, size, dtype=torch.float64, requires_grad=True), torch.randint(size, (rows,))


@every
def test_value_and_gradient_match_the_entmax_package(name) -> None:
    scores, targets = example(20, 30)
    ours = LOSSES[name](scores, targets, reduction="none")
    expected = entmax_package.entmax_bisect_loss(scores, targets, ALPHA[name])
    torch.testing.assert_close(ours, expected)
    weight = torch.randn(20, dtype=torch.float64)
    found, exact_grad = (torch.autograd.grad((each * weight).sum(), scores)[0] for each in (ours, expected))
    torch.testing.assert_close(found, exact_grad)


@every
def test_gradcheck_and_gradgradcheck(name) -> None:
    scores, targets = example()
    targets[2] = IGNORED
    assert gradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), scores)
    smooth = (0.1 * scores).detach().requires_grad_()
    assert gradgradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), smooth, atol=1e-4)


@every
def test_ignored_targets_do_not_contribute(name) -> None:
    scores, targets = example()
    kept = torch.tensor([True, False, True, True, False, True, True])
    alone = LOSSES[name](scores[kept], targets[kept])
    loss = LOSSES[name](scores, targets.masked_fill(~kept, IGNORED))
    torch.testing.assert_close(loss, alone)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert (gradient[~kept] == 0).all()
    assert (gradient[kept] != 0).any(-1).all()
    each = LOSSES[name](scores, targets.masked_fill(~kept, IGNORED), reduction="none")
    assert (each[~kept] == 0).all()
    torch.testing.assert_close(each.sum() / 5, alone)
    scores = scores.detach().masked_fill(~kept[:, None], torch.nan).requires_grad_()
    loss = LOSSES[name](scores, targets.masked_fill(~kept, IGNORED))
    torch.testing.assert_close(loss, alone)
    assert torch.autograd.grad(loss, scores)[0].isfinite().all()
    assert LOSSES[name](scores, torch.full((7,), IGNORED)) == 0


@every
def test_loss_is_zero_if_and_only_if_the_margin_is_reached(name) -> None:
    margin = 1 / (ALPHA[name] - 1)
    scores = torch.randn(200, 5)
    targets = torch.randint(5, (200,))
    others = scores.scatter(1, targets[:, None], -torch.inf).amax(1)
    # The target's score exceeds the best other score by gaps from 0 to twice the margin.
    gaps = torch.linspace(0, 2 * margin, 201)[1:]
    scores = scores.scatter(1, targets[:, None], (others + gaps)[:, None])
    losses = LOSSES[name](scores, targets, reduction="none")
    assert (losses >= 0).all()
    assert (losses[gaps > margin + 1e-5] == 0).all()
    assert (losses[gaps < 0.9 * margin] > 0).all()
    corner = entmax(scores, ALPHA[name]).gather(1, targets[:, None])[:, 0] == 1
    assert (losses[corner] == 0).all()
    for scale in (1e-3, 1, 1e4):
        scores = (torch.randn(100, 8) * scale).round()
        assert (LOSSES[name](scores, torch.randint(8, (100,)), reduction="none") >= 0).all()


@every
def test_half_precision_is_computed_in_float32(name) -> None:
    scores = torch.randn(9, 6).bfloat16().requires_grad_()
    exact = scores.detach().float().requires_grad_()
    targets = torch.randint(6, (9,))
    ours, expected = LOSSES[name](scores, targets), LOSSES[name](exact, targets)
    assert torch.equal(ours, expected)
    (found,), (exact_grad,) = torch.autograd.grad(ours, scores), torch.autograd.grad(expected, exact)
    assert torch.equal(found, exact_grad.bfloat16())


@every
def test_any_leading_shape_and_masked_classes(name) -> None:
    scores, targets = torch.randn(2, 3, 5), torch.randint(4, (2, 3))
    flat = LOSSES[name](scores.flatten(0, 1), targets.flatten(), reduction="none")
    assert torch.equal(LOSSES[name](scores, targets, reduction="none"), flat.view(2, 3))
    torch.testing.assert_close(LOSSES[name](scores[0, 0], targets[0, 0]), flat[0])
    scores[..., 4] = -torch.inf
    shorter = LOSSES[name](scores[..., :4], targets)
    torch.testing.assert_close(LOSSES[name](scores, targets), shorter)


@every
def test_torch_func_equals_the_batched_loss(name) -> None:
    scores, targets = example()
    loss = LOSSES[name]
    gradients = torch.func.vmap(torch.func.grad(lambda z, y: loss(z, y)))(scores.detach(), targets)
    (expected,) = torch.autograd.grad(loss(scores, targets, reduction="sum"), scores)
    torch.testing.assert_close(gradients, expected)
