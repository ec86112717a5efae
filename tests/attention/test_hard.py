"""Tests of hard attention: selections, REINFORCE gradients, rewards and baselines."""

import itertools

import pytest
import torch

from regard.attention.base import Memory, Reward
from regard.attention.hard import HardAttention, HardAttentionConfig
from regard.data.batch import PaddedSequences
from regard.metrics.translation import prefix_bleu
from regard.models.base import ForwardOutput
from regard.text.vocabulary import EOS, UNK
from regard.training.losses.objectives import (
    add_advantage,
    compute_returns,
    reinforce_loss,
)

BATCH, STEPS, WORDS, WIDTH = 2, 3, 4, 6
MASK = torch.tensor([[True] * 4, [True, True, False, False]])
STATES = torch.randn(BATCH, WORDS, WIDTH, dtype=torch.float64)
QUERIES = torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64)


def build(**options) -> HardAttention:
    torch.manual_seed(1)
    return HardAttention(HardAttentionConfig(**options), WIDTH, WIDTH).double()


def read(mechanism: HardAttention, queries=QUERIES, states=STATES):
    memory = mechanism.prepare(Memory(states, MASK))
    return mechanism.read_all(queries, memory, mechanism.start(memory)), memory


def scores_of(mechanism: HardAttention) -> torch.Tensor:
    """Return the scores S by the printed formula."""

    def project(part, x):
        inner = x @ part.first.weight + part.first.bias
        return torch.tanh(inner @ part.second.weight + part.second.bias)

    return project(mechanism.query_proj, QUERIES) @ project(mechanism.key_proj, STATES).transpose(1, 2)


@pytest.mark.parametrize(("scale", "factor"), [(None, WIDTH**-0.5), (1.0, 1.0)])
def test_evaluation_selects_words_with_probability_above_half(scale, factor) -> None:
    mechanism = build(score_scale=scale).eval()
    reading, memory = read(mechanism)
    scores = factor * scores_of(mechanism)
    for b, t in itertools.product(range(BATCH), range(STEPS)):
        chosen = [j for j in range(WORDS) if MASK[b, j] and torch.sigmoid(scores[b, t, j]) >= 0.5]
        if not chosen:
            chosen = [max((j for j in range(WORDS) if MASK[b, j]), key=lambda j: scores[b, t, j].item())]
        expected = torch.zeros(WORDS, dtype=torch.float64)
        expected[chosen] = 1
        assert torch.equal(reading.weights[b, t, 0], expected)
        torch.testing.assert_close(
            reading.contexts[b, t, 0], memory.values.weight[b][chosen].sum(0), atol=1e-12, rtol=1e-12
        )


@pytest.mark.parametrize("training", [False, True])
def test_posterior_is_the_probability_of_each_selection(training) -> None:
    mechanism = build().train(training)
    reading, memory = read(mechanism)
    expected = torch.sigmoid(WIDTH**-0.5 * scores_of(mechanism)).masked_fill(~MASK[:, None], 0.0)
    torch.testing.assert_close(reading.posteriors[:, :, 0], expected, atol=1e-12, rtol=1e-12)
    assert mechanism.has_posterior and not mechanism.observes_tokens
    torch.testing.assert_close(reading.state.posteriors[:, 0], expected[:, -1], atol=1e-12, rtol=1e-12)
    start = mechanism.start(memory)
    assert start.posteriors is start.weights  # nothing is selected before the first step


def test_evaluation_selects_the_top_word_if_all_are_improbable() -> None:
    mechanism = build().eval()
    with torch.no_grad():
        mechanism.query_proj.second.weight.zero_()
        mechanism.query_proj.second.bias.fill_(1.0)
        mechanism.key_proj.second.bias.fill_(-9.0)
    reading, _ = read(mechanism)
    assert (reading.weights.sum(-1) == 1).all()


def test_empty_selection_in_training_gives_zero_context() -> None:
    mechanism = build().train()
    with torch.no_grad():
        for part in (mechanism.query_proj, mechanism.key_proj):
            part.second.weight.zero_()
            part.second.bias.fill_(20.0 if part is mechanism.query_proj else -20.0)
    # The scores are so low that no word is ever sampled.
    mechanism.scale = 100.0
    reading, _ = read(mechanism)
    assert (reading.weights == 0).all() and (reading.contexts == 0).all()
    assert torch.isfinite(reading.log_policy).all()


def test_log_policy_and_entropy_exclude_padding() -> None:
    mechanism = build(entropy_bonus=0.5, reward_weight=2.0).train()
    reading, _ = read(mechanism)
    p = torch.sigmoid(WIDTH**-0.5 * scores_of(mechanism))
    sampled = reading.weights[:, :, 0]
    each = (sampled * p.log() + (1 - sampled) * (1 - p).log()) * MASK.unsqueeze(1)
    torch.testing.assert_close(reading.log_policy[..., 0], each.sum(-1))
    entropy = -(p * p.log() + (1 - p) * (1 - p).log()) * MASK.unsqueeze(1)
    torch.testing.assert_close(reading.penalty, -2.0 * 0.5 * entropy.sum(-1))
    assert (reading.weights.masked_select(~MASK[:, None, None]) == 0).all()


