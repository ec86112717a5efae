"""`regard init` and `regard.init_run`: the written run, the description of the text, and bad input."""

import gzip
import json
import re
import shutil
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from typer.testing import CliRunner

import regard
from regard.api.init_run import MODEL_CLASSES, plan_run, render_run
from regard.cli.main import app
from regard.config import from_dict
from regard.errors import DataError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.text.corpus import CorpusConfig
from regard.text.text_survey import survey_pairs
from regard.training.run_config import RunConfig, read_run_config

PAIRS = [(f"ein Satz mit der Zahl {i} hier", f"a sentence with number {i} here") for i in range(200)]


def write(directory: Path, pairs=PAIRS, names=("train.de", "train.en")) -> tuple[Path, Path]:
    files = directory / names[0], directory / names[1]
    for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def run(*arguments: object):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])


@pytest.mark.slow
def test_written_run_trains_as_it_is_and_its_next_commands_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_splits(tmp_path, {"train": 400, "valid": 10, "test": 10}, seed=1)
    made = run("init", "train.de", "train.en", "-o", "first.toml", "--json", "init.json")
    assert made.exit_code == 0 and made.stdout == ""
    assert "Text: 380 training pairs and 20 validation pairs." in made.stderr
    assert "letters: Latin" in made.stderr and "Warning: 380 training pairs" in made.stderr
    assert made.stderr.endswith("Next:\n  regard train first.toml\n")
    assert json.loads(Path("init.json").read_text())["num_valid"] == 20
    german = Path("train.de").read_text().splitlines()
    assert Path("first-text/train.de").read_text().splitlines() == german[:380]
    assert Path("first-text/valid.de").read_text().splitlines() == german[380:]

    trained = run("train", "first.toml", "training.max_steps=2", "device=cpu")
    assert trained.exit_code == 0 and trained.stdout == ""
    lines = trained.stderr.splitlines()
    assert any(re.fullmatch(r"device   cpu, \d+ threads?, float32", line) for line in lines)
    assert any(re.fullmatch(r"model    RnnModel with [\d,]+ parameters", line) for line in lines)
    assert any(line.startswith("data     380 training sentences (") for line in lines)
    assert any(line.startswith("epoch    12 steps of at most 32 sentences") for line in lines)
    assert "output   runs/first" in lines and any("Stopped after 2 steps" in line for line in lines)
    next_commands = [line.strip() for line in lines[lines.index("Next:") + 1 :]]
    assert next_commands == [
        "regard translate runs/first --input first-text/valid.de",
        "regard report runs/first --config-test -o runs/first.html",
    ]
    Path("one.de").write_text(f"{german[-1]}\n")
    translated = run("translate", "runs/first", "--input", "one.de", "--beam-size", "1")
    assert translated.exit_code == 0 and len(translated.stdout.splitlines()) == 1


def test_python_writes_nothing_and_trains_a_given_validation_text(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    train, valid = write(tmp_path), write(tmp_path, PAIRS[:12], ("v.de", "v.en"))
    made = regard.init_run(*train, "run.toml", valid=valid, output_dir="models/first")
    assert (made.num_train, made.num_valid, made.output_dir) == (200, 12, "models/first")
    assert not Path("run-text").exists()
    assert "200 training and 12 validation pairs" in repr(made)
    settings = read_run_config("run.toml")
    assert (settings.output_dir, settings.data.cache_dir) == ("models/first", "prepared/run")
    assert (settings.data.train[0].source, settings.data.valid.target) == (str(train[0]), str(valid[1]))
    assert json.loads(made.to_json())["schema"] == "init"
    result = regard.train("run.toml", overrides=["training.max_steps=1", "device=cpu"])
    assert result.progress.step == 1 and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [int(min(pairs, 3_000_000)) for pairs, _, _ in MODEL_CLASSES])
@pytest.mark.parametrize("script", ["latin", "cyrillic"])
@pytest.mark.parametrize("model", ["rnn", "transformer"])
def test_run_of_every_size_validates_also_with_bounded_attention(
    number: int, script: str, model: Literal["rnn", "transformer"]
) -> None:
    target = PAIRS if script == "latin" else [(source, "это предложение") for source, _ in PAIRS]
    plan = plan_run(survey_pairs(target), number, model)
    assert plan.kind == model and plan.joint == (script == "latin") and 3 <= plan.max_epochs <= 100
    files = CorpusConfig(source="a", target="b")
    text = render_run(plan, files, files, ("runs/x", "prepared/x"), ("seen",))
    bounded = re.sub("^attention = .*\n", "", text, flags=re.MULTILINE)
    bounded, switched = re.subn("^# (fertility|attention) = ", r"\1 = ", bounded, flags=re.MULTILINE)
    assert switched == 2
    for content, kind in ((text, "soft"), (bounded, "constrained")):
        settings = from_dict(RunConfig, tomllib.loads(content))
        assert (settings.model.kind, settings.model.attention.kind) == (model, kind)
        assert settings.data.shared_vocab == plan.joint


def test_more_text_gives_larger_models_and_fewer_epochs() -> None:
    survey = survey_pairs(PAIRS)
    plans = [plan_run(survey, number) for number in (1_000, 10_000, 50_000, 500_000, 5_000_000)]
    for smaller, larger in pairwise(plans):
        assert smaller.vocab_size < larger.vocab_size and smaller.width <= larger.width
        assert smaller.max_epochs >= larger.max_epochs and smaller.dropout >= larger.dropout
    assert [plan.kind for plan in plans] == ["rnn"] * 3 + ["transformer"] * 2


