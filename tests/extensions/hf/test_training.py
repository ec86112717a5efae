"""Training of pre-trained models: self-contained output, unfreezing by layer, and exact resumption."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import tiny
import torch
from tiny import ModelDir

import regard
from regard.config import from_dict, to_dict
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.extensions.hf.seq2seq import HfSeq2Seq
from regard.models.transformer.model import TransformerModel
from regard.runs.description import write_config
from regard.runs.loading import load_model
from regard.runs.serialization import read_tensors
from regard.runs.weights import load_weights
from regard.training.optimizer import FineTuningConfig, UnfreezingSchedule, parameter_groups
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig
from warm_python import warm_python

SMALL = {"num_layers": 2, "d_model": 12, "num_heads": 2, "feed_forward": {"ffn_size": 16}, "dropout": 0.1}


def run_config(directory: Path, model: dict[str, Any], max_steps: int, **more: Any) -> RunConfig:
    """Return the config of a small run; write its text first."""
    for side, lines in (("de", [*tiny.TEXT[:2], tiny.TEXT[4]]), ("en", [*tiny.TEXT[2:4], tiny.TEXT[5]])):
        (directory / side).write_text("\n".join(lines * 4) + "\n")
    text = {"source": str(directory / "de"), "target": str(directory / "en")}
    paths = {"source": model.get("path", model.get("encoder_path")), "target": model.get("path")}
    cut = {f"{side}_tokenizer": {"kind": "pretrained", "path": path} for side, path in paths.items() if path}
    training = {
        "batch_size": 4,
        "optimizer": {"learning_rate": 0.01},
        "lr_scheduler": {"kind": "constant"},
        "max_steps": max_steps,
        "validation": {"every_steps": 100},
        "checkpoint": {"every_steps": 1},
        **more,
    }
    data = {"cache_dir": str(directory / "prepared"), "train": [text], "valid": text, **cut}
    whole = {"device": "cpu", "data": data, "model": model, "training": training}
    return from_dict(RunConfig, whole)


def copied(model_dir: ModelDir, name: str, into: Path) -> str:
    """Return a copy of a model directory, which a test may change or remove."""
    return str(shutil.copytree(model_dir(name), into / name))


def test_pretrained_encoder_stays_frozen_and_the_run_is_self_contained(
    model_dir: ModelDir, tmp_path: Path
) -> None:
    encoder = copied(model_dir, "bert", tmp_path)
    model = {
        "kind": "pretrained",
        "encoder_path": encoder,
        "attention": {"kind": "soft", "normalizer": "sparsemax"},
        **SMALL,
    }
    config = run_config(tmp_path, model, 6, fine_tuning={"freeze_steps": 6})
    train(config, tmp_path / "run")
    shutil.rmtree(encoder)
    loaded = load_model(tmp_path / "run", "cpu")
    assert isinstance(loaded.model, TransformerModel)
    before = load_model_weights(model_dir("bert"))
    after = load_weights(tmp_path / "run")
    layers = {
        name: value
        for name, value in after.items()
        if name.startswith("pretrained_encoder.model.encoder.layer")
    }
    old = {name: before[f"bert.{name.removeprefix('pretrained_encoder.model.')}"] for name in layers}
    assert layers and all(torch.equal(value, old[name]) for name, value in layers.items())
    found = regard.load(tmp_path / "run", device="cpu").translate("der Mann läuft", beam_size=2)
    assert found.source_words == ("der", "Mann", "läuft") and found.source_tokens[-2:] == ("[CLS]", "[SEP]")
    assert (found.attention[-1] == 0).any()


def load_model_weights(model_dir: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a directory."""
    from safetensors.torch import load_file

    return load_file(model_dir / "model.safetensors")


def test_hugging_face_model_is_fine_tuned_with_another_attention(model_dir: ModelDir, tmp_path: Path) -> None:
    whole = copied(model_dir, "marian", tmp_path)
    model = {"kind": "hf", "path": whole, "attention": {"kind": "soft", "normalizer": "sparsemax"}}
    train(run_config(tmp_path, model, 40), tmp_path / "run")
    given = regard.load(whole, device="cpu").score("die Katze schläft auf dem Sofa .", tiny.TEXT[3])
    shutil.rmtree(whole)
    loaded = regard.load(tmp_path / "run", device="cpu")
    assert isinstance(loaded.backend.model, HfSeq2Seq)
    learned = loaded.score("die Katze schläft auf dem Sofa .", tiny.TEXT[3])
    assert learned.log_probability > 0.5 * given.log_probability
    assert (learned.attention[-1] == 0).any() and not (given.attention[-1] == 0).any()


def test_run_interrupted_while_layers_are_frozen_ends_identically(
    model_dir: ModelDir, tmp_path: Path
) -> None:
    model = {"kind": "pretrained", "encoder_path": str(model_dir("bert")), **SMALL}
    fine_tuning = {"freeze_steps": 2, "unfreeze_every": 2, "lr_factor": 0.1}
    for name, stops in (("once", (7,)), ("twice", (3, 7))):
        for stop in stops:
            train(run_config(tmp_path, model, stop, fine_tuning=fine_tuning), tmp_path / name)
    state = "training/state-00000007.safetensors"
    once, twice = (read_tensors(tmp_path / name / state)[0] for name in ("once", "twice"))
    assert once.keys() == twice.keys() and all(torch.equal(once[name], twice[name]) for name in once)


