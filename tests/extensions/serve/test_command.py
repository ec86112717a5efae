"""Tests of the command line of `regard serve`; the other tests of this folder concern the server itself."""

import json
import os
import re
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command_runs import all_commands, run

from extensions.serve.served import save_model
from regard.errors import CheckpointError, ConfigError, DataError, UsageError

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

serve = partial(run, "serve")


def test_the_container_and_the_service_use_files_and_flags_that_exist():
    root = Path(__file__).parents[3]
    container = (root / "Dockerfile").read_text(encoding="utf-8")
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)", container, re.MULTILINE)
    page = (root / "docs" / "howto" / "production.md").read_text(encoding="utf-8")
    (service,) = re.findall(r"^ExecStart=(.*)", page, re.MULTILINE)
    flags = {flag for parameter in all_commands()["serve"].params for flag in parameter.opts}
    for command in (json.loads(entrypoint), service.split()):
        assert command[0].endswith("regard") and command[1] == "serve"
        assert {word for word in command if word.startswith("--")} <= flags
    copied = re.findall(r"^COPY (.*) \S+$", container, re.MULTILINE)
    assert copied and all((root / name).exists() for line in copied for name in line.split())


def test_options_and_settings_reach_the_server(tmp_path, monkeypatch):
    found = []

    def stop(engines, config, checker):
        found.extend((config, checker))
        raise UsageError("stopped here")

    monkeypatch.setattr("regard.extensions.serve.engine.load_engines", lambda *arguments, **limits: [])
    monkeypatch.setattr("regard.extensions.serve.app.create_app", stop)
    options = ("--allow-origins", "https://a.example", "--allow-hosts", "b.example", "--batch-size", "7")
    with pytest.raises(UsageError, match="stopped here"):
        serve(tmp_path, *options, "--port", 0, "--detector", "length")
    config, checker = found
    assert checker.detectors[0] == "length" and checker.model is None
    assert config.allow_origins == ("https://a.example",) and config.allow_hosts == ("b.example",)
    assert (config.batch_size, config.port) == (7, 0)


def test_a_checker_in_the_directory_of_the_model_is_used(tmp_path):
    (tmp_path / "checker").mkdir()
    with pytest.raises(DataError, match="checker"):
        serve(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--port", "70000"], ConfigError, "port: input should be less than"),
        (["--host", ""], ConfigError, "host is empty"),
        (["--batch-size", "0"], ConfigError, "batch_size: input should be greater"),
        (["--max-queued-sentences", "10"], ConfigError, "max_queued_sentences = 10"),
        (["--detector", "luck"], UsageError, "detector 'luck': expected one of"),
        (["--detector", "combined"], UsageError, "the detector 'combined' needs"),
        (["--checker", "nowhere"], DataError, "nowhere"),
        (["no-model"], UsageError, "twice"),
        ([], CheckpointError, "no-model"),
    ],
)
def test_wrong_options_are_reported_before_missing_models(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        serve("no-model", *arguments)


def test_shape_caches_are_bounded_before_torch_is_imported(tmp_path):
    # Without a limit, these two caches of oneDNN and PyTorch grow with every new tensor shape.
    program = f"""
import os, sys
class PrintLimits:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            print([os.environ.get(limit) for limit in {CACHES}])
            raise SystemExit
sys.meta_path.insert(0, PrintLimits)
from regard.cli.main import app
app(["serve", "first", "second", "third", "fourth"], standalone_mode=False)
"""
    environment = {name: value for name, value in os.environ.items() if name not in CACHES}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.stdout == "['128', '32']\n" and result.stderr == ""


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
