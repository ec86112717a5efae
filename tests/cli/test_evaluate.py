"""Tests of `regard evaluate`: scores equal those of sacreBLEU, and invalid files are reported."""

import json
import re
from functools import partial

import pytest
import sacrebleu
from command_runs import invoke, write_lines

from regard.cli.output import Output
from regard.errors import DataError, UsageError

REFERENCE = [
    f"The {noun} is {verb} in the old house ."
    for noun in "dog cat bird man".split()
    for verb in "here not".split()
]
HYPOTHESIS = [line.replace("is", "was") for line in REFERENCE]

run = partial(invoke, "evaluate")


def error_message(kind, *arguments):
    """Return the error message that the arguments cause."""
    result = run(*arguments)
    assert isinstance(result.exception, kind), result.output
    assert not result.stdout
    return str(result.exception)


def read(path):
    """Return the content of a JSON file, with the rows of the metrics by name."""
    found = json.loads(path.read_text())
    assert (found["schema"], found["schema_version"]) == ("evaluation", 1)
    return found | {"metrics": {row["metric"]: row for row in found["metrics"]}}


@pytest.fixture
def files(tmp_path):
    """Return a function that writes lines to a named file."""
    return lambda name, lines: write_lines(tmp_path / name, lines)


def test_scores_and_signatures_equal_sacrebleu(files, tmp_path):
    result = run(files("hyp", HYPOTHESIS), files("ref", REFERENCE), "--json", tmp_path / "out.json")
    assert result.exit_code == 0 and not result.stderr
    figures = read(tmp_path / "out.json")["metrics"]
    golden = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER()}
    for name, metric in golden.items():
        row = figures[name]
        assert row["score"] == pytest.approx(metric.corpus_score(HYPOTHESIS, [REFERENCE]).score)
        assert row["signature"] == str(metric.get_signature())
        assert f"{row['score']:.2f}" in result.stdout
        assert row["low"] <= row["score"] <= row["high"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hyp", "out.json", "ref"]


def test_tables_fit_80_columns(files, monkeypatch):
    monkeypatch.setattr(Output, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("--gold-links", files("gold.talp", ["0-0"]), "--predicted-links", files("links", ["0-0"]))
    hyp, ref = files("hyp", HYPOTHESIS), files("ref", REFERENCE)
    text = re.sub("\x1b\\[[0-9;]*m", "", run(hyp, ref, "--baseline", ref, *arguments).stdout)
    table, signatures = text.splitlines()[:7], text.splitlines()[7:]
    assert all(len(line) <= 80 and "…" not in line for line in table)
    header = ["metric", "score", "95 %", "baseline", "diff.", "95 % of diff.", "p"]
    assert re.split(r"  +", table[0].strip()) == header
    assert [len(re.split(r"  +", line.strip())) for line in table[1:4]] == [7, 7, 7]
    assert [line.split()[0] for line in signatures] == ["BLEU", "chrF2", "TER"]


def test_multiple_references_are_supported(files):
    result = run(files("hyp", HYPOTHESIS), files("a", REFERENCE), files("b", HYPOTHESIS), "--metrics", "bleu")
    assert "BLEU\t100.00" in result.stdout and "nrefs:2" in result.stdout


def test_links_are_scored_without_text(files, tmp_path):
    gold, links = files("gold.talp", ["0-0 1-1 2-2 3p2", ""]), files("links", ["0-0 1-1 3-2 3-3", ""])
    result = run("--gold-links", gold, "--predicted-links", links, "--json", tmp_path / "out.json")
    figures = read(tmp_path / "out.json")["word_links"]
    # The derivation is in tests/metrics/test_alignment.py.
    assert (figures["precision"], figures["recall"], figures["aer"]) == (3 / 4, 2 / 3, pytest.approx(2 / 7))
    assert "AER %\t28.57" in result.stdout


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        ("gold", "gold:2: link 2-0 points beyond the source sentence, which has 2 words"),
        ("links", "links:2: link 0-1 points beyond the target sentence, which has 1 words"),
    ],
)
def test_links_beyond_the_text_are_rejected_if_text_is_given(files, bad, part):
    gold = files("gold", ["0-0", "2-0" if bad == "gold" else "0p0"])
    links = files("links", ["0-0", "0-1" if bad == "links" else "0-0"])
    texts = "--source", files("s", ["x", "y z"]), "--target", files("t", ["x", "y"])
    assert run("--gold-links", gold, "--predicted-links", links).exit_code == 0
    assert part in error_message(DataError, "--gold-links", gold, "--predicted-links", links, *texts)


