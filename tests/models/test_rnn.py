"""Tests of the recurrent models beyond those that all models share: encoders, and a linear output layer."""

import itertools

import pytest
import torch
from torch.nn import functional as F
from wirings import LSTMS, MODELS, SOURCE, TARGET, batch, build, config, decoder

from regard.data.batch import collate
from regard.errors import ConfigError
from regard.functional import linear_log_softmax
from regard.models.base import marginalize
from regard.models.rnn.layers import ConvEncoder, ConvEncoderConfig, ConvStack
from regard.models.rnn.model import RnnModel
from regard.text.vocabulary import BOS, EOS


def test_padding_scores_zero_and_probabilities_sum_to_one() -> None:
    model, data = build(LSTMS["luong"]).eval(), batch()
    outcome = model(data)
    assert torch.equal(
        outcome.log_likelihood[~data.target.mask], torch.zeros_like(outcome.penalty)[~data.target.mask]
    )
    memories, state = model.begin(data.source, data.upper_bounds)
    prediction = model.step(torch.full((3,), BOS), memories, state)
    torch.testing.assert_close(prediction.log_probs.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_embedding_dropout_is_a_separate_option() -> None:
    model, data = build(config(dropout=0.0, embedding_dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    still = build(config(dropout=0.0, embedding_dropout=0.0))
    assert torch.equal(still(data).log_likelihood, still(data).log_likelihood)


def test_every_cell_and_query_is_tested() -> None:
    wired = {(c.decoder.rnn_type, c.decoder.query) for c in LSTMS.values()}
    assert wired >= set(itertools.product(["lstm"], ["current", "previous"])) | {("gru", "current")}


def test_cross_entropy_matches_pytorch() -> None:
    model, data = build(config()).eval(), batch()
    memories, state = model.begin(data.source, data.upper_bounds)
    logits = []
    tokens = torch.full((3,), BOS)
    for t in range(data.target.tokens.shape[1]):
        prediction = model.step(tokens, memories, state)
        tokens = data.target.tokens[:, t]
        logits.append(prediction.log_probs)
        state = model.update(prediction, torch.arange(3), tokens)
    expected = F.nll_loss(
        torch.stack(logits, 1).flatten(0, 1), data.target.tokens.flatten(), ignore_index=0, reduction="sum"
    )
    torch.testing.assert_close(-model(data).log_likelihood.sum(), expected)


def _stack(stack: ConvStack, x: torch.Tensor) -> torch.Tensor:
    """Apply the published stack to one sentence [S, E], with the convolution of PyTorch."""
    if stack.input_proj is not None:
        x = x @ stack.input_proj.weight + stack.input_proj.bias
    for layer in stack.layers:
        width = layer.weight.shape[1]
        kernel = layer.weight.view(-1, width, width).permute(2, 1, 0)  # (out, in, kernel)
        found = F.conv1d(x.t(), kernel, layer.bias, padding=kernel.shape[2] // 2).t()
        x = torch.tanh(found + x)
    return x


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_stacks_match_the_published_equations_per_sentence(kernel) -> None:
    settings = ConvEncoderConfig(num_layers=3, num_value_layers=2, hidden_size=8, kernel_size=kernel)
    encoder, x = ConvEncoder(settings, 6).double(), torch.randn(3, 5, 6).double()
    lengths = torch.tensor([5, 2, 1])
    values, keys, ((first,),) = encoder(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(keys[row, :length], _stack(encoder.keys, x[row, :length]))
        expected = _stack(encoder.values, x[row, :length])
        torch.testing.assert_close(values[row, :length], expected)
        torch.testing.assert_close(first[row], expected.mean(0))


def test_states_depend_on_the_position() -> None:
    model = build(LSTMS["convolutional encoder"]).eval()
    found = model.begin(collate([[5, 5, 5, 5, 5, 5, 5]], None, [0]).source)[0][0].states[0]
    assert not torch.allclose(found[2], found[4])  # both positions have the same words on all sides
    with torch.no_grad():
        # Without position embeddings, equal words with equal neighbors have equal states.
        model.encoder.positions.table.zero_()
    found = model.begin(collate([[5, 5, 5, 5, 5, 5, 5]], None, [0]).source)[0][0].states[0]
    torch.testing.assert_close(found[2], found[4])


def test_scores_use_the_key_stack_and_contexts_the_value_stack() -> None:
    model, data = build(LSTMS["convolutional encoder"]).eval(), batch()
    (first,), _ = model.begin(data.source)
    with torch.no_grad():
        model.encoder.keys.layers[0].weight.add_(0.5)
    (other,), state = model.begin(data.source)
    torch.testing.assert_close(other.states, first.states)
    queries = torch.randn_like(state.layers[-1][0])
    readings = [model.attention.read(queries, memory, state.attention) for memory in (first, other)]
    assert not torch.allclose(readings[0].weights, readings[1].weights)
    for reading in readings:
        torch.testing.assert_close(reading.contexts, reading.weights @ first.states)


def test_the_default_initial_state_is_that_of_the_mean_of_the_values() -> None:
    """`copy`, the default of recurrent encoders, needs final states, which convolutions do not have."""
    torch.manual_seed(0)
    default = RnnModel(config(encoder=ConvEncoderConfig(hidden_size=8)), SOURCE, TARGET)
    torch.manual_seed(0)
    dense = RnnModel(
        config(encoder=ConvEncoderConfig(hidden_size=8), decoder=decoder(state_init="dense")), SOURCE, TARGET
    )
    batch = collate([[5, 6], [5, 6, 7]], [[5, EOS], [5, 6, EOS]], [0, 1])
    assert torch.equal(default(batch).log_likelihood, dense(batch).log_likelihood)


def test_max_length_is_the_number_of_positions() -> None:
    assert build(LSTMS["convolutional encoder"]).max_length == 9
    assert build(LSTMS["luong"]).max_length is None


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (
            config(encoder=ConvEncoderConfig(hidden_size=8), decoder=decoder(state_init="copy")),
            "'copy' needs an encoder with a final state",
        ),
        (
            config(
                encoder=ConvEncoderConfig(hidden_size=8, kernel_size=4), decoder=decoder(state_init="zero")
            ),
            "model.encoder.kernel_size must be odd.*got 4",
        ),
    ],
)
def test_invalid_configuration_raises_with_the_option(wrong, named) -> None:
    with pytest.raises(ConfigError, match=named):
        RnnModel(wrong, SOURCE, TARGET)


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
