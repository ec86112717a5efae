"""A model directory is locked by one process at a time, and checksums tie its files together."""

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from regard.attention.registry import ATTENTION, register_attention
from regard.attention.soft import SoftAttention, SoftAttentionConfig
from regard.config import configclass, dump_toml, from_dict, option, read_toml
from regard.data.fertility import ConstantFertilityConfig
from regard.errors import CheckpointError, ConfigError
from regard.runs.description import CONFIG_FILE, END_MARKER, write_config
from regard.runs.loading import average_models, load_model
from regard.runs.serialization import read_metadata
from regard.text.files import directory_lock
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig, load_config
from saved_models import small_rnn

MODEL = small_rnn(4)
SPARSE = MODEL | {"attention": {"kind": "soft", "normalizer": "sparsemax"}}
TRAINING = {"batch_size": 8, "max_epochs": 1, "checkpoint": {"keep_last_epochs": 1}}


def _settings(corpus: Path, **changes: object) -> RunConfig:
    pair = {"source": str(corpus / "a.de"), "target": str(corpus / "a.en")}
    data = {"cache_dir": str(corpus / "prepared"), "train": [pair], "valid": pair}
    plain = {"device": "cpu", "num_threads": 1, "data": data, "model": MODEL, "training": TRAINING}
    return from_dict(RunConfig, {**plain, **changes})


def _content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    (directory / "a.de").write_text("u v w\nv w\nu u w\nw v u v\n" * 4)
    (directory / "a.en").write_text("U V W\nV W\nU U W\nW V U V\n" * 4)
    return directory


@pytest.fixture(scope="module")
def trained(corpus: Path) -> Path:
    train(_settings(corpus), corpus / "model")
    return corpus / "model"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_run_rejected_by_the_lock_changes_nothing(corpus: Path, copied: Path) -> None:
    before = _content(copied)
    with directory_lock(copied):
        for config in (_settings(corpus), _settings(corpus, model=SPARSE), _settings(corpus, seed=7)):
            with pytest.raises(CheckpointError, match="another process is training in this directory"):
                train(config, copied)
            assert _content(copied) == before


