"""Tests of posterior attention against an enumeration of all sequences of source positions."""

import pytest
import torch

from generation.conftest import build_rnn
from problems import chain_transitions, enumerate_chain
from regard.attention.posterior import PosteriorAttention, PosteriorAttentionConfig, PosteriorState
from regard.config import from_dict
from regard.data.batch import Batch, collate
from regard.errors import ConfigError
from regard.models.rnn.model import RnnModel
from regard.text.vocabulary import BOS, EOS

TARGET = 8
TAILS = ["mean", "renormalize", "drop"]


def _model(readout: str = "tanh", feed: str = "none", **attention) -> RnnModel:
    decoder = {"input_feeding": feed, "output_layer": readout}
    attention = {"kind": "posterior", **attention}
    model = build_rnn(2, TARGET, uniform=0.9, decoder=decoder, attention=attention).double()
    if (coupling := _attention(model).coupling) is not None:
        torch.nn.init.uniform_(coupling, -2, 2)
    return model


def _attention(model: RnnModel) -> PosteriorAttention:
    assert isinstance(model.attention, PosteriorAttention)
    return model.attention


def _batch() -> Batch:
    sources = [[5, 6, 7], [8, 5], [6]]
    targets = [[5, 7, 6, EOS], [6, 6, EOS], [7, EOS]]
    return collate(sources, targets, [0, 1, 2])


