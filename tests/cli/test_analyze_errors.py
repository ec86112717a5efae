"""Tests of `regard analyze errors`: its output agrees with `translate`, `align` and `evaluate`."""

import json
import re
from functools import partial

import pytest
from command_runs import REFERENCE, SOURCE, analysis_data, analyze, run, write_lines

from regard.api.alignment import Aligner
from regard.cli.output import Output
from regard.errors import DataError
from saved_models import save_model, subword_side

FERTILITY = 0.75

run_analysis, figures = partial(analyze, "errors"), partial(analysis_data, "errors")


@pytest.mark.parametrize("which", [0, 1])
def test_output_agrees_with_translate_align_and_evaluate(models, aligner, files, tmp_path, which):
    found = figures([models[which]], files, "--aligner", aligner, "--beam-size", 2, "--batch-size", 2)
    out, weights = tmp_path / "out.txt", tmp_path / "weights.jsonl"
    options = ("--output", out, "--attention-output", weights, "--beam-size", 2)
    run("translate", models[which], "--input", files / "in.txt", *options)
    by_line = sorted(found["sentences"], key=lambda sentence: sentence["line"])
    assert [" ".join(sentence["source"]) for sentence in by_line] == SOURCE
    assert [" ".join(sentence["output"]) for sentence in by_line] == out.read_text().splitlines()
    for sentence, line in zip(by_line, weights.read_text().splitlines(), strict=True):
        row = json.loads(line)
        if not row["posterior_attention"]:
            assert sentence["attention"] is None
            continue
        steps = [heads[0] for heads in row["posterior_attention"][0][:-1]]
        totals = [sum(step[position] for step in steps) for position in range(len(row["source_tokens"]))]
        sink = [] if sentence["sink"] is None else [sentence["sink"]]
        assert [*sentence["attention"], *sink] == pytest.approx(totals, abs=1e-5)
        assert sum(totals) == pytest.approx(len(sentence["output"]), abs=1e-4)
        assert sentence["fertility"] == ([FERTILITY] * len(sentence["source"]) if which else None)

    kept = [line for line in range(len(SOURCE)) if SOURCE[line] and by_line[line]["output"]]
    texts = {"s": SOURCE, "r": REFERENCE, "o": out.read_text().splitlines()}
    for name, lines in texts.items():
        write_lines(tmp_path / name, [lines[line] for line in kept])
    for side in ("r", "o"):
        run("align", tmp_path / "s", tmp_path / side, "--aligner", aligner, "-o", tmp_path / f"{side}.links")
    for line, links in zip(kept, (tmp_path / "o.links").read_text().splitlines(), strict=True):
        assert by_line[line]["output_links"] == links
    links = ("--reference-links", tmp_path / "r.links", "--hypothesis-links", tmp_path / "o.links")
    scores = tmp_path / "scores.json"
    options = ("--metrics", "rep,drop", "--tokenize", "none", "--num-bootstrap-samples", 2, "--json", scores)
    run("evaluate", tmp_path / "o", tmp_path / "r", *options, *links)
    assert len(kept) == len(SOURCE) - 1
    expected = [row["score"] for row in json.loads(scores.read_text())["metrics"]]
    assert (found["rep"], found["drop"]) == pytest.approx(tuple(expected))


def test_worst_sentences_are_listed_first_up_to_the_number(models, aligner, files):
    found = figures([models[0]], files, "--aligner", aligner)
    order = [(-sentence["num_errors"], sentence["line"]) for sentence in found["sentences"]]
    assert order == sorted(order) and order[0][0] < order[-1][0]
    for sentence in found["sentences"]:
        assert sentence["num_errors"] == sentence["repetition_score"] + len(sentence["dropped"])
    for number, count in ((2, 2), (0, len(SOURCE)), (50, len(SOURCE))):
        text = run_analysis([models[0]], files, "--aligner", aligner, "--num-sentences", number).stdout
        headings = [line for line in text.splitlines() if line.startswith("line ")]
        lines = [sentence["line"] for sentence in found["sentences"][:count]]
        assert [int(head.split()[1].rstrip(":")) for head in headings] == lines
        last = f"REP {found['rep']:.2f}, DROP {found['drop']:.2f}; {count} of 6 sentences shown"
        assert text.splitlines()[-1] == last


