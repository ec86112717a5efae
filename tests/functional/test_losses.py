"""Tests of the Fenchel-Young losses of sparse output distributions."""

import entmax as entmax_package
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from regard.functional import entmax15, entmax15_loss, sparsemax, sparsemax_loss

LOSSES = {"sparsemax": sparsemax_loss, "entmax15": entmax15_loss}
NORMALIZERS = {"sparsemax": sparsemax, "entmax15": entmax15}
MARGIN = {"sparsemax": 1.0, "entmax15": 2.0}  # 1 / (alpha - 1)
every = pytest.mark.parametrize("name", LOSSES)
IGNORED = -100


def example(rows: int = 7, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, size, dtype=torch.float64, requires_grad=True), torch.randint(size, (rows,))


@every
def test_value_and_gradient_match_the_entmax_package(name) -> None:
    theirs = {"sparsemax": entmax_package.SparsemaxLoss, "entmax15": entmax_package.Entmax15Loss}[name](
        reduction="none"
    )
    scores, targets = example(20, 30)
    ours, expected = LOSSES[name](scores, targets, reduction="none"), theirs(scores, targets)
    torch.testing.assert_close(ours, expected)
    weight = torch.randn(20, dtype=torch.float64)
    found, exact_grad = (torch.autograd.grad((each * weight).sum(), scores)[0] for each in (ours, expected))
    torch.testing.assert_close(found, exact_grad)


@every
def test_gradient_is_prediction_minus_target(name) -> None:
    scores, targets = example()
    (gradient,) = torch.autograd.grad(LOSSES[name](scores, targets, reduction="sum"), scores)
    torch.testing.assert_close(gradient, NORMALIZERS[name](scores) - torch.nn.functional.one_hot(targets, 6))


@every
def test_gradcheck_and_gradgradcheck(name) -> None:
    scores, targets = example()
    targets[2] = IGNORED
    assert gradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), scores)
    assert gradgradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), scores)
    assert gradgradcheck(lambda z: LOSSES[name](z, targets), scores)


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


@every
def test_all_targets_ignored_gives_zero_loss_and_gradient(name) -> None:
    scores, _ = example()
    loss = LOSSES[name](scores, torch.full((7,), IGNORED))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss == 0
    assert (gradient == 0).all()


@every
def test_nan_in_ignored_rows_does_not_propagate(name) -> None:
    scores = torch.tensor([[1.0, 2.0], [torch.nan, 0.0]], requires_grad=True)
    loss = LOSSES[name](scores, torch.tensor([0, IGNORED]))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@every
def test_loss_is_zero_if_and_only_if_the_margin_is_reached(name) -> None:
    scores = torch.randn(200, 5)
    targets = torch.randint(5, (200,))
    others = scores.scatter(1, targets[:, None], -torch.inf).amax(1)
    # The target's score exceeds the best other score by gaps from 0 to twice the margin.
    gaps = torch.linspace(0, 2 * MARGIN[name], 201)[1:]
    scores = scores.scatter(1, targets[:, None], (others + gaps)[:, None])
    losses = LOSSES[name](scores, targets, reduction="none")
    assert (losses >= 0).all()
    assert (losses[gaps > MARGIN[name] + 1e-5] == 0).all()
    assert (losses[gaps < MARGIN[name] - 1e-2] > 0).all()
    corner = NORMALIZERS[name](scores).gather(1, targets[:, None])[:, 0] == 1
    assert (losses[corner] == 0).all()


@every
def test_loss_is_nonnegative(name) -> None:
    for scale in (1e-3, 1, 1e4):
        scores = (torch.randn(100, 8) * scale).round()
        assert (LOSSES[name](scores, torch.randint(8, (100,)), reduction="none") >= 0).all()


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(name, dtype) -> None:
    scores = torch.randn(9, 6).to(dtype).requires_grad_()
    exact = scores.detach().float().requires_grad_()
    targets = torch.randint(6, (9,))
    ours, expected = LOSSES[name](scores, targets), LOSSES[name](exact, targets)
    assert torch.equal(ours, expected)
    (found,) = torch.autograd.grad(ours, scores)
    (exact_grad,) = torch.autograd.grad(expected, exact)
    assert torch.equal(found, exact_grad.to(dtype))


@every
def test_any_leading_shape_and_masked_classes(name) -> None:
    scores, targets = torch.randn(2, 3, 5), torch.randint(4, (2, 3))
    flat = LOSSES[name](scores.flatten(0, 1), targets.flatten(), reduction="none")
    assert torch.equal(LOSSES[name](scores, targets, reduction="none"), flat.view(2, 3))
    assert torch.equal(LOSSES[name](scores[0, 0], targets[0, 0]), flat[0])
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


def test_unknown_reduction_raises() -> None:
    # If shape checks are enabled, beartype raises first.
    with pytest.raises((ValueError, TypeError), match="reduction"):
        sparsemax_loss(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), reduction="average")