def test_text_and_link_scores_share_a_table(files):
    result = run(
        *(files("hyp", HYPOTHESIS), files("ref", REFERENCE), "--metrics", "ter"),
        *("--gold-links", files("gold.talp", ["0-0"]), "--predicted-links", files("links", ["0-0"])),
    )
    table = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in table] == ["metric", "TER", "precision %", "recall %", "AER %"]
    assert {len(row) for row in table} == {4}


def test_rep_and_drop_of_two_systems_are_compared(files, tmp_path):
    # From the formulas: sigma is 2 and 0 over 4 + 1 words; 1 and 3 of 3 + 1 source words are dropped.
    texts = files("hyp", ["a a a c", "d"]), files("ref", ["a a b c", "d"])
    options = {
        "--baseline": files("other", ["a a b c", ""]),
        "--source": files("src", ["x y z", "w"]),
        "--reference-links": files("r", ["0-0 0-1 1-2 2-3", "0-0"]),
        "--hypothesis-links": files("o", ["0-0 0-1 2-3", "0-0"]),
        "--baseline-links": files("p", ["0-0", ""]),
        "--json": tmp_path / "out.json",
    }
    arguments = [part for pair in options.items() for part in pair]
    fixed = ("--metrics", "rep,drop", "--tokenize", "none", "--num-bootstrap-samples", 50)
    result = run(*texts, *fixed, *arguments)
    assert result.exit_code == 0, result.exception
    figures = read(tmp_path / "out.json")
    rep, drop = figures["metrics"]["rep"], figures["metrics"]["drop"]
    assert rep["score"] == pytest.approx(100 * (1 + 2) / 5)
    assert drop["score"] == pytest.approx(100 / 4)
    assert rep["baseline"] == 0
    assert drop["baseline"] == pytest.approx(100 * 3 / 4)
    assert rep["signature"] == "n:2|lambda1:1|lambda2:2|case:mixed|tok:none"
    assert figures["files"]["baseline_links"] == [str(tmp_path / "p")]
    assert drop["low"] <= drop["score"] <= drop["high"]
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["metric", "REP", "DROP"]


def test_rep_uses_the_tokenization_of_bleu(files):
    arguments = (files("hyp", ["Yes, yes."]), files("ref", ["Yes, no."]), "--metrics", "rep")
    assert "REP\t0.00" in run(*arguments).stdout
    assert "REP\t0.00" in run(*arguments, "--lowercase").stdout
    arguments = (files("hyp", ["No. No."]), files("ref", ["Yes, no."]), "--metrics", "rep")
    # Untokenized, `No.` is repeated directly (2 words); tokenized as for BLEU, `No .` occurs twice (4 words).
    assert "REP\t100.00" in run(*arguments, "--tokenize", "none").stdout
    assert "REP\t50.00" in run(*arguments).stdout


def test_sentence_scores_are_written(files, tmp_path):
    arguments = (files("hyp", ["a b c d", "x"]), files("ref", ["a b c d", "y z"]))
    options = ("--metrics", "bleu,edits", "--tokenize", "none")
    run(*arguments, *options, "--sentence-scores", tmp_path / "each.tsv")
    rows = [line.split("\t") for line in (tmp_path / "each.tsv").read_text().splitlines()]
    assert rows[0] == ["sentence", "bleu", "edits"]
    assert rows[1] == ["1", "100.0000", "0.0000"] and rows[2] == ["2", "0.0000", "3.0000"]


