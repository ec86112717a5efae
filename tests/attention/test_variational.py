"""Tests of variational attention: bound against enumeration, estimators against the bound, and search."""

import math
from itertools import product

import pytest
import torch

from generation.conftest import build_rnn
from regard.attention import Memory, build_attention
from regard.attention.base import AttentionStep, Reference
from regard.attention.variational import VariationalAttention, VariationalAttentionConfig, VariationalState
from regard.data.batch import Batch, collate
from regard.models.base import ForwardOutput
from regard.models.rnn.model import RnnModel
from regard.text.vocabulary import EOS
from regard.training.losses.objectives import OBJECTIVES

ESTIMATORS = ("enumerate", "reinforce")
estimators = pytest.mark.parametrize("estimator", ESTIMATORS)
COUNT = 20_000


def build(estimator: str = "enumerate", **settings) -> VariationalAttention:
    torch.manual_seed(1)
    made = build_attention(VariationalAttentionConfig(estimator=estimator, **settings), 4, 4, 3).double()
    assert isinstance(made, VariationalAttention)
    return made


def memory(states: torch.Tensor | None = None) -> Memory:
    given = torch.randn(3, 4, 4, dtype=torch.float64) if states is None else states
    return Memory(given, torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] + [False] * 3]))


def reference(steps: int = 3) -> Reference:
    embedded = torch.randn(3, steps, 3, dtype=torch.float64)
    return Reference(embedded, torch.arange(steps) < torch.tensor([[3], [2], [1]]))


def outcome(reading: AttentionStep, found: torch.Tensor) -> ForwardOutput:
    """Return the outcome of a model with a single step."""
    step = found.unsqueeze(1)
    mask = torch.ones_like(step[..., 0], dtype=torch.bool)
    parts = (reading.log_weights, reading.log_policy, reading.penalty)
    return ForwardOutput(step, torch.zeros_like(step), *(part.unsqueeze(1) for part in parts), mask, (), ())


def likelihood(contexts: torch.Tensor) -> torch.Tensor:
    """Return an arbitrary log p(y | context)."""
    return torch.nn.functional.logsigmoid(contexts @ torch.tensor([2.0, -1.0, 0.5, 1.5]).to(contexts.dtype))


def model(estimator: str = "enumerate", output_layer: str = "tanh", **settings) -> RnnModel:
    attention = {"kind": "variational", "estimator": estimator, **settings}
    return build_rnn(dropout=0.0, decoder={"output_layer": output_layer}, attention=attention).double()


SOURCES = [[5, 7, 6], [8], [6, 5]]
TARGETS = [[6, 5, EOS], [EOS], [7, 7, 5, EOS]]


def batch(rows=(0, 1, 2)) -> Batch:
    return collate([SOURCES[i] for i in rows], [TARGETS[i] for i in rows], rows)


# --- the bound ----------------------------------------------------------------------------------------


def test_bound_and_marginal_match_enumeration() -> None:
    made, data = model(), batch()
    proposed = made.train()(data)
    exact = made.eval()(data)
    bound, marginal = 0.0, 0.0
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        log_q, found = proposed.log_weights[row].exp().log(), exact.log_likelihoods[row]
        log_prior = exact.cross_attentions[0][row, :, 0].log()
        paths = []
        for path in product(range(len(source)), repeat=len(target)):
            steps = list(enumerate(path))
            joint = sum(log_prior[t, a] + found[t, a] for t, a in steps)
            log_proposal = sum(log_q[t, a] for t, a in steps)
            bound = bound + log_proposal.exp() * (joint - log_proposal)
            paths.append(joint)
        marginal = marginal + torch.stack(paths).logsumexp(0)
    loss = OBJECTIVES["bound"](proposed, 0.0).total
    torch.testing.assert_close(-loss, bound, rtol=0, atol=1e-9)
    torch.testing.assert_close(exact.log_likelihood.sum(), marginal, rtol=0, atol=1e-9)
    assert bound < marginal


