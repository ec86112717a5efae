"""Training of pre-trained models: self-contained output, other attention, and errors."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import numpy as np
import tiny
import torch
from safetensors.torch import load_file, save_file
from tiny import ModelDir

import regard
from regard.config import from_dict, to_dict
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.extensions.hf.seq2seq import HfSeq2Seq
from regard.models.registry import build_model
from regard.models.transformer.model import TransformerConfig, TransformerModel
from regard.runs.loading import load_model
from regard.runs.weights import load_weights
from regard.training.optimizer import LR_FACTOR_KEY, parameter_groups
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig

SMALL = {"num_layers": 2, "d_model": 12, "num_heads": 2, "feed_forward": {"ffn_size": 16}, "dropout": 0.1}


def run_config(directory: Path, model: dict[str, Any], max_steps: int, **more: Any) -> RunConfig:
    """Return the config of a small run; write its text first."""
    for side, lines in (("de", [*tiny.TEXT[:2], tiny.TEXT[4]]), ("en", [*tiny.TEXT[2:4], tiny.TEXT[5]])):
        (directory / side).write_text("\n".join(lines * 4) + "\n")
    paths = {"source": model.get("path", model.get("encoder_path")), "target": model.get("path")}
    tokenizers = {
        f"{side}_tokenizer": {"kind": "pretrained", "path": path} for side, path in paths.items() if path
    }
    more = {"max_steps": max_steps, "checkpoint": {"every_steps": 1}, **more}
    return tiny.run_config((directory / "de", directory / "en"), model, tokenizers, 0.01, **more)


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
    config = run_config(tmp_path, model, 6, freeze=["pretrained_encoder.model.*"])
    train(config, tmp_path / "run")
    shutil.rmtree(encoder)
    loaded = load_model(tmp_path / "run", "cpu")
    assert isinstance(loaded.model, TransformerModel)
    before = load_file(model_dir("bert") / "model.safetensors")
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


@pytest.mark.slow
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


def test_source_tokens_receive_at_most_their_fertility_after_fine_tuning(
    model_dir: ModelDir, tmp_path: Path
) -> None:
    model: dict[str, Any] = {"kind": "hf", "path": str(model_dir("marian"))}
    train(run_config(tmp_path, model, 12), tmp_path / "softmax")
    model["attention"] = {"kind": "constrained", "normalizer": "sparsemax"}
    config = to_dict(run_config(tmp_path, model, 6, init_from=str(tmp_path / "softmax")))
    config["data"]["fertility"] = {"kind": "constant", "value": 1.5}
    config["data"]["cache_dir"] = str(tmp_path / "bounded")
    train(from_dict(RunConfig, config), tmp_path / "run")
    found = regard.load(tmp_path / "run", device="cpu").translate("die Katze schläft .", beam_size=3)
    words = np.asarray(found.source_word_ids) >= 0  # the others are symbols of the tokenizer, the sink
    assert 0 < words.sum() < len(words) and len(found.attention) == 2
    for weights in found.attention:  # (T + 1, H, S)
        assert weights.sum(0)[:, words].max() <= 1.5 + 1e-4
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-4)
        assert (weights == 0).any()


def test_pretrained_parameters_have_their_own_learning_rate(model_dir: ModelDir) -> None:
    model = load_model(model_dir("t5"), "cpu").model
    assert set(model.pretrained_parameters()) == {name for name, _ in model.named_parameters()}
    (group,) = parameter_groups(model, 0.1)
    assert group[LR_FACTOR_KEY] == 0.1
    with pytest.raises(ConfigError, match=r"training\.pretrained_lr_factor"):
        parameter_groups(build_model(TransformerConfig(), 9, 9), 0.1)


def test_missing_weights_are_rejected(model_dir: ModelDir, tmp_path: Path) -> None:
    path = Path(copied(model_dir, "t5", tmp_path))
    weights = load_file(path / "model.safetensors")
    del weights["encoder.final_layer_norm.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"do not contain 'encoder\.final_layer_norm"):
        load_model(path, "cpu")
    (path / "model.safetensors").unlink()
    (path / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(CheckpointError, match="not an index of weight files"):
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


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"kind": "hf", "path": "x"}, "several contexts"),
        ({"kind": "pretrained", "encoder_path": "x", "layer_attention": [{}] * 6}, "model: .* are both set"),
    ],
)
def test_unsuitable_attention_is_rejected(model: dict[str, Any], message: str) -> None:
    corpus, model = {"file": "x.tsv"}, {**model, "attention": {"kind": "posterior"}}
    with pytest.raises(ConfigError, match=message):
        from_dict(RunConfig, {"data": {"train": [corpus], "valid": corpus}, "model": model})


def test_missing_transformers_is_reported_with_the_extra_to_install(
    model_dir: ModelDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UsageError, match=re.escape("pip install 'regard[hf]'")):
        load_model(model_dir("t5"), "cpu")
