"""Tests of the recurrent models beyond those that all models share: dropout, and a linear output layer."""

import pytest
import torch
from wirings import MODELS, batch, build, config

from regard.functional import linear_log_softmax
from regard.models.base import marginalize
from regard.text.vocabulary import BOS


def test_embedding_dropout_is_a_separate_option() -> None:
    model, data = build(config(dropout=0.0, embedding_dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    still = build(config(dropout=0.0, embedding_dropout=0.0))
    assert torch.equal(still(data).log_likelihood, still(data).log_likelihood)


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
        torch.testing.assert_close(prediction.log_probs, marginalize(weights, each.transpose(1, 2)))
        chosen = torch.tensor([len(rows) - 1, 0, 0])
        found = prediction.token_log_probs(chosen, torch.tensor([4, 5, 3]))
        torch.testing.assert_close(found, each[chosen, :, torch.tensor([4, 5, 3])])