def _parts(model: RnnModel, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores z_t and log p(y_t | s_t, x_j) for every source position j.

    The decoder has no input feeding, so these do not depend on attention.
    """
    assert batch.target is not None
    memories, state = model.begin(batch.source)
    tokens, rows = torch.full((len(batch),), BOS), torch.arange(len(batch))
    opened = model.decoder.open(model.combine)
    scores, found = [], []
    for t in range(batch.target.tokens.shape[1]):
        gates = model.decoder.project(model.target_embedding(tokens))
        _, top = model.decoder.advance(opened, gates, state.input_feed, state.layers)
        scores.append(_attention(model).scorer(top.unsqueeze(1), memories[0].keys)[:, 0])
        outputs = model._attentional(opened, memories[0].states, top)
        logits = outputs @ model._output(outputs.dtype)[0].t() + model.output_bias
        chosen = batch.target.tokens[:, t]
        log_probs = logits.log_softmax(-1)
        found.append(log_probs.gather(2, chosen[:, None, None].expand(-1, log_probs.shape[1], 1))[..., 0])
        prediction = model.step(tokens, memories, state)
        state, tokens = model.update(prediction, rows, chosen), chosen
    return torch.stack(scores, 1), torch.stack(found, 1)


@pytest.mark.parametrize("readout", ["tanh", "linear"])
@pytest.mark.parametrize(
    "settings",
    [
        {"state_attention": "prior"},
        *(
            {"coupling": name, "posterior_weight": 1.0}
            for name in ("proximity", "monotonic", "hard_monotonic")
        ),
    ],
)
def test_exact_inference_is_the_sum_over_all_alignments(settings, readout) -> None:
    model, batch = _model(readout, top_k=0, **settings), _batch()
    scores, emissions = _parts(model, batch)
    mask = batch.source.mask
    bias = torch.zeros(3, 3).double()
    if _attention(model).coupling is not None:
        bias = _attention(model).coupling_bias(3)
    elif "coupling" in settings:  # hard monotonic
        bias = bias.masked_fill(~torch.ones(3, 3).tril().bool(), -torch.inf)
    start = scores[:, 0].masked_fill(~mask, -torch.inf).log_softmax(-1)
    transitions = chain_transitions(scores, bias, mask)
    found = model(batch).log_likelihood.sum(1)
    for b, (words, steps) in enumerate(((3, 4), (2, 3), (1, 2))):
        expected = enumerate_chain(start[b], transitions[b], emissions[b, :steps], words)
        torch.testing.assert_close(found[b], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("coupling", ["none", "proximity", "monotonic"])
def test_top_k_without_tail_is_a_lower_bound_on_the_likelihood(coupling) -> None:
    batch = _batch()
    settings = {"coupling": coupling, "posterior_weight": 1.0, "tail": "drop"}
    whole, *parts = (_model(top_k=count, **settings)(batch).log_likelihood.sum(1) for count in (0, 1, 2))
    # Each neglected position removes probability from the sum over alignments.
    for part in parts:
        assert (part <= whole + 1e-12).all()
    assert (parts[0] < whole).any()


@pytest.mark.parametrize("coupling", ["none", "proximity", "monotonic"])
def test_tail_positions_share_their_mean_context(coupling) -> None:
    """The remaining positions share one context, their mean under the prior.

    Bayes' rule is applied to these K + 1 contexts.
    """
    model, batch = (
        _model(coupling=coupling, top_k=1, posterior_weight=1.0, tail="mean", feed="context"),
        _batch(),
    )
    (memory,), state = model.begin(batch.source)
    rows, tokens = torch.arange(3), torch.full((3,), BOS)
    for chosen in (torch.tensor([5, 6, 7]), torch.tensor([6, 6, 5])):
        found = model.step(tokens, (memory,), state)
        reading, states = found.attention_steps[0], memory.states
        prior = reading.weights[:, 0]
        place = prior.argmax(-1)
        others = prior.scatter(1, place.unsqueeze(1), 0.0)
        mass = others.sum(-1)
        torch.testing.assert_close(reading.log_weights.exp(), torch.stack([prior[rows, place], mass], -1))
        means = (others.unsqueeze(1) @ states)[:, 0] / mass.clamp_min(1e-20).unsqueeze(1)
        torch.testing.assert_close(reading.contexts, torch.stack([states[rows, place], means], 1))
        likelihood = found.token_log_probs(rows, chosen).exp()  # (B, 2)
        joint = others / mass.clamp_min(1e-20).unsqueeze(1) * (mass * likelihood[:, 1]).unsqueeze(1)
        joint[rows, place] = prior[rows, place] * likelihood[:, 0]
        state, tokens = model.update(found, rows, chosen), chosen
        assert isinstance(state.attention, PosteriorState) and state.attention.posterior is not None
        torch.testing.assert_close(state.attention.posterior, joint / joint.sum(-1, keepdim=True))


@pytest.mark.parametrize("state_attention", ["prior", "posterior"])
@pytest.mark.parametrize("tail", TAILS)
def test_top_k_covering_the_sentence_gives_the_exact_likelihood(state_attention, tail) -> None:
    batch = _batch()
    exact, found = (
        _model(state_attention=state_attention, **settings)(batch).log_likelihood.sum(1)
        for settings in ({"top_k": 0}, {"top_k": 3, "tail": tail})
    )
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-9)


def test_posterior_follows_bayes_rule() -> None:
    model, batch = _model(top_k=2, tail="drop", feed="context"), _batch()
    memories, state = model.begin(batch.source)
    first = model.step(torch.full((3,), BOS), memories, state)
    token = torch.tensor([5, 6, 7])
    after = model.update(first, torch.arange(3), token).attention
    assert isinstance(after, PosteriorState) and after.posterior is not None
    reading = first.attention_steps[0]
    prior, positions = reading.weights[0, 0], reading.positions
    assert positions is not None
    joint = torch.zeros(3, dtype=torch.float64)
    likelihood = first.token_log_probs(torch.arange(3), token)[0].exp()
    for k, place in enumerate(positions[0].tolist()):
        joint[place] = prior[place] * likelihood[k]
    posterior = joint / joint.sum()
    torch.testing.assert_close(after.posterior[0], posterior)
    torch.testing.assert_close(after.posteriors[0, 0], posterior)
    torch.testing.assert_close(after.weights[0, 0], 0.5 * posterior + 0.5 * prior)
    torch.testing.assert_close(after.context[0], after.weights[0, 0] @ memories[0].states[0])


def test_prior_joint_passes_the_soft_context_to_the_decoder() -> None:
    model, batch = _model(state_attention="prior", top_k=2, feed="context"), _batch()
    memories, state = model.begin(batch.source)
    first = model.step(torch.full((3,), BOS), memories, state)
    after = model.update(first, torch.arange(3), torch.tensor([5, 6, 7])).attention
    torch.testing.assert_close(after.posteriors, first.attention_steps[0].weights)
    expected = (first.attention_steps[0].weights @ memories[0].states)[:, 0]
    torch.testing.assert_close(after.context, expected)


@pytest.mark.parametrize("top_k", [6, 1])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("coupling", ["none", "monotonic"])
def test_large_top_k_and_one_word_sentence_are_finite(coupling, top_k, tail) -> None:
    settings = {"coupling": coupling, "top_k": top_k, "tail": tail}
    model, batch = _model(**settings, feed="attentional"), _batch()
    found = model(batch)
    assert found.log_likelihood.isfinite().all()
    (-found.log_likelihood.sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    alone = model(collate([[6]], [[7, EOS]], [2])).log_likelihood
    torch.testing.assert_close(alone[0], found.log_likelihood[2, :2])
    # The posterior of the only word is 1, for any token.
    torch.testing.assert_close(found.posteriors[0][2, :, 0, 0], torch.ones(4, dtype=torch.float64))


def test_hard_monotonic_coupling_requires_exact_inference() -> None:
    for more in (
        {"top_k": 0},
        {"posterior_weight": 1.0},
        {"posterior_weight": 1.0, "top_k": 0, "state_attention": "prior"},
    ):
        with pytest.raises(ConfigError, match="coupling 'hard_monotonic' requires exact inference"):
            from_dict(PosteriorAttentionConfig, {"kind": "posterior", "coupling": "hard_monotonic", **more})


@pytest.mark.parametrize(("coupling", "parameters"), [("proximity", 5), ("monotonic", 1)])
def test_bias_matrix_matches_the_coupling(coupling, parameters) -> None:
    mechanism = _attention(_model(coupling=coupling))
    assert mechanism.coupling is not None
    bias = mechanism.coupling_bias(6)
    distance = torch.arange(6).unsqueeze(1) - torch.arange(6)
    if coupling == "proximity":
        for d in range(-2, 3):
            torch.testing.assert_close(bias[distance == d], mechanism.coupling[d + 2].expand(6 - abs(d)))
        assert (bias[distance.abs() > 2] == 0).all()
    else:
        delta = torch.sigmoid(mechanism.coupling)
        expected = torch.where(distance >= 1, delta ** (distance - 1).clamp_min(0), torch.zeros(()).double())
        torch.testing.assert_close(bias, expected)
    assert sum(p.numel() for n, p in mechanism.named_parameters() if n == "coupling") == parameters
