"""The text of the tests of commands, and functions that run a command."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from regard.cli.main import app

SOURCE = ["a b c", "d e", "", "f g a b e", "c c c c", "b d f a"]
REFERENCE = [line.upper() for line in SOURCE]
GOLD = ["0-0 1-1 2p2", "0-1 1-0", "", "0-0 1-1 2-2 3-3", "0p0", "3-0 2-1 1-2 0-3"]
LINES = ["a b c", "", "d", "e f g a b", "x y a", "c c c c"]


def invoke(*arguments, input: str | bytes | None = None):
    """Run a command and return its result, with its error as `exception`."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


def run(*arguments, input: str | bytes | None = None):
    """Run a command; an error of the command is raised."""
    result = invoke(*arguments, input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def translate(*arguments, input: str | bytes = "".join(f"{line}\n" for line in LINES)) -> list[str]:
    """Return the lines that `regard translate` writes to stdout."""
    result = run("translate", *arguments, input=input)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def analyze(name: str, models: Iterable[Path], files: Path, *arguments):
    """Run an analysis of models on the text of a directory."""
    options = ("--source", files / "in.txt", "--reference", files / "ref.txt", "--num-threads", 1)
    result = run("analyze", name, *models, *options, *arguments)
    assert result.exit_code == 0, result.output
    return result


def analysis_data(name: str, models: Iterable[Path], files: Path, *arguments) -> dict[str, Any]:
    """Run an analysis and return the JSON that it writes."""
    analyze(name, models, files, "--json", files / "figures.json", *arguments)
    return json.loads((files / "figures.json").read_text(encoding="utf-8"))


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a text and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def all_commands(group: Any = None, prefix: str = "") -> dict[str, Any]:
    """Return the commands with all their flags, by name, such as `analyze errors`."""
    commands: dict[str, Any] = {}
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            commands |= all_commands(command, f"{prefix}{name} ")
        else:
            command.complete()
            commands[f"{prefix}{name}"] = command
    return commands
