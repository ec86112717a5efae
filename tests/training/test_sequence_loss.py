"""Tests of sequence-level losses: their definitions, and gradients that estimate the expected score."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.hard import HardAttentionConfig
from regard.attention.variational import VariationalAttentionConfig
from regard.config import from_dict
from regard.data.batch import PaddedSequences, collate
from regard.errors import ConfigError
from regard.metrics.translation import prefix_bleu
from regard.models import build_model
from regard.models.base import ForwardOutput, TranslationModel
from regard.models.rnn.config import RnnConfig
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK
from regard.training.checkpoint import TrainingState
from regard.training.config import TrainingConfig
from regard.training.losses.base import join_rows, split_outcome
from regard.training.losses.sequence import (
    SequenceLoss,
    SequenceLossConfig,
    generate_candidates,
    sequence_loss,
)
from regard.training.optimizer import LRScheduler, build_optimizer
from regard.training.progress import TrainingProgress
from regard.training.run_context import SINGLE_PROCESS
from regard.training.train_step import TrainStep
from saved_models import small_rnn

WORDS = [5, 6, 7]


def sequences(rows: list[list[int]]) -> PaddedSequences:
    target = collate([[5]] * len(rows), rows, range(len(rows))).target
    assert target is not None
    return target


def outcome(log_p: torch.Tensor, mask: torch.Tensor) -> ForwardOutput:
    zeros = torch.zeros_like(log_p).unsqueeze(-1)
    return ForwardOutput(log_p.unsqueeze(-1), zeros, zeros, zeros, zeros[..., 0], mask, (), ())


def bleu(candidates: PaddedSequences, reference: PaddedSequences) -> np.ndarray:
    hypothesis, target = ((x.tokens.numpy(), x.lengths.numpy()) for x in (candidates, reference))
    return prefix_bleu(*hypothesis, *target, EOS, UNK)


CANDIDATES = sequences([[5, 6, EOS], [6, 6, 7, EOS], [5, 6, EOS], [7, EOS], [5, EOS], [5, 7, EOS]])
REFERENCE = sequences([[5, 6, 7, EOS]] * 3 + [[5, 7, EOS]] * 3)


def random_log_p() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    values = -torch.rand(CANDIDATES.tokens.shape, generator=generator, dtype=torch.float64)
    return values.masked_fill(~CANDIDATES.mask, 0.0).requires_grad_()


def test_risk_is_the_expected_score_of_distinct_candidates() -> None:
    config = SequenceLossConfig(method="mrt", num_candidates=3, alpha=0.7)
    log_p = random_log_p()
    found = sequence_loss(outcome(log_p, CANDIDATES.mask), CANDIDATES, REFERENCE, config)
    scores = bleu(CANDIDATES, REFERENCE)
    expected = torch.zeros((), dtype=torch.float64)
    for rows in ([0, 1], [3, 4, 5]):  # the third candidate repeats the first
        p = torch.stack([log_p[row].sum() for row in rows]).mul(0.7).softmax(0)
        best = torch.tensor([scores[row, int(CANDIDATES.lengths[row]) - 1] for row in rows])
        expected = expected - (p * best).sum()
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(x, log_p, retain_graph=True)[0] for x in (found, expected))
    torch.testing.assert_close(*(gradient[CANDIDATES.mask] for gradient in gradients))


@pytest.mark.parametrize("reward", ["terminal", "shaped"])
def test_reinforce_gradient_is_return_minus_leave_one_out_baseline(reward) -> None:
    config = SequenceLossConfig(method="reinforce", num_candidates=3, reward=reward)
    log_p = random_log_p()
    loss = sequence_loss(outcome(log_p, CANDIDATES.mask), CANDIDATES, REFERENCE, config)
    (gradient,) = torch.autograd.grad(loss, log_p)
    scores = bleu(CANDIDATES, REFERENCE)
    lengths = CANDIDATES.lengths.tolist()

    def return_of(row: int, t: int) -> float:
        final = scores[row, lengths[row] - 1]
        return final - (scores[row, t - 1] if reward == "shaped" and t else 0.0)

    for row, length in enumerate(lengths):
        group = range(row // 3 * 3, row // 3 * 3 + 3)
        for t in range(length):
            others = [return_of(o, t) for o in group if o != row and (reward == "terminal" or t < lengths[o])]
            baseline = sum(others) / len(others) if others else 0.0
            assert gradient[row, t].item() == pytest.approx(-(return_of(row, t) - baseline) / 3, abs=1e-6)
        assert (gradient[row, length:] == 0).all()


@pytest.mark.parametrize("reward", ["terminal", "shaped"])
def test_mean_gradient_is_that_of_the_expected_score(reward) -> None:
    """Enumerate pairs of samples: sentences of one token, of a softmax, and the end symbol."""
    config = SequenceLossConfig(method="reinforce", num_candidates=2, reward=reward)
    logits = torch.tensor([0.3, -0.5, 0.9], dtype=torch.float64, requires_grad=True)
    reference = [6, EOS]
    scores = [float(bleu(sequences([[word, EOS]]), sequences([reference]))[0, 1]) for word in WORDS]
    expected = (logits.softmax(0) * torch.tensor(scores, dtype=torch.float64)).sum()
    (truth,) = torch.autograd.grad(expected, logits)
    found = torch.zeros(3, dtype=torch.float64)
    for pair in itertools.product(range(3), repeat=2):
        log_p = logits.log_softmax(0)[list(pair)].unsqueeze(1)
        probability = log_p.detach().sum().exp()
        log_p = torch.cat([log_p, torch.zeros_like(log_p)], 1)
        both = sequences([[WORDS[i], EOS] for i in pair])
        loss = sequence_loss(outcome(log_p, both.mask), both, sequences([reference] * 2), config)
        found -= probability * torch.autograd.grad(loss, logits)[0]
    torch.testing.assert_close(found, truth, atol=1e-6, rtol=0)


def test_forced_end_symbols_have_no_gradient(monkeypatch) -> None:
    """Enumerate translations of at most two tokens, after which the end symbol is forced."""
    monkeypatch.setattr("regard.training.losses.sequence.MAX_LENGTH_RATIO", 0.0)
    monkeypatch.setattr("regard.training.losses.sequence.MAX_LENGTH_OFFSET", 2)
    one, reference = model().double().eval(), [5, 6, EOS]
    with torch.no_grad():
        # Search never generates these symbols, so the model must give them no probability.
        one.output_bias[[PAD, BOS, SINK]] = -30.0
    words = [UNK, 5, 6, 7, 8]
    translations = [[*tokens, EOS] for size in range(3) for tokens in itertools.product(words, repeat=size)]
    whole = collate([[5, 7]] * len(translations), translations, range(len(translations)))
    assert whole.target is not None
    is_sampled = torch.arange(3) < 2  # the end symbol of the third step is forced
    probability = (one(whole).log_likelihood * is_sampled).sum(1).exp()
    torch.testing.assert_close(probability.sum().item(), 1.0)
    scores = torch.from_numpy(bleu(whole.target, sequences([reference] * len(translations))))
    final = scores.gather(1, whole.target.lengths.unsqueeze(1) - 1).squeeze(1)
    (truth,) = torch.autograd.grad((probability * final).sum(), one.output_bias)
    term = SequenceLoss(SequenceLossConfig(method="reinforce", num_candidates=40, likelihood_weight=0.0))
    batch = collate([[5, 7]] * 8, [reference] * 8, range(8))
    found, num_cut = [], 0
    for seed in range(40):
        part = term.prepare_batch(one, batch, batch.rows, seed)
        num_cut += int(part.values.sum())
        joint = join_rows(batch, [part])
        sentences, parts = split_outcome(one(joint), joint, batch, [part])
        loss = term.add(torch.zeros(()), batch, sentences, parts[0])
        found.append(-torch.autograd.grad(loss / 8, one.output_bias)[0])
    estimates = torch.stack(found)
    error = estimates.std(0) / len(found) ** 0.5  # standard error of the mean
    assert num_cut > 1000
    assert ((estimates.mean(0) - truth).abs() < 4 * error + 1e-12).all()


def model(attention=None):
    torch.manual_seed(1)
    config = from_dict(RnnConfig, small_rnn(6) | {"dropout": 0.0})
    return build_model(replace(config, attention=attention or config.attention), 9, 9)


def data():
    bounds = [np.array([3.0, 3.0, np.inf], np.float32), np.array([3.0, np.inf], np.float32)]
    return collate([[5, 6, 4], [7, 4]], [[5, 6, 7, EOS], [8, EOS]], [0, 1], bounds)


@pytest.mark.parametrize("candidates", ["sample", "beam"])
def test_number_of_candidates_and_seed_are_respected(candidates) -> None:
    config = SequenceLossConfig(candidates=candidates, num_candidates=3)
    results = (generate_candidates(model(), data(), config, seed) for seed in (7, 7, 8))
    first, again, other = ([[h.tokens for h in group] for group in groups] for groups in results)
    assert [len(group) for group in first] == [3, 3]
    assert first == again
    if candidates == "sample":
        assert first != other


def test_references_and_candidates_share_a_batch() -> None:
    one, batch = model().double().eval(), data()
    terms = [SequenceLoss(SequenceLossConfig(num_candidates=count)) for count in (3, 2)]
    parts = [term.prepare_batch(one, batch, batch.rows, 7) for term in terms]
    joint = join_rows(batch, parts)
    assert len(joint) == 2 + 6 + 4
    sentences, parts = split_outcome(one(joint), joint, batch, parts)
    torch.testing.assert_close(sentences.log_likelihood, one(batch).log_likelihood)
    for part in parts:
        assert part.rows is not None and part.rows.target is not None and part.outcome is not None
        ends = part.rows.target.lengths.unsqueeze(1) - 1
        assert (part.rows.target.tokens.gather(1, ends) == EOS).all()
        torch.testing.assert_close(part.outcome.log_likelihood, one(part.rows).log_likelihood)


class _One:
    """A training set of one batch."""

    lengths = (np.array([4, 2]), np.array([4, 2]))

    def batch(self, rows):
        return data()


def train_step(one: TranslationModel, loss: SequenceLossConfig) -> TrainStep:
    config = TrainingConfig()
    optimizer = build_optimizer(config.optimizer, list(one.parameters()))
    state = TrainingState(one, optimizer, LRScheduler(config.lr_scheduler), TrainingProgress())
    return TrainStep(state, _One(), config, SINGLE_PROCESS, 1, [SequenceLoss(loss)])


@pytest.mark.parametrize("attention", [None, ConstrainedAttentionConfig(), HardAttentionConfig()])
@pytest.mark.parametrize("options", [{}, {"method": "reinforce", "reward": "shaped"}, {"candidates": "beam"}])
def test_a_step_changes_the_model(attention, options) -> None:
    results = {}
    for own in (1.0, 0.4):
        one = model(attention)
        before = [p.detach().clone() for p in one.parameters()]
        loss = SequenceLossConfig(num_candidates=3, likelihood_weight=own, **options)
        figures = train_step(one, loss)([np.array([0, 1])])
        assert figures.applied
        assert any(not torch.equal(a, b) for a, b in zip(before, one.parameters(), strict=True))
        results[own] = figures
    assert results[1.0].loss != results[0.4].loss
    if attention is None:
        assert results[1.0].nll == pytest.approx(results[0.4].nll)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "shaped"}, "reward = 'shaped' needs method = 'reinforce'"),
        ({"num_candidates": 1}, "num_candidates must be 2 or more"),
    ],
)
def test_inconsistent_options_are_rejected(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(SequenceLossConfig, options)


def test_attention_conditioned_on_the_reference_is_rejected() -> None:
    with pytest.raises(ConfigError, match="conditioned on the reference"):
        train_step(model(VariationalAttentionConfig()), SequenceLossConfig())
