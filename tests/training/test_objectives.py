"""Tests of the objectives: marginal likelihood, variational bound, REINFORCE, and label smoothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from regard.models.base import ForwardOutput
from regard.training.losses.objectives import OBJECTIVES


def _outcome(logits, targets, mask, log_weights=None, penalty=None):
    """Return the outcome of a model whose contexts have these logits, [B, T, K, V]."""
    log_probs = logits.log_softmax(-1)
    index = targets[..., None, None].expand(*logits.shape[:3], 1)
    found = log_probs.gather(-1, index).squeeze(-1)
    zero = torch.zeros_like(found)
    return ForwardOutput(
        log_likelihoods=found,
        mean_log_probs=log_probs.mean(-1),
        log_weights=zero if log_weights is None else log_weights,
        log_policy=zero,
        penalty=zero[..., 0] if penalty is None else penalty,
        mask=mask,
        cross_attentions=(),
        posteriors=(),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_marginal_with_one_context_equals_pytorch_cross_entropy(smoothing: float) -> None:
    logits = torch.randn(3, 5, 1, 11, dtype=torch.float64)
    targets = torch.randint(11, (3, 5))
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    loss = OBJECTIVES["marginal"](_outcome(logits, targets, mask), smoothing)
    real = logits[:, :, 0][mask], targets[mask]
    torch.testing.assert_close(loss.total, F.cross_entropy(*real, label_smoothing=smoothing, reduction="sum"))
    torch.testing.assert_close(loss.nll, F.cross_entropy(*real, reduction="sum"))


def _log(*values: float) -> torch.Tensor:
    return torch.log(torch.tensor(values, dtype=torch.float64))


def _two_contexts(penalty: float = 0.5):
    """Return one unmasked step and padding; the token has probability 0.5 and 0.1 under the two contexts."""
    logits = torch.stack([_log(0.5, 0.5), _log(0.1, 0.9)]).expand(1, 2, 2, 2)
    return _outcome(
        logits,
        torch.zeros(1, 2, dtype=torch.long),
        torch.tensor([[True, False]]),
        log_weights=_log(0.25, 0.75).expand(1, 2, 2),
        penalty=torch.tensor([[penalty, 9.0]], dtype=torch.float64),
    )


def test_marginal_mixes_probabilities_and_adds_unmasked_penalties() -> None:
    loss = OBJECTIVES["marginal"](_two_contexts(), 0.0)
    # p = 0.25 * 0.5 + 0.75 * 0.1 = 0.2 in the only unmasked time step.
    assert float(loss.nll) == pytest.approx(-math.log(0.2))
    assert float(loss.total) == pytest.approx(-math.log(0.2) + 0.5)


def test_bound_averages_log_probabilities_and_adds_unmasked_penalties() -> None:
    loss = OBJECTIVES["bound"](_two_contexts(), 0.0)
    expected = -(0.25 * math.log(0.5) + 0.75 * math.log(0.1)) + 0.5
    assert float(loss.total) == pytest.approx(expected)
    outcome = _two_contexts()
    assert float(loss.nll) == pytest.approx(-float(outcome.log_likelihood.sum()))
    # By Jensen's inequality, the loss is an upper bound of the negative log-likelihood.
    assert float(loss.total) > -math.log(0.2) + 0.5


def test_bound_smooths_each_context_separately() -> None:
    loss = OBJECTIVES["bound"](_two_contexts(0.0), 0.1)
    losses = [
        F.cross_entropy(_log(*p).unsqueeze(0), torch.tensor([0]), label_smoothing=0.1)
        for p in ((0.5, 0.5), (0.1, 0.9))
    ]
    torch.testing.assert_close(loss.total, 0.25 * losses[0] + 0.75 * losses[1])


@pytest.mark.parametrize("name", ["bound", "reinforce"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_all_objectives_equal_the_marginal_without_sampling(name, smoothing) -> None:
    logits = torch.randn(3, 5, 1, 11, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    penalty = torch.rand(3, 5, dtype=torch.float64)
    outcome = _outcome(logits, torch.randint(11, (3, 5)), mask, penalty=penalty)
    outcome = replace(outcome, log_likelihoods=outcome.log_likelihoods.masked_fill(~mask[..., None], 0.0))
    found, expected = OBJECTIVES[name](outcome, smoothing), OBJECTIVES["marginal"](outcome, smoothing)
    torch.testing.assert_close(found.total, expected.total)
    torch.testing.assert_close(found.nll, expected.nll)


def _sampled():
    """Return an outcome whose first context was sampled with probability 0.3; the second has weight 0."""
    log_policy = torch.stack([_log(0.3), torch.zeros(1)], -1).expand(1, 2, 2).clone().requires_grad_()
    weights = torch.tensor([0.0, -torch.inf], dtype=torch.float64).expand(1, 2, 2)
    return replace(_two_contexts(), log_policy=log_policy, log_weights=weights), log_policy


def test_reinforce_uses_the_unsampled_context_as_baseline() -> None:
    outcome, log_policy = _sampled()
    loss = OBJECTIVES["reinforce"](outcome, 0.0)
    advantage = math.log(0.5) - math.log(0.1)
    expected = -(math.log(0.5) + advantage * math.log(0.3)) + 0.5
    assert loss.total.item() == pytest.approx(expected)
    assert float(loss.nll) == pytest.approx(-float(outcome.log_likelihood.sum().detach()))
    loss.total.backward()
    expected = torch.tensor([[[-advantage, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(log_policy.grad, expected)


def test_reinforce_without_an_unsampled_context_has_no_baseline() -> None:
    outcome, _ = _sampled()
    loss = OBJECTIVES["reinforce"](replace(outcome, log_weights=_log(0.5, 0.5).expand(1, 2, 2)), 0.0)
    expected = 0.5 * (math.log(0.5) * (1 + math.log(0.3)) + math.log(0.1))
    assert loss.total.item() == pytest.approx(-expected + 0.5)


def test_given_advantage_is_used_without_gradient() -> None:
    outcome, log_policy = _sampled()
    advantage = torch.tensor([[2.0, 7.0]], dtype=torch.float64, requires_grad=True)
    loss = OBJECTIVES["reinforce"](replace(outcome, advantage=advantage), 0.0)
    assert loss.total.item() == pytest.approx(-(math.log(0.5) + 2 * math.log(0.3)) + 0.5)
    loss.total.backward()
    assert advantage.grad is None
    expected = torch.tensor([[[-2.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    torch.testing.assert_close(log_policy.grad, expected)


@pytest.mark.parametrize("mass", [1.0, 0.5, 0.01])
def test_smoothed_mixture_loss_is_an_upper_bound(mass: float) -> None:
    """Jensen's inequality holds also if the weights of the contexts sum to less than 1."""
    logits = torch.randn(2, 3, 4, 11, dtype=torch.float64)
    targets = torch.randint(11, (2, 3))
    mask = torch.ones(2, 3, dtype=torch.bool)
    log_weights = torch.randn(2, 3, 4, dtype=torch.float64).log_softmax(-1) + math.log(mass)
    found = OBJECTIVES["marginal"](_outcome(logits, targets, mask, log_weights), 0.1).total
    mixed = (logits.log_softmax(-1) + log_weights.unsqueeze(-1)).logsumexp(2)  # (B, T, V)
    own = mixed.gather(-1, targets.unsqueeze(-1)).sum()
    exact = -0.9 * own - 0.1 * mixed.mean(-1).sum()
    assert found >= exact
    # If all contexts give the same distribution, the two are equal.
    identical = logits[:, :, :1].expand_as(logits)
    found = OBJECTIVES["marginal"](_outcome(identical, targets, mask, log_weights), 0.1).total
    mixed = identical[:, :, 0].log_softmax(-1) + math.log(mass)
    own = mixed.gather(-1, targets.unsqueeze(-1)).sum()
    torch.testing.assert_close(found, -0.9 * own - 0.1 * mixed.mean(-1).sum())
