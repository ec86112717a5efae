"""`regard check` and `regard corrupt`: their output, files and messages."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pandas
import pytest
from command_runs import run

from regard.errors import DataError, UsageError
from regard.extensions.check.base import SentenceError
from regard.extensions.check.command import _marked
from regard.extensions.check.sentences import CheckedSentence

GERMAN = ["Ein Hund schläft.", "Zwei Männer spielen.", "Die Frau liest."] * 8
ENGLISH = ["A dog is sleeping.", "Two men are playing.", "The woman is reading."] * 8


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repeated = ["A dog a dog is sleeping.", "", *ENGLISH[2:]]
    for name, lines in (("de", GERMAN), ("en", ENGLISH), ("bad", repeated)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def test_worst_sentences_are_shown_with_marks(texts) -> None:
    shown = run(*"check de bad --detector repetition".split()).stdout
    assert shown.startswith("Of 24 sentences, 1 probably repeats a word.\n\nline 1  repetition 0.90\n")
    assert "  A dog <a dog> is sleeping.\n" in shown and "\x1b" not in shown
    none = run(*"check de bad --detector repetition --threshold 0.95".split()).stdout
    assert none.count("\n") == 1


def test_files_and_standard_input_give_equal_rows(texts, monkeypatch) -> None:
    monkeypatch.setattr("regard.extensions.check.api._BLOCK_PAIRS", 5)
    run(*"check de bad --detector repetition --sentence-scores out.tsv --json out.json".split())
    sides = ((texts / name).read_text(encoding="utf-8").splitlines() for name in ("de", "bad"))
    pairs = "".join(f"{source}\t{target}\tmore\n" for source, target in zip(*sides, strict=True))
    table = run(*"check - --detector repetition".split(), input=pairs).stdout
    assert table == (texts / "out.tsv").read_text(encoding="utf-8")
    header, first = (line.split("\t") for line in table.splitlines()[:2])
    assert header == ["line", "repetition", *"omitted added repeated note source translation".split()]
    assert first[1:5] == ["0.9000", "", "", "a dog"]
    rows = run(*"check - --detector repetition --json -".split(), input=pairs).stdout.splitlines()
    assert [json.loads(row) for row in rows] == json.loads((texts / "out.json").read_text())["sentences"]
    with pytest.raises(DataError, match="standard input: line 1: 1 columns, expected 2"):
        run("check", "-", input="a\n")
    for flags in ("--report page.html", "--findings out.sarif"):
        with pytest.raises(UsageError, match="remove the second file and the other flags"):
            run(*f"check - {flags}".split(), input=pairs)


@pytest.mark.slow
def test_memory_of_a_stream_does_not_depend_on_its_size(tmp_path) -> None:
    peaks, command = [], "check - --detector repetition --findings new --accept ok --json -".split()
    for count in (2_000, 20_000):
        text = tmp_path / "pairs.tsv"
        # Each pair has a finding, and about 2 KB as a result: 40 MB in all.
        text.write_text("".join(f"{GERMAN[0]} {n}\tA dog a dog is sleeping. {n}\n" for n in range(count)))
        with open(text) as file, open(tmp_path / "out.jsonl", "w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "regard", *command], stdin=file, stdout=output, cwd=tmp_path
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks.append(usage.ru_maxrss / 1024)
        for name in ("out.jsonl", "new"):
            rows = (tmp_path / name).read_text(encoding="utf-8").splitlines()
            assert [json.loads(row)["line"] for row in rows] == list(range(1, count + 1))
        assert len((tmp_path / "ok").read_text().splitlines()) == 1 + count
    assert peaks[1] - peaks[0] < 10, peaks


@pytest.mark.parametrize("columns", ["2,3", "src,mt"])
def test_columns_are_numbers_or_names(texts, columns) -> None:
    (texts / "mt.tsv").write_text("n\tsrc\tmt\n1\tEin Hund\tA dog A dog\n", encoding="utf-8")
    run(*f"check mt.tsv --columns {columns} --json out.json".split())
    sentences = json.loads((texts / "out.json").read_text(encoding="utf-8"))["sentences"]
    assert [sentences[-1][side] for side in ("source", "translation")] == ["Ein Hund", "A dog A dog"]


def test_quotation_marks_do_not_swallow_rows_of_the_table(texts) -> None:
    marked = [f'{mark}{line}"{line}' for mark in ('"', "", '""') for line in ("Ja", "'n\tHund", " Haus ")]
    (texts / "marked").write_text("".join(f"{line}\n" for line in marked), encoding="utf-8")
    run(*"check marked marked --detector repetition --sentence-scores marked.tsv".split())
    with open(texts / "marked.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    frame = pandas.read_csv(texts / "marked.tsv", sep="\t", keep_default_na=False)
    for name in ("source", "translation"):
        assert [row[name] for row in rows] == frame[name].tolist() == marked


def test_corrupted_text_is_evaluated_by_its_labels(texts) -> None:
    run(*"corrupt de en --kinds repetition --rate 0.5 -o new --labels-output labels".split())
    shown = run(*"check de new --detector repetition --labels labels".split()).stdout
    rows = [line.split("\t") for line in shown.splitlines() if line.startswith("repetition\t")]
    assert rows[0][3] == "auroc" and float(rows[0][4]) > 0.9


def test_files_are_written_before_a_reader_of_the_text_ends(texts, monkeypatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("regard.extensions.check.command._show", broken)
    names = {"report": "r.html", "json": "r.json", "sentence-scores": "r.tsv", "findings": "r.sarif"}
    flags = (f"--{flag}={name}" for flag, name in names.items())
    with pytest.raises(BrokenPipeError):
        run(*"check de bad --detector repetition".split(), *flags)
    assert all((texts / name).stat().st_size > 0 for name in names.values())


def test_overlapping_marks_keep_whole_words() -> None:
    text = "a rag in his mouth"

    def shown(added: list[float]) -> str:
        repeated = np.array([0, 0, 0.9, 0.9, 0.9])
        probabilities: dict[SentenceError, float] = {"addition": 0.9, "repetition": 0.9}
        one = CheckedSentence(1, "x", text, probabilities, np.zeros(1), np.array(added), repeated)
        return _marked(one, ("addition", "repetition"), text, 0.5).plain

    assert shown([0, 0, 0, 0.9, 0]) == "a rag <in his mouth>"
    assert shown([0, 0.9, 0.9, 0, 0]) == "a {rag in} <his mouth>"
