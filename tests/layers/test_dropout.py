import torch

from regard.layers.dropout import dropout


def test_the_share_dropped_and_the_expectation_are_as_asked() -> None:
    x = torch.ones(1000, 1001)
    found = dropout(x, 0.3, training=True)
    # One million draws: five standard errors are 0.0023 (share) and 0.0033 (mean).
    assert abs((found == 0).double().mean() - 0.3) < 0.0025
    assert abs(found.double().mean() - 1) < 0.0035


def test_evaluation_and_probability_zero_leave_the_input() -> None:
    x = torch.randn(3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x


def test_noise_comes_from_the_global_generator() -> None:
    x = torch.randn(5, 7)
    torch.manual_seed(3)
    first = dropout(x, 0.5, training=True)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5, training=True), first)


def test_the_gradient_is_the_noise() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    found = dropout(x, 0.5, training=True)
    found.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), found.detach())


def test_half_precision_stays_half() -> None:
    assert dropout(torch.randn(4, dtype=torch.bfloat16), 0.5, training=True).dtype == torch.bfloat16
