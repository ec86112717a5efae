"""Outputs that would overwrite an input or another output, and names that are not valid UTF-8."""

import os
from pathlib import Path

import pytest

from regard.errors import UsageError
from regard.text.paths import check_outputs


@pytest.fixture
def text(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("words\n")
    Path("other").write_text("words\n")
    Path("link").symlink_to("text")
    os.link("text", "hard")
    Path("model/training").mkdir(parents=True)
    Path("model/config.toml").touch()
    Path("model/training/state").touch()
    Path("here").symlink_to(".")
    return tmp_path


@pytest.mark.parametrize(
    "output", ["text", "./text", "model/../text", "here/text", "link", "hard", "here/here/hard"]
)
def test_output_that_is_an_input_is_refused_under_any_spelling(text: Path, output: str) -> None:
    for path in (output, text / output):
        with pytest.raises(UsageError, match="would overwrite the input text"):
            check_outputs(["other", "text"], [path])
        # The same holds if the input has the other spelling.
        with pytest.raises(UsageError, match="would overwrite the input"):
            check_outputs([path], ["text"])


@pytest.mark.parametrize("output", ["model/config.toml", "here/model/training/state", "model"])
def test_files_of_an_input_directory_are_inputs(text: Path, output: str) -> None:
    with pytest.raises(UsageError, match="would overwrite the input model"):
        check_outputs(["model"], [output])
    check_outputs(["model"], ["model/new.txt", "model.txt", "other"])


def test_results_that_a_command_wrote_into_an_input_directory_may_be_written_again(text: Path) -> None:
    results = ["out.txt", "valid.en", "valid.de.gz", "report.html", "map.svg"]
    parts = ["vocab.txt", "merges.txt", "pairs.source.gz", "optimizer.pt", "text.json", "a.safetensors", "x"]
    for name in (*results, *parts):
        Path("model", name).touch()
    check_outputs(["model"], [f"model/{name}" for name in results])
    for name in parts:
        with pytest.raises(UsageError, match="would overwrite the input model"):
            check_outputs(["model"], [f"model/{name}"])


@pytest.mark.parametrize("second", ["new", "./new", "here/new", "dangling"])
def test_two_outputs_are_different_files(text: Path, second: str) -> None:
    Path("dangling").symlink_to("new")
    for _ in range(2):
        with pytest.raises(UsageError, match="would overwrite the output"):
            check_outputs(["text"], ["new", second])
        with pytest.raises(UsageError, match="would overwrite the output"):
            check_outputs(["text"], ["new"], [second])
        Path("new").touch()


def test_directory_that_is_replaced_contains_no_other_path(text: Path) -> None:
    for inputs, files in ((["model/config.toml"], []), (["model/training"], []), ([], ["here/model/new"])):
        with pytest.raises(UsageError, match="would overwrite"):
            check_outputs(inputs, files, ["model"])
    with pytest.raises(UsageError, match="would overwrite the input"):
        check_outputs(["model"], [], ["here/model"])
    check_outputs(["text"], ["new"], ["model", "second"])


def test_devices_may_be_input_and_output_several_times(text: Path) -> None:
    check_outputs(["/dev/null"], ["/dev/null", "/dev/null"])
    os.mkfifo("pipe")
    check_outputs(["pipe"], ["pipe", "pipe"])
