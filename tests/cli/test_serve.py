"""Tests of the command line of `regard serve`; tests/server contains the tests of the server itself."""

import importlib.util
import os
import socket

import pytest
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import CheckpointError, ConfigError, UsageError
from server.served import save_model

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def serve(*arguments):
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_missing_extra_is_reported_with_install_command(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    with pytest.raises(UsageError, match=r"uvicorn.*pip install 'regard\[serve\]'"):
        serve(tmp_path)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--set", "batch_windw=3"], "batch_window"),
        (["--port", "70000"], "port"),
        (["--set", "batch_size=0"], "batch_size: .*greater than or equal to 1"),
        (["--set", "max_queued_sentences=10"], "expected max_queued_sentences >= max_sentences"),
    ],
)
def test_invalid_settings_are_reported(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        serve(tmp_path, *arguments)


def test_directory_without_a_model_is_reported(tmp_path):
    with pytest.raises(CheckpointError, match="nothing-here"):
        serve(tmp_path / "nothing-here")


def test_duplicate_models_are_rejected(tmp_path):
    with pytest.raises(UsageError, match="twice"):
        serve(tmp_path, tmp_path)


@pytest.mark.parametrize(("models", "shapes"), [(1, 128), (4, 32)])
def test_shape_caches_are_bounded(tmp_path, monkeypatch, models, shapes):
    # Without a limit, these two caches of oneDNN and PyTorch grow with every new tensor shape.
    for name in CACHES:
        monkeypatch.setenv(name, "16")
        monkeypatch.delenv(name)
    with pytest.raises(CheckpointError):
        serve(*(tmp_path / f"nothing-{number}" for number in range(models)))
    assert [int(os.environ[name]) for name in CACHES] == [128, shapes]


def test_port_in_use_is_reported(tmp_path, monkeypatch):
    for name in CACHES:
        monkeypatch.setenv(name, "16")  # so that the command does not set it permanently
    directory = save_model(tmp_path / "model")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)):
            serve(directory, "--port", port)
