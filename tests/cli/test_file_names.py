"""File names that are not valid UTF-8, and other unusual ones: commands work, or end with one message."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import run
from test_report import read

import regard
from regard.errors import UsageError
from regard.text.files import format_json, write_atomic
from regard.text.paths import check_name, readable

SOURCE = ["a b c", "d e", "f g a b e", "c c c c", "b d f a"]
LATIN = os.fsdecode("café".encode("latin-1"))
SHOWN = r"caf\xe9"


@pytest.fixture
def files(tmp_path: Path, monkeypatch) -> tuple[str, str]:
    """Return a source and its translations, whose names are not UTF-8."""
    monkeypatch.chdir(tmp_path)
    names = f"{LATIN}.de", f"{LATIN}.en"
    for name, lines in zip(names, (SOURCE, [line.upper() for line in SOURCE]), strict=True):
        write_atomic(Path(name), "".join(f"{line}\n" for line in lines).encode())
    return names


def read_text(name: str) -> str:
    """Return the content of a file, which must be valid UTF-8."""
    return Path(name).read_bytes().decode()


def strings(value) -> list[str]:
    """Return all strings in JSON values."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


@pytest.mark.parametrize(
    "command",
    [
        "evaluate {1} {1} --metrics chrf",
        "score MODEL {0} {1}",
        "tune MODEL --source {0} --reference {1} --length-penalties 0 --coverage-penalties 0",
        "analyze errors MODEL --source {0} --reference {1} --no-train-missing",
        "analyze attention MODEL --source {0} --reference {1}",
        "analyze length MODEL {1} --source {0} --reference {1}",
        "lm {0} --order 2 --perplexity {1}",
        "align {0} {1} --model ibm1",
        "fertility {0} {1}",
    ],
)
def test_text_may_have_any_name_and_json_shows_it_as_utf8(model: Path, files, command: str) -> None:
    command = command.replace("MODEL", str(model))
    result = run(*command.format(*files).split(), "--json", f"{LATIN}.json")
    assert result.exit_code == 0, result.output
    texts = strings(json.loads(read_text(f"{LATIN}.json")))
    if command.startswith(("evaluate", "tune", "analyze")):
        assert any(SHOWN in text for text in texts)
    assert not any("\udce9" in text or "\ufffd" in text for text in texts)


def test_pages_show_any_name(model: Path, files) -> None:
    page = Path(f"{LATIN}.html")
    assert run("check", *files, "--detector", "length", "--report", page).exit_code == 0
    assert rf"<title>Check of {SHOWN}.en</title>" in read_text(str(page))
    system = run("report", model, files[1], "--test", *files, "--no-train-missing", "-o", page)
    assert system.exit_code == 0, system.output
    assert read(page)["source"] == f"{SHOWN}.de" and f"{SHOWN}.en" in read_text(str(page))
    assert not {"?.de", "?.en"} & {text[-4:] for text in strings(read(page))}


@pytest.mark.parametrize(
    "command",
    [
        "init {0} {1} -o run.toml",
        "init de en --output-dir {0}",
        "translate {model} --input de",
        "average new {model}",
        "average {0} MODEL",
        "export MODEL -o {0}",
        "train {0}.toml",
        "train run.toml --output-dir {0}",
        "train run.toml data.cache_dir={0}",
    ],
)
def test_names_that_must_be_utf8_are_refused_before_anything_is_written(
    model: Path, files, command: str
) -> None:
    Path(f"{LATIN}.model").symlink_to(model)
    for name in ("de", "en"):
        Path(name).write_text("".join(f"text {number}\n" for number in range(200)))
    for name in ("run.toml", f"{LATIN}.de.toml"):
        if not command.startswith("init"):
            Path(name).write_text(
                '[data]\ntrain = [{ source = "de", target = "en" }]\n[data.valid]\nfile = "x"\n'
            )
    before = sorted(Path().rglob("*"))
    line = command.format(*files, model=f"{LATIN}.model").replace("MODEL", str(model))
    with pytest.raises(UsageError) as caught:
        run(*line.split())
    message = readable(str(caught.value))
    assert SHOWN in message and "not valid UTF-8" in message and "\n" not in message
    assert sorted(Path().rglob("*")) == before


def test_a_model_directory_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not valid UTF-8"):
        regard.load(tmp_path / LATIN)


def test_training_works_in_a_directory_of_any_name(tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / LATIN
    place.mkdir()
    monkeypatch.chdir(place)
    for name in ("de", "en"):
        Path(name).write_text("".join(f"{line}\n" for line in SOURCE))
    text = {"source": "de", "target": "en"}
    config = {"data": {"train": [text], "valid": text}, "model": {"embedding_size": 4}, "device": "cpu"}
    for steps in (1, 2):
        regard.train({**config, "training": {"max_steps": steps}}, "model")
        manifest = json.loads(read_text("model-prepared/manifest.json"))
        assert SHOWN in manifest["inputs"]["train.0.source"]["path"]
    assert len(regard.load("model").translate(SOURCE)) == len(SOURCE)


@pytest.mark.parametrize("settings", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_message_is_one_line_that_shows_the_name(settings) -> None:
    # One process runs all commands, because it takes a second to start.
    program = """
import sys
from regard.cli.main import main
for name in sys.argv[1:]:
    for arguments in (["lm", name, "-o", "/dev/null"], ["--plugin", name, "config"]):
        sys.argv = ["regard", *arguments]
        try:
            main()
        except SystemExit as error:
            print(error.code)
"""
    names = {LATIN: SHOWN, "café": "café", "a\x1b[1mb": r"a\x1b[1mb", "a\tb": "a\tb"}
    done = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, env={**os.environ, **settings}
    )
    messages = done.stderr.decode().split("\n")[:-1]
    assert messages[::2] == [f"regard: {shown}: No such file or directory" for shown in names.values()]
    assert len(messages) == 2 * len(names)
    assert done.stdout.split() == [b"1", b"2"] * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_stdout_is_utf8_under_any_encoding_of_the_terminal(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'output_dir = "für"\n[data]\ntrain = [{ file = "ö" }]\n[data.valid]\nfile = "x"\n', encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "regard", "config", path],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.returncode == 0 and 'output_dir = "für"' in done.stdout.decode()


def test_readable_text_keeps_all_other_characters() -> None:
    text = "".join(map(chr, (9, 10, *range(32, 127), *range(160, 0x3000, 7), 0x1F600)))
    assert readable(text) == text and json.loads(format_json([text])) == [text]
    assert json.loads(format_json([LATIN])) == [SHOWN]
    check_name(text)