def test_vocabulary_has_a_token_for_every_character() -> None:
    pairs = [(chr(0x4E00 + i) * 10, chr(0x5E00 + i) * 10) for i in range(3_000)]
    assert plan_run(survey_pairs(pairs), 3_000).vocab_size > 6_000 + 256


def test_gzip_paths_and_names_without_an_ending_are_kept_apart(tmp_path: Path) -> None:
    files = []
    for name, side in (('quote"d.gz', 0), ("other", 1)):
        text = "".join(f"{pair[side]}\n" for pair in PAIRS).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        files.append(tmp_path / name)
    valid = write(tmp_path, PAIRS[:12], ("v.de", "v.en"))
    regard.init_run(*files, tmp_path / "run.toml")
    assert {path.name for path in (tmp_path / "run-text").iterdir()} == {
        f"{split}.{side}" for split in ("train", "valid") for side in ("source", "target")
    }
    regard.init_run(*files, tmp_path / "other.toml", valid=valid)
    assert read_run_config(tmp_path / "other.toml").data.train[0].source == str(files[0])


def test_doubtful_text_gives_warnings(tmp_path: Path) -> None:
    pairs = [*PAIRS[:100], *PAIRS[:60], *[("Hier klicken", "Click here")] * 10, ("", "nothing")]
    pairs += [("kurz und gut", "one two three four " * 60)] * 5
    warnings = "\n".join(regard.init_run(*write(tmp_path, pairs), tmp_path / "run.toml").warnings)
    for expected in (
        "little text", "1 pairs have an empty side and are dropped",
        "of the pairs are repetitions", "has 240 words",
        "4 of 10 validation pairs are also in the training text",
    ):  # fmt: skip
        assert expected in warnings
    assert not regard.init_run(*write(tmp_path), tmp_path / "good.toml").warnings[1:]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\n" * 100, b"a\n" * 99, "has 100 lines but .* has 99: parallel texts must have the same number"),
        (b"", b"", "the file is empty"),
        (b"\xff\xfe\xff" * 50, b"a\n" * 50, "not UTF-8"),
        (b"a\n" * 30, b"b\n" * 30, "only 20 training pairs are left after 10 for validation"),
        (b"a\n" + b"\n" * 99, b"b\n" * 100, "and 99 with an empty side; training needs"),
        (None, b"a\n", "train.de"),
    ],
)
def test_bad_text_is_one_message_and_writes_nothing(tmp_path: Path, source, target, message) -> None:
    for name, content in (("train.de", source), ("train.en", target)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    result = run("init", tmp_path / "train.de", tmp_path / "train.en", "-o", tmp_path / "run.toml")
    assert isinstance(result.exception, DataError) and result.exception.exit_status == 1
    assert re.search(message, str(result.exception)) and "\n" not in str(result.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_outputs_do_not_replace_other_files(tmp_path: Path) -> None:
    files, output, text = write(tmp_path), tmp_path / "run.toml", tmp_path / "run-text"
    output.write_text("mine")
    with pytest.raises(UsageError, match="the file exists"):
        regard.init_run(*files, output)
    assert output.read_text() == "mine" and not text.exists()
    output.unlink()
    regard.init_run(*files, output)
    with pytest.raises(UsageError, match="would overwrite the input"):
        regard.init_run(text / "train.de", text / "train.en", output)


def state(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_same_command_completes_a_run_of_which_files_are_missing(tmp_path: Path) -> None:
    command = "init", *write(tmp_path), "-o", tmp_path / "run.toml", "--json", tmp_path / "run.json"
    assert run(*command).exit_code == 0
    complete = state(tmp_path)
    for missing in ((), ("run.json",), ("run.json", "run-text"), ("run.json", "run-text", "run.toml")):
        for name in missing:
            path = tmp_path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert run(*command).exit_code == 0 and state(tmp_path) == complete


@pytest.mark.parametrize("name", ["run.toml", "run-text/train.de", "run-text/valid.en", "run-text/notes"])
def test_changed_file_is_not_lost(tmp_path: Path, name: str) -> None:
    files, output = write(tmp_path), tmp_path / "run.toml"
    regard.init_run(*files, output)
    with (tmp_path / name).open("a") as file:
        file.write("# mine\n")
    before = state(tmp_path)
    with pytest.raises(UsageError, match=f"{name}: the file exists"):
        regard.init_run(*files, output)
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    "output", [".", "..", "", "/", "text", "text/", "./text/..", "/dev/null", "train.de/x"]
)
def test_output_that_cannot_be_a_run_file_is_one_message(tmp_path, monkeypatch, output) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    Path("text").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = run("init", "train.de", "train.en", "-o", output)
    assert isinstance(result.exception, UsageError | DataError)
    assert "\n" not in str(result.exception) and sorted(tmp_path.rglob("*")) == before


def test_run_file_may_be_a_stream_if_no_text_is_split(tmp_path: Path) -> None:
    files = write(tmp_path)
    valid = write(tmp_path, PAIRS[:12], ("v.de", "v.en"))
    assert regard.init_run(*files, "/dev/null", valid=valid).num_valid == 12


def test_source_and_target_must_be_different_files(tmp_path: Path) -> None:
    source, _ = write(tmp_path)
    with pytest.raises(UsageError, match="source and target are the same file"):
        regard.init_run(source, source, tmp_path / "run.toml")
