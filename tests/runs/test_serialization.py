"""Tests of the tensor files: round trips, damage, and full disks."""

import os
import resource
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.errors import CheckpointError
from regard.runs.serialization import read_metadata, read_tensors, write_tensors

TENSORS = {
    "a": torch.arange(6.0).view(2, 3),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.zeros(0),
    "scalar": torch.tensor(2.0),
}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("store") / "x.safetensors"
    write_tensors(path, TENSORS, {"step": 3})
    return path.read_bytes()


def test_tensors_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"step": 3, "best": float("inf")})
    tensors, about = read_tensors(path)
    assert about == read_metadata(path) == {"step": 3, "best": float("inf")}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == TENSORS[name].dtype and torch.equal(tensor, TENSORS[name])
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_equal_content_gives_equal_bytes(tmp_path: Path, content: bytes) -> None:
    write_tensors(tmp_path / "y", dict(reversed(TENSORS.items())), {"step": 3})
    assert (tmp_path / "y").read_bytes() == content


@given(data=st.data())
@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_bytes_are_detected(data: st.DataObject, content: bytes, tmp_path: Path) -> None:
    position = data.draw(st.integers(0, len(content) - 1))
    bit = data.draw(st.integers(0, 7))
    path = tmp_path / "altered"
    path.write_bytes(content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :])
    with pytest.raises(CheckpointError, match="altered"):
        read_tensors(path)


@given(length=st.integers(0, 400))
@hypothesis_settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncated_files_are_detected(length: int, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "truncated"
    path.write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(CheckpointError, match="truncated"):
        read_tensors(path)


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"gone\.safetensors: no such file"):
        read_tensors(tmp_path / "gone.safetensors")


def test_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"step": 1})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # With a limit on file sizes, a write fails in the middle, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"x\.safetensors: cannot be written"):
            write_tensors(path, {"a": torch.zeros(10_000)}, {"step": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_metadata(path) == {"step": 1}
    assert os.listdir(tmp_path) == ["x.safetensors"]
