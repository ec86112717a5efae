"""`regard check` and `regard corrupt`: their output, files and messages."""

import csv
import json

import numpy as np
import pandas
import pytest
from command_runs import run

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


def test_table_and_json_have_every_sentence(texts) -> None:
    run(*"check de bad --detector repetition --sentence-scores out.tsv --json out.json".split())
    header, first, *others = (texts / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == [
        "line", "repetition", "omitted", "added", "repeated", "note", "source", "translation",
    ]  # fmt: skip
    assert first.split("\t")[4] == "a dog" and len(others) == 23
    assert json.loads((texts / "out.json").read_text())["counts"] == {"repetition": 1}


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
    command = "check de bad --detector repetition --report r.html --json r.json --sentence-scores r.tsv"
    with pytest.raises(BrokenPipeError):
        run(*command.split())
    assert all((texts / name).stat().st_size > 0 for name in ("r.html", "r.json", "r.tsv"))


def test_overlapping_marks_keep_whole_words() -> None:
    text, words = "a rag in his mouth", ((0, 1), (2, 5), (6, 8), (9, 12), (13, 18))

    def shown(added: list[float]) -> str:
        repeated = np.array([0, 0, 0.9, 0.9, 0.9])
        probabilities: dict[SentenceError, float] = {"addition": 0.9, "repetition": 0.9}
        one = CheckedSentence(
            1, "x", text, ((0, 1),), words, probabilities, np.zeros(1), np.array(added), repeated
        )
        return _marked(one, ("addition", "repetition"), text, 0.5).plain

    assert shown([0, 0, 0, 0.9, 0]) == "a rag <in his mouth>"
    assert shown([0, 0.9, 0.9, 0, 0]) == "a {rag} <in his mouth>"
