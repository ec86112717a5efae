"""Tests of the convolutional model beyond those that all models share (`test_laws`)."""

import math

import pytest
import torch
from torch import nn
from wirings import batch, build, conv

from regard.layers.linear import WeightNormLinear
from regard.models.conv.model import ConvModel, ConvSideConfig
from regard.text.vocabulary import BOS


def _linear(layer: WeightNormLinear, x: torch.Tensor) -> torch.Tensor:
    """Apply a weight-normalized layer, g v / |v|, to `x` of shape [D] or [kernel, D]."""
    columns = layer.weight_v.t()
    weight = torch.stack([g * v / (v * v).sum().sqrt() for g, v in zip(layer.weight_g, columns, strict=True)])
    return weight @ x.flatten() + (0 if layer.bias is None else layer.bias)


def _gated(layer: WeightNormLinear, window: torch.Tensor) -> torch.Tensor:
    passed, gate = _linear(layer, window).chunk(2)
    return passed / (1 + torch.exp(-gate))


def _equations_of_the_paper(model: ConvModel, source: list[int], target: list[int]) -> torch.Tensor:
    """Compute log p of each target token, one position at a time (Gehring et al. 2017, Section 3)."""
    half, depth = math.sqrt(0.5), model.encoder[0].convolution.weight_v.shape[1] // 2
    embedded = [
        model.source_embedding.weight[w] + model.source_positions.table[i] for i, w in enumerate(source)
    ]
    states = [_linear(model.encoder_input_proj, e) for e in embedded]
    for layer in model.encoder:
        side = layer.kernel // 2
        zeros = [torch.zeros(depth).double()] * side
        padded = zeros + states + zeros
        found = [
            _gated(layer.convolution, torch.stack(padded[i : i + layer.kernel])) for i in range(len(states))
        ]
        states = [half * (h + x) for h, x in zip(found, states, strict=True)]
    keys = torch.stack([_linear(model.encoder_output_proj, z) for z in states])
    values = half * (keys + torch.stack(embedded))

    before = [BOS, *target[:-1]]
    embeds = [
        model.target_embedding.weight[w] + model.target_positions.table[i] for i, w in enumerate(before)
    ]
    states = [_linear(model.decoder_input_proj, g) for g in embeds]
    for layer in model.decoder:
        padded = [torch.zeros_like(states[0])] * (layer.kernel - 1) + states
        outputs = []
        for i, g in enumerate(embeds):
            h = _gated(layer.convolution, torch.stack(padded[i : i + layer.kernel]))
            query = half * (_linear(layer.query_proj, h) + g)
            weights = torch.softmax(keys @ query, 0)
            # The factor m sqrt(1 / m) preserves the variance (Gehring et al. 2017, Section 3.4).
            m = len(source)
            context = m * math.sqrt(1 / m) * (weights @ values)
            h = half * (h + _linear(layer.context_proj, context))
            outputs.append(half * (h + states[i]))
        states = outputs
    logits = torch.stack([_linear(model.output, _linear(model.decoder_output_proj, h)) for h in states])
    log_probs = (logits + model.output_bias).log_softmax(-1)
    return log_probs.gather(1, torch.tensor(target).unsqueeze(1)).squeeze(1)


@pytest.mark.parametrize("kernels", [(3, 3), (5, 2), (1, 1)])
def test_model_matches_the_equations_of_the_paper(kernels) -> None:
    sides = [
        ConvSideConfig(num_layers=2, hidden_size=width, kernel_size=k)
        for width, k in zip((8, 4), kernels, strict=True)
    ]
    model, data = build(conv(encoder=sides[0], decoder=sides[1])).eval(), batch()
    assert isinstance(model, ConvModel)
    _perturb(model)
    found = model(data).log_likelihood
    for row in range(len(data)):
        s, t = int(data.source.lengths[row]), int(data.target.lengths[row])
        source, target = data.source.tokens[row, :s].tolist(), data.target.tokens[row, :t].tolist()
        torch.testing.assert_close(found[row, :t], _equations_of_the_paper(model, source, target))


def _perturb(model: nn.Module) -> None:
    """Perturb all parameters, so that no bias is zero and no weight has its initial norm."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def test_scale_encoder_gradient_scales_only_the_encoder_gradient() -> None:
    plain, shared = (build(conv(scale_encoder_gradient=shared)) for shared in (False, True))
    data = batch()
    outcomes = [model(data).log_likelihood for model in (plain, shared)]
    torch.testing.assert_close(*outcomes)
    for outcome in outcomes:
        outcome.sum().backward()
    parts = {name: p.grad for name, p in plain.named_parameters()}
    for name, parameter in shared.named_parameters():
        if name.startswith(("encoder", "decoder", "output", "target")):
            scale = 1 / 4 if name.startswith("encoder") else 1
            torch.testing.assert_close(parameter.grad, parts[name] * scale, msg=name)
    # Source embeddings also receive the direct gradient of the values, which is not scaled.
    assert not torch.allclose(shared.source_embedding.weight.grad, plain.source_embedding.weight.grad / 4)
