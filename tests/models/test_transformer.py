"""Tests of the Transformer beyond those that all models share (`test_laws`)."""

import math

import pytest
import torch
from torch import nn
from wirings import batch, build, transformer

from regard.layers.position_encoding import PositionEncoding, SinusoidalPositionConfig
from regard.models.transformer.model import TransformerEncoderConfig, TransformerModel
from regard.text.vocabulary import BOS


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("heads", [1, 2])
def test_layers_match_pytorch(norm, heads) -> None:
    model = build(transformer(norm_position=norm, num_heads=heads, tie_embeddings="none")).eval()
    data = batch()
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
            around = ours.around_attention, ours.around_source, ours.around_feed
            _copy_rest(ours.feed_forward, theirs, around)
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


def test_attention_of_every_layer_and_head_is_returned() -> None:
    model, data = build(transformer(encoder=TransformerEncoderConfig(num_layers=3))), batch()
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


def test_export_does_not_cache_traced_positions() -> None:
    positions, x = PositionEncoding(SinusoidalPositionConfig(), 10), torch.zeros(3, 10)

    class Module(torch.nn.Module):
        def forward(self, x):
            return x + positions(0, 3, x)

    torch.export.export(Module(), (x,), strict=False)
    assert type(positions(0, 3, x)) is torch.Tensor


def test_sinusoids_match_the_printed_formula_from_any_start() -> None:
    positions, like = PositionEncoding(SinusoidalPositionConfig(), 6), torch.zeros(1, dtype=torch.float64)
    whole = positions(0, 700, like)
    for place in (0, 1, 255, 256, 300, 511, 699):
        assert torch.equal(positions(place, 1, like), whole[place : place + 1])
    for place in (2, 3):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            expected = [math.sin(angle), math.cos(angle)]
            assert whole[place, 2 * i : 2 * i + 2].tolist() == pytest.approx(expected, abs=1e-6)
