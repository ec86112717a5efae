"""Tests of the modules against the functions of the same name."""

import pytest
import torch

from regard import functional, nn

SCORES, MASK = torch.randn(3, 4, 5), torch.rand(3, 4, 5) < 0.7
MASK[..., 0] = True
UPPER, LOWER = 0.5 + torch.rand(3, 4, 5), torch.full((3, 4, 5), 0.1)
NORMALIZERS = {
    "Softmax(dim=1)": (nn.Softmax(1), functional.softmax, {"dim": 1}),
    "Sparsemax(dim=1)": (nn.Sparsemax(1), functional.sparsemax, {"dim": 1}),
    "Entmax15(dim=1)": (nn.Entmax15(1), functional.entmax15, {"dim": 1}),
    "Entmax(alpha=1.7, learnable=False, dim=1)": (
        nn.Entmax(1.7, 1),
        functional.entmax,
        {"alpha": 1.7, "dim": 1},
    ),
    "Fusedmax(strength=0.3, dim=1)": (nn.Fusedmax(0.3, 1), functional.fusedmax, {"strength": 0.3, "dim": 1}),
}
LOSSES = {
    "SparsemaxLoss(": (nn.SparsemaxLoss(2, "sum"), functional.sparsemax_loss, {}),
    "Entmax15Loss(": (nn.Entmax15Loss(2, "sum"), functional.entmax15_loss, {}),
    "EntmaxLoss(alpha=1.3, ": (nn.EntmaxLoss(1.3, 2, "sum"), functional.entmax_loss, {"alpha": 1.3}),
}


@pytest.mark.parametrize("text", NORMALIZERS)
def test_normalizers_equal_their_functions(text) -> None:
    module, function, options = NORMALIZERS[text]
    assert torch.equal(module(SCORES, mask=MASK), function(SCORES, mask=MASK, **options))
    assert repr(module) == text


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_constrained_modules_equal_their_functions(name) -> None:
    module = {"softmax": nn.ConstrainedSoftmax, "sparsemax": nn.ConstrainedSparsemax}[name](1)
    function = getattr(functional, f"constrained_{name}")
    assert torch.equal(module(SCORES, UPPER), function(SCORES, UPPER, dim=1))
    assert torch.equal(module(SCORES, UPPER, LOWER), function(SCORES, UPPER, LOWER, 1))
    scan = {"softmax": nn.ConstrainedSoftmaxScan, "sparsemax": nn.ConstrainedSparsemaxScan}[name](0.5)
    expected = getattr(functional, f"constrained_{name}_scan")(SCORES, 9.0, exhaustion=0.5, mask=MASK)
    assert torch.equal(scan(SCORES, 9.0, mask=MASK), expected)
    assert repr(scan).endswith("Scan(exhaustion=0.5)")


@pytest.mark.parametrize("text", LOSSES)
def test_losses_equal_their_functions(text) -> None:
    module, function, options = LOSSES[text]
    scores, targets = torch.randn(4, 5), torch.tensor([0, 4, 2, 1])
    expected = function(scores, targets, ignore_index=2, reduction="sum", **options)
    assert torch.equal(module(scores, targets), expected)
    assert repr(module) == f"{text}ignore_index=2, reduction='sum')"


def test_learned_alpha_receives_a_gradient_and_stays_in_range() -> None:
    scores = torch.randn(3, 4)
    module = nn.Entmax(1.7, learnable=True)
    torch.testing.assert_close(module(scores), functional.entmax(scores, 1.7))
    module(scores)[:, 0].sum().backward()
    assert module.logit.grad.isfinite() and module.logit.grad != 0
    # alpha = 1 + 3 sigmoid(logit), and the sigmoid saturates at these values.
    for extreme in (-1e4, 1e4):
        torch.nn.init.constant_(module.logit, extreme)
        assert 1 < module.alpha.item() <= 4
        assert module(scores).isfinite().all()


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Entmax(1.0),
        lambda: nn.Entmax(4.0, learnable=True),
        lambda: nn.EntmaxLoss(4.5),
        lambda: nn.Fusedmax(-0.1),
    ],
)
def test_setting_out_of_range_raises_when_the_module_is_built(build) -> None:
    with pytest.raises(ValueError, match="but"):
        build()