@pytest.mark.slow
def test_two_processes_unfreeze_the_same_layers(model_dir: ModelDir, tmp_path: Path) -> None:
    model = {"kind": "pretrained", "encoder_path": str(model_dir("bert")), **SMALL}
    config = run_config(tmp_path, model, 3, fine_tuning={"freeze_steps": 1, "unfreeze_every": 2})
    (tmp_path / "settings").mkdir()
    write_config(config, tmp_path / "settings")
    command = "import sys; from regard.cli.main import main; sys.exit(main())"
    launcher = (warm_python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    training = ("train", tmp_path / "settings" / "config.toml", "--output-dir", tmp_path / "run")
    done = subprocess.run(
        [*launcher, "--no-python", warm_python(), "-c", command, *training],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    before, after = load_model_weights(model_dir("bert")), load_weights(tmp_path / "run")
    names = [name for name in after if name.startswith("pretrained_encoder.model.encoder.layer")]
    changed = {
        name.split(".")[4]
        for name in names
        if not torch.equal(after[name], before[f"bert.{name.removeprefix('pretrained_encoder.model.')}"])
    }
    assert changed == {"1"}  # the upper one of two layers


def test_layers_unfreeze_from_the_output_down_with_scaled_rate(model_dir: ModelDir) -> None:
    model = load_model(model_dir("t5"), "cpu").model
    layers = model.pretrained_layers()
    named = dict(model.named_parameters())
    assert sorted(name for layer in layers for name in layer) == sorted(
        named
    )  # every parameter is in exactly one layer
    assert ["decoder.block.1" in layers[0][-1], "decoder.block.0" in layers[1][-1]] == [True, True]
    assert "encoder.block.1" in layers[2][-1] and layers[-1] == ("model.shared.weight",)
    config = FineTuningConfig(unfreeze_every=3, lr_factor=0.1)
    schedule = UnfreezingSchedule(model, config)
    sizes = [len(schedule.frozen_parameters(update)) for update in (1, 3, 4, 12, 13, 100)]
    left = [sum(len(layer) for layer in layers[opened:]) for opened in (1, 1, 2, 4, 5, 5)]
    assert sizes == left and sizes[-1] == 0
    (group,) = parameter_groups(model, config, list(named.values()))
    assert group["scale"] == 0.1
    with pytest.raises(ConfigError, match="first steps would train none"):
        UnfreezingSchedule(model, FineTuningConfig(freeze_steps=1))


def test_missing_or_empty_weights_are_rejected(model_dir: ModelDir, tmp_path: Path) -> None:
    path = Path(copied(model_dir, "t5", tmp_path))
    (path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="contains no weights"):
        load_model(path, "cpu")
    torch.save({}, path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="do not contain"):
        load_model(path, "cpu")
    (path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(CheckpointError, match="not an index of weight files"):
        load_model(path, "cpu")


def test_weights_without_a_parameter_are_rejected(model_dir: ModelDir, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = Path(copied(model_dir, "t5", tmp_path))
    weights = load_model_weights(path)
    lost = weights.pop("encoder.final_layer_norm.weight")
    assert lost is not None
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"do not contain 'encoder\.final_layer_norm"):
        load_model(path, "cpu")


def test_mismatched_tokenizer_is_rejected(model_dir: ModelDir, tmp_path: Path) -> None:
    path = Path(copied(model_dir, "t5", tmp_path))
    tiny.bpe_tokenizer().save_pretrained(path)
    with pytest.raises(ConfigError, match=r"does not belong to .*tokens"):
        load_model(path, "cpu")
    tiny.wordpiece_tokenizer(40).save_pretrained(path)
    with pytest.raises(ConfigError, match="eos_token_id is 3, but the model's is 1"):
        load_model(path, "cpu")


def test_model_that_cannot_translate_is_rejected(model_dir: ModelDir, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="bert model is not a translation model"):
        load_model(model_dir("bert"), "cpu")
    model = {"kind": "pretrained", "encoder_path": str(model_dir("bert")), **SMALL}
    config = run_config(tmp_path, model, 1)
    plain = to_dict(config)
    words = from_dict(RunConfig, {**plain, "data": {**plain["data"], "source_tokenizer": {}}})
    with pytest.raises(ConfigError, match="the tokenizer that it was pre-trained with"):
        train(words, tmp_path / "run")


def test_mechanism_of_several_contexts_is_rejected_in_hugging_face_models() -> None:
    with pytest.raises(ConfigError, match="several contexts"):
        from_dict(
            RunConfig,
            {
                "data": {"train": [{"tsv": "x"}], "valid": {"tsv": "x"}},
                "model": {"kind": "hf", "path": "x", "attention": {"kind": "posterior"}},
            },
        )


def test_missing_transformers_is_reported_with_the_extra_to_install(
    model_dir: ModelDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'regard[hf]'")):
        load_model(model_dir("t5"), "cpu")
