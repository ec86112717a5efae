"""Tests of attributions on all models: gradients, leave-one-out, and batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from wirings import FAMILIES, MODELS, batch, bounds, build, config

from regard.attention.constrained import ConstrainedAttentionConfig
from regard.data.batch import Batch, collate
from regard.errors import UsageError
from regard.generation.attribution import attribute, to_map
from regard.generation.config import AlignmentConfig
from regard.text.vocabulary import EOS

GRADIENT, LEAVE_ONE_OUT = AlignmentConfig(map="gradient"), AlignmentConfig(map="leave_one_out")
METHODS = [GRADIENT, LEAVE_ONE_OUT]
SMOOTH = [
    "luong",
    "postr-joint",
    "variational",
    "transformer, post-norm",
    "transformer, no attention to the source",
    "transformer, mono-joint",
    "convolutional, gehring",
    "convolutional, prior-joint",
]
"""Models without kinks and selections, at which derivatives and differences disagree."""


def log_likelihood(model, pairs: Batch, scale: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(replace(pairs, source=replace(pairs.source, embedding_scale=scale))).log_likelihood


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_equal_finite_differences(name: str) -> None:
    model, pairs, size = MODELS[name]().eval(), batch(), 1e-6
    found = attribute(model, pairs, GRADIENT)
    ones = torch.ones(pairs.source.tokens.shape, dtype=torch.float64)
    for place in range(ones.shape[1]):
        moved = torch.zeros_like(ones)
        moved[:, place] = size
        ends = (log_likelihood(model, pairs, ones + step) for step in (moved, -moved))
        expected = (next(ends) - next(ends)) / (2 * size)
        expected = expected.masked_fill(~pairs.source.mask[:, place, None], 0.0)
        torch.testing.assert_close(found[:, :, place], expected, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_leaving_out_a_token_equals_scoring_without_it(family: str) -> None:
    model, pairs = build(FAMILIES[family]()).eval(), batch()
    found = attribute(model, pairs, LEAVE_ONE_OUT)
    for row in range(len(pairs)):
        source = pairs.source.tokens[row, : pairs.source.lengths[row]].tolist()
        target = pairs.target.tokens[row, : pairs.target.lengths[row]].tolist()
        with torch.no_grad():
            whole = model(collate([source], [target], [0])).log_likelihood.exp()
            for place in range(len(source)):
                rest = source[:place] + source[place + 1 :]
                without = model(collate([rest], [target], [0])).log_likelihood.exp() if rest else 0.0
                expected = (whole - without)[0]
                torch.testing.assert_close(found[row, : len(target), place], expected, atol=1e-12, rtol=0)
    assert not found[2, 2:].any() and not found[2, :, 1:].any()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.map)
def test_attribution_leaves_the_model_as_it_was(method: AlignmentConfig) -> None:
    model = build(config(dropout=0.5)).train()
    model.output_bias.requires_grad_(False)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    found = [attribute(model, batch(), method) for _ in range(2)]
    torch.testing.assert_close(*found)  # no dropout
    assert model.training
    assert trained == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_map_shows_the_positive_contributions() -> None:
    found = to_map(torch.tensor([[3.0, -5.0, 1.0], [-1.0, -2.0, 0.0]]))
    assert found.tolist() == [[0.75, 0.0, 0.25], [0.0, 0.0, 0.0]]


def test_fertilities_of_the_other_tokens_must_suffice() -> None:
    model = build(config(attention=ConstrainedAttentionConfig())).eval()
    tight = np.array([1.2, 1.2, 1.2], dtype=np.float32)
    pairs = collate([[5, 6, 7]], [[5, 6, 7, EOS]], [0], [tight])
    assert attribute(model, pairs, GRADIENT).abs().max() > 0
    with pytest.raises(UsageError, match="without one of its tokens"):
        attribute(model, pairs, LEAVE_ONE_OUT)
    loose = collate([[5, 6, 7]], [[5, EOS]], [0], [bounds(3)])
    assert attribute(model, loose, LEAVE_ONE_OUT).abs().max() > 0
