"""Every command refuses an output that is one of its inputs, before it writes anything."""

import inspect
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from command_runs import all_commands, invoke

import regard
from regard.cli.command import Writes
from regard.errors import UsageError

COMMANDS = all_commands()


def paths(command) -> dict[str, Writes | None]:
    """Return the parameters of a command that are paths, and how they are written."""
    marks = {}
    for name, parameter in inspect.signature(command.callback).parameters.items():
        kind, *declared = get_args(parameter.annotation) or (None,)
        if "Path" in str(kind):
            marks[name] = next((mark for mark in declared if isinstance(mark, Writes)), None)
    return marks


def flag(command, name: str, value: Path) -> list[str]:
    (parameter,) = [one for one in command.params if one.name == name]
    return [*([parameter.opts[0]] if parameter.opts[0].startswith("-") else []), str(value)]


def arguments(command, values: dict[str, Path]) -> list[str]:
    """Return the arguments of a command with these paths, and with any value for the other required ones."""
    line = []
    for parameter in command.params:
        if parameter.name in values:
            line += flag(command, parameter.name, values[parameter.name])
            line += ["other"] * ((parameter.nargs or 1) - 1)
        elif parameter.required and parameter.name in paths(command):
            line += flag(command, parameter.name, Path("other"))
        elif parameter.required:
            line += [*([parameter.opts[0]] if parameter.opts[0].startswith("-") else []), "ctranslate2"]
    return line


@pytest.mark.parametrize(
    "name", [name for name, command in COMMANDS.items() if Writes.FILE in paths(command).values()]
)
def test_every_output_file_differs_from_every_input(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, marks = COMMANDS[name], paths(COMMANDS[name])
    inputs = [name for name, mark in marks.items() if mark is None]
    outputs = [name for name, mark in marks.items() if mark is Writes.FILE]
    Path("text").write_text("text\n")
    for input_name, output in product(inputs, outputs):
        line = arguments(command, {input_name: Path("text"), output: tmp_path / "text"})
        result = invoke(*name.split(), *line)
        assert isinstance(result.exception, UsageError), (line, result.output)
        assert "the output would overwrite the input text" in str(result.exception)
    for first, second in product(outputs, outputs):
        if first != second:
            line = arguments(command, {first: Path("new"), second: tmp_path / "new"})
            result = invoke(*name.split(), *line)
            assert isinstance(result.exception, UsageError), (line, result.output)
            assert "would overwrite the output" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert Path("text").read_text() == "text\n"


def test_paths_that_are_described_as_outputs_are_declared_as_outputs() -> None:
    words = (
        "Output",
        "Directory for the figures",
        "Directory for a seq",
        "Directory in which",
        "SVG file",
        "Also write",
        "TOML file to write",
        "File of the page",
        "Model directory of the run",
        "Model directory. It is created",
        "The directory of the new model",
    )
    for name, command in COMMANDS.items():
        helps = {parameter.name: parameter.help or "" for parameter in command.params}
        for parameter, mark in paths(command).items():
            described = helps[parameter].startswith(words)
            assert described == (mark is not None), (name, parameter)


def test_directories_that_are_replaced_differ_from_inputs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    Path("model/config.toml").touch()
    for line in (
        "average model model",
        "average . model",
        "export model -o ./model --overwrite",
        "align model/config.toml other --save-aligner model",
        "check a b --train model/config.toml c --save-checker model",
        "align a b --save-aligner new -o new/links",
        "translate model -o model/config.toml",
    ):
        result = invoke(*line.split())
        assert isinstance(result.exception, UsageError), line
        assert "would overwrite" in str(result.exception), line
    assert sorted(map(str, Path().rglob("*"))) == ["model", "model/config.toml"]


def test_links_may_be_appended_to_the_translations_of_any_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*"translate model -o - --links-output -".split())
    assert "model" in str(result.exception) and not isinstance(result.exception, UsageError)


RUN = """
[data]
cache_dir = "cache"
train = [{ source = "cache/a", target = "b" }]
valid = { source = "c", target = "d" }
[model]
embedding_size = 4
"""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("cache").mkdir()
    for name in ("cache/a", "b", "c", "d"):
        Path(name).write_text("text\n")
    Path("exp").mkdir()
    Path("exp/config.toml").write_text(RUN)
    return Path("exp/config.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_dir": "exp"}, "would overwrite the input exp/config.toml"),
        ({"output_dir": "new"}, "cache: the output would overwrite the input .*cache/a"),
        ({"output_dir": "cache"}, "would overwrite the output"),
        ({"output_dir": "cache/new"}, "cache: the output would overwrite the output cache/new"),
    ],
)
def test_training_keeps_its_configuration_and_its_text(run_file: Path, changes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        regard.train(run_file, **changes)
    assert run_file.read_text() == RUN and Path("cache/a").read_text() == "text\n"


def test_training_text_is_no_output(run_file: Path) -> None:
    result = invoke("train", run_file, *"--output-dir new --json b".split())
    assert "b: the output would overwrite the input b" in str(result.exception)
    assert not Path("new").exists()
