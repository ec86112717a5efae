"""Tests of `regard align` on files."""

import bz2
import gzip
import json
import lzma
from functools import partial

import pytest
from command_runs import invoke

from regard.errors import ConfigError, DataError, UsageError
from regard.extensions.phrasebook.corpus import write_splits
from regard.text.compression import zstd
from regard.text.links import parse_links

FILES = "nowhere.txt", "nowhere.txt"
run = partial(invoke, "align")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Return a German text and its English translation."""
    return write_splits(tmp_path_factory.mktemp("text"), {"train": 300}, seed=1)[:2]


def test_output_has_one_line_of_links_per_pair_and_perplexities(text, tmp_path):
    result = run(*text, "--model", "ibm2", "--json", tmp_path / "out.json")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    german, english = (path.read_text().splitlines() for path in text)
    assert len(lines) == len(german)
    for line, source, target in zip(lines, german, english, strict=True):
        assert all(i < len(source.split()) and j < len(target.split()) for i, j in parse_links(line))
    assert result.stderr.count("perplexity") == 4
    passes = json.loads((tmp_path / "out.json").read_text())["passes"]
    assert [step["pass"] for step in passes] == [1, 2, 3, 4, 5] * 2
    assert passes[4]["perplexity"] < passes[1]["perplexity"]


def test_empty_translations_have_no_links(text, tmp_path):
    run(*text, "--model", "ibm1", "--save-aligner", tmp_path / "kept")
    sources, outputs = tmp_path / "s", tmp_path / "o"
    sources.write_text("".join(text[0].read_text().splitlines(keepends=True)[:2]))
    outputs.write_text("\n" + text[1].read_text().splitlines(keepends=True)[1])
    lines = run(sources, outputs, "--aligner", tmp_path / "kept").stdout.splitlines()
    assert len(lines) == 2 and not lines[0] and lines[1]
    error = run(sources, outputs, "--model", "ibm1").exception
    assert isinstance(error, DataError) and f"{outputs}:1: the line is empty" in str(error)


def test_saved_aligner_gives_the_same_links(text, tmp_path):
    first = run(*text, "--model", "ibm1", "--save-aligner", tmp_path / "kept")
    second = run(*text, "--aligner", tmp_path / "kept", "-o", tmp_path / "links")
    assert second.exit_code == 0 and not second.stdout and not second.stderr
    assert (tmp_path / "links").read_text() == first.stdout


def test_saving_does_not_overwrite_other_files(text, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("words")
    (tmp_path / "letter").write_text("words")
    for name in ("thesis", "letter"):
        result = run(*text, "--model", "ibm1", "--save-aligner", tmp_path / name)
        assert isinstance(result.exception, DataError)
        assert "does not contain an aligner" in str(result.exception)
        assert not result.stderr  # the check runs before training
    assert (tmp_path / "thesis" / "chapter").read_text() == "words"
    assert (tmp_path / "letter").read_text() == "words"
    for _ in range(2):  # an existing aligner is replaced
        assert run(*text, "--model", "ibm1", "--save-aligner", tmp_path / "kept").exit_code == 0


def test_unwritable_outputs_are_reported_before_training(text, tmp_path):
    result = run(*text, "--model", "ibm1", "-o", tmp_path / "nowhere" / "links")
    assert isinstance(result.exception, DataError) and not result.stderr


def test_forward_symmetrization_trains_one_direction(text):
    result = run(*text, "--model", "ibm1", "--symmetrize", "forward")
    assert result.stderr.count("perplexity") == 2
    for line in result.stdout.splitlines():
        targets = [j for _, j in parse_links(line)]
        assert len(targets) == len(set(targets))


def test_lowercase_ignores_case(tmp_path):
    (tmp_path / "s").write_text("Das HAUS\ndas Haus\n")
    (tmp_path / "t").write_text("the house\nTHE house\n")
    one = run(tmp_path / "s", tmp_path / "t", "--lowercase", "--model", "ibm1").stdout.splitlines()
    assert one[0] == one[1]


@pytest.mark.parametrize(
    "kind, arguments, message",
    [
        (UsageError, [*FILES, "--model", "ibm7"], "ibm7"),
        (UsageError, [*FILES, "--symmetrize", "grow"], "grow"),
        (UsageError, [*FILES, "--model", "ibm1", "--set", "iterations"], "key=value"),
        (ConfigError, [*FILES, "--model", "ibm1", "--set", "iteration=3"], "iteration"),
        (UsageError, [*FILES, "--model", "ibm1", "--aligner", "x"], "--aligner"),
        (DataError, [*FILES, "--model", "ibm1"], "nowhere.txt"),
    ],
)
def test_invalid_arguments_are_reported_and_write_nothing(kind, arguments, message, tmp_path):
    result = run(*arguments, "-o", tmp_path / "links")
    assert isinstance(result.exception, kind), result.output
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".bz2", bz2), (".xz", lzma), (".zst", zstd)])
def test_compressed_input_and_output_have_the_content_of_plain_ones(text, tmp_path, suffix, module):
    compressed = [tmp_path / "de", tmp_path / "en"]
    for source, target in zip(text, compressed, strict=True):
        target.write_bytes(module.compress(source.read_bytes()))
    plain = run(*text, "--model", "ibm1").stdout
    output = tmp_path / f"links{suffix}"
    result = run(*compressed, "--model", "ibm1", "-o", output)
    assert result.exit_code == 0, result.exception
    assert module.decompress(output.read_bytes()).decode() == plain
