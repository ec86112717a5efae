"""Tests of the list of loss terms: terms of plugins, their order, and preparation once per run."""

import math
from pathlib import Path

import pytest

from regard.config import from_dict, plugins
from regard.data.dataset import open_data, prepare_data
from regard.errors import ConfigError, DataError
from regard.runs.loading import load_model
from regard.training.config import TrainingConfig
from regard.training.losses.base import LOSSES, resumable_loss_options
from regard.training.metrics_logger import read_metrics
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig
from saved_models import small_rnn

PLUGIN = """
from typing import Literal

import regard
from regard.training.losses import LossTerm


@regard.configclass
class EntropyConfig:
    kind: Literal["entropy"] = regard.option(default="entropy", help="The entropy of attention.")
    weight: float = regard.option(default=1.0, help="Weight of the entropy.")
    note: str = regard.option(default="", help="A note.")


@regard.register_loss("entropy", EntropyConfig)
class Entropy(LossTerm):
    output_attentions = True
    resumable_options = ("note",)

    def add(self, total, batch, outcome, own):
        weights = outcome.cross_attentions[-1].mean(2)
        entropy = -(weights * weights.clamp_min(1e-9).log()).sum(-1)
        return total + self.config.weight * entropy.masked_fill(~outcome.mask, 0.0).sum()
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch) -> Path:
    """Return a plugin outside the package; its term is removed from the registry after the test."""
    LOSSES.names()
    monkeypatch.setattr(LOSSES, "_entries", dict(LOSSES._entries))
    monkeypatch.setattr(plugins, "_loaded", {})
    path = tmp_path / "entropy_plugin.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def run_settings(tmp_path: Path):
    """Return a function that makes the settings of a small run with loss terms."""
    lines = [f"a{i % 7} b{i % 5} c{i % 3}" for i in range(60)]
    for name in ("s", "t"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))

    def make(losses: list[dict], **training: object) -> dict:
        pair = {"source": str(tmp_path / "s"), "target": str(tmp_path / "t")}
        return {
            "device": "cpu",
            "data": {"cache_dir": str(tmp_path / "prepared"), "train": [pair], "valid": pair},
            "model": small_rnn(8) | {"dropout": 0.0},
            "training": {"batch_size": 16, "max_steps": 2, "losses": losses, **training},
        }

    return make


def test_a_term_needs_its_kind() -> None:
    with pytest.raises(ConfigError, match=r"losses\.0: kind is required: .*'guided_alignment'"):
        from_dict(TrainingConfig, {"losses": [{"weight": 1.0}]})
    with pytest.raises(ConfigError, match=r"expected a table with kind = .*'guided_alignment'"):
        from_dict(TrainingConfig, {"losses": [{"kind": "mrt"}]})


def test_a_plugin_adds_a_term_to_the_loss(plugin: Path, run_settings, tmp_path: Path) -> None:
    plugins.load_plugins([str(plugin)])
    losses = {}
    for weight in (0.0, 0.5, 1.0):
        settings = run_settings([{"kind": "entropy", "weight": weight}], logging={"every_steps": 1})
        train(from_dict(RunConfig, settings), tmp_path / str(weight))
        losses[weight] = read_metrics(tmp_path / str(weight))[0]["loss"]
    # All entropies are positive and at most log 3 per target token; the first step has the same weights.
    assert 0 < losses[1.0] - losses[0.0] <= math.log(3)
    assert losses[0.5] == pytest.approx((losses[0.0] + losses[1.0]) / 2)
    assert load_model(tmp_path / "1.0", "cpu").config.plugins == ("entropy_plugin.py",)


def test_only_resumable_options_of_a_term_may_change(plugin: Path, run_settings, tmp_path: Path) -> None:
    plugins.load_plugins([str(plugin)])
    terms = [{"kind": "guided_alignment"}, {"kind": "entropy", "note": "a"}]
    settings = run_settings(terms)
    assert resumable_loss_options(settings) == {"training.losses[0].links", "training.losses[1].note"}
    train(from_dict(RunConfig, settings), tmp_path / "run")
    settings["training"] |= {"max_steps": 3, "losses": [terms[0], {"kind": "entropy", "note": "b"}]}
    assert train(from_dict(RunConfig, settings), tmp_path / "run").progress.step == 3
    settings["training"]["losses"][1]["weight"] = 0.5
    with pytest.raises(ConfigError, match=r"training\.losses\[1\]\.weight: 1\.0 in the existing run, 0\.5"):
        train(from_dict(RunConfig, settings), tmp_path / "run")


def test_terms_are_applied_in_the_order_of_the_list(run_settings, tmp_path: Path) -> None:
    sequence = {"kind": "sequence", "num_candidates": 2, "likelihood_weight": 0.5}
    guided = {"kind": "guided_alignment"}
    orders = {"first": [guided, sequence], "last": [sequence, guided], "none": [sequence]}
    losses = {}
    for name, terms in orders.items():
        settings = run_settings(terms, logging={"every_steps": 1})
        train(from_dict(RunConfig, settings), tmp_path / name)
        losses[name] = read_metrics(tmp_path / name)[0]["loss"]
    whole, half = losses["last"] - losses["none"], losses["first"] - losses["none"]
    assert half == pytest.approx(whole / 2, rel=1e-4)


def test_other_processes_open_the_prepared_data(run_settings) -> None:
    settings = run_settings([])
    settings["data"]["train"] = [{**settings["data"]["valid"], "sampling_weight": 2.0}]
    config = from_dict(RunConfig, settings).data
    with pytest.raises(DataError):
        open_data(config)
    prepared = prepare_data(config)
    settings["data"]["train"][0]["sampling_weight"] = 3.0
    opened = open_data(from_dict(RunConfig, settings).data)
    assert opened.fingerprint == prepared.fingerprint
    assert opened.split("train").corpora[0]["weight"] == 3.0
    settings["data"]["max_length"] = 2
    with pytest.raises(DataError, match="other data was written"):
        open_data(from_dict(RunConfig, settings).data)
