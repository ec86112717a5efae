import builtins
from pathlib import Path

import pytest

from regard.errors import CheckpointError, ConfigError
from regard.training.record import Record, read_record


def _write(folder: Path, updates: range) -> None:
    record = Record(folder, updates.start - 1)
    for update in updates:
        record.add({"kind": "train", "update": update, "loss": 1.5})
    record.close()


def test_a_resumed_record_is_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    _write(tmp_path, range(1, 6))
    _write(tmp_path, range(4, 5))
    assert [entry["update"] for entry in read_record(tmp_path)] == [1, 2, 3, 4]


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path) -> None:
    _write(tmp_path, range(1, 3))
    with open(tmp_path / "record.jsonl", "a") as file:
        file.write('{"kind": "tr')
    assert [entry["update"] for entry in read_record(tmp_path)] == [1, 2]
    _write(tmp_path, range(3, 4))
    assert [entry["update"] for entry in read_record(tmp_path)] == [1, 2, 3]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "record.jsonl").write_text('{"update": 1}\nnonsense\n{"update": 2}\n')
    with pytest.raises(CheckpointError, match=r"record\.jsonl: line 2"):
        read_record(tmp_path)


def test_tensorboard_that_is_not_installed_is_a_clear_error(tmp_path: Path, monkeypatch) -> None:
    real = builtins.__import__

    def without(name: str, *args, **kwargs):
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"regard\[tensorboard\]"):
        Record(tmp_path, 0, tensorboard=True)