def test_reward_and_entropy_train_only_the_policy_projections() -> None:
    mechanism = build().train()
    states = torch.randn(BATCH, WORDS, WIDTH, dtype=torch.float64, requires_grad=True)
    queries = torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float64, requires_grad=True)
    reading, _ = read(mechanism, queries, states)
    (reading.log_policy.sum() + reading.penalty.sum()).backward()
    assert states.grad is None and queries.grad is None
    assert mechanism.value_proj.first.weight.grad is None
    assert (
        mechanism.query_proj.first.weight.grad is not None
        and mechanism.key_proj.first.weight.grad is not None
    )


def test_reinforce_gradient_is_unbiased() -> None:
    """One step, three words, one reward per selection: REINFORCE with and without a baseline."""
    mechanism = build().train()
    rewards = torch.randn(2, 2, 2, dtype=torch.float64)
    states = torch.randn(1, 3, WIDTH, dtype=torch.float64)
    query = torch.randn(1, 1, WIDTH, dtype=torch.float64)
    weight = mechanism.query_proj.second.weight

    def scores() -> torch.Tensor:
        projected, keys = mechanism.query_proj(query), mechanism.key_proj(states)
        return (projected @ keys.transpose(1, 2) * mechanism.scale)[0, 0]

    p = torch.sigmoid(scores())
    expected = sum(
        rewards[bits] * torch.stack([p[j] if bit else 1 - p[j] for j, bit in enumerate(bits)]).prod()
        for bits in itertools.product((0, 1), repeat=3)
    )
    (truth,) = torch.autograd.grad(expected, weight)
    count = 4000
    memory = mechanism.prepare(Memory(states.expand(count, -1, -1), torch.ones(count, 3, dtype=torch.bool)))
    torch.manual_seed(6)
    reading = mechanism.read_all(query.expand(count, -1, -1), memory, mechanism.start(memory))
    bits = reading.weights[:, 0, 0].long()
    found = rewards[bits[:, 0], bits[:, 1], bits[:, 2]]
    direction = torch.randn(weight.shape, dtype=torch.float64)
    # Directional derivative of log policy, for each of the 8 selections.
    slopes = {}
    for one in itertools.product((0, 1), repeat=3):
        p = torch.sigmoid(scores())
        log_policy = sum((p[j] if bit else 1 - p[j]).log() for j, bit in enumerate(one))
        slopes[one] = float((torch.autograd.grad(log_policy, weight)[0] * direction).sum())
    sampled = torch.tensor([slopes[tuple(row)] for row in bits.tolist()], dtype=torch.float64)
    # The second baseline is the mean reward of the other samples.
    for baseline in (0.0, (found.sum() - found) / (count - 1)):
        estimates = (found - baseline) * sampled
        error = estimates.std() / count**0.5
        assert abs(estimates.mean() - (truth * direction).sum()) < 4 * error
    # The log-policies of the mechanism have the same gradient.
    (total,) = torch.autograd.grad((found * reading.log_policy[:, 0, 0]).sum(), weight)
    torch.testing.assert_close((total * direction).sum(), (found * sampled).sum())


REFERENCE = PaddedSequences(torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, 0]]), torch.tensor([4, 3]))
GENERATED = torch.tensor([[5, 5, 7, EOS], [9, UNK, EOS, 4]])


def test_returns_are_sums_of_future_rewards() -> None:
    found = compute_returns(GENERATED, REFERENCE)
    lengths = REFERENCE.lengths.numpy()
    scores = prefix_bleu(GENERATED.numpy(), lengths, REFERENCE.tokens.numpy(), lengths, EOS, UNK)
    for b, length in enumerate((4, 3)):
        rewards = [scores[b, t] - (scores[b, t - 1] if t else 0.0) for t in range(length)]
        for t in range(length):
            assert found[b, t].item() == pytest.approx(sum(rewards[t:]), abs=1e-6)
        assert (found[b, length:] == 0).all()


def outcome() -> ForwardOutput:
    zeros = torch.zeros(2, 4, 1)
    policy = torch.tensor([[-1.0, -2.0, -0.5, -0.1], [-0.3, -0.7, -0.2, -9.0]]).unsqueeze(-1).requires_grad_()
    mask = REFERENCE.mask
    return ForwardOutput(zeros, zeros, zeros, policy, torch.zeros(2, 4), mask, (), (), top_tokens=GENERATED)


@pytest.mark.parametrize("batch_baseline", [True, False])
def test_advantage_is_return_minus_mean_of_other_sentences(batch_baseline) -> None:
    returns = compute_returns(GENERATED, REFERENCE)
    found = add_advantage(outcome(), REFERENCE, Reward(0.5, batch_baseline)).advantage
    baseline = returns.flip(0) * REFERENCE.mask.flip(0) if batch_baseline else torch.zeros(2, 4)
    expected = 0.5 * (returns - baseline)
    torch.testing.assert_close(found[REFERENCE.mask], expected[REFERENCE.mask])
    given = add_advantage(outcome(), REFERENCE, Reward(0.5, batch_baseline))
    (gradient,) = torch.autograd.grad(reinforce_loss(given).total, given.log_policy)
    torch.testing.assert_close(gradient[..., 0][REFERENCE.mask], -expected[REFERENCE.mask])
    assert (gradient[..., 0][~REFERENCE.mask] == 0).all()
