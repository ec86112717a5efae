"""Tests of the modules against the functions of the same name."""

import pytest
import torch

from regard import functional, nn

UNCONSTRAINED = ["Softmax", "Sparsemax", "Entmax15"]
BOUNDED = ["ConstrainedSoftmax", "ConstrainedSparsemax"]
FUNCTIONS = {
    "Softmax": functional.softmax,
    "Sparsemax": functional.sparsemax,
    "Entmax15": functional.entmax15,
    "ConstrainedSoftmax": functional.constrained_softmax,
    "ConstrainedSparsemax": functional.constrained_sparsemax,
    "ConstrainedSoftmaxScan": functional.constrained_softmax_scan,
    "ConstrainedSparsemaxScan": functional.constrained_sparsemax_scan,
    "SparsemaxLoss": functional.sparsemax_loss,
    "Entmax15Loss": functional.entmax15_loss,
}


@pytest.mark.parametrize("name", UNCONSTRAINED)
@pytest.mark.parametrize("dim", [-1, 0])
def test_unconstrained_modules_equal_their_functions(name, dim) -> None:
    scores, mask = torch.randn(3, 4), torch.rand(3, 4) < 0.7
    module = getattr(nn, name)(dim=dim)
    assert torch.equal(module(scores, mask=mask), FUNCTIONS[name](scores, mask=mask, dim=dim))
    assert repr(module) == f"{name}(dim={dim})"


@pytest.mark.parametrize("name", BOUNDED)
def test_constrained_modules_equal_their_functions(name) -> None:
    scores, upper, lower = torch.randn(3, 4), 0.3 + torch.rand(3, 4), torch.full((3, 4), 0.1)
    module, function = getattr(nn, name)(), FUNCTIONS[name]
    assert torch.equal(module(scores, upper), function(scores, upper))
    assert torch.equal(module(scores, upper, lower), function(scores, upper, lower))


@pytest.mark.parametrize("name", ["ConstrainedSoftmaxScan", "ConstrainedSparsemaxScan"])
def test_scans_equal_their_functions(name) -> None:
    scores, fertility = torch.randn(2, 3, 4), torch.full((2, 4), 2.0)
    module = getattr(nn, name)(exhaustion=0.5)
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    expected = FUNCTIONS[name](scores, fertility, exhaustion=0.5, mask=mask)
    assert torch.equal(module(scores, fertility, mask=mask), expected)
    assert repr(module) == f"{name}(exhaustion=0.5)"


@pytest.mark.parametrize("name", ["SparsemaxLoss", "Entmax15Loss"])
def test_losses_equal_their_functions(name) -> None:
    scores, targets = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    module = getattr(nn, name)(ignore_index=2, reduction="sum")
    assert torch.equal(
        module(scores, targets), FUNCTIONS[name](scores, targets, ignore_index=2, reduction="sum")
    )
    assert repr(module) == f"{name}(ignore_index=2, reduction='sum')"


def test_entmax_alpha_is_fixed_or_learnable() -> None:
    scores = torch.randn(3, 4)
    fixed = nn.Entmax(1.7)
    assert torch.equal(fixed(scores), functional.entmax(scores, 1.7))
    assert not list(fixed.parameters())
    assert repr(fixed) == "Entmax(alpha=1.7, learnable=False, dim=-1)"
    learned = nn.Entmax(1.7, learnable=True)
    torch.testing.assert_close(learned(scores), fixed(scores))
    learned(scores)[:, 0].sum().backward()
    (logit,) = learned.parameters()
    assert logit.grad.isfinite()
    assert logit.grad != 0


def test_learned_alpha_stays_in_range() -> None:
    module = nn.Entmax(learnable=True)
    # alpha = 1 + 3 sigmoid(logit), and the sigmoid saturates at these values.
    for extreme in (-1e4, 1e4):
        torch.nn.init.constant_(module.logit, extreme)
        assert 1 < module.alpha.item() <= 4
        assert module(torch.randn(3, 4)).isfinite().all()


@pytest.mark.parametrize("alpha", [1.0, 4.5])
def test_alpha_out_of_range_raises(alpha) -> None:
    with pytest.raises(ValueError, match="alpha is"):
        nn.Entmax(alpha)
    with pytest.raises(ValueError, match="alpha is"):
        nn.Entmax(4.0, learnable=True)
