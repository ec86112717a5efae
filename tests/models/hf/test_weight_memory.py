"""A model that does not fit into memory is refused before its weights are loaded."""

# pyright: basic

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

from transformers.utils import logging

from hf import tiny
from regard.errors import CheckpointError
from regard.experiment import load_model
from regard.models.hf import memory


def test_model_larger_than_memory_is_refused_with_both_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.disable_progress_bar()
    model = tiny.t5(tmp_path)
    count = sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(memory, "available_memory", lambda: 4 * count)
    load_model(tmp_path, "cpu")
    monkeypatch.setattr(memory, "available_memory", lambda: 4 * count - 1)
    with pytest.raises(CheckpointError, match=rf"{count:,} parameters and needs 0\.0 GB of memory"):
        load_model(tmp_path, "cpu")


def test_available_memory_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  900 kB\nMemAvailable:  300 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_memory() == 300 * 1024
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() == 300 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    assert memory.available_memory() == 4000
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "none")
    assert memory.available_memory() is None


def test_directory_without_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    logging.disable_progress_bar()
    tiny.t5(tmp_path)
    for path in tmp_path.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="the directory contains no tokenizer files"):
        load_model(tmp_path, "cpu")
