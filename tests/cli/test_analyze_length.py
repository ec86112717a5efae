"""Tests of `regard analyze length`: each bucket agrees with `translate`, `evaluate` and `analyze errors`."""

import json
import xml.etree.ElementTree as ET
from functools import partial

import pytest
from command_runs import REFERENCE, SOURCE, analysis_data, analyze, run, write_lines
from test_analyze_attention import subword_model

from regard.errors import DataError
from saved_models import save_model

# Lines of at most three words, and longer lines.
SHORT, LONG = [0, 1, 2], [3, 4, 5]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return [save_model(directory / "soft"), save_model(directory / "hard", seed=1)]


run_analysis, figures = partial(analyze, "length"), partial(analysis_data, "length")


def evaluate(files, lines, rows, *arguments):
    """Return the rows of the metrics that `evaluate` computes on some of the lines."""
    paths = [
        write_lines(files / name, [text[r] for r in rows]) for name, text in (("o", lines), ("r", REFERENCE))
    ]
    run("evaluate", *paths, "--metrics", "bleu,rep", "--json", files / "scores.json", *arguments)
    found = json.loads((files / "scores.json").read_text(encoding="utf-8"))
    return {row["metric"]: row for row in found["metrics"]}


def test_buckets_agree_with_translate_and_evaluate(models, files):
    found = figures(models, files, "--bucket-width", 3, "--beam-size", 2, "--batch-size", 2)
    assert [bucket["sentences"] for bucket in found["buckets"]] == [3, 3, 0, 0, 0, 0, 0]
    assert found["buckets"][0] == {"low": 0, "high": 3, "sentences": 3}
    assert found["buckets"][-1] == {"low": 19, "high": None, "sentences": 0}
    assert found["lengths"] == [3, 2, 0, 5, 4, 4]
    assert list(found["systems"]) == ["soft", "hard"]
    for directory in models:
        system = found["systems"][directory.name]
        run("translate", directory, "--input", files / "in.txt", "-o", files / "out.txt", "--beam-size", 2)
        lines = (files / "out.txt").read_text(encoding="utf-8").splitlines()
        assert system["translations"] == lines
        for metric in ("bleu", "rep"):
            scored = [*system[metric]["buckets"][:2], system[metric]["all"]]
            for one, rows in zip(scored, (SHORT, LONG, SHORT + LONG), strict=True):
                expected = evaluate(files, lines, rows)[metric]
                assert one["value"] == pytest.approx(expected["score"])
                assert one["interval"] == pytest.approx([expected["low"], expected["high"]])
                assert system[metric]["signature"] == expected["signature"]
            assert system[metric]["buckets"][2:] == [None] * 5


def test_translation_files_are_scored_like_their_model(models, aligner, files):
    out = files / "out.txt"
    run("translate", models[0], "--input", files / "in.txt", "--output", out)
    found = figures([models[0], out], files, "--aligner", aligner)["systems"]
    for metric in ("bleu", "rep", "drop"):
        same = found["out.txt"][metric]
        assert same["all"]["value"] == found["soft"][metric]["all"]["value"]
        assert same["all"]["difference"] == {"value": 0, "low": 0, "high": 0} and same["all"]["p_value"] == 1
    alone = figures([out], files, "--aligner", aligner)["systems"]["out.txt"]
    assert alone["drop"]["all"] == found["soft"]["drop"]["all"]


def test_buckets_do_not_depend_on_subword_tokens(models, files, tmp_path):
    subwords = subword_model(tmp_path / "subwords")
    write_lines(files / "in.txt", ["ab c", "ab ab", "b", "c c c c", "c", "e e"])
    one, other = (figures([model], files, "--bucket-width", 2) for model in (models[0], subwords))
    assert one["buckets"] == other["buckets"] and one["lengths"] == other["lengths"] == [2, 2, 1, 4, 1, 2]


def test_tables_agree_with_the_json_file(models, aligner, files):
    options = ("--bucket-width", 3, "--aligner", aligner, "--names", "Soft,Hard")
    found = figures(models, files, *options)["systems"]
    tables = [
        [line.split("\t") for line in table.splitlines()]
        for table in run_analysis(models, files, *options).stdout.split("\n\n")
    ]
    for table, (metric, name) in zip(
        tables, (("bleu", "BLEU"), ("rep", "REP"), ("drop", "DROP")), strict=True
    ):
        head = ["words", "sentences", f"Soft {name}", "95 %", f"Hard {name}", "95 %", "- Soft", "p"]
        assert table[0] == head
        assert [row[0] for row in table[1:]] == ["0-3", "4-6", "7-9", "10-12", "13-15", "16-18", "19+", "all"]
        assert [row[1] for row in table[1:]] == ["3", "3", "0", "0", "0", "0", "0", "6"]
        for row, bucket in ((table[2], 1), (table[3], 2)):
            for column, system in ((2, "Soft"), (4, "Hard")):
                one = found[system][metric]["buckets"][bucket]
                assert row[column] == ("" if one is None else f"{one['value']:.2f}")


def test_figure_is_written_as_a_file(models, files):
    result = run_analysis(models, files, "--figures-dir", files / "new", "--bucket-width", 3)
    assert "wrote " in result.stderr
    (path,) = (files / "new").iterdir()
    assert path.name == "length.svg"
    texts = {text.text for text in ET.fromstring(path.read_text(encoding="utf-8")).iter(f"{SVG}text")}
    assert {"soft", "hard", "BLEU", "0-3", "19+", "sentences"} <= texts


def test_overlong_lines_count_as_empty_translations(models, files):
    write_lines(files / "in.txt", ["a " * 2000, *SOURCE[1:]])
    result = run_analysis(models[:1], files, "--json", files / "figures.json")
    found = json.loads((files / "figures.json").read_text(encoding="utf-8"))
    system = found["systems"]["soft"]
    assert system["too_long"] == [1] and system["translations"][0] == ""
    assert [bucket["sentences"] for bucket in found["buckets"]] == [5, 0, 0, 0, 0, 0, 1]
    assert "soft: 1 of 6 lines are too long" in result.stderr
    write_lines(files / "in.txt", ["a " * 2000] * 6)
    with pytest.raises(DataError, match="too long"):
        run_analysis(models[:1], files)
