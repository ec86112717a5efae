"""Tests of the training record: resumption, damaged lines, and TensorBoard."""

import json
import re
import sys
from pathlib import Path

import pytest

from regard.errors import CheckpointError, ConfigError
from regard.training.metrics_logger import MetricsLogger, read_metrics
from regard.training.progress import TrainingProgress
from regard.training.trainer import TrainingResult


def _write(run_dir: Path, steps: range) -> None:
    record = MetricsLogger(run_dir, steps.start - 1)
    for step in steps:
        record.log({"kind": "train", "step": step, "loss": 1.5})
    record.close()


def test_resuming_truncates_the_record_to_the_checkpoint(tmp_path: Path) -> None:
    _write(tmp_path, range(1, 6))
    _write(tmp_path, range(4, 5))
    assert [entry["step"] for entry in read_metrics(tmp_path)] == [1, 2, 3, 4]


def test_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    _write(tmp_path, range(1, 3))
    with open(tmp_path / "record.jsonl", "a") as file:
        file.write('{"kind": "tr')
    assert [entry["step"] for entry in read_metrics(tmp_path)] == [1, 2]
    _write(tmp_path, range(3, 4))
    assert [entry["step"] for entry in read_metrics(tmp_path)] == [1, 2, 3]


def test_damaged_lines_are_reported(tmp_path: Path) -> None:
    (tmp_path / "record.jsonl").write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(CheckpointError, match=r"record\.jsonl: line 2"):
        read_metrics(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_null_in_the_record(tmp_path: Path, value: float) -> None:
    record = MetricsLogger(tmp_path)
    record.log({"kind": "validation", "step": 1, "perplexity": value})
    record.close()
    assert json.loads((tmp_path / "record.jsonl").read_text())["perplexity"] is None
    json.dumps(TrainingResult("", None, TrainingProgress(), output_dir=tmp_path).to_dict(), allow_nan=False)


def test_missing_tensorboard_is_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'regard[tensorboard]'")):
        MetricsLogger(tmp_path, 0, tensorboard=True)
