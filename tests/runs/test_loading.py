"""Loading a model and translating needs nothing of training: neither its package nor its plugins."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import dump_toml
from regard.errors import CheckpointError
from regard.runs.description import ModelDescription, load_description
from regard.runs.loading import load_model
from regard.training.run_config import load_config
from saved_models import save_model


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    return save_model(tmp_path)


@pytest.mark.slow
def test_loading_and_translating_import_no_training(model_dir: Path) -> None:
    code = (
        f"import regard, sys; regard.load({str(model_dir)!r}).translate(['a b', 'b']); "
        "print(*(name for name in sys.modules if name.startswith('regard.training')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_a_model_loads_without_the_plugin_of_its_loss_term(model_dir: Path) -> None:
    path = model_dir / "config.toml"
    path.write_text(path.read_text().replace("losses = []", 'losses = [{ kind = "of_a_plugin" }]'))
    assert load_model(model_dir, "cpu").config == load_description(model_dir)
    with pytest.raises(CheckpointError, match=r"training\.losses.*of_a_plugin"):
        load_config(model_dir)


def test_the_options_of_training_are_not_part_of_the_checksum(model_dir: Path) -> None:
    path = model_dir / "config.toml"
    path.write_text(path.read_text().replace("label_smoothing = 0.0", "label_smoothing = 0.1"))
    load_model(model_dir, "cpu")


def test_the_description_is_the_first_part_of_the_config(model_dir: Path) -> None:
    config = load_config(model_dir)
    shared = {name: getattr(config, name) for name in ("plugins", "data", "model", "generation")}
    assert ModelDescription(**shared) == load_description(model_dir)
    assert dump_toml(config) in (model_dir / "config.toml").read_text()
