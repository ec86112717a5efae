"""A model that does not fit into memory is refused before its weights are loaded, or distributed."""

# pyright: basic

from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[hf]'")

from transformers.utils import logging

import regard
from extensions.hf import tiny
from regard.errors import CheckpointError, UsageError
from regard.extensions.hf import weights
from regard.runs.experiment import load_model

SOURCES = ["a small dog .", "the cat sleeps", "a man"]


@pytest.fixture
def t5(tmp_path: Path) -> tuple[Path, int]:
    """A model directory, and the number of bytes of the weights."""
    logging.disable_progress_bar()
    return tmp_path, 4 * sum(parameter.numel() for parameter in tiny.t5(tmp_path).parameters())


def test_model_larger_than_memory_is_refused_with_both_sizes(t5, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, size = t5
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    monkeypatch.setattr(weights, "available_memory", lambda: size)
    load_model(directory, "cpu")
    monkeypatch.setattr(weights, "available_memory", lambda: size - 1)
    message = rf"{size // 4:,} parameters and needs 0\.0 GB of memory.*or install accelerate"
    with pytest.raises(CheckpointError, match=message):
        load_model(directory, "cpu")


def test_accelerate_keeps_a_part_of_a_large_model_on_the_disk(
    t5, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate: pip install 'regard[lora]'")
    directory, size = t5
    whole = regard.load(directory, device="cpu")
    monkeypatch.setattr(weights, "available_memory", lambda: int(0.8 * size))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    parts = regard.load(directory, device="cpu")
    assert "a part of the weights on other devices or on the disk" in caplog.text
    model = parts.translator.model
    assert 0 < sum(parameter.is_meta for parameter in model.parameters()) < len(list(model.parameters()))
    found, expected = (one.translate(SOURCES) for one in (parts, whole))
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected])
    with pytest.raises(UsageError, match="bfloat16 is not available for a model larger"):
        regard.load(directory, device="cpu", precision="bfloat16")


def test_available_memory_is_that_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  900 kB\nMemAvailable:  300 kB\n")
    monkeypatch.setattr(weights, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(weights, "_CGROUP", tmp_path)
    assert weights.available_memory() == 300 * 1024
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert weights.available_memory() == 300 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    assert weights.available_memory() == 4000
    monkeypatch.setattr(weights, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(weights, "_CGROUP", tmp_path / "none")
    assert weights.available_memory() is None


def test_directory_without_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    logging.disable_progress_bar()
    tiny.t5(tmp_path)
    for path in tmp_path.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(CheckpointError, match="the directory contains no tokenizer files"):
        load_model(tmp_path, "cpu")
