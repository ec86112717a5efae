"""Tests of invariants that hold for every family of models, and of the checks of their configurations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from wirings import (
    CONVS,
    FAMILIES,
    SOURCE,
    TARGET,
    TRANSFORMERS,
    batch,
    bounds,
    build,
    config,
    conv,
    decoder,
    transformer,
)

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.config import from_dict
from regard.data.batch import collate
from regard.errors import ConfigError, InfeasibleBoundsError
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.layers.position_encoding import LearnedPositionConfig
from regard.models import build_model
from regard.models.conv.model import ConvSideConfig
from regard.models.rnn.config import RnnEncoderConfig
from regard.text.vocabulary import EOS
from regard.training.run_config import RunConfig

every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_dropout_is_active_only_in_training(family) -> None:
    model, data = build(FAMILIES[family](dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    model.eval()
    assert torch.equal(model(data).log_likelihood, model(data).log_likelihood)


@pytest.mark.parametrize("attention", [SoftAttentionConfig(), SoftAttentionConfig(normalizer="sparsemax")])
@every_family
def test_returning_attention_does_not_change_the_likelihood(family, attention) -> None:
    model, data = build(FAMILIES[family](attention=attention)), batch()
    outcomes = {wanted: model(data, output_attentions=wanted) for wanted in ("nothing", "source", "all")}
    for outcome in outcomes.values():
        torch.testing.assert_close(outcome.log_likelihood, outcomes["all"].log_likelihood)
    # The fused attention of softmax returns no weights.
    if family != "rnn":
        assert bool(outcomes["nothing"].cross_attentions) == (attention.normalizer == "sparsemax")
    assert outcomes["source"].encoder_attentions == outcomes["source"].decoder_attentions == ()


@every_family
def test_tied_embeddings_share_one_parameter(family) -> None:
    changes = {"embedding_size": 8} if family == "rnn" else {}
    model = build_model(FAMILIES[family](tie_embeddings="all", **changes), TARGET, TARGET)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.output is None


@every_family
def test_bfloat16_approximates_float32(family) -> None:
    # Dense layers of the initial states have inputs in both dtypes.
    changes = {"decoder": decoder(state_init="dense")} if family == "rnn" else {}
    model, data = build(FAMILIES[family](**changes)).float().eval(), batch()
    tolerance = {"rtol": 0.02, "atol": 0.05} if family == "rnn" else {"rtol": 0.05, "atol": 0.1}
    exact = model(data).log_likelihood
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = model(data, output_attentions="nothing").log_likelihood
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, exact, **tolerance)
    stored = model.to(torch.bfloat16)(data).log_likelihood
    torch.testing.assert_close(stored, exact, **tolerance)


@every_family
def test_exhausted_fertility_in_training_raises_with_the_sentence(family) -> None:
    model = build(FAMILIES[family](attention=ConstrainedAttentionConfig())).train()
    upper = [np.full(2, 9, np.float32), np.ones(1, np.float32)]
    short = collate([[5, 6], [5]], [[5, 6, EOS], [6, 7, EOS]], [40, 41], upper)
    # A recurrent decoder runs step by step, so its error names the step too.
    where = ", time step 1" if family == "rnn" else ""
    with pytest.raises(InfeasibleBoundsError, match=f"sentence 42 of the prepared text{where}"):
        model(short)


@pytest.mark.parametrize("family", ["transformer", "conv"])
def test_search_ends_at_the_last_learned_position(family) -> None:
    # Nine positions: eight tokens and EOS.
    model = build(FAMILIES[family](position_encoding=LearnedPositionConfig(max_length=9)))
    source = collate([[5, 6, 7]], None, [0]).source
    config = GenerationConfig(beam_size=2, length_penalty=0.0, min_length=20, max_length_offset=30)
    assert model.max_length == 9
    assert [len(h.tokens) for h in beam_search(model, source, config)[0]] == [8]


@pytest.mark.parametrize(
    "wiring",
    [
        *(CONVS[name] for name in ("gehring", "wide kernels", "constrained", "prior-joint", "mono-joint")),
        *(TRANSFORMERS[name] for name in ("post-norm", "learned positions", "prior-joint", "mono-joint")),
        TRANSFORMERS["constrained, per-layer budget"],
    ],
)
def test_beam_search_is_batch_invariant(wiring) -> None:
    model, pairs = build(wiring).eval(), batch()
    source = pairs.source
    config = GenerationConfig(
        beam_size=3, num_return=3, length_penalty=0.5, max_length_ratio=1.0, max_length_offset=3
    )
    together = beam_search(model, source, config, upper=pairs.upper_bounds)
    for row, length in enumerate(source.lengths.tolist()):
        sentence = source.tokens[row, :length].tolist()
        single = collate([sentence], None, [0], [bounds(length)])
        (alone,) = beam_search(model, single.source, config, upper=single.upper_bounds)
        assert [h.tokens for h in alone] == [h.tokens for h in together[row]]
        for mine, other in zip(alone, together[row], strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-6)
            np.testing.assert_allclose(mine.attention[0], other.attention[0], atol=1e-6)


ONE_FOR_TWO_LAYERS = {"layer_attention": (SoftAttentionConfig(),)}
POSTERIOR_BELOW = {"layer_attention": (PosteriorAttentionConfig(), SoftAttentionConfig())}
NARROW = RnnEncoderConfig(hidden_size=6)
PREVIOUS = decoder(query="previous", input_feeding="context")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (config(encoder=RnnEncoderConfig(hidden_size=7)), "model.encoder.hidden_size"),
        (config(encoder=NARROW), "model.decoder.state_init"),
        (config(decoder=decoder(query="previous")), "model.decoder.input_feeding"),
        (config(decoder=replace(PREVIOUS, output_layer="linear")), "output_layer = "),
        (
            config(decoder=PREVIOUS, attention=PosteriorAttentionConfig()),
            "prediction for each context; got .* and 'posterior'",
        ),
        (config(tie_embeddings="decoder"), "model.tie_embeddings"),
        (
            config(
                encoder=NARROW,
                decoder=decoder(state_init="dense"),
                attention=SoftAttentionConfig(score_function="dot"),
            ),
            "dot",
        ),
        (transformer(d_model=9), "model.d_model = 9 is not a multiple of model.num_heads = 2"),
        (conv(encoder=ConvSideConfig(kernel_size=2)), "model.encoder.kernel_size must be odd.*got 2"),
        *(
            (family(**changes), named)
            for family in (transformer, conv)
            for changes, named in (
                (ONE_FOR_TWO_LAYERS, "1 mechanisms, but the decoder has 2 layers"),
                (POSTERIOR_BELOW, "'posterior' is in layer 0, but it is allowed only in the last layer .1"),
                ({"attention": PointerAttentionConfig()}, "'pointer' needs a recurrent decoder"),
            )
        ),
    ],
)
def test_invalid_configuration_raises_with_the_option(wrong, named) -> None:
    with pytest.raises(ConfigError, match=named):
        build_model(wrong, SOURCE, TARGET)


@pytest.mark.parametrize("kind", ["transformer", "conv"])
def test_attention_and_layer_attention_are_mutually_exclusive(kind) -> None:
    model = {"kind": kind, "attention": {"kind": "posterior"}, "layer_attention": [{}] * 6}
    with pytest.raises(ConfigError, match="model: attention and layer_attention are both set"):
        from_dict(RunConfig, {"model": model})
