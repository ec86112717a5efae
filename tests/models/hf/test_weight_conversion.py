"""Conversion of pickled weights: equal tensors and outputs, whole files, and nothing executed."""

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
from safetensors.torch import load_file
from transformers.utils import logging
from typer.testing import CliRunner

import regard
from hf import tiny
from models.hf.kinds import pickle_shards
from regard.cli.main import app
from regard.errors import CheckpointError, UsageError
from regard.models.hf import conversion

LINE = "die Katze schläft ."


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory like OPUS-MT as published: with pickled weights only."""
    logging.disable_progress_bar()
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("published") / "opus"
    model = tiny.marian(directory)
    (directory / "model.safetensors").unlink()
    torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return directory


def copied(directory: Path, into: Path) -> Path:
    return Path(shutil.copytree(directory, into / "opus"))


def test_message_of_a_pickled_directory_names_the_command_that_converts_it(
    published: Path, tmp_path: Path
) -> None:
    spaced = copied(published, tmp_path / "a b")
    with pytest.raises(CheckpointError, match=rf"pickled .*: regard convert '{spaced}'$"):
        regard.load(spaced)


def test_converted_weights_are_those_of_the_pickle_and_nothing_else_changes(
    published: Path, tmp_path: Path
) -> None:
    directory = copied(published, tmp_path)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    made = regard.convert(directory)
    assert made.files == ("model.safetensors",) and made.dtypes == ("float32",)
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert after.keys() - before.keys() == {"model.safetensors"}
    assert all(after[name] == content for name, content in before.items())
    stored = load_file(directory / "model.safetensors")
    pickled = torch.load(directory / "pytorch_model.bin", weights_only=True)
    assert all(torch.equal(tensor, pickled[name]) for name, tensor in stored.items())
    # The model ties its embeddings, which the library stores once.
    assert {pickled[name].data_ptr() for name in stored} == {one.data_ptr() for one in pickled.values()}
    assert len(stored) < len(pickled)
    assert regard.load(directory).translate(LINE).text is not None
    with pytest.raises(UsageError, match="already contains weights as safetensors"):
        regard.convert(directory)


def test_shards_and_half_precision_are_kept(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    state = torch.load(directory / "pytorch_model.bin", weights_only=True)
    half = {name: one.half() for name, one in state.items()}
    (directory / "pytorch_model.bin").unlink()
    pickle_shards(directory, half, 20)
    made = regard.convert(directory)
    assert len(made.files) > 1 and made.dtypes == ("float16",)
    stored = {k: v for name in made.files for k, v in load_file(directory / name).items()}
    assert all(torch.equal(tensor, half[name]) for name, tensor in stored.items())
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory, dtype=torch.float16)
    assert torch.equal(model.state_dict()["model.shared.weight"], half["model.shared.weight"])
    assert regard.load(directory).translate(LINE).text is not None


def test_old_format_of_torch_is_read(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    state = torch.load(directory / "pytorch_model.bin", weights_only=True)
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert regard.convert(directory).num_tensors > 10


class Attack:
    """An object whose pickle runs a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickle_with_code_is_refused_and_not_executed(published: Path, tmp_path: Path, zipped: bool) -> None:
    directory, trace = copied(published, tmp_path), tmp_path / "executed"
    state = {"model.shared.weight": torch.zeros(2), "extra": Attack(trace)}
    torch.save(state, directory / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: refused, .*more than tensors: .*system"):
        regard.convert(directory)
    assert not trace.exists() and not (directory / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model.shared.weight": [1, 2]}, "'model.shared.weight' is a list"),
        ([torch.zeros(2)], "a list instead of tensors by name"),
        ({"state_dict": {"a": torch.zeros(2)}}, "'state_dict' is a dict"),
    ],
)
def test_content_other_than_tensors_is_refused_by_name(
    published: Path, tmp_path: Path, content: Any, message: str
) -> None:
    directory = copied(published, tmp_path)
    torch.save(content, directory / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=message):
        regard.convert(directory)


def test_broken_missing_and_foreign_files_are_named(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    path = directory / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: truncated or not a file of PyTorch"):
        regard.convert(directory)
    path.unlink()
    with pytest.raises(CheckpointError, match="contains no pickled weights"):
        regard.convert(directory)
    index = {"metadata": {}, "weight_map": {"a": "../secret.bin"}}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="secret"):
        regard.convert(directory)


def test_failed_check_leaves_no_file(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = copied(published, tmp_path)
    before = sorted(path.name for path in directory.iterdir())
    outputs = iter([torch.zeros(3), torch.ones(3)])
    monkeypatch.setattr(conversion, "_outputs", lambda *args, **options: next(outputs))
    with pytest.raises(CheckpointError, match="outputs differ after the conversion"):
        regard.convert(directory)
    assert sorted(path.name for path in directory.iterdir()) == before


def test_download_converts_and_names_the_reason_of_a_failure(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.chdir(tmp_path)
    names = [path.name for path in published.iterdir()]
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda self, name: names)

    def fetch(name: str, local_dir: Path, allow_patterns: list[str]) -> None:
        assert name == "someone/opus" and "pytorch_model*.bin" in allow_patterns
        shutil.copytree(published, local_dir, dirs_exist_ok=True)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    directory = regard.download("someone/opus")
    assert directory == Path("opus") and (directory / "model.safetensors").is_file()
    with pytest.raises(UsageError, match="opus: already exists"):
        regard.download("someone/opus")
    with pytest.raises(UsageError, match="not a name of a model"):
        regard.download("no name!")

    def fail(*args: Any, **options: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(CheckpointError, match=r"someone/other: cannot be downloaded .*no route to host"):
        regard.download("someone/other")
    assert not Path("other").exists()


@pytest.mark.parametrize(
    "line",
    [
        "translate someone/opus",
        "score someone/opus a b",
        "serve someone/opus",
        "report someone/opus --test a b -o page.html",
        "convert someone/opus",
        "export ctranslate2 someone/opus -o new",
    ],
)
def test_command_with_a_name_on_the_hub_states_the_download_command(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).write_text("ein Satz\n")
    result = CliRunner().invoke(app, line.split(), input="ein Satz\n")
    assert "`regard download someone/opus`" in str(result.exception)


def test_command_converts_a_directory_and_reports_the_sizes(published: Path, tmp_path: Path) -> None:
    directory = copied(published, tmp_path)
    result = CliRunner().invoke(app, ["convert", str(directory)])
    assert result.exit_code == 0 and "wrote model.safetensors" in result.stderr
    assert not result.stdout and (directory / "model.safetensors").is_file()
