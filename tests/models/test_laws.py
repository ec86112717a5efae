"""Tests of invariants that hold for every model and attention mechanism."""

import dataclasses

import numpy as np
import pytest
import torch
from wirings import CONVS, LSTMS, MODELS, TRANSFORMERS, batch, bounds

from regard.attention.registry import ATTENTION, attention_class
from regard.data.batch import collate
from regard.functional import linear_log_likelihood, linear_log_softmax
from regard.models import output
from regard.text.vocabulary import BOS, EOS

every = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize("wirings", [LSTMS, TRANSFORMERS, CONVS], ids=["lstm", "transformer", "conv"])
def test_every_supported_mechanism_is_tested(wirings) -> None:
    chosen = [getattr(one, "layer_attention", None) or (one.attention,) for one in wirings.values()]
    taken = {
        config
        for config in ATTENTION.config_classes()
        if wirings is LSTMS or not attention_class(config()).needs_advance
    }
    assert {type(config) for own in chosen for config in own} == taken


@every
def test_teacher_forcing_equals_stepwise_decoding(name) -> None:
    model, data = MODELS[name]().eval(), batch()
    outcome = model(data, mean_log_probs=True)
    memories, state = model.begin(data.source, data.upper_bounds)
    tokens = torch.full((3,), BOS)
    rows = torch.arange(3)
    for t in range(data.target.tokens.shape[1]):
        prediction = model.step(tokens, memories, state)
        tokens = data.target.tokens[:, t]
        real = data.target.mask[:, t]
        found = prediction.log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(found[real], outcome.log_likelihood[:, t][real])
        size = prediction.log_probs.shape[1]
        every = prediction.token_log_probs(rows.repeat_interleave(size), torch.arange(size).repeat(3))
        read = outcome.log_weights[:, t].isfinite()[real]  # positions outside the K contexts need no score
        each = every.view(3, size, -1).mean(1)[real]
        torch.testing.assert_close(each[read], outcome.mean_log_probs[:, t][real][read])
        for reading, weights in zip(prediction.attention_steps, outcome.cross_attentions, strict=True):
            torch.testing.assert_close(reading.weights[real], weights[:, t][real])
        state = model.update(prediction, rows, tokens)


@every
def test_distributions_are_float32_and_normalized_under_autocast(name) -> None:
    """Probabilities sum to the total weight of the contexts, which is below 1 if the tail is dropped."""
    model, data = MODELS[name]().float().eval(), batch()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        memories, state = model.begin(data.source, data.upper_bounds.float())
        prediction = model.step(torch.full((3,), BOS), memories, state)
    found, weights = prediction.log_probs, prediction.attention_steps[-1].log_weights
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp().sum(-1), weights.float().exp().sum(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["variational", "hard monotonic", "postr-joint", "transformer, prior-joint"])
def test_padding_is_not_scored(name, monkeypatch) -> None:
    model, data = MODELS[name]().eval(), batch()
    scored = []

    def counted(hidden, *operands, **options):
        scored.append(len(hidden))
        return linear_log_likelihood(hidden, *operands, **options)

    monkeypatch.setattr(output, "linear_log_likelihood", counted)
    outcome = model(data)
    steps = data.target.tokens.shape[1]
    read = outcome.log_weights.isfinite()
    assert not read.all()
    if len(scored) > 1:  # one call per time step, with all rows
        assert len(scored) == steps and sum(scored) == int(read.sum())
    else:
        assert scored == [int(read[data.target.mask].sum())]


@every
def test_scored_tokens_do_not_depend_on_the_others(name) -> None:
    model, data = MODELS[name]().eval(), batch()
    scored = torch.rand(data.target.mask.shape) < 0.5
    scored &= data.target.mask
    assert scored.any() and (scored != data.target.mask).any()
    found = model(dataclasses.replace(data, scored=scored)).log_likelihood
    torch.testing.assert_close(found[scored], model(data).log_likelihood[scored])


@every
def test_score_is_batch_invariant(name) -> None:
    model, data = MODELS[name]().eval(), batch()
    together = model(data)
    for i in range(3):
        s, t = int(data.source.lengths[i]), int(data.target.lengths[i])
        source, target = data.source.tokens[i, :s].tolist(), data.target.tokens[i, :t].tolist()
        alone = model(collate([source], [target], [i], [bounds(s)]))
        torch.testing.assert_close(together.log_likelihood[i : i + 1, :t], alone.log_likelihood)
        for among, weights in zip(together.cross_attentions, alone.cross_attentions, strict=True):
            torch.testing.assert_close(among[i : i + 1, :t, :, :s], weights)


