"""Tests of gradient estimators against enumerated gradients, and of samples against their probabilities."""

import pytest
import torch

from regard.functional.estimators import (
    gumbel_softmax,
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


def test_gumbel_max_samples_follow_the_softmax() -> None:
    sampled = sample_categorical(SCORES.expand(COUNT, -1), generator=seeded())
    assert near(torch.nn.functional.one_hot(sampled, 5).double(), SCORES.softmax(-1))
    assert not (sampled == 3).any()


def test_straight_through_has_gumbel_max_value_and_relaxed_gradient() -> None:
    scores = SCORES.expand(COUNT, -1)
    hard = gumbel_softmax(scores, 0.7, hard=True, generator=seeded())
    chosen = sample_categorical(scores, generator=seeded())
    assert torch.equal(hard, torch.nn.functional.one_hot(chosen, 5).double())
    gradients = []
    for straight in (False, True):
        leaf, log_probs = log_q(8)
        (gumbel_softmax(log_probs, 0.7, hard=straight, generator=seeded()) * REWARD).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


def test_relaxed_sample_converges_to_the_choice_at_low_temperature() -> None:
    scores = SCORES.expand(50, -1)
    chosen = sample_categorical(scores, generator=seeded())
    for temperature in (5.0, 0.5, 1e-6):
        relaxed = gumbel_softmax(scores, temperature, generator=seeded())
        torch.testing.assert_close(relaxed.sum(-1), torch.ones(50, dtype=torch.float64))
        assert (relaxed[:, 3] == 0).all() and torch.equal(relaxed.argmax(-1), chosen)
    torch.testing.assert_close(relaxed, torch.nn.functional.one_hot(chosen, 5).double())


def test_bias_of_relaxed_gradient_vanishes_at_low_temperature() -> None:
    def gradients(temperature: float) -> torch.Tensor:
        scores, log_probs = log_q(COUNT)
        reward = REWARD.masked_fill(~REAL, 0.0)
        (gumbel_softmax(log_probs, temperature, generator=seeded()) * reward).sum().backward()
        assert scores.grad is not None
        return scores.grad

    expected = enumerated()
    cold, warm = gradients(0.1), gradients(1.0)
    assert near(cold, expected) and not near(warm, expected)
    assert torch.cosine_similarity(warm.mean(0), expected, dim=0) > 0.95
    assert warm.var(0)[REAL].mean() < cold.var(0)[REAL].mean()


def test_samples_are_seeded_keep_the_dtype_and_leave_inputs_unchanged() -> None:
    scores = SCORES.to(torch.bfloat16).expand(6, -1).clone()
    before = scores.clone()
    relaxed = gumbel_softmax(scores, generator=seeded(4))
    assert relaxed.dtype == torch.bfloat16 and torch.equal(scores, before)
    assert torch.equal(relaxed, gumbel_softmax(scores, generator=seeded(4)))
    torch.manual_seed(4)
    assert torch.equal(relaxed, gumbel_softmax(scores))


def test_zero_temperature_raises() -> None:
    with pytest.raises(ValueError, match=r"temperature is 0\.0, but must be positive"):
        gumbel_softmax(SCORES, 0.0)
