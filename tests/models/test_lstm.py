"""Laws of the recurrent model, for every way of wiring it."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.none import NoAttentionConfig
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import Batch, collate
from regard.data.vocabulary import BOS, EOS
from regard.errors import ConfigError, InfeasibleBounds
from regard.models import build_model
from regard.models.lstm import LstmModel
from regard.models.lstm_config import DecoderConfig, LstmConfig
from regard.models.recurrent import EncoderConfig
from toys import TwoContexts

SOURCE, TARGET = 13, 11


def config(**changes) -> LstmConfig:
    settings = {
        "embedding": 6,
        "encoder": EncoderConfig(layers=2, width=8),
        "decoder": DecoderConfig(layers=2, width=8),
        "dropout": 0.0,
        "uniform": 0.5,
    }
    return LstmConfig(**{**settings, **changes})


def decoder(**changes) -> DecoderConfig:
    return DecoderConfig(**{"layers": 2, "width": 8, **changes})


WIRINGS = {
    "luong": config(),
    "bahdanau": config(
        decoder=decoder(query="previous", feed="context"), attention=SoftAttentionConfig(scorer="additive")
    ),
    "fed the context": config(decoder=decoder(feed="context"), attention=SoftAttentionConfig(scorer="dot")),
    "fed nothing": config(decoder=decoder(feed="none")),
    "sparse": config(attention=SoftAttentionConfig(map="sparsemax")),
    "gru": config(encoder=EncoderConfig(width=8, cell="gru"), decoder=decoder(cell="gru")),
    "reversed without attention": config(
        encoder=EncoderConfig(width=8, direction="reversed"), attention=NoAttentionConfig()
    ),
    "dense bridge": config(
        encoder=EncoderConfig(layers=1, width=4, cell="gru"), decoder=decoder(bridge="dense")
    ),
    "learned start": config(decoder=decoder(bridge="learned")),
    "zero start": config(decoder=decoder(bridge="zero")),
    "tied": config(embedding=8, tied="target"),
    "constrained": config(attention=ConstrainedAttentionConfig()),
    "pointer": config(decoder=decoder(query="previous", feed="context"), attention=PointerAttentionConfig()),
    "prior-joint": config(attention=PosteriorAttentionConfig(passes="prior", contexts=3)),
    "postr-joint": config(
        decoder=decoder(feed="context"), attention=PosteriorAttentionConfig(coupling="monotonic", contexts=9)
    ),
    "linear readout": config(
        decoder=decoder(readout="linear"),
        attention=PosteriorAttentionConfig(coupling="proximity", contexts=2, renormalise=True),
    ),
    "linear readout of one context": config(decoder=decoder(readout="linear")),
    "hard monotonic": config(
        decoder=decoder(feed="none"),
        attention=PosteriorAttentionConfig(coupling="forward", contexts=0, mix=1.0),
    ),
    "observing": None,  # a toy mechanism of two contexts, told which token came
}


def batch(lengths=((5, 4), (2, 6), (1, 1)), seed=0) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def words(n: int, size: int) -> list[int]:
        return torch.randint(5, size, (n,), generator=generator).tolist()

    sources = [words(s, SOURCE) for s, _ in lengths]
    targets = [[*words(t, TARGET), EOS] for _, t in lengths]
    return collate(sources, targets, list(range(len(lengths))), [bounds(s) for s, _ in lengths])


def bounds(length: int) -> np.ndarray:
    """Fertilities, for mechanisms that want them; the last word may receive any amount."""
    return np.array([0.6 + 0.3 * i for i in range(length - 1)] + [np.inf], dtype=np.float32)


def build(wiring: LstmConfig | None) -> LstmModel:
    torch.manual_seed(1)
    model = build_model(wiring or config(), SOURCE, TARGET)
    assert isinstance(model, LstmModel)
    if wiring is None:
        model.attention = TwoContexts(8, 8)
    return model.double()


@pytest.mark.parametrize("name", WIRINGS)
def test_teacher_forcing_equals_the_steps_of_search(name) -> None:
    model, data = build(WIRINGS[name]).eval(), batch()
    outcome = model(data, average=True)
    memories, state = model.begin(data.source, data.upper)
    tokens = torch.full((3,), BOS)
    rows = torch.arange(3)
    for t in range(data.target.tokens.shape[1]):
        prediction = model.step(tokens, memories, state)
        tokens = data.target.tokens[:, t]
        real = data.target.mask[:, t]
        found = prediction.log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(found[real], outcome.log_likelihood[:, t][real])
        each = prediction.log_probs.unsqueeze(1) if prediction.by_context is None else prediction.by_context
        torch.testing.assert_close(each.mean(-1)[real], outcome.average[:, t][real])
        torch.testing.assert_close(prediction.readings[0].weights[real], outcome.weights[0][:, t][real])
        state = model.observe(prediction, rows, tokens)


@pytest.mark.parametrize("name", WIRINGS)
def test_a_sentence_scores_the_same_alone_as_among_others(name) -> None:
    model, data = build(WIRINGS[name]).eval(), batch()
    together = model(data)
    for i in range(3):
        s, t = int(data.source.lengths[i]), int(data.target.lengths[i])
        alone = model(
            collate(
                [data.source.tokens[i, :s].tolist()], [data.target.tokens[i, :t].tolist()], [i], [bounds(s)]
            )
        )
        torch.testing.assert_close(together.log_likelihood[i : i + 1, :t], alone.log_likelihood)
        torch.testing.assert_close(together.weights[0][i : i + 1, :t, :, :s], alone.weights[0])


@pytest.mark.parametrize("name", WIRINGS)
def test_reordering_rows_commutes_with_a_step(name) -> None:
    model, data = build(WIRINGS[name]).eval(), batch()
    order = torch.tensor([2, 0, 0])
    tokens = torch.tensor([6, 7, 8])
    memories, state = model.begin(data.source, data.upper)
    state = model.observe(model.step(tokens, memories, state), torch.arange(3), tokens)
    after = model.step(tokens, memories, state)
    chosen = tuple(memory.select(order) for memory in memories)
    before = model.step(tokens[order], chosen, state.select(order))
    torch.testing.assert_close(after.log_probs[order], before.log_probs)


@pytest.mark.parametrize("name", WIRINGS)
def test_every_parameter_gets_the_gradient_of_finite_differences(name) -> None:
    model, data = build(WIRINGS[name]), batch()
    model.eval()

    def loss() -> torch.Tensor:
        outcome = model(data, average=True)
        return -outcome.log_likelihood.sum() - 0.1 * outcome.average.sum()

    loss().backward()
    generator = torch.Generator().manual_seed(2)
    for label, parameter in model.named_parameters():
        if parameter.grad is None:
            # Without attention the context's scorer does not exist; nothing else may be left out.
            pytest.fail(f"{label} has no gradient")
        direction = torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
        if parameter is model.source_embedding.weight or parameter is model.target_embedding.weight:
            direction[0] = 0  # padding is held at its place
        with torch.no_grad():
            step = 1e-6 * direction
            parameter += step
            above = loss()
            parameter -= 2 * step
            below = loss()
            parameter += step
        expected = (above - below) / 2e-6
        found = (parameter.grad * direction).sum()
        torch.testing.assert_close(found, expected, rtol=2e-4, atol=1e-6, msg=label)


def test_padding_scores_zero_and_probabilities_sum_to_one() -> None:
    model, data = build(WIRINGS["luong"]).eval(), batch()
    outcome = model(data)
    assert torch.equal(
        outcome.log_likelihood[~data.target.mask], torch.zeros_like(outcome.penalty)[~data.target.mask]
    )
    memories, state = model.begin(data.source, data.upper)
    prediction = model.step(torch.full((3,), BOS), memories, state)
    torch.testing.assert_close(prediction.log_probs.exp().sum(-1), torch.ones(3, dtype=torch.float64))


def test_dropout_works_in_training_and_is_off_in_evaluation() -> None:
    model, data = build(config(dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    model.eval()
    assert torch.equal(model(data).log_likelihood, model(data).log_likelihood)


def test_dropout_of_embeddings_is_set_apart() -> None:
    model, data = build(config(dropout=0.0, embedding_dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    still = build(config(dropout=0.0, embedding_dropout=0.0))
    assert torch.equal(still(data).log_likelihood, still(data).log_likelihood)


def test_tied_parameters_are_one() -> None:
    model = LstmModel(config(embedding=8, tied="all"), TARGET, TARGET)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.output is None


def test_bfloat16_is_near_float32() -> None:
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
        (config(encoder=EncoderConfig(width=7)), "model.encoder.width"),
        (config(encoder=EncoderConfig(width=6)), "model.decoder.bridge"),
        (config(decoder=decoder(query="previous")), "model.decoder.feed"),
        (config(tied="target"), "model.tied"),
        (config(embedding=8, tied="all"), "one vocabulary"),
        (
            config(
                encoder=EncoderConfig(width=6),
                decoder=decoder(bridge="dense"),
                attention=SoftAttentionConfig(scorer="dot"),
            ),
            "dot",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(wrong, named) -> None:
    with pytest.raises(ConfigError, match=named):
        LstmModel(wrong, SOURCE, TARGET)


def test_every_wiring_is_tested_for_each_cell_and_query() -> None:
    wired = {(c.decoder.cell, c.decoder.query) for c in WIRINGS.values() if c}
    assert wired >= set(itertools.product(["lstm"], ["current", "previous"])) | {("gru", "current")}


def test_cross_entropy_is_pytorchs() -> None:
    model, data = build(config()).eval(), batch()
    memories, state = model.begin(data.source, data.upper)
    logits = []
    tokens = torch.full((3,), BOS)
    for t in range(data.target.tokens.shape[1]):
        prediction = model.step(tokens, memories, state)
        tokens = data.target.tokens[:, t]
        logits.append(prediction.log_probs)
        state = model.observe(prediction, torch.arange(3), tokens)
    expected = F.nll_loss(
        torch.stack(logits, 1).flatten(0, 1), data.target.tokens.flatten(), ignore_index=0, reduction="sum"
    )
    torch.testing.assert_close(-model(data).log_likelihood.sum(), expected)


def test_fertilities_that_run_out_in_training_are_an_error_that_names_the_sentence() -> None:
    model = build(config(attention=ConstrainedAttentionConfig()))
    short = collate(
        [[5, 6], [5]],
        [[5, 6, EOS], [6, 7, EOS]],
        [40, 41],
        [np.full(2, 9, np.float32), np.ones(1, np.float32)],
    )
    with pytest.raises(InfeasibleBounds, match="sentence 42 of the text, target token 2"):
        model(short)
