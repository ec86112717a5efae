"""Tests of the Transformer beyond those that all models share (`test_laws`)."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn
from wirings import SOURCE, TARGET, TRANSFORMERS, batch, bounds, build, transformer

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.attention.localness import Localness
from regard.attention.pointer import PointerAttentionConfig
from regard.attention.posterior import PosteriorAttentionConfig
from regard.attention.soft import SoftAttentionConfig
from regard.data.batch import collate
from regard.data.vocabulary import BOS, EOS
from regard.errors import ConfigError, InfeasibleBoundsError
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.layers.position_encoding import LearnedPositionConfig, PositionEncoding, SinusoidalPositionConfig
from regard.models.transformer.config import TransformerSideConfig
from regard.models.transformer.model import TransformerModel


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("heads", [1, 2])
def test_layers_match_pytorch(norm, heads) -> None:
    model, data = (
        build(transformer(norm_position=norm, num_heads=heads, tie_embeddings="none")).eval(),
        batch(),
    )
    assert isinstance(model, TransformerModel)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "dim_feedforward": 12, "dropout": 0.0}
    reference = nn.Transformer(8, heads, **sizes, batch_first=True, norm_first=norm == "pre").double().eval()
    reference.encoder.use_nested_tensor = False
    # PyTorch adds a final normalization, which post-norm Transformers do not have.
    if norm == "post":
        reference.encoder.norm = reference.decoder.norm = None
    with torch.no_grad():
        for ours, theirs in zip(model.encoder, reference.encoder.layers, strict=True):
            _copy_attention(ours.self_attention, theirs.self_attn)
            _copy_rest(ours.feed_forward, theirs, (ours.around_attention, ours.around_feed))
        for ours, theirs in zip(model.decoder, reference.decoder.layers, strict=True):
            _copy_attention(ours.self_attention, theirs.self_attn)
            source = ours.cross_attention
            theirs.multihead_attn.in_proj_weight.copy_(
                torch.cat([source.query_proj.weight.t(), source.key_value_proj.weight.t()])
            )
            theirs.multihead_attn.out_proj.weight.copy_(source.out_proj.weight.t())
            _copy_rest(
                ours.feed_forward, theirs, (ours.around_attention, ours.around_source, ours.around_feed)
            )
        source = model._embed(model.source_embedding, model.source_positions, data.source.tokens)
        shifted = torch.cat([torch.full((3, 1), BOS), data.target.tokens[:, :-1]], 1)
        target = model._embed(model.target_embedding, model.target_positions, shifted)
        hidden = reference(
            source,
            target,
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.shape[1]).double(),
            src_key_padding_mask=~data.source.mask,
            memory_key_padding_mask=~data.source.mask,
            tgt_is_causal=True,
        )
        log_probs = (hidden @ model.output.t() + model.output_bias).log_softmax(-1)
        expected = log_probs.gather(2, data.target.tokens.unsqueeze(2)).squeeze(2)
        found = model(data).log_likelihood
    real = data.target.mask
    torch.testing.assert_close(found[real], expected[real])


def _copy_attention(ours, theirs) -> None:
    theirs.in_proj_weight.copy_(ours.in_proj.weight.t())
    theirs.out_proj.weight.copy_(ours.out_proj.weight.t())


def _copy_rest(feed, theirs, around) -> None:
    theirs.linear1.weight.copy_(feed.linear1.weight.t())
    theirs.linear2.weight.copy_(feed.linear2.weight.t())
    theirs.linear1.bias.zero_()
    theirs.linear2.bias.zero_()
    assert len(around) == len([name for name, _ in theirs.named_children() if name.startswith("norm")])


@pytest.mark.parametrize("attention", [SoftAttentionConfig(), SoftAttentionConfig(normalizer="sparsemax")])
@pytest.mark.parametrize("layers", [0, 1])
def test_returning_attention_does_not_change_the_likelihood(attention, layers) -> None:
    side = TransformerSideConfig(num_layers=2, num_localness_layers=layers)
    model, data = build(transformer(attention=attention, encoder=side, decoder=side)), batch()
    outcomes = {look: model(data, output_attentions=look) for look in ("nothing", "source", "all")}
    for outcome in outcomes.values():
        torch.testing.assert_close(outcome.log_likelihood, outcomes["all"].log_likelihood)
    if attention.normalizer == "softmax":
        assert outcomes["nothing"].cross_attentions == ()
    assert outcomes["source"].encoder_attentions == outcomes["source"].decoder_attentions == ()


def test_attention_of_every_layer_and_head_is_returned() -> None:
    model, data = build(transformer(encoder=TransformerSideConfig(num_layers=3))), batch()
    outcome = model(data, output_attentions="all")
    assert [w.shape for w in outcome.cross_attentions] == [(3, 7, 2, 5)] * 2
    assert [w.shape for w in outcome.encoder_attentions] == [(3, 2, 5, 5)] * 3
    assert [w.shape for w in outcome.decoder_attentions] == [(3, 2, 7, 7)] * 2
    for weights in (*outcome.encoder_attentions, *outcome.decoder_attentions):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    for weights in outcome.encoder_attentions:
        assert (weights.masked_select(~data.source.mask[:, None, None]) == 0).all()
    for weights in outcome.decoder_attentions:
        assert (weights.triu(1) == 0).all()


def test_localness_matches_the_printed_gaussian() -> None:
    torch.manual_seed(3)
    localness = Localness(4, 2).double()
    queries, lengths = torch.randn(1, 3, 4).double(), torch.tensor([[5.0]]).double()
    found = localness(queries, lengths, 5)
    hidden = torch.tanh(queries[0] @ localness.hidden_proj.weight)
    for head in range(2):
        center = 5 * torch.sigmoid(hidden @ localness.center_window_proj.weight[:, head])
        window = 5 * torch.sigmoid(hidden @ localness.center_window_proj.weight[:, 2 + head])
        for i in range(3):
            for j in range(5):
                expected = -((j - center[i]) ** 2) / (2 * (window[i] / 2) ** 2)
                torch.testing.assert_close(found[0, head, i, j], expected)


def test_positions_do_not_depend_on_the_start_of_the_chunk() -> None:
    positions, like = PositionEncoding(SinusoidalPositionConfig(), 6), torch.zeros(1)
    whole = positions(0, 700, like)
    for start in (0, 1, 255, 256, 300, 511, 699):
        assert torch.equal(positions(start, 1, like), whole[start : start + 1])


def test_export_does_not_cache_traced_positions() -> None:
    positions, x = PositionEncoding(SinusoidalPositionConfig(), 10), torch.zeros(3, 10)

    class Module(torch.nn.Module):
        def forward(self, x):
            return x + positions(0, 3, x)

    torch.export.export(Module(), (x,), strict=False)
    assert type(positions(0, 3, x)) is torch.Tensor


def test_sinusoids_match_the_printed_formula() -> None:
    found = PositionEncoding(SinusoidalPositionConfig(), 6)(2, 2, torch.zeros(1, dtype=torch.float64))
    for row, place in enumerate((2, 3)):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            assert found[row, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[row, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_dropout_is_active_only_in_training() -> None:
    model, data = build(transformer(dropout=0.5)), batch()
    assert not torch.equal(model(data).log_likelihood, model(data).log_likelihood)
    model.eval()
    assert torch.equal(model(data).log_likelihood, model(data).log_likelihood)


def test_tied_embeddings_share_one_parameter() -> None:
    model = TransformerModel(transformer(tie_embeddings="all"), TARGET, TARGET)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.output is None


def test_bfloat16_approximates_float32() -> None:
    model, data = build(transformer()).float().eval(), batch()
    exact = model(data).log_likelihood
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = model(data, output_attentions="nothing").log_likelihood
    assert cast.dtype == torch.float32
    torch.testing.assert_close(cast, exact, rtol=0.05, atol=0.1)
    stored = model.to(torch.bfloat16)(data).log_likelihood
    torch.testing.assert_close(stored, exact, rtol=0.05, atol=0.1)


def test_attention_and_layer_attention_are_mutually_exclusive() -> None:
    each = (SoftAttentionConfig(), SoftAttentionConfig(normalizer="sparsemax"))
    with pytest.raises(ValidationError, match="attention and layer_attention are both set"):
        transformer(attention=SoftAttentionConfig(normalizer="sparsemax"), layer_attention=each)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (transformer(d_model=9), "model.d_model = 9 is not a multiple of model.num_heads = 2"),
        (transformer(layer_attention=(SoftAttentionConfig(),)), "1 mechanisms, but the decoder has 2 layers"),
        (
            transformer(layer_attention=(PosteriorAttentionConfig(), SoftAttentionConfig())),
            "'posterior' is in layer 0, but it is allowed only in the last layer .1, counted from 0.",
        ),
        (transformer(attention=PointerAttentionConfig()), "'pointer' needs a recurrent decoder"),
        (transformer(tie_embeddings="all"), "one vocabulary"),
    ],
)
def test_invalid_configuration_raises_with_the_option(wrong, named) -> None:
    with pytest.raises(ConfigError, match=named):
        TransformerModel(wrong, SOURCE, TARGET)


def test_exhausted_fertility_in_training_raises_with_the_sentence() -> None:
    model = build(transformer(attention=ConstrainedAttentionConfig())).train()
    short = collate(
        [[5, 6], [5]],
        [[5, 6, EOS], [6, 7, EOS]],
        [40, 41],
        [np.full(2, 9, np.float32), np.ones(1, np.float32)],
    )
    with pytest.raises(InfeasibleBoundsError, match="sentence 42 of the prepared text"):
        model(short)


def test_max_length_is_the_number_of_learned_positions() -> None:
    assert build(transformer(position_encoding=LearnedPositionConfig(max_length=9))).max_length == 9
    assert build(transformer()).max_length is None


def test_search_ends_at_the_last_learned_position() -> None:
    # Nine positions: eight tokens and EOS.
    model = build(transformer(position_encoding=LearnedPositionConfig(max_length=9)))
    source = collate([[5, 6, 7]], None, [0]).source
    config = GenerationConfig(beam_size=2, length_penalty=0.0, min_length=20, max_length_offset=30)
    found = beam_search(model, source, config)
    assert [len(h.tokens) for h in found[0]] == [8]


@pytest.mark.parametrize(
    "name", ["post-norm", "learned positions", "constrained, per-layer budget", "prior-joint", "mono-joint"]
)
def test_beam_search_is_batch_invariant(name) -> None:
    model, pairs = build(TRANSFORMERS[name]).eval(), batch()
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
