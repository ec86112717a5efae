import pytest
import torch

from regard.functional import linear_log_likelihood

DOUBLE = torch.float64


def plain(hidden, weight, bias, targets):
    log_probs = torch.log_softmax(hidden @ weight.t() + bias, dim=-1)
    return log_probs.gather(1, targets.unsqueeze(1)).squeeze(1), log_probs.mean(-1)


@pytest.mark.parametrize("budget", [1 << 20, 22, 1])
def test_values_and_gradients_are_those_of_log_softmax(budget) -> None:
    inputs = [torch.randn(s, dtype=DOUBLE, requires_grad=True) for s in ((7, 5), (11, 5), (11,))]
    targets = torch.randint(11, (7,))
    ours = linear_log_likelihood(*inputs, targets, average=True, budget=budget)
    theirs = plain(*inputs, targets)
    goal = torch.randn(2, 7, dtype=DOUBLE)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    mine = torch.autograd.grad((ours[0] * goal[0] + ours[1] * goal[1]).sum(), inputs)
    its = torch.autograd.grad((theirs[0] * goal[0] + theirs[1] * goal[1]).sum(), inputs)
    for a, b in zip(mine, its, strict=True):
        torch.testing.assert_close(a, b)


def test_without_the_average_only_the_target_counts() -> None:
    inputs = [torch.randn(s, dtype=DOUBLE, requires_grad=True) for s in ((4, 3), (6, 3), (6,))]
    targets = torch.randint(6, (4,))
    assert torch.autograd.gradcheck(lambda *x: linear_log_likelihood(*x, targets)[0], inputs)


def test_scores_of_ten_thousand_neither_overflow_nor_vanish() -> None:
    hidden = torch.tensor([[1e4], [-1e4]])
    weight, bias = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    found, _ = linear_log_likelihood(hidden, weight, bias, torch.tensor([0, 0]))
    torch.testing.assert_close(found, torch.tensor([0.0, -2e4]))


def test_no_tokens_give_no_values_and_zero_gradients() -> None:
    hidden, weight, bias = torch.zeros(0, 3), torch.randn(5, 3, requires_grad=True), torch.zeros(5)
    found, _ = linear_log_likelihood(hidden.requires_grad_(), weight, bias, torch.zeros(0, dtype=torch.int64))
    found.sum().backward()
    assert found.shape == (0,) and torch.equal(weight.grad, torch.zeros_like(weight))


def test_a_second_backward_pass_gives_the_same_gradient() -> None:
    inputs = [torch.randn(s, dtype=DOUBLE, requires_grad=True) for s in ((4, 3), (6, 3), (6,))]
    value = linear_log_likelihood(*inputs, torch.randint(6, (4,)))[0].sum()
    first = torch.autograd.grad(value, inputs, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(value, inputs), strict=True):
        torch.testing.assert_close(a, b)