@pytest.mark.parametrize("name", [name for name in MODELS if "constrained" in name])
def test_padding_does_not_consume_fertility(name) -> None:
    """Without a sink, a short sentence has enough fertility for its own steps, but not for a longer one's."""
    model = MODELS[name]().train()
    pairs = [([5], [6, EOS]), ([5, 6, 7], [8, 6, 7, 5, 6, EOS])]

    def losses(chosen: list[int]) -> torch.Tensor:
        sources, targets = zip(*(pairs[i] for i in chosen), strict=True)
        upper = [np.full(len(ids), 2, np.float32) for ids in sources]
        return -model(collate(sources, targets, chosen, upper)).log_likelihood.sum(1)

    together, alone = losses([0, 1]), losses([0])
    torch.testing.assert_close(together[:1], alone)
    gradients = [
        torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        for loss in (together[0], alone[0])
    ]
    for among, own in zip(*gradients, strict=True):
        if among is not None and own is not None:
            assert among.isfinite().all()
            torch.testing.assert_close(among, own)


@every
def test_reordering_rows_commutes_with_a_step(name) -> None:
    model, data = MODELS[name]().eval(), batch()
    # Search can drop hypotheses and duplicate others.
    order = torch.tensor([2, 0, 0])
    tokens = torch.tensor([6, 7, 8])
    memories, state = model.begin(data.source, data.upper_bounds)
    state = model.update(model.step(tokens, memories, state), torch.arange(3), tokens)
    after = model.step(tokens, memories, state)
    chosen = tuple(memory.select(order) for memory in memories)
    before = model.step(tokens[order], chosen, state.select(order))
    torch.testing.assert_close(after.log_probs[order], before.log_probs)


@every
def test_gradient_of_every_layer_matches_finite_differences(name) -> None:
    model, data = MODELS[name]().train(), batch()  # without dropout
    if model.reward is not None:
        model.eval()  # samples have a gradient only through the reward: see `test_hard`

    def loss() -> torch.Tensor:
        outcome = model(data, mean_log_probs=True)
        return outcome.penalty.sum() - outcome.log_likelihood.sum() - 0.1 * outcome.mean_log_probs.sum()

    loss().backward()
    attends = any(bool((weights != 0).any()) for weights in model(data).cross_attentions)
    generator = torch.Generator().manual_seed(2)
    seen: set[int] = set()
    for label, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in seen]
        seen |= {id(p) for p in own}
        if not own:
            continue
        directions = [torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in own]
        if isinstance(module, torch.nn.Embedding):
            directions[0][0] = 0  # the padding embedding is constant
        expected, found = 0.0, 0.0
        for parameter, direction in zip(own, directions, strict=True):
            # Without attention to the source, its parameters have no gradient. Neither have hard selections.
            assert parameter.grad is not None or not attends or model.reward, f"{label} has no gradient"
            if parameter.grad is not None:
                found += float((parameter.grad * direction).sum())
        # Central differences along one random direction per module.
        with torch.no_grad():
            for sign in (1, -1):
                _move(own, directions, sign * 1e-6)
                expected += sign * float(loss()) / 2e-6
                _move(own, directions, -sign * 1e-6)
        assert found == pytest.approx(expected, rel=2e-4, abs=1e-6), label


def _move(parameters, directions, step: float) -> None:
    for parameter, direction in zip(parameters, directions, strict=True):
        parameter += step * direction


LINEAR = ("postr-joint, mean of the tail", "linear output layer")
ROWS = ([0, 1, 2], [0, 0, 1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 0, 2], [2, 0, 0, 1])


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("recorded", [False, True])
def test_mixture_equals_one_softmax_per_context(name, rows, recorded) -> None:
    """The result does not depend on the number and order of hypotheses per sentence."""
    model, data = MODELS[name]().eval(), batch()
    index, tokens = torch.tensor(rows), torch.full((3,), BOS)
    with torch.set_grad_enabled(recorded):
        memories, state = model.begin(data.source)
        state = model.update(model.step(tokens, memories, state), torch.arange(3), torch.tensor([5, 6, 7]))
        memories = tuple(memory.select(index) for memory in memories)
        prediction = model.step(torch.tensor([5, 6, 7])[index], memories, state.select(index))
        reading = prediction.attention_steps[0]
        top = prediction.state.top
        both = torch.cat([reading.contexts, top.unsqueeze(1).expand(-1, reading.contexts.shape[1], -1)], -1)
        each = linear_log_softmax(both @ model.combine, model.output, model.output_bias)  # (N, K, V)
        weights = reading.log_weights.unsqueeze(1).expand(-1, each.shape[2], -1)
        marginal = (weights + each.transpose(1, 2)).logsumexp(-1)
        torch.testing.assert_close(prediction.log_probs, marginal)
        chosen = torch.tensor([len(rows) - 1, 0, 0])
        found = prediction.token_log_probs(chosen, torch.tensor([4, 5, 3]))
        torch.testing.assert_close(found, each[chosen, :, torch.tensor([4, 5, 3])])
