"""`regard align` from files to files."""

import json

import pytest
import typer
from typer.testing import CliRunner

from regard.cli.align import align
from regard.config import from_dict
from regard.data.corpus import DataConfig
from regard.data.links import parse_links
from regard.data.phrasebook import split
from regard.data.prepared import prepare
from regard.errors import ConfigError, DataError, UsageError


def run(*arguments, input=None):
    app = typer.Typer()
    app.command()(align)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=input)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    pairs = split("train", 300, seed=1)
    for name, side in (("de", 0), ("en", 1)):
        sentences = [(pair.source, pair.target)[side] for pair in pairs]
        (folder / name).write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
    return folder


def test_two_files_give_a_line_of_links_a_pair_and_perplexities(text, tmp_path):
    result = run(text / "de", text / "en", "--model", "ibm2", "--json", tmp_path / "out.json")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    german, english = ((text / name).read_text().splitlines() for name in ("de", "en"))
    assert len(lines) == len(german)
    for line, source, target in zip(lines, german, english, strict=True):
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in parse_links(line))
    assert result.stderr.count("perplexity") == 10
    passes = json.loads((tmp_path / "out.json").read_text())["passes"]
    assert [step["pass"] for step in passes] == [1, 2, 3, 4, 5] * 2
    assert passes[4]["perplexity"] < passes[1]["perplexity"]


def test_the_default_aligner_tells_perplexities_too(text, tmp_path):
    result = run(text / "de", text / "en", "--json", tmp_path / "out.json", "--set", "effort=0.05")
    assert result.exit_code == 0, result.exception
    assert result.stderr.count("perplexity") >= 2 * 3
    passes = json.loads((tmp_path / "out.json").read_text())["passes"]
    first, *_, last = (
        step["perplexity"] for step in passes if step["direction"] == "forward" if "perplexity" in step
    )
    # Of 300 pairs of simple sentences most words have few translations.
    assert 1 < last < first < 50


def test_prepared_text_is_aligned_as_its_tokens(text, tmp_path):
    pair = {"source": str(text / "de"), "target": str(text / "en")}
    prepare(from_dict(DataConfig, {"folder": str(tmp_path / "prepared"), "train": [pair], "valid": pair}))
    from_files = run(text / "de", text / "en", "--model", "ibm1")
    result = run("--prepared", tmp_path / "prepared", "--model", "ibm1")
    assert result.exit_code == 0, result.exception
    assert result.stdout == from_files.stdout
    assert isinstance(run(text / "de", "--prepared", tmp_path / "prepared").exception, UsageError)


def test_an_empty_translation_has_no_links_and_teaches_nothing(text, tmp_path):
    run(text / "de", text / "en", "--model", "ibm1", "--save", tmp_path / "kept")
    sources, outputs = tmp_path / "s", tmp_path / "o"
    sources.write_text("".join((text / "de").read_text().splitlines(keepends=True)[:2]))
    outputs.write_text("\n" + (text / "en").read_text().splitlines(keepends=True)[1])
    shown = run(sources, outputs, "--load", tmp_path / "kept", "--allow-empty").stdout.splitlines()
    assert len(shown) == 2 and not shown[0] and shown[1]
    for strict in (("--model", "ibm1"), ("--load", tmp_path / "kept")):
        error = run(sources, outputs, *strict).exception
        assert isinstance(error, DataError) and f"{outputs}:1: the line is empty" in str(error)
    assert isinstance(run(sources, outputs, "--allow-empty").exception, UsageError)


def test_standard_input_is_not_for_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    error = run(input="a ||| b\n").exception
    assert isinstance(error, UsageError) and "torchrun" in str(error)


def test_joined_lines_an_output_file_and_a_kept_aligner_give_the_same_links(text, tmp_path):
    first = run(text / "de", text / "en", "--model", "ibm1", "--save", tmp_path / "kept")
    sides = ((text / name).read_text().splitlines() for name in ("de", "en"))
    joined = "".join(f"{source} ||| {target}\n" for source, target in zip(*sides, strict=True))
    second = run("--load", tmp_path / "kept", "-o", tmp_path / "links", input=joined)
    assert second.exit_code == 0 and not second.stdout and not second.stderr
    assert (tmp_path / "links").read_text() == first.stdout


def test_what_stands_where_an_aligner_is_to_be_saved_is_left_alone(text, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("words")
    (tmp_path / "letter").write_text("words")
    for place in ("thesis", "letter"):
        result = run(text / "de", text / "en", "--model", "ibm1", "--save", tmp_path / place)
        assert isinstance(result.exception, DataError)
        assert "does not contain an aligner" in str(result.exception)
        assert not result.stderr  # it was seen before training
    assert (tmp_path / "thesis" / "chapter").read_text() == "words"
    assert (tmp_path / "letter").read_text() == "words"
    for _ in range(2):  # an aligner may take the place of another
        assert run(text / "de", text / "en", "--model", "ibm1", "--save", tmp_path / "kept").exit_code == 0


def test_outputs_that_cannot_be_written_are_named_before_training(text, tmp_path):
    result = run(text / "de", text / "en", "--model", "ibm1", "-o", tmp_path / "nowhere" / "links")
    assert isinstance(result.exception, DataError) and not result.stderr
    result = run(text / "de", text / "en", "--model", "ibm1", "-o", text / "de")
    assert isinstance(result.exception, UsageError) and "would overwrite" in str(result.exception)


def test_posteriors_name_links_with_their_probabilities(text):
    result = run(text / "de", text / "en", "--model", "ibm1", "--posteriors", "--least", "0.4")
    fields = [field for line in result.stdout.splitlines() for field in line.split()]
    assert fields
    for field in fields:
        link, _, probability = field.partition(":")
        assert len(parse_links(link)) == 1 and 0.4 <= float(probability) <= 1


def test_one_direction_alone_is_trained_alone(text):
    result = run(text / "de", text / "en", "--model", "ibm1", "--symmetrize", "forward")
    assert result.stderr.count("perplexity") == 5
    for line in result.stdout.splitlines():
        targets = [j for _, j in parse_links(line)]
        assert len(targets) == len(set(targets))


def test_case_is_ignored_on_request():
    lines = "Das HAUS ||| the house\ndas Haus ||| THE house\n"
    one = run("--lowercase", "--model", "ibm1", input=lines).stdout.splitlines()
    assert one[0] == one[1]


@pytest.mark.parametrize(
    "kind, arguments, message",
    [
        (UsageError, ["--model", "ibm7"], "ibm7"),
        (UsageError, ["--symmetrize", "grow"], "grow"),
        (UsageError, ["--model", "ibm1", "--set", "iterations"], "key=value"),
        (ConfigError, ["--model", "ibm1", "--set", "iteration=3"], "iteration"),
        (UsageError, ["--model", "ibm1", "--load", "x"], "--load"),
        (DataError, ["nowhere.txt"], "nowhere.txt"),
    ],
)
def test_a_mistake_gets_one_message_and_writes_nothing(kind, arguments, message, tmp_path):
    result = run(*arguments, "-o", tmp_path / "links", input="a ||| b\n")
    assert isinstance(result.exception, kind), result.output
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_an_empty_side_writes_nothing(tmp_path):
    result = run("-o", tmp_path / "links", "--save", tmp_path / "kept", input="a ||| b\n ||| c\n")
    assert isinstance(result.exception, DataError) and "standard input:2" in str(result.exception)
    assert not list(tmp_path.iterdir())