def test_bound_is_tight_if_the_proposal_is_the_posterior() -> None:
    mechanism, query = build(), torch.randn(3, 4, dtype=torch.float64)
    prepared = mechanism.prepare(memory())
    start = mechanism.start(prepared)
    reading = mechanism.read(query, prepared, start)
    found = likelihood(reading.contexts)
    marginal = (reading.log_weights + found).logsumexp(-1)
    posterior = (reading.log_weights + found).log_softmax(-1)
    for log_q, equal in ((posterior, True), (reading.log_weights, False)):
        state = VariationalState(start.weights, start.context, (log_q,))
        loss = OBJECTIVES["bound"](outcome(mechanism.read(query, prepared, state), found), 0.0)
        difference = float((marginal.sum() + loss.total).detach())
        assert difference == pytest.approx(0, abs=1e-12) if equal else difference > 1e-3


@estimators
def test_penalty_is_kl_divergence_from_proposal_to_prior(estimator) -> None:
    mechanism = build(estimator)
    prepared, target = mechanism.prepare(memory()), reference()
    log_q = mechanism.compute_log_proposals(prepared, target)[:, 0]
    reading = mechanism.read(
        torch.randn(3, 4, dtype=torch.float64), prepared, mechanism.start(prepared, target)
    )
    for row, length in enumerate((4, 2, 1)):
        q, prior = (
            torch.distributions.Categorical(probs=probs[row, :length])
            for probs in (log_q.exp(), reading.weights[:, 0])
        )
        torch.testing.assert_close(reading.penalty[row], torch.distributions.kl_divergence(q, prior))


def test_proposal_is_bilinear_softmax_conditioned_on_the_target_without_padding() -> None:
    mechanism, given, target = build(), memory(), reference()
    found = mechanism.compute_log_proposals(given, target)
    read, _ = mechanism.inference_lstm(target.embeddings, target.mask.sum(-1))
    scores = torch.einsum("bth,hd,bsd->bts", read, mechanism.inference_scorer.weight, given.states)
    hidden = ~given.mask.unsqueeze(1).expand_as(scores)
    torch.testing.assert_close(found, scores.masked_fill(hidden, -torch.inf).log_softmax(-1))
    changed = target.embeddings.clone()
    changed[:, 2] += 1  # the last word of the first sentence, but padding in the others
    other = mechanism.compute_log_proposals(given, Reference(changed, target.mask))
    assert (other[0, 0] != found[0, 0]).all() and torch.equal(other[1, :2], found[1, :2])


# --- estimators ---------------------------------------------------------------------------------------


def sample(estimator: str) -> tuple[AttentionStep, torch.Tensor, torch.Tensor]:
    """Run one step of COUNT copies of a sentence.

    Returns the step, the states, whose gradient has one row per sample, and the log-proposal.
    """
    mechanism = build(estimator)
    generator = torch.Generator().manual_seed(7)
    states, embedded, query = (
        torch.randn(1, *shape, dtype=torch.float64, generator=generator) for shape in ((3, 4), (1, 3), (4,))
    )
    count = 1 if estimator == "enumerate" else COUNT
    states = states.expand(count, -1, -1).clone().requires_grad_()
    given = mechanism.prepare(Memory(states, torch.ones(count, 3, dtype=torch.bool)))
    target = Reference(embedded.expand(count, -1, -1), torch.ones(count, 1, dtype=torch.bool))
    start = mechanism.start(given, target)
    assert start.log_proposals is not None
    reading = mechanism.read(query.expand(count, -1), given, start)
    return reading, states, start.log_proposals[0].detach()


def gradients(estimator: str) -> torch.Tensor:
    reading, states, _ = sample(estimator)
    objective = "reinforce" if estimator == "reinforce" else "bound"
    OBJECTIVES[objective](outcome(reading, likelihood(reading.contexts)), 0.0).total.backward()
    assert states.grad is not None
    return states.grad.flatten(1)


