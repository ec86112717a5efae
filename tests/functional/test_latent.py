"""Tests of chains and gradient estimators against enumeration, and of samples."""

import pytest
import torch

from problems import chain_transitions
from regard.functional.latent import (
    chain_prior,
    forward_prior,
    leave_one_out,
    reinforce_objective,
    sample_categorical,
)

BATCH, STEPS, WORDS = 3, 4, 3
MASK = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])


def _numbers(seed: int = 0, scale: float = 1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(BATCH, STEPS, WORDS, dtype=torch.float64, generator=generator)
    bias = torch.randn(WORDS, WORDS, dtype=torch.float64, generator=generator)
    return scores, bias


FORWARD_ONLY = torch.zeros(WORDS, WORDS, dtype=torch.float64).masked_fill(
    ~torch.ones(WORDS, WORDS).tril().bool(), -torch.inf
)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_priors_match_explicit_transitions(scale) -> None:
    scores, bias = _numbers(2, scale)
    passed = torch.rand(BATCH, WORDS, dtype=torch.float64).masked_fill(~MASK, 0)
    passed = passed / passed.sum(-1, keepdim=True)
    for chosen, found in (
        (bias, chain_prior(scores[:, 1], passed, bias, MASK)),
        (FORWARD_ONLY, forward_prior(scores[:, 1], passed, MASK)),
    ):
        transitions = chain_transitions(scores, chosen, MASK)[:, 1]
        expected = (transitions + passed.log().unsqueeze(1)).logsumexp(-1)
        torch.testing.assert_close(found.exp(), expected.exp(), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(BATCH, dtype=torch.float64))


@pytest.mark.parametrize("onward", [False, True])
def test_gradcheck(onward) -> None:
    scores, bias = _numbers(3)
    passed = torch.softmax(torch.randn(BATCH, WORDS, dtype=torch.float64), -1).masked_fill(~MASK, 0)
    passed = passed / passed.sum(-1, keepdim=True)
    weights = torch.randn(BATCH, WORDS, dtype=torch.float64)

    def loss(z, p, b):
        found = forward_prior(z, p, MASK) if onward else chain_prior(z, p, b, MASK)
        return (found.exp() * weights).sum()

    given = [x.clone().requires_grad_() for x in (scores[:, 1], passed, bias)]
    # A posterior of zero is on the boundary, where finite differences do not exist.
    given[1] = given[1].detach().clamp_min(0.05 * MASK).requires_grad_()
    torch.autograd.gradcheck(lambda z, b: loss(z, given[1].detach(), b), (given[0], given[2]))
    if not onward:
        torch.autograd.gradcheck(lambda p: loss(given[0].detach(), p, given[2].detach()), (given[1],))


def test_score_gaps_of_ten_thousand_give_no_nan() -> None:
    scores = torch.tensor([[0.0, 1e4, -1e4]], requires_grad=True)
    passed = torch.tensor([[1.0, 0.0, 0.0]])
    for found in (chain_prior(scores, passed, torch.eye(3)), forward_prior(scores, passed)):
        torch.testing.assert_close(found.exp(), torch.tensor([[0.0, 1.0, 0.0]]))
        (gradient,) = torch.autograd.grad(found[0, 1], scores, retain_graph=True)
        assert gradient.isfinite().all()


def test_autocast_does_not_change_the_prior() -> None:
    generator = torch.Generator().manual_seed(6)
    scores, bias = torch.randn(2, 12, generator=generator), torch.randn(12, 12, generator=generator)
    passed = torch.rand(2, 12, generator=generator).softmax(-1)
    with torch.autocast("cpu", torch.bfloat16):
        found = chain_prior(scores, passed, bias)
    torch.testing.assert_close(found, chain_prior(scores, passed, bias), rtol=0, atol=1e-6)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(2))


COUNT = 40_000
INF = float("inf")
SCORES = torch.tensor([0.3, -1.0, 1.2, -INF, 0.0], dtype=torch.float64)
REWARD = torch.tensor([1.0, -2.0, 4.0, 100.0, 0.5], dtype=torch.float64)


def log_q(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores, one row per sample so that gradients are per sample, and log q."""
    scores = SCORES.expand(rows, -1).clone().requires_grad_()
    return scores, scores.log_softmax(-1)


def enumerated() -> torch.Tensor:
    """Return the gradient of E_q f, summed over all choices."""
    scores, log_probs = log_q(1)
    (log_probs.exp() * REWARD).sum().backward()
    assert scores.grad is not None
    return scores.grad[0]


def near(samples: torch.Tensor, mean: torch.Tensor) -> bool:
    """Return whether the mean of the samples (one per row) is within four standard errors of `mean`."""
    error = samples.std(0) / len(samples) ** 0.5
    return bool(((samples.mean(0) - mean).abs() <= 4 * error + 1e-12).all())


def sampled_gradients(baseline) -> torch.Tensor:
    """Return the gradients of REINFORCE, one per group of four samples."""
    scores, log_probs = log_q(COUNT)
    torch.manual_seed(1)
    sampled = sample_categorical(log_probs)
    log_policy = log_probs.gather(1, sampled.unsqueeze(1)).view(-1, 4)
    reward = REWARD[sampled].view(-1, 4)
    reinforce_objective(log_policy, reward, baseline(reward)).sum().backward()
    assert scores.grad is not None
    return scores.grad.view(-1, 4, 5).mean(1)


BASELINES = {
    "none": lambda reward: 0.0,
    "a constant": lambda reward: torch.tensor(2.5, dtype=torch.float64),
    "leave one out": lambda reward: leave_one_out(reward, dim=1),
}


@pytest.mark.parametrize("name", BASELINES)
def test_reinforce_is_unbiased(name) -> None:
    assert near(sampled_gradients(BASELINES[name]), enumerated())


def test_reward_and_baseline_receive_no_gradient() -> None:
    reward, baseline = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    log_policy = torch.randn(3, dtype=torch.float64, requires_grad=True)
    reinforce_objective(log_policy, reward, baseline).sum().backward()
    assert reward.grad is None and baseline.grad is None
    torch.testing.assert_close(log_policy.grad, (reward - baseline).detach())


def test_leave_one_out_is_the_mean_of_the_other_rewards() -> None:
    rewards = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True, True, False], [True, False, False], [True, True, True], [True, False, False]])
    found = leave_one_out(rewards, mask)
    for column in range(3):
        for row in range(4):
            others = [rewards[i, column] for i in range(4) if i != row and mask[i, column]]
            expected = torch.stack(others).mean() if others else torch.zeros((), dtype=torch.float64)
            if mask[row, column]:
                torch.testing.assert_close(found[row, column], expected)
    torch.testing.assert_close(leave_one_out(rewards), (rewards.sum(0) - rewards) / 3)


def test_samples_follow_the_softmax() -> None:
    torch.manual_seed(1)
    sampled = sample_categorical(SCORES.expand(COUNT, -1))
    assert near(torch.nn.functional.one_hot(sampled, 5).double(), SCORES.softmax(-1))
    assert not (sampled == 3).any()