@pytest.mark.parametrize(
    ("option", "lines", "part"),
    [
        ("--hypothesis-links", ["0-0"], "has 1 lines but"),
        ("--reference-links", ["0-0", "0-0", ""], "has 3 lines but"),
        ("--baseline-links", ["0-0", "0_0"], ":2: '0_0' is not a link"),
        ("--baseline-links", ["0-0", "0-3"], ":2: link 0-3 points beyond the target sentence"),
        ("--hypothesis-links", ["2-0", ""], ":1: link 2-0 points beyond the source sentence"),
        ("--source", ["x"], "has 1 lines but"),
    ],
)
def test_mismatched_links_are_rejected_and_nothing_is_written(files, tmp_path, option, lines, part):
    text, good = files("text", ["a b", "c"]), files("good", ["0-0", "0-0"])
    given = dict.fromkeys(("--reference-links", "--hypothesis-links", "--baseline-links"), good) | {
        "--source": text
    }
    given[option] = files("bad", lines)
    arguments = [part for pair in given.items() for part in pair]
    message = error_message(
        *(DataError, text, text, "--baseline", text, "--metrics", "drop", "--tokenize", "none", *arguments),
        *("--json", tmp_path / "out.json"),
    )
    assert message.startswith(str(tmp_path / "bad")) and part in message
    assert not (tmp_path / "out.json").exists()


def test_missing_java_is_reported(files, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    message = error_message(UsageError, files("hyp", ["a"]), files("ref", ["a"]), "--metrics", "meteor")
    assert "install a Java runtime" in message


def test_tokenized_text_is_reported_on_stderr(files):
    hyp, ref = files("hyp", HYPOTHESIS * 13), files("ref", REFERENCE * 13)
    result = run(hyp, ref, "--metrics", "bleu")
    assert result.exit_code == 0 and "--tokenize none" in result.stderr and "hyp" in result.stderr
    assert not run(hyp, ref, "--metrics", "bleu", "--tokenize", "none").stderr
    assert not run(hyp, ref, "--metrics", "chrf").stderr


def test_mismatched_files_are_reported(files, tmp_path):
    hyp, ref, empty = files("hyp", ["a", "b"]), files("ref", ["a"]), files("empty", [])
    assert error_message(DataError, hyp, ref) == (
        f"{ref} has 1 lines but {hyp} has 2: parallel texts must have the same number of lines"
    )
    assert str(ref) in error_message(DataError, hyp, hyp, "--baseline", ref)
    assert str(empty) in error_message(DataError, empty, ref)
    assert str(tmp_path / "absent") in error_message(DataError, tmp_path / "absent", ref)
    assert str(tmp_path) in error_message(DataError, tmp_path, ref)
    assert str(ref) in error_message(
        DataError, "--gold-links", hyp.with_name("ref"), "--predicted-links", hyp
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "nothing to evaluate"),
        (["hyp"], "give a second file"),
        (["--gold-links", "x"], "--gold-links, --predicted-links"),
        (["--gold-links", "x", "--predicted-links", "y", "--baseline", "z"], "--baseline"),
        (["hyp", "ref", "--metrics", "bleu,comet"], "bleu, chrf, ter, accuracy, edits, rep, drop, meteor"),
        (["hyp", "ref", "--metrics", ","], "bleu, chrf, ter, accuracy, edits, rep, drop, meteor"),
        (["hyp", "ref", "--metrics", "drop", "--hypothesis-links", "x"], "--reference-links) is needed"),
        (["hyp", "ref", "--metrics", "drop", "--reference-links", "x"], "--hypothesis-links) is needed"),
        (["hyp", "ref", "--hypothesis-links", "x"], "--hypothesis-links) has no effect"),
        (["hyp", "ref", "--target", "x"], "no effect without gold links"),
        (
            ["--gold-links", "x", "--predicted-links", "x", "--sentence-scores", "y"],
            "--sentence-scores needs",
        ),
        (["hyp", "ref", "--tokenize", "moses"], "13a, none"),
    ],
)
def test_inconsistent_arguments_are_usage_errors(arguments, part):
    assert part in error_message(UsageError, *arguments)


def test_unicode_spaces_do_not_separate_words(files):
    """Japanese tokens of KFTT contain U+3000; aligners treat such a token as one word."""
    gold, links = files("gold.talp", ["1-1"]), files("links", ["1-1"])
    source, target = files("source", ["1\u3000章 目次"]), files("target", ["contents of"])
    both = "--gold-links", gold, "--predicted-links", links, "--source", source
    assert run(*both, "--target", target).exit_code == 0
    target = files("target", ["chapter\u20031"])
    assert "which has 1 words" in error_message(DataError, *both, "--target", target)
