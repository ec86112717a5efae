"""Tests of guided alignment: the loss is the cross-entropy of the links, and attention learns them."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.config import from_dict
from regard.data.batch import collate
from regard.data.dataset import prepare_data
from regard.data.guided_alignment import SplitLinks
from regard.errors import CheckpointError, ConfigError, DataError
from regard.models.base import ForwardOutput
from regard.runs.loading import load_model
from regard.text.vocabulary import EOS
from regard.training.losses.base import LOSSES
from regard.training.losses.guided_alignment import (
    GuidedAlignment,
    GuidedAlignmentConfig,
    guided_alignment_loss,
)
from regard.training.run import _with_alignment
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig
from saved_models import small_rnn


def outcome(*weights: torch.Tensor) -> ForwardOutput:
    zero = torch.zeros(*weights[0].shape[:2], 1)
    mask = torch.ones(weights[0].shape[:2], dtype=torch.bool)
    return ForwardOutput(zero, zero, zero, zero, zero[..., 0], mask, weights, weights)


def config(**options) -> GuidedAlignmentConfig:
    return from_dict(GuidedAlignmentConfig, {"links": "x", **options})


def scores(heads: int = 1) -> torch.Tensor:
    return torch.randn(2, 3, heads, 4, dtype=torch.float64, requires_grad=True)


LINKS = torch.zeros(2, 3, 4, dtype=torch.float64)
LINKS[0, 0, 1] = LINKS[1, 2, 3] = 1
LINKS[0, 1, 0] = LINKS[0, 1, 2] = 0.5


def test_loss_is_the_cross_entropy_of_linked_target_tokens() -> None:
    z = scores()
    assert z.softmax(-1).min() > 0.01
    found = guided_alignment_loss(outcome(z.softmax(-1)), LINKS, config(weight=0.3))
    linked = LINKS.sum(-1) > 0
    expected = 0.3 * F.cross_entropy(z[:, :, 0][linked], LINKS[linked], reduction="sum")
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(loss, z, retain_graph=True)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)
    assert (gradients[0][:, :, 0][~linked] == 0).all()


def test_only_the_configured_heads_and_layer_are_trained() -> None:
    first, second = scores(3), scores(3)
    weights = outcome(first.softmax(-1), second.softmax(-1))
    found = guided_alignment_loss(weights, LINKS, config(layer=0, heads=[0, 2]))
    expected = -(LINKS * first.softmax(-1)[:, :, [0, 2]].mean(2).log()).sum()
    torch.testing.assert_close(found, expected)
    found.backward()
    assert second.grad is None and first.grad is not None and (first.grad[:, :, 1] == 0).all()


@pytest.mark.parametrize("weight", [0.0, 0.004, 0.01, 0.3])
def test_log_is_linear_below_one_percent(weight: float) -> None:
    weights = torch.tensor([[[[weight, 1.0 - weight]]]], dtype=torch.float64, requires_grad=True)
    links = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    found = guided_alignment_loss(outcome(weights), links, config())
    tangent = np.log(0.01) + (weight - 0.01) / 0.01
    assert found.item() == pytest.approx(-np.log(weight) if weight >= 0.01 else -tangent)
    found.backward()
    assert weights.grad is not None
    assert weights.grad[0, 0, 0].tolist() == pytest.approx([-1 / max(weight, 0.01), 0.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 1}, "guided_alignment.layer = 1: the layers that attend to the source are 0 to 0"),
        ({"heads": [2]}, "heads 0 to 1"),
    ],
)
def test_layers_and_heads_out_of_range_are_rejected(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        guided_alignment_loss(outcome(scores(2).softmax(-1)), LINKS, config(**options))


def test_models_without_attention_are_rejected() -> None:
    with pytest.raises(ConfigError, match="weights of the model have no gradient"):
        guided_alignment_loss(outcome(torch.zeros(2, 3, 1, 4)), LINKS, config())


def run_settings(directory: Path, attention: dict, **training: object) -> dict:
    """Return a configuration for training on reversed sentences, and write their text and links."""
    generator = random.Random(3)
    lines = [[f"w{generator.randrange(9)}" for _ in range(generator.randint(2, 6))] for _ in range(300)]
    directory.mkdir()
    (directory / "s").write_text("".join(" ".join(line) + "\n" for line in lines))
    (directory / "t").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))
    links = (" ".join(f"{i}-{len(line) - 1 - i}" for i in range(len(line))) for line in lines)
    (directory / "links").write_text("".join(f"{line}\n" for line in links))
    corpus = {"source": str(directory / "s"), "target": str(directory / "t")}
    return {
        "device": "cpu",
        "data": {"cache_dir": str(directory / "prepared"), "train": [corpus], "valid": corpus},
        "model": small_rnn(16)
        | {
            "dropout": 0.0,
            # With scaled scores, four epochs are not enough.
            "attention": {"score_function": "bilinear", **attention},
        },
        "training": {
            "batch_size": 16,
            "optimizer": {"learning_rate": 0.01},
            "max_epochs": 4,
            **training,
        },
    }


def guide(settings: dict, **options: object) -> dict:
    """Add guided alignment to the loss terms of a run, and return its options."""
    term = {"kind": "guided_alignment", **options}
    settings["training"]["losses"] = [term]
    return term


def error_rate(directory: Path) -> float:
    """Return the fraction of target tokens whose top-scoring source token is not the linked one."""
    model, text = (loaded := load_model(directory, "cpu")).model, loaded.text
    lines = [f"w{i} w{(i + 3) % 9} w{(i + 5) % 9} w{(i + 1) % 9}" for i in range(9)]
    sources = [text.source.encode(line) for line in lines]
    targets = [[*text.target.encode(" ".join(reversed(line.split()))), EOS] for line in lines]
    with torch.no_grad():
        best = model(collate(sources, targets, range(9))).cross_attentions[0][:, :4, 0].argmax(-1)
    return float((best != torch.tensor([3, 2, 1, 0])).double().mean())


@pytest.mark.parametrize(
    "attention",
    [{"normalizer": "softmax"}, {"normalizer": "sparsemax"}, {"kind": "coverage", "normalizer": "sparsemax"}],
    ids=str,
)
def test_attention_learns_the_links(tmp_path: Path, attention: dict) -> None:
    settings = run_settings(tmp_path / "data", attention)
    guide(settings, links=str(tmp_path / "data" / "links"))
    train(from_dict(RunConfig, settings), tmp_path / "guided")
    assert error_rate(tmp_path / "guided") <= 0.2  # unguided attention has an error rate near 0.75


def test_guided_training_resumes_only_with_the_same_links(tmp_path: Path) -> None:
    settings = run_settings(tmp_path / "data", {}, max_steps=2)
    links = tmp_path / "data" / "links"
    term = guide(settings, links=str(links), weight=0.5)
    train(from_dict(RunConfig, settings), tmp_path / "model")
    assert load_model(tmp_path / "model", "cpu").config.generation.alignment.layer == -1
    settings["training"]["max_steps"] = 4
    moved = links.rename(tmp_path / "moved")
    term["links"] = str(moved)
    assert train(from_dict(RunConfig, settings), tmp_path / "model").progress.step == 4
    moved.write_text(moved.read_text().replace("0-1", "0-0"))
    settings["training"]["max_steps"] = 6
    with pytest.raises(CheckpointError, match="guided links has changed"):
        train(from_dict(RunConfig, settings), tmp_path / "model")


def test_invalid_links_are_rejected_before_writing(tmp_path: Path) -> None:
    settings = run_settings(tmp_path / "data", {})
    links = tmp_path / "data" / "links"
    links.write_text("0-99\n" * 300)
    guide(settings, links=str(links))
    with pytest.raises(DataError, match="line 1: link 0-99"):
        train(from_dict(RunConfig, settings), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_without_a_file_the_tokenized_text_is_aligned(tmp_path: Path) -> None:
    settings = run_settings(tmp_path / "data", {}, max_steps=2)
    settings["data"]["train"][0]["source_prefix"] = "<x>"
    guide(settings, weight=0.5, aligner="hmm")
    config = from_dict(RunConfig, settings)
    train(config, tmp_path / "model")
    assert len(list((tmp_path / "data" / "prepared").glob("hmm-*.links"))) == 1
    prepared = prepare_data(config.data)
    term = GuidedAlignment(GuidedAlignmentConfig(aligner="hmm"))
    term.prepare(prepared, config.data)
    found = term.links
    assert found is not None
    expected = SplitLinks.read(tmp_path / "data" / "links", prepared.split("train"), config.data.train)
    assert (found.pairs[:, 0] > 0).all()  # the source prefix has no links
    pairs = []
    for links in (found, expected):
        rows = np.repeat(np.arange(300), np.diff(links.offsets))
        pairs.append({(row, *link) for row, link in zip(rows.tolist(), links.pairs.tolist(), strict=True)})
    assert len(pairs[0] & pairs[1]) > 0.9 * len(pairs[0] | pairs[1])


@pytest.mark.parametrize(
    ("guided", "alignment", "expected"),
    [
        (None, {}, (-1, [])),
        ({"layer": 0, "heads": [1]}, {}, (0, [1])),
        ({"layer": 0, "heads": [1]}, {"layer": -1}, (-1, [])),
    ],
)
def test_guided_layer_and_heads_become_the_alignment_defaults(guided, alignment, expected) -> None:
    corpus = {"source": "s", "target": "t"}
    settings = {"data": {"train": [corpus], "valid": corpus}, "generation": {"alignment": alignment}}
    losses = [] if guided is None else [{"kind": "sequence"}, {"kind": "guided_alignment", **guided}]
    config = from_dict(RunConfig, {**settings, "training": {"losses": losses}})
    terms = [LOSSES.part_of(loss)(loss) for loss in config.training.losses]
    config = _with_alignment(config, terms)
    recorded = config.generation.alignment.record()
    assert (recorded["layer"], recorded["heads"]) == expected
    assert _with_alignment(config, terms) == config
