"""Tests of the recurrent model beyond those that all models share (`test_laws`)."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from wirings import LSTMS, SOURCE, TARGET, batch, build, config, decoder

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import collate
from regard.data.vocabulary import BOS, EOS
from regard.errors import ConfigError, InfeasibleBoundsError
from regard.models.rnn.layers import RnnEncoderConfig
from regard.models.rnn.model import LstmModel


def test_padding_scores_zero_and_probabilities_sum_to_one() -> None:
    model, data = build(LSTMS["luong"]).eval(), batch()
    outcome = model(data)
    assert torch.equal(
        outcome.log_likelihood[~data.target.mask], torch.zeros_like(outcome.penalty)[~data.target.mask]
    )
    memories, state = model.begin(data.source, data.upper_bounds)
    prediction = model.step(torch.full((3,), BOS), memories, state)
    torch.testing.assert_close(prediction.log_probs.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_dropout_is_active_only_in_training() -> None:
    model, data = build(config(dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    model.eval()
    assert torch.equal(model(data).log_likelihood, model(data).log_likelihood)


def test_embedding_dropout_is_a_separate_option() -> None:
    model, data = build(config(dropout=0.0, embedding_dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    still = build(config(dropout=0.0, embedding_dropout=0.0))
    assert torch.equal(still(data).log_likelihood, still(data).log_likelihood)


def test_tied_embeddings_share_one_parameter() -> None:
    model = LstmModel(config(embedding_size=8, tie_embeddings="all"), TARGET, TARGET)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.output is None


def test_bfloat16_approximates_float32() -> None:
    model, data = build(config()).float().eval(), batch()
    exact = model(data).log_likelihood
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = model(data).log_likelihood
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, exact, rtol=0.02, atol=0.05)
    stored = model.to(torch.bfloat16)(data).log_likelihood
    torch.testing.assert_close(stored, exact, rtol=0.02, atol=0.05)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (config(encoder=RnnEncoderConfig(hidden_size=7)), "model.encoder.hidden_size"),
        (config(encoder=RnnEncoderConfig(hidden_size=6)), "model.decoder.state_init"),
        (config(decoder=decoder(query="previous")), "model.decoder.input_feeding"),
        (
            config(decoder=decoder(query="previous", input_feeding="context", output_layer="linear")),
            "model.decoder.output_layer",
        ),
        (config(tie_embeddings="decoder"), "model.tie_embeddings"),
        (config(embedding_size=8, tie_embeddings="all"), "one vocabulary"),
        (
            config(
                encoder=RnnEncoderConfig(hidden_size=6),
                decoder=decoder(state_init="dense"),
                attention=SoftAttentionConfig(score_function="dot"),
            ),
            "dot",
        ),
    ],
)
def test_invalid_configuration_raises_with_the_option(wrong, named) -> None:
    with pytest.raises(ConfigError, match=named):
        LstmModel(wrong, SOURCE, TARGET)


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


def test_exhausted_fertility_in_training_raises_with_the_sentence() -> None:
    model = build(config(attention=ConstrainedAttentionConfig()))
    short = collate(
        [[5, 6], [5]],
        [[5, 6, EOS], [6, 7, EOS]],
        [40, 41],
        [np.full(2, 9, np.float32), np.ones(1, np.float32)],
    )
    with pytest.raises(InfeasibleBoundsError, match="sentence 42 of the prepared text, time step 1"):
        model(short)
