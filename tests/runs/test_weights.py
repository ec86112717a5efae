"""Tests of model weights: tied parameters, averaging, validation, and initialization from another model."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.config import from_dict
from regard.errors import CheckpointError
from regard.models import build_model
from regard.models.transformer.model import TransformerConfig
from regard.runs.serialization import write_tensors
from regard.runs.weights import (
    average_weights,
    copy_weights,
    init_from,
    load_weights,
    named_weights,
)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(3, 2)
        self.target = self.source


def test_tied_parameters_are_saved_once_and_stay_tied() -> None:
    first, second = Tied(), Tied()
    weights = {name: tensor.clone() for name, tensor in named_weights(first).items()}
    assert list(weights) == ["source.weight"]
    copy_weights(second, weights, "x")
    assert torch.equal(second.target.weight, first.source.weight)


@pytest.mark.parametrize(
    ("weights", "name"),
    [
        ({}, r"source\.weight"),
        ({"source.weight": torch.zeros(4, 2)}, r"source\.weight"),
        ({"source.weight": torch.zeros(3, 2), "more": torch.zeros(1)}, "more"),
        ({"source.weight": torch.zeros(3, 2).half()}, r"source\.weight"),
    ],
)
def test_mismatched_weights_are_rejected(weights, name) -> None:
    with pytest.raises(CheckpointError, match=rf"run: .*{name}"):
        copy_weights(Tied(), weights, "run")


def test_models_of_different_shapes_cannot_be_averaged(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"w": torch.zeros(2)}, {})
    write_tensors(tmp_path / "b", {"w": torch.zeros(3)}, {})
    with pytest.raises(CheckpointError, match=r"shapes of 'w' are \(2,\) and \(3,\)"):
        average_weights([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nonfinite_weights_are_neither_loaded_nor_averaged(tmp_path: Path, value: float) -> None:
    write_tensors(tmp_path / "good", {"w": torch.ones(2)}, {})
    write_tensors(tmp_path / "bad", {"w": torch.tensor([1.0, value])}, {})
    with pytest.raises(CheckpointError, match="bad: 'w' has values that are not finite"):
        load_weights(tmp_path / "bad")
    with pytest.raises(CheckpointError, match="bad: 'w' has values that are not finite"):
        average_weights([tmp_path / "good", tmp_path / "bad"])


def test_missing_models_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: no such model directory"):
        load_weights(tmp_path / "nowhere")


def _transformer(attention: str) -> nn.Module:
    sides = {"encoder": {"num_layers": 1}, "decoder": {"num_layers": 2}}
    settings = {"d_model": 8, "num_heads": 2, "attention": {"kind": attention}, **sides}
    return build_model(from_dict(TransformerConfig, settings), 9, 9)


def test_initial_model_may_differ_only_in_its_attention() -> None:
    soft, hard = _transformer("soft"), _transformer("hard")
    own = {name: tensor.clone() for name, tensor in named_weights(hard).items()}
    weights = named_weights(soft)
    new = init_from(hard, weights, "soft")
    assert new and all(name.startswith("decoder.1.cross_attention.") for name in new)
    for name, tensor in named_weights(hard).items():
        assert torch.equal(tensor, own[name] if name in new else weights[name]), name
    with pytest.raises(CheckpointError, match=r"less: .*output_bias"):
        init_from(hard, {n: w for n, w in weights.items() if n != "output_bias"}, "less")
