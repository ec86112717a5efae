"""Pickled weights (`pytorch_model.bin`) are read like safetensors, and nothing is executed."""

# pyright: basic

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

import torch
import transformers

import regard
from extensions.hf import tiny
from regard.errors import CheckpointError
from regard.runs.loading import load_model

LINE = "die Katze schläft ."


@pytest.fixture(scope="module")
def published(model_dir: tiny.ModelDir, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory like OPUS-MT as published: with pickled weights only."""
    directory = copied(model_dir("marian"), tmp_path_factory.mktemp("published"))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    (directory / "model.safetensors").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return directory


def copied(directory: Path, into: Path) -> Path:
    return Path(shutil.copytree(directory, into / "opus"))


def test_translations_and_scores_are_those_of_safetensors(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory)
    pickled = regard.load(directory, device="cpu")
    model.save_pretrained(directory)
    (directory / "pytorch_model.bin").unlink()  # the loaded weights may be in the old file
    (directory / "pytorch_model.bin").write_bytes(b"not read")
    stored = regard.load(directory, device="cpu")
    weights = stored.backend.model.state_dict()
    assert all(torch.equal(tensor, weights[n]) for n, tensor in pickled.backend.model.state_dict().items())
    first, second = pickled.translate(LINE), stored.translate(LINE)
    assert first.text == second.text and first.score == pytest.approx(second.score, abs=1e-5)


@pytest.mark.parametrize("form", ["half", "sharded", "old"])
def test_shards_half_precision_and_the_old_format_are_read(
    published: Path, tmp_path: Path, form: str
) -> None:
    directory = copied(published, tmp_path)
    path = directory / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    weights = {name: tensor.half() if form == "half" else tensor for name, tensor in weights.items()}
    path.unlink()
    if form == "sharded":
        tiny.pickle_shards(directory, weights, 20)
    else:
        torch.save(weights, path, _use_new_zipfile_serialization=form != "old")
    parameters = dict(load_model(directory, "cpu").model.named_parameters())
    assert torch.equal(parameters["model.model.shared.weight"], weights["model.shared.weight"].float())


class Attack:
    """An object whose pickle runs a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_with_code_is_refused_and_not_executed(published: Path, tmp_path: Path, zipped: bool) -> None:
    directory, trace = copied(published, tmp_path), tmp_path / "executed"
    content = {"model.shared.weight": torch.zeros(2), "extra": Attack(trace)}
    torch.save(content, directory / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match="cannot read the weights"):
        regard.load(directory)
    assert not trace.exists()


def test_broken_missing_and_foreign_files_are_named(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    path = directory / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="cannot read the weights"):
        regard.load(directory)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"contains no weights \(model\.safetensors or"):
        regard.load(directory)
    index = {"metadata": {}, "weight_map": {"a": "../secret.bin"}}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="secret"):
        regard.load(directory)
