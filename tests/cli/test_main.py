"""Tests of the command line as a whole: help, errors without tracebacks, fast imports."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_runs import all_commands
from typer.testing import CliRunner

import regard
from regard.cli.main import app


def run(*arguments: str, **settings) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, timeout=120, **settings
    )


@pytest.mark.parametrize(
    ("code", "avoided"),
    [
        ("regard.cli.main", "torch numpy pydantic sacrebleu"),
        ("regard; regard.check(['a'], ['b'])", "torch numba sacrebleu"),
    ],
)
def test_imports_of_large_packages_are_avoided(code: str, avoided: str) -> None:
    command = [sys.executable, "-c", f"import sys, {code}; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(avoided.split()) & set(done.stdout.split())


def test_version_reports_the_environment() -> None:
    shown = CliRunner().invoke(app, ["--version"]).output
    assert shown.startswith(f"regard {regard.__version__}\nPython {platform.python_version()}, ")
    assert f"\nnumpy {np.__version__}\n" in shown


def test_every_command_has_help_with_an_example_and_all_its_flags_in_80_columns() -> None:
    assert len(all_commands()) >= 9
    for name, command in all_commands().items():
        shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*name.split(), "--help"])
        assert shown.exit_code == 0 and f"Example: regard {name}" in " ".join(shown.output.split()), name
        flags = {flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")}
        assert flags <= set(re.findall(r"--[\w-]+", shown.output)), name
        assert max(map(len, shown.output.splitlines())) <= 80, name


@pytest.mark.slow
def test_usage_errors_exit_with_2_and_failures_with_1(tmp_path) -> None:
    assert run("train").returncode == 2
    assert run("no-such-command").returncode == 2
    (tmp_path / "run.toml").write_text("[modle]\n")
    wrong = run("train", str(tmp_path / "run.toml"))
    assert wrong.returncode == 2 and "modle" in wrong.stderr and "Traceback" not in wrong.stderr
    missing = run("translate", str(tmp_path / "no-model"), input="")
    assert missing.returncode == 1 and "no-model" in missing.stderr and "Traceback" not in missing.stderr


@pytest.mark.slow
def test_config_prints_all_options_and_complete_runs(tmp_path) -> None:
    shown = run("config", "model.attention", env=os.environ | {"COLUMNS": "300"})
    assert max(map(len, shown.stdout.splitlines())) in range(100, 121)
    assert shown.returncode == 0 and "[model.attention]" in shown.stdout and "  normalizer = " in shown.stdout
    path = tmp_path / "run.toml"
    path.write_text("[data]\ntrain = [{source = 'a', target = 'b'}]\nvalid = {source = 'c', target = 'd'}\n")
    full = run("config", str(path), "seed=7")
    assert full.returncode == 0
    path.write_text(full.stdout)
    assert run("config", str(path)).stdout == full.stdout and "seed = 7" in full.stdout


@pytest.mark.slow
def test_broken_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m regard config | head -1"
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in shown.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_full_disk_is_reported_in_one_line() -> None:
    # An interpreter that ends writes the rest of its output again.
    for argument in ("config", "--help"):
        with open("/dev/full", "w") as full:
            shown = subprocess.run(
                [sys.executable, "-m", "regard", argument],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
            )
        assert shown.returncode == 1
        assert shown.stderr == "regard: standard output: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams_cause_no_traceback(tmp_path, closed) -> None:
    (tmp_path / "file").touch()
    # A command that fails before it imports large packages.
    command = f"{sys.executable} -m regard phrasebook {tmp_path / 'file' / 'directory'} {closed}"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1 and result.stdout == "" and "Traceback" not in result.stderr