def test_empty_locked_directory_is_removed(tmp_path: Path) -> None:
    with directory_lock(tmp_path / "runs" / "model"):
        assert (tmp_path / "runs" / "model").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_lock_that_is_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".model.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(CheckpointError, match="model"), directory_lock(tmp_path / "model"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_weights_are_not_used_with_other_vocabularies(corpus: Path, copied: Path) -> None:
    path, about = copied / "source.vocabulary", json.loads((copied / "text.json").read_text())
    lines = path.read_text().splitlines()
    lines[-1], lines[-2] = lines[-2], lines[-1]
    path.write_text("".join(f"{line}\n" for line in lines))
    about["sha256"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (copied / "text.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match=r"text\.json: the checksum differs"):
        load_model(copied, "cpu")
    (copied / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"text\.json"):
        train(_settings(corpus, training=TRAINING | {"max_epochs": 2}), copied)


def test_an_empty_table_does_not_escape_the_checksum(copied: Path) -> None:
    stated = read_toml(copied / CONFIG_FILE)
    stated["data"]["fertility"] = {}
    (copied / CONFIG_FILE).write_text(dump_toml(stated) + END_MARKER)
    with pytest.raises(CheckpointError, match=r"config\.toml: the checksum differs"):
        load_model(copied, "cpu")


class _Tuned(SoftAttention):
    """Soft attention of two versions of a plugin."""


def _register_version(*, with_new_option: bool) -> None:
    """Register the mechanism `tuned`; its second version has one more option, with a default."""

    @configclass
    class _TunedConfig(SoftAttentionConfig):
        kind: Literal["tuned"] = option(default="tuned", help="Attention mechanism: soft.")

    @configclass
    class _NewerConfig(_TunedConfig):
        sharpness: float = option(default=1.0, help="A later option.")

    register_attention("tuned", _NewerConfig if with_new_option else _TunedConfig)(_Tuned)


def _tuned(corpus: Path, max_epochs: int = 1, **options: float) -> RunConfig:
    model = MODEL | {"attention": {"kind": "tuned", **options}}
    return _settings(corpus, model=model, training=TRAINING | {"max_epochs": max_epochs})


@pytest.fixture
def older(corpus: Path, tmp_path: Path) -> Iterator[Path]:
    """A model that was trained before its mechanism got another option."""
    _register_version(with_new_option=False)
    train(_tuned(corpus), tmp_path / "older")
    _register_version(with_new_option=True)
    yield tmp_path / "older"
    ATTENTION._entries.pop("tuned")


def test_a_new_option_with_a_default_leaves_older_models_readable(older: Path, tmp_path: Path) -> None:
    assert load_model(older, "cpu").config.model.attention.sharpness == 1.0  # type: ignore[attr-defined]
    average_models(tmp_path / "mean", [older], last_epochs=1)
    load_model(tmp_path / "mean", "cpu")


def test_a_run_of_an_older_version_resumes_with_the_checksums_of_its_weights(
    corpus: Path, older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = older / "model.safetensors"
    before = read_metadata(weights)["file_checksums"]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    # The process ends right after the config was written, before any weights.
    monkeypatch.setattr("regard.training.run._build_trainer", killed)
    with pytest.raises(KeyboardInterrupt):
        train(_tuned(corpus, sharpness=1.0, max_epochs=2), older)
    monkeypatch.undo()
    load_model(older, "cpu")
    assert load_config(older).training.max_epochs == 2
    assert train(_tuned(corpus, max_epochs=2), older).progress.epoch == 3
    assert read_metadata(older / "training" / "epoch-0002.safetensors")["file_checksums"] == before
    load_model(older, "cpu")


def test_a_run_of_an_older_version_does_not_resume_with_another_value(corpus: Path, older: Path) -> None:
    with pytest.raises(ConfigError, match=r"attention\.sharpness: 1\.0 in the existing run, 2\.0 now"):
        train(_tuned(corpus, sharpness=2.0), older)


def test_settings_independent_of_the_weights_may_change(corpus: Path, copied: Path) -> None:
    write_config(_settings(corpus, generation={"beam_size": 3}, num_threads=2), copied)
    assert load_model(copied, "cpu").config.generation.beam_size == 3


def test_weights_are_not_used_with_another_config(corpus: Path, copied: Path, tmp_path: Path) -> None:
    write_config(_settings(corpus, model=SPARSE), copied)
    with pytest.raises(CheckpointError, match=r"config\.toml: the checksum differs .*model\.safetensors"):
        load_model(copied, "cpu")
    with pytest.raises(CheckpointError, match=r"config\.toml: the checksum differs .*epoch-0001"):
        average_models(tmp_path / "mean", [copied], last_epochs=1)
    assert not (tmp_path / "mean").exists()


TRANSFORMER = {
    "kind": "transformer",
    "d_model": 8,
    "num_heads": 2,
    "encoder": {"num_layers": 1},
    "decoder": {"num_layers": 1},
    "feed_forward": {"ffn_size": 8},
}


@pytest.fixture(scope="module")
def transformer(corpus: Path) -> Path:
    train(_settings(corpus, model=TRANSFORMER), corpus / "transformer")
    return corpus / "transformer"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 4}, "model.num_heads is 4, not 2"),
        ({"attention": {"kind": "coverage"}}, "model.attention.kind is 'coverage', not 'soft'"),
        ({"layer_attention": [{"kind": "coverage"}]}, "model.layer_attention"),
        (None, "its fertilities (data.fertility) differ"),
    ],
)
def test_models_with_different_options_are_not_averaged(
    corpus: Path, transformer: Path, tmp_path: Path, changes: dict[str, object] | None, message: str
) -> None:
    config = _settings(corpus, model=TRANSFORMER | (changes or {}))
    if changes is None:
        data = dataclasses.replace(config.data, fertility=ConstantFertilityConfig(value=2.0))
        config = dataclasses.replace(config, data=data)
    train(config, tmp_path / "other")
    with pytest.raises(CheckpointError, match=f"other: .*{re.escape(message)}"):
        average_models(tmp_path / "mean", [transformer, tmp_path / "other"])
    assert not (tmp_path / "mean").exists()


def test_models_with_different_seed_dropout_and_training_are_averaged(
    corpus: Path, transformer: Path, tmp_path: Path
) -> None:
    model = TRANSFORMER | {"dropout": 0.3, "feed_forward": {"ffn_size": 8, "dropout": 0.2}}
    train(_settings(corpus, model=model, seed=2, training={"max_epochs": 2}), tmp_path / "other")
    average_models(tmp_path / "mean", [transformer, tmp_path / "other"])
    load_model(tmp_path / "mean", "cpu")


def test_training_does_not_overwrite_an_exported_model(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "model.bin").write_bytes(b"exported")
    with pytest.raises(Exception, match="contains an exported model"):
        train(_settings(corpus), tmp_path / "export")
