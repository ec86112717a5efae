"""Tests of the Markov chain over source positions against an enumeration of all sequences of positions."""

import pytest
import torch

from problems import chain_transitions, enumerate_chain
from regard.functional.chain import chain_prior, forward_prior

BATCH, STEPS, WORDS = 3, 4, 3
MASK = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])


def _numbers(seed: int = 0, scale: float = 1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(BATCH, STEPS, WORDS, dtype=torch.float64, generator=generator)
    bias = torch.randn(WORDS, WORDS, dtype=torch.float64, generator=generator)
    emissions = torch.randn(BATCH, STEPS, WORDS, dtype=torch.float64, generator=generator) - 2
    return scores, bias, emissions


def _start(scores: torch.Tensor) -> torch.Tensor:
    return scores[:, 0].masked_fill(~MASK, -torch.inf).log_softmax(-1)


FORWARD_ONLY = torch.zeros(WORDS, WORDS, dtype=torch.float64).masked_fill(
    ~torch.ones(WORDS, WORDS).tril().bool(), -torch.inf
)


@pytest.mark.parametrize("onward", [False, True])
def test_stepwise_bayes_rule_is_the_sum_over_all_alignments(onward) -> None:
    scores, bias, emissions = _numbers(1)
    chosen = FORWARD_ONLY if onward else bias
    total, passed = torch.zeros(BATCH, dtype=torch.float64), None
    for t in range(STEPS):
        if passed is None:
            prior = _start(scores)
        elif onward:
            prior = forward_prior(scores[:, t], passed, MASK)
        else:
            prior = chain_prior(scores[:, t], passed, chosen, MASK)
        joint = prior + emissions[:, t]
        total = total + joint.logsumexp(-1)
        passed = joint.softmax(-1)
    sentences = zip(_start(scores), chain_transitions(scores, chosen, MASK), emissions, strict=True)
    expected = torch.stack([enumerate_chain(*sentence, WORDS) for sentence in sentences])
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_priors_match_explicit_transitions(scale) -> None:
    scores, bias, _ = _numbers(2, scale)
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
    scores, bias, _ = _numbers(3)
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


def test_forward_prior_gives_earlier_positions_zero() -> None:
    passed = torch.tensor([[0.0, 0.4, 0.6]], dtype=torch.float64)
    found = forward_prior(torch.zeros(1, 3, dtype=torch.float64), passed)
    # Uniform from position 1 to 1 or 2, and from position 2 only to itself.
    torch.testing.assert_close(found.exp(), torch.tensor([[0.0, 0.2, 0.8]], dtype=torch.float64))


def test_autocast_does_not_change_the_prior() -> None:
    generator = torch.Generator().manual_seed(6)
    scores, bias = torch.randn(2, 12, generator=generator), torch.randn(12, 12, generator=generator)
    passed = torch.rand(2, 12, generator=generator).softmax(-1)
    with torch.autocast("cpu", torch.bfloat16):
        found = chain_prior(scores, passed, bias)
    torch.testing.assert_close(found, chain_prior(scores, passed, bias), rtol=0, atol=1e-6)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(2))