def test_reinforce_gradient_is_unbiased() -> None:
    expected, found = gradients("enumerate")[0], gradients("reinforce")
    assert (expected != 0).all()
    error = found.std(0) / math.sqrt(COUNT)
    assert ((found.mean(0) - expected).abs() <= 4 * error).all()


def test_samples_follow_the_proposal_and_have_a_baseline() -> None:
    reading, states, log_q = sample("reinforce")
    chosen = (reading.contexts[:, :1] - states).abs().sum(-1) < 1e-12  # (N, S)
    assert (chosen.sum(-1) == 1).all()
    torch.testing.assert_close(reading.log_policy[:, 0], log_q[chosen])
    mean, expected = chosen.double().mean(0), log_q[0].exp()
    assert ((mean - expected).abs() <= 4 * (expected * (1 - expected) / COUNT).sqrt()).all()
    # The baseline is the expected context, without weight in the mixture.
    torch.testing.assert_close(reading.contexts[:, 1], (reading.weights @ states)[:, 0])
    assert (reading.log_weights == torch.tensor([0.0, -torch.inf])).all()
    assert (reading.log_policy[:, 1] == 0).all()


@estimators
def test_every_parameter_receives_a_gradient(estimator) -> None:
    made = model(estimator).train()
    assert made.objective == {"enumerate": "bound", "reinforce": "reinforce"}[estimator]
    outcome = made(batch(), mean_log_probs=True)
    OBJECTIVES[made.objective](outcome, 0.1).total.backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name


# --- in a model ---------------------------------------------------------------------------------------


def test_decoder_input_is_the_prior_expectation_with_and_without_target() -> None:
    mechanism, query = build(), torch.randn(3, 4, dtype=torch.float64)
    given = mechanism.prepare(memory())
    for state in (mechanism.start(given, reference()), mechanism.start(given)):
        after = mechanism.read(query, given, state).update(torch.zeros(3, 4, dtype=torch.float64))
        torch.testing.assert_close(after.context, (after.weights @ given.states)[:, 0])
    torch.testing.assert_close(
        *(mechanism.read(query, given, s).weights for s in (state, mechanism.start(given, reference())))
    )


def test_posteriors_are_the_proposal_in_training_and_exact_in_evaluation() -> None:
    made, data = model(), batch()
    trained = made.train()(data)
    torch.testing.assert_close(trained.posteriors[0][:, :, 0], trained.log_weights.exp())
    found = made.eval()(data)
    posterior = (found.log_weights + found.log_likelihoods).softmax(-1)
    real = data.target.mask if data.target is not None else None
    torch.testing.assert_close(found.posteriors[0][:, :, 0][real], posterior[real])
    torch.testing.assert_close(found.log_weights.exp(), found.cross_attentions[0][:, :, 0])


def test_top_k_weights_are_renormalized_and_exact_for_short_sentences() -> None:
    every, two = model().eval()(batch()), model(top_k=2).eval()(batch())
    best = every.cross_attentions[0][:, :, 0].topk(2, dim=-1).values
    torch.testing.assert_close(two.log_weights.exp(), best / best.sum(-1, keepdim=True))
    torch.testing.assert_close(two.log_likelihood[1:], every.log_likelihood[1:])  # of length 1 and 2
    torch.testing.assert_close(two.cross_attentions, every.cross_attentions)


def test_linear_readout_equals_the_general_path() -> None:
    made = model(output_layer="linear").train()
    assert made.linear_readout
    fast = made(batch(), mean_log_probs=True)
    made.linear_readout = False
    slow = made(batch(), mean_log_probs=True)
    torch.testing.assert_close((fast.log_weights, fast.penalty), (slow.log_weights, slow.penalty))
    seen = slow.log_weights.isfinite() & slow.mask.unsqueeze(-1)
    torch.testing.assert_close(fast.log_likelihoods[seen], slow.log_likelihoods[seen])
    torch.testing.assert_close(fast.mean_log_probs[seen], slow.mean_log_probs[seen])