def test_files_get_the_piped_output_without_colors(models, aligner, files, tmp_path):
    out = tmp_path / "out.txt"
    assert run_analysis([models[1]], files, "--aligner", aligner, "-o", out).stdout == ""
    text = out.read_text(encoding="utf-8")
    assert text == run_analysis([models[1]], files, "--aligner", aligner).stdout
    assert "\x1b" not in text and f"/{FERTILITY}" in text and "<sink>" in text


def test_terminal_output_has_colors_and_wraps(models, aligner, files, monkeypatch):
    monkeypatch.setattr(Output, "is_terminal", True)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    text = run_analysis([models[1]], files, "--aligner", aligner).stdout
    assert re.search(r"\x1b\[(\d;)?3\dm", text) and f"/{FERTILITY}" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= 40
    assert "REP " in lines[-2] + lines[-1]


def test_missing_aligner_is_reported_and_drop_is_omitted(models, files):
    result = run_analysis([models[0]], files, "--json", files / "figures.json")
    assert len(result.stderr.splitlines()) == 1 and "--aligner" in result.stderr
    assert "REP" in result.stdout and "DROP" not in result.stdout
    found = json.loads((files / "figures.json").read_text())
    assert found["drop"] is None
    assert all(s["dropped"] is None and s["num_errors"] == s["repetition_score"] for s in found["sentences"])


def test_subword_tokens_are_joined_into_words(tmp_path, files):
    # The vocabulary keeps its size. Without merges, every character is a subword token.
    side = subword_side("a@@ b@@ c d@@ e f g")
    model = save_model(tmp_path / "subwords", fertility=FERTILITY, source=side)
    (files / "in.txt").write_text("abc de\n" * len(SOURCE))
    found = figures([model], files)["sentences"][0]
    assert found["source"] == ["abc", "de"]
    assert found["fertility"] == pytest.approx([3 * FERTILITY, 2 * FERTILITY])
    assert sum(found["attention"]) + found["sink"] == pytest.approx(len(found["output"]), abs=1e-4)


def test_models_without_attention_have_no_attention_output(files, tmp_path):
    directory = save_model(tmp_path / "none", attention={"kind": "none"})
    assert all(sentence["attention"] is None for sentence in figures([directory], files)["sentences"])


def test_overlong_lines_are_skipped(models, files):
    (files / "in.txt").write_text("a " * 2000 + "\n" + "a\n" * 5)
    found = figures([models[0]], files)
    assert found["num_lines"] == 6 and sorted(s["line"] for s in found["sentences"]) == [2, 3, 4, 5, 6]
    (files / "in.txt").write_text(("a " * 2000 + "\n") * 6)
    with pytest.raises(DataError, match="too long"):
        run_analysis([models[0]], files)


def test_aligner_with_unknown_vocabulary_is_reported(models, files, tmp_path):
    Aligner.train(["x y"] * 3, ["X Y"] * 3, "ibm1", num_threads=1).save(tmp_path / "strange")
    warnings = run_analysis([models[0]], files, "--aligner", tmp_path / "strange").stderr.splitlines()
    assert len(warnings) == 1 and "100% of the words are not in the vocabulary" in warnings[0]


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("\n\n", "A\nB\n", r"in\.txt: the file contains no text"),
        ("", "", "the file is empty"),
    ],
)
def test_mismatched_text_is_reported(models, files, tmp_path, source, reference, message):
    (files / "in.txt").write_text(source)
    (files / "ref.txt").write_text(reference)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=message):
        run_analysis([models[0]], files, "-o", tmp_path / "out", "--json", tmp_path / "json")
    assert sorted(tmp_path.iterdir()) == before
