"""Laws of the Fenchel-Young losses of sparse output distributions."""

import entmax as entmax_package
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from regard.functional import entmax15, entmax15_loss, sparsemax, sparsemax_loss

LOSSES = {"sparsemax": sparsemax_loss, "entmax15": entmax15_loss}
MAPS = {"sparsemax": sparsemax, "entmax15": entmax15}
MARGIN = {"sparsemax": 1.0, "entmax15": 2.0}  # 1 / (alpha - 1)
every = pytest.mark.parametrize("name", LOSSES)
IGNORED = -100


def made(rows: int = 7, size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, size, dtype=torch.float64, requires_grad=True), torch.randint(size, (rows,))


@every
def test_value_and_gradient_equal_those_of_the_entmax_package(name) -> None:
    theirs = {"sparsemax": entmax_package.SparsemaxLoss, "entmax15": entmax_package.Entmax15Loss}[name](
        reduction="none"
    )
    scores, targets = made(20, 30)
    ours, expected = LOSSES[name](scores, targets, reduction="none"), theirs(scores, targets)
    torch.testing.assert_close(ours, expected)
    weight = torch.randn(20, dtype=torch.float64)
    found, wanted = (torch.autograd.grad((each * weight).sum(), scores)[0] for each in (ours, expected))
    torch.testing.assert_close(found, wanted)


@every
def test_the_gradient_is_prediction_less_target(name) -> None:
    scores, targets = made()
    (gradient,) = torch.autograd.grad(LOSSES[name](scores, targets, reduction="sum"), scores)
    torch.testing.assert_close(gradient, MAPS[name](scores) - torch.nn.functional.one_hot(targets, 6))


@every
def test_first_and_second_derivatives_are_those_of_finite_differences(name) -> None:
    scores, targets = made()
    targets[2] = IGNORED
    assert gradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), scores)
    assert gradgradcheck(lambda z: LOSSES[name](z, targets, reduction="none"), scores)
    assert gradgradcheck(lambda z: LOSSES[name](z, targets), scores)


@every
def test_ignored_targets_count_for_nothing(name) -> None:
    scores, targets = made()
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
def test_with_every_target_ignored_loss_and_gradient_are_zero(name) -> None:
    scores, _ = made()
    loss = LOSSES[name](scores, torch.full((7,), IGNORED))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss == 0
    assert (gradient == 0).all()


@every
def test_ignored_rows_of_nan_do_no_harm(name) -> None:
    scores = torch.tensor([[1.0, 2.0], [torch.nan, 0.0]], requires_grad=True)
    loss = LOSSES[name](scores, torch.tensor([0, IGNORED]))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@every
def test_it_is_zero_exactly_from_the_margin_on(name) -> None:
    scores = torch.randn(200, 5)
    targets = torch.randint(5, (200,))
    others = scores.scatter(1, targets[:, None], -torch.inf).amax(1)
    gaps = torch.linspace(0, 2 * MARGIN[name], 201)[1:]
    scores = scores.scatter(1, targets[:, None], (others + gaps)[:, None])
    losses = LOSSES[name](scores, targets, reduction="none")
    assert (losses >= 0).all()
    assert (losses[gaps > MARGIN[name] + 1e-5] == 0).all()
    assert (losses[gaps < MARGIN[name] - 1e-2] > 0).all()
    corner = MAPS[name](scores).gather(1, targets[:, None])[:, 0] == 1
    assert (losses[corner] == 0).all()


@every
def test_it_is_never_negative(name) -> None:
    for scale in (1e-3, 1, 1e4):
        scores = (torch.randn(100, 8) * scale).round()
        assert (LOSSES[name](scores, torch.randint(8, (100,)), reduction="none") >= 0).all()


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precisions_are_computed_in_float32(name, dtype) -> None:
    scores = torch.randn(9, 6).to(dtype).requires_grad_()
    exact = scores.detach().float().requires_grad_()
    targets = torch.randint(6, (9,))
    ours, expected = LOSSES[name](scores, targets), LOSSES[name](exact, targets)
    assert torch.equal(ours, expected)
    (found,) = torch.autograd.grad(ours, scores)
    (wanted,) = torch.autograd.grad(expected, exact)
    assert torch.equal(found, wanted.to(dtype))


@every
def test_any_leading_shape_and_impossible_classes(name) -> None:
    scores, targets = torch.randn(2, 3, 5), torch.randint(4, (2, 3))
    flat = LOSSES[name](scores.flatten(0, 1), targets.flatten(), reduction="none")
    assert torch.equal(LOSSES[name](scores, targets, reduction="none"), flat.view(2, 3))
    assert torch.equal(LOSSES[name](scores[0, 0], targets[0, 0]), flat[0])
    scores[..., 4] = -torch.inf
    shorter = LOSSES[name](scores[..., :4], targets)
    torch.testing.assert_close(LOSSES[name](scores, targets), shorter)


@every
def test_under_torch_func_it_equals_the_plain_loop(name) -> None:
    scores, targets = made()
    loss = LOSSES[name]
    gradients = torch.func.vmap(torch.func.grad(lambda z, y: loss(z, y)))(scores.detach(), targets)
    (expected,) = torch.autograd.grad(loss(scores, targets, reduction="sum"), scores)
    torch.testing.assert_close(gradients, expected)


def test_an_unknown_reduction_is_refused() -> None:
    # With shape checks on, beartype is first to refuse it.
    with pytest.raises((ValueError, TypeError), match="reduction"):
        sparsemax_loss(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64), reduction="average")
