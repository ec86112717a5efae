"""Tests of gradient estimators against enumerated gradients, and of samples against their probabilities."""

import pytest
import torch

from regard.functional.estimators import (
    leave_one_out,
    reinforce_objective,
    sample_categorical,
)

COUNT = 40_000
INF = float("inf")
SCORES = torch.tensor([0.3, -1.0, 1.2, -INF, 0.0], dtype=torch.float64)
REWARD = torch.tensor([1.0, -2.0, 4.0, 100.0, 0.5], dtype=torch.float64)
REAL = SCORES > -INF


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
    sampled = sample_categorical(log_probs, generator=seeded())
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


def test_baseline_that_includes_the_sample_scales_the_gradient_down() -> None:
    found = sampled_gradients(lambda reward: reward.mean(1, keepdim=True))
    assert near(found, 0.75 * enumerated()) and not near(found, enumerated())


def test_expected_reward_as_baseline_reduces_variance() -> None:
    expected = (SCORES.softmax(-1) * REWARD).sum()
    found = sampled_gradients(lambda reward: expected)
    assert near(found, enumerated())
    # A baseline of -10 has the effect of adding 10 to every reward without a baseline.
    assert found.var(0)[REAL].sum() < 0.1 * sampled_gradients(lambda reward: -10.0).var(0)[REAL].sum()


def test_reward_and_baseline_receive_no_gradient() -> None:
    reward, baseline = (torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    log_policy = torch.randn(3, dtype=torch.float64, requires_grad=True)
    reinforce_objective(log_policy, reward, baseline).sum().backward()
    assert reward.grad is None and baseline.grad is None
    torch.testing.assert_close(log_policy.grad, (reward - baseline).detach())


def test_leave_one_out_is_the_mean_of_the_other_rewards() -> None:
    rewards = torch.randn(4, 3, dtype=torch.float64, generator=seeded())
    mask = torch.tensor([[True, True, False], [True, False, False], [True, True, True], [True, False, False]])
    found = leave_one_out(rewards, mask)
    for column in range(3):
        for row in range(4):
            others = [rewards[i, column] for i in range(4) if i != row and mask[i, column]]
            expected = torch.stack(others).mean() if others else torch.zeros((), dtype=torch.float64)
            if mask[row, column]:
                torch.testing.assert_close(found[row, column], expected)
    torch.testing.assert_close(leave_one_out(rewards), (rewards.sum(0) - rewards) / 3)


def test_samples_follow_the_softmax_and_their_generator() -> None:
    scores = SCORES.expand(COUNT, -1)
    sampled = sample_categorical(scores, generator=seeded())
    assert near(torch.nn.functional.one_hot(sampled, 5).double(), SCORES.softmax(-1))
    assert not (sampled == 3).any()
    assert torch.equal(sampled, sample_categorical(scores, generator=seeded()))
