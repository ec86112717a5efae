"""Complete training runs from files."""

import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from regard.cli.main import app
from regard.config import dump_toml, from_dict
from regard.data.dataset import prepare_data
from regard.errors import CheckpointError, ConfigError, DeviceError, InfeasibleBoundsError, UsageError
from regard.generation.lines import Line, enumerate_lines
from regard.runs.description import load_description
from regard.runs.loading import average_models, load_model
from regard.runs.serialization import read_tensors
from regard.runs.weights import state_file
from regard.text.vocabulary import EOS, SINK
from regard.training.fertility import add_fertilities
from regard.training.metrics_logger import read_metrics
from regard.training.optimizer import clip_gradients
from regard.training.run import run_training as train
from regard.training.run_config import RunConfig, load_config
from saved_models import small_rnn


def _write_corpus(directory: Path) -> None:
    """Write sentences, and their reversals as translations."""
    rng = random.Random(7)
    for split, count in (("train", 120), ("valid", 20)):
        lines = [[f"w{rng.randrange(9)}" for _ in range(rng.randint(1, 6))] for _ in range(count)]
        (directory / f"{split}.de").write_text("".join(" ".join(line) + "\n" for line in lines))
        (directory / f"{split}.en").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))


def _plain(directory: Path, **training: object) -> dict:
    """Return the settings of a small run as a dictionary."""
    corpora = {
        s: {"source": str(directory / f"{s}.de"), "target": str(directory / f"{s}.en")}
        for s in ("train", "valid")
    }
    return {
        "device": "cpu",
        "data": {
            "cache_dir": str(directory / "prepared"),
            "train": [corpora["train"]],
            "valid": corpora["valid"],
        },
        "model": small_rnn(8),
        "training": {
            "batch_size": 16,
            "max_epochs": 2,
            "logging": {"every_steps": 4},
            "checkpoint": {"keep_last_epochs": 2},
            **training,
        },
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    _write_corpus(directory)
    return directory


@pytest.fixture(scope="module")
def trained(corpus: Path) -> Path:
    directory = corpus / "model"
    train(from_dict(RunConfig, _plain(corpus)), directory)
    return directory


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of the trained model directory, for tests that damage it."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def test_model_is_loaded_from_its_directory_alone(trained: Path, corpus: Path) -> None:
    loaded = load_model(trained, "cpu")
    assert loaded.config == load_description(trained)
    assert from_dict(RunConfig, _plain(corpus)) == load_config(trained)
    assert not loaded.model.training
    again = load_model(trained, "cpu").model.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in loaded.model.state_dict().items())


@pytest.mark.parametrize("name", ["config.toml", "text.json", "source.vocabulary", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_missing_or_truncated_model_file_is_named(copied: Path, name: str, damage: str) -> None:
    path = copied / name
    if damage == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()
    with pytest.raises(CheckpointError, match=name):
        load_model(copied, "cpu")


def test_unavailable_device_is_rejected_before_anything_is_written(corpus: Path, tmp_path: Path) -> None:
    config = from_dict(RunConfig, {**_plain(corpus), "device": "cuda:99"})
    with pytest.raises(DeviceError, match="cuda:99"):
        train(config, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_run_that_failed_at_the_start_can_be_restarted_with_another_config(
    corpus: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "model"
    with pytest.raises(CheckpointError, match="nowhere"):
        train(from_dict(RunConfig, _plain(corpus, init_from="nowhere")), directory)
    train(from_dict(RunConfig, _plain(corpus, max_steps=1)), directory)
    assert load_config(directory).training.init_from is None


def test_missing_best_weights_are_written_again(copied: Path, corpus: Path) -> None:
    path = copied / "model.safetensors"
    path.unlink()
    train(from_dict(RunConfig, _plain(corpus)), copied)  # the run is finished
    assert read_tensors(path)[1]["step"] == 16
    last = read_tensors(copied / "training" / "epoch-0002.safetensors")[0]
    assert all(torch.equal(tensor, last[name]) for name, tensor in read_tensors(path)[0].items())
    # The next validation is the best one, as the weights of the best one before are lost.
    train(from_dict(RunConfig, _plain(corpus, max_epochs=3)), copied)
    assert read_metrics(copied)[-1]["best"] and read_tensors(path)[1]["step"] == 24
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: truncated.*; remove the file"):
        train(from_dict(RunConfig, _plain(corpus, max_epochs=3)), copied)


def test_averaged_model_has_the_mean_weights(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "mean"
    files = average_models(out, [trained], last_epochs=2)
    assert [file.name for file in files] == ["epoch-0001.safetensors", "epoch-0002.safetensors"]
    first, second = (read_tensors(file)[0] for file in files)
    for name, tensor in load_model(out, "cpu").model.state_dict().items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)
    average_models(tmp_path / "state", [state_file(trained)])
    for name, tensor in load_model(tmp_path / "state", "cpu").model.state_dict().items():
        assert torch.equal(tensor, second[name])
    with pytest.raises(UsageError, match="the output directory is not empty"):
        average_models(out, [trained])
    with pytest.raises(UsageError, match="contains an averaged model"):
        train(load_config(trained), out)
    with pytest.raises(UsageError, match="has the weights of 2 epochs, but 5 are needed"):
        average_models(tmp_path / "more", [trained], last_epochs=5)


def test_every_validation_metric_uses_the_source_prefix_of_the_validation_text(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = _plain(corpus, max_steps=1, validation={"metric": "ter"})
    plain["data"] = {**plain["data"], "cache_dir": str(tmp_path / "prepared")}
    plain["data"]["valid"] = {**plain["data"]["valid"], "source_prefix": "<x>"}
    translated: list[str] = []

    def record(lines: list[str]) -> Iterator[Line]:
        translated.extend(lines)
        return enumerate_lines(lines)

    monkeypatch.setattr("regard.generation.lines.enumerate_lines", record)
    config = from_dict(RunConfig, plain)
    assert train(config, tmp_path / "model").metric == "ter"
    prepared = prepare_data(config.data)
    # The perplexity is that of the prepared text.
    scored = [prepared.split("valid").example(row)[0].tolist() for row in range(20)]
    assert [prepared.text.source.encode(line) for line in translated] == scored
    assert all(line.startswith("<x> ") for line in translated)


def test_stopped_command_resumes_to_the_weights_of_an_uninterrupted_run(
    corpus: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, directory = tmp_path / "run.toml", tmp_path / "model"
    config.write_text(dump_toml(from_dict(RunConfig, _plain(corpus))))
    command = ["train", str(config), "--output-dir", str(directory)]

    def stop(*arguments: Any) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)
        clip_gradients(*arguments)

    monkeypatch.setattr("regard.training.train_step.clip_gradients", stop)
    assert CliRunner().invoke(app, command).exit_code == 128 + signal.SIGTERM
    assert CliRunner().invoke(app, command).exit_code == 0
    for name in ("model.safetensors", "training/epoch-0002.safetensors"):
        assert (directory / name).read_bytes() == (trained / name).read_bytes()


def test_infeasible_sentence_is_named_by_file_and_line(corpus: Path, tmp_path: Path) -> None:
    plain = _plain(corpus)
    for name, last in (("de", "w1"), ("en", "w1 w2 w3")):
        lines = ["", *["w4 w5 w6"] * 10, last]  # the empty pair is dropped from the prepared data
        (tmp_path / f"train.{name}").write_text("".join(f"{line}\n" for line in lines))
    files = {"source": str(tmp_path / "train.de"), "target": str(tmp_path / "train.en")}
    fertility = {"kind": "constant", "value": 2.0, "sink": False}
    plain["data"] |= {"train": [files], "fertility": fertility, "cache_dir": str(tmp_path / "prepared")}
    plain["model"]["attention"] = {"kind": "constrained"}
    with pytest.raises(
        InfeasibleBoundsError, match=r"train\.de.*: line 12: sentence 11 of the prepared text"
    ):
        train(from_dict(RunConfig, plain), tmp_path / "model")


def test_sentence_longer_than_learned_positions_is_rejected_by_line(corpus: Path, tmp_path: Path) -> None:
    plain = _plain(corpus)
    plain["model"] = {
        "kind": "transformer",
        "d_model": 8,
        "num_heads": 2,
        "position_encoding": {"kind": "learned", "max_length": 5},
    }
    with pytest.raises(
        ConfigError, match=r"\.de.*: line \d+ has 6 source tokens, but .* 5 learned positions"
    ) as e:
        train(from_dict(RunConfig, plain), tmp_path / "model")
    assert "set data.max_length = 5" in str(e.value)


def test_different_vocabularies_of_equal_size_cannot_share_embeddings(corpus: Path, tmp_path: Path) -> None:
    _write_corpus(tmp_path)
    for split in ("train", "valid"):
        path = tmp_path / f"{split}.en"
        path.write_text(path.read_text().replace("w", "v"))
    plain = _plain(tmp_path)
    plain["model"]["tie_embeddings"] = "all"
    with pytest.raises(
        ConfigError, match=r"\(14 tokens\) and .*\(14 tokens\) differ: set data\.shared_vocab = true"
    ):
        train(from_dict(RunConfig, plain), tmp_path / "model")
    plain["data"]["shared_vocab"] = True
    plain["data"]["cache_dir"] = str(tmp_path / "joint")
    train(from_dict(RunConfig, plain), tmp_path / "model")
    assert load_model(tmp_path / "model", "cpu").model.output is None
    other = from_dict(RunConfig, _plain(corpus, init_from=str(tmp_path / "model")))
    with pytest.raises(ConfigError, match="vocabulary"):
        train(other, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_guided_fertilities_are_computed_once_and_saved_with_the_model(corpus: Path, tmp_path: Path) -> None:
    plain = _plain(corpus, max_steps=2)
    plain["data"]["fertility"] = {"kind": "guided"}
    plain["model"]["attention"] = {"kind": "constrained"}
    train(from_dict(RunConfig, plain), tmp_path / "first")
    (counted,) = (corpus / "prepared").glob("bayes-*.train.fertilities")
    before = counted.stat().st_mtime_ns
    train(from_dict(RunConfig, plain), tmp_path / "second")
    assert counted.stat().st_mtime_ns == before
    loaded = load_model(tmp_path / "first", "cpu")
    assert loaded.text.sink_tokens == ("<sink>",)
    # Reversal translates every word by exactly one word.
    lines = (tmp_path / "first" / "source.fertility").read_text().splitlines()
    words = dict(line.split("\t") for line in lines)
    assert words["<pad>"] == "1" and all(float(words[f"w{i}"]) >= 1 for i in range(9))


def _predicted(corpus: Path) -> dict:
    plain = _plain(corpus, max_steps=2)
    plain["data"]["fertility"] = {"kind": "predicted", "hidden_size": 8, "max_epochs": 2}
    plain["model"]["attention"] = {"kind": "constrained"}
    return plain


def test_predicted_fertilities_come_from_alignments_in_training_and_from_the_predictor_otherwise(
    corpus: Path, tmp_path: Path
) -> None:
    config = from_dict(RunConfig, _predicted(corpus))
    train(config, tmp_path / "first")
    (counted,) = (corpus / "prepared").glob("bayes-*.train.fertilities")
    name = counted.name.split("-")[1].split(".")[0]
    prepared = add_fertilities(prepare_data(config.data), config.data.fertility, name)
    batch = prepared.split("train").batch([0, 1])
    assert batch.upper_bounds is not None
    for row in (0, 1):
        words = int(batch.source.lengths[row]) - 1
        # Reversal aligns each word to at most one word, and the slack adds 1.
        assert batch.upper_bounds[row, :words].eq(2).float().mean() > 0.5
        assert batch.upper_bounds[row, words].isinf()
        assert batch.source.tokens[row, words] == SINK
    valid = prepared.split("valid").batch([0])
    text = load_model(tmp_path / "first", "cpu").text
    expected = text.batch([prepared.split("valid").example(0)[0]], None, [0])
    assert valid.upper_bounds is not None and expected.upper_bounds is not None
    assert valid.upper_bounds[0, :-1].frac().ne(0).any()
    torch.testing.assert_close(valid.upper_bounds, expected.upper_bounds)


def test_fertility_predictor_is_trained_once_per_corpus_and_saved_with_each_model(
    corpus: Path, tmp_path: Path
) -> None:
    train(from_dict(RunConfig, _predicted(corpus)), tmp_path / "first")
    (made,) = (corpus / "prepared").glob("predictor-*-8x2-2")
    before = (made / "model.safetensors").stat().st_mtime_ns
    train(from_dict(RunConfig, _predicted(corpus)), tmp_path / "second")
    assert (made / "model.safetensors").stat().st_mtime_ns == before
    shutil.rmtree(corpus / "prepared")
    average_models(tmp_path / "mean", [tmp_path / "first", tmp_path / "second"])
    budgets = [load_model(tmp_path / name, "cpu").text.budget for name in ("first", "second", "mean")]
    assert budgets[0] == budgets[1] == budgets[2]
    weights = tmp_path / "second" / "predictor" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match="predictor"):
        load_model(tmp_path / "second", "cpu")


def test_settings_of_a_trained_model_can_be_overridden(corpus: Path, tmp_path: Path) -> None:
    plain = _plain(corpus, max_steps=3)
    plain["model"]["attention"] = {"kind": "posterior", "top_k": 1, "tail": "drop"}
    train(from_dict(RunConfig, plain), tmp_path / "model")
    batch = load_model(tmp_path / "model", "cpu").text.batch([[5, 6, 7]], [[5, 6, EOS]], [0])
    one, two, every = (
        load_model(tmp_path / "model", "cpu", overrides=[f"model.attention.top_k={count}"]).model(batch)
        for count in (1, 2, 0)
    )
    assert one.log_likelihood.sum() < two.log_likelihood.sum() < every.log_likelihood.sum()
    with pytest.raises(ConfigError, match=r"model\.attention\.context"):
        load_model(tmp_path / "model", "cpu", overrides=["model.attention.context=2"])
    with pytest.raises(CheckpointError, match="weight"):
        load_model(tmp_path / "model", "cpu", overrides=["model.embedding_size=9"])
