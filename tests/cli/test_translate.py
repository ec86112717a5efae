"""Tests of the commands `regard translate` and `regard score` on saved models."""

import csv
import html
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from command_runs import LINES, invoke, run, translate, write_lines

from regard.errors import CheckpointError, ConfigError, DataError, UsageError
from regard.text.links import format_links
from saved_models import save_model


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "in.txt", LINES)


def test_number_of_unknown_tokens_is_reported(model):
    def report(*arguments):
        result = run("translate", model, "--sample", *arguments, input="".join(f"{line}\n" for line in LINES))
        found = re.findall(r"^(\d+) of (\d+) generated tokens are unknown", result.stderr, re.MULTILINE)
        return result.stdout.split(), [tuple(map(int, pair)) for pair in found]

    words, shares = report()
    assert shares == [(words.count("<unk>"), len(words))] and "<unk>" in words
    words, shares = report("--suppress-unk")
    assert "<unk>" not in words and shares == []


def test_symbolic_links_and_devices_are_not_replaced(model, tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    assert translate(model, "--output", link) == []
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").splitlines() == translate(model)
    translate(model, "--output", "/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("option", ["--output", "--attention-output", "--links-output"])
def test_full_disk_is_reported(model, option):
    with pytest.raises(DataError, match=r"/dev/full: cannot be written: No space left"):
        translate(model, option, "/dev/full")


def test_nbest_lists_have_moses_format(model):
    rows = [line.split(" ||| ") for line in translate(model, "--num-return", 3)]
    numbers = [int(row[0]) for row in rows]
    assert numbers == [n for n, line in enumerate(LINES) if line for _ in range(3)]
    assert all(len(row) == 3 and float(row[2]) < 0 for row in rows)
    assert len(translate(model, "--num-return", 5)) == 5 * sum(map(bool, LINES))


def test_nbest_lists_and_tables_are_read_back_exactly(tmp_path):
    marks = save_model(tmp_path / "model", seed=3, target='"A B" ||| |||"&amp; &amp;|||" D&lt E"')
    tokens = tmp_path / "tokens"
    lines = translate(marks, "--num-return", 3, "--tokens-output", tokens)
    written = [json.loads(line) for line in tokens.read_text().splitlines()]
    texts = [one["text"] for line in written if line["source"] for one in (line, *line["alternatives"])]
    assert any("|||" in text for text in texts) and any("&amp;" in text for text in texts)
    rows = [line.split(" ||| ") for line in lines]
    assert all(len(row) == 3 for row in rows)
    assert [html.unescape(row[1]) for row in rows] == texts

    plain = translate(marks)
    assert any('"' in text for text in plain)
    table = "".join(f"{line}\n" for line in translate(marks, "--with-scores", "--links-output", "-"))
    rows = list(csv.reader(io.StringIO(table, newline=""), delimiter="\t"))
    assert [row[1] for row in rows] == plain
    frame = pandas.read_csv(io.StringIO(table), sep="\t", header=None, keep_default_na=False, dtype=str)
    assert frame[1].tolist() == plain


def test_scores_equal_forced_decoding(model, text, tmp_path):
    scored = [line.split("\t") for line in translate(model, "--with-scores", "--length-penalty", 0)]
    assert scored[1] == ["", ""]
    found = write_lines(tmp_path / "out.txt", [line[1] for line in scored])
    summary = tmp_path / "scores.json"
    result = run("score", model, text, found, "--json", summary)
    lines = result.stdout.splitlines()
    assert lines[1] == "nan"
    # `<unk>` in a translation is encoded as the unknown token again, so scores agree there, too.
    for line, (score, _) in zip(lines, scored, strict=True):
        if score:
            assert float(line) == pytest.approx(float(score), abs=2e-4)
    figures = json.loads(summary.read_text())
    assert figures["num_sentences"] == len(figures["sentences"]) == len(LINES)
    assert figures["num_skipped"] == 1
    total = sum(float(line) for line in lines if line != "nan")
    assert figures["log_probability"] == pytest.approx(total, abs=1e-2)
    assert figures["perplexity"] == pytest.approx(np.exp(-total / figures["num_tokens"]), rel=1e-3)


def test_token_scores_sum_to_the_sentence_score(model, text, tmp_path):
    found = write_lines(tmp_path / "out.txt", translate(model))
    whole = run("score", model, text, found).stdout.splitlines()
    parts = run("score", model, text, found, "--token-scores").stdout.splitlines()
    for line, fields in zip(whole, parts, strict=True):
        if fields:
            values = [field.rpartition("|") for field in fields.split()]
            assert values[-1][0] == "</s>"
            assert sum(float(value) for _, _, value in values) == pytest.approx(float(line), abs=1e-2)


def test_links_are_the_most_attended_words(model, tmp_path):
    links, weights = tmp_path / "links.txt", tmp_path / "weights.jsonl"
    lines = translate(model, "--links-output", links, "--attention-output", weights)
    written = links.read_text().splitlines()
    rows = [json.loads(line) for line in weights.read_text(encoding="utf-8").splitlines()]
    assert len(written) == len(rows) == len(LINES)
    for number, (row, link, source, target) in enumerate(zip(rows, written, LINES, lines, strict=True), 1):
        assert row["line"] == number
        assert row["source_tokens"] == source.split()
        assert row["text"] == target
        assert row["tokens"] == target.split()
        if not source:
            assert link == "" and row["attention"] == row["posterior_attention"] == []
            continue
        assert row["attention"] == row["posterior_attention"] and format_links(row["alignment"]) == link
        (layer,) = (np.array(layer) for layer in row["posterior_attention"])
        assert layer.shape == (len(row["tokens"]) + 1, 1, len(row["source_tokens"]))
        np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-5)
        best = layer[:-1, 0].argmax(axis=1)
        assert set(link.split()) == {f"{s}-{t}" for t, s in enumerate(best)}
    appended = [line.split("\t") for line in translate(model, "--links-output", "-")]
    assert [row[0] for row in appended] == lines
    assert [row[1] for row in appended] == written


def test_maps_are_plotted_in_the_terminal_and_as_svg(model, tmp_path, monkeypatch):
    options = ("--show-attention", "--svg", tmp_path / "map.svg")
    shown = run("translate", model, *options, input="a b c\n\nd\n").stdout
    assert "░" in shown or "▒" in shown or "▓" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map-3.svg", "map.svg"]
    assert (tmp_path / "map.svg").read_text().startswith("<?xml")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"--svg needs the package matplotlib: .*regard\[plot\]"):
        run("translate", "no-model", *options, input="a\n")


def test_translations_start_with_their_prefix(model, tmp_path):
    prefixes = tmp_path / "prefix.txt"
    prefixes.write_text("A B\n\nC\n\nnew D\nA\n", encoding="utf-8")
    lines = translate(model, "--prefixes", prefixes)
    assert [line.startswith(p) for line, p in zip(lines, ["A B", "", "C", "", "new D", "A"], strict=True)]


def total_attention(directory: Path, tmp_path: Path, *options) -> np.ndarray:
    """Return the total attention of each token of the line `a b c` and of the sink."""
    path = tmp_path / "attention.jsonl"
    translate(directory, "--attention-output", path, *options, input="a b c\n")
    found = json.loads(path.read_text())
    assert found["source_tokens"] == ["a", "b", "c", "<sink>"]
    return np.array(found["posterior_attention"][0]).sum((0, 1))


def test_all_fertility_sources_bound_the_attention(tmp_path):
    bounded = save_model(tmp_path / "bounded", fertility=0.5)
    assert (total_attention(bounded, tmp_path)[:3] <= 0.5 + 1e-5).all()
    lines = tmp_path / "fertilities.txt"
    lines.write_text("0 - 0.25\n")
    model_limit, received, tolerance = 0.5, total_attention(bounded, tmp_path, "--fertilities", lines), 1e-5
    assert received[0] == 0 and received[1] <= model_limit + tolerance and received[2] <= 0.25 + tolerance
    assert total_attention(bounded, tmp_path, "--word-fertility", "b=0")[1] == 0


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--prefixes", "A\n", "file ends after line 1, but .* has a line 2"),
        ("--prefixes", "\n" * 7, "file has more lines .*2"),
        ("--fertilities", "1 1\n1\n", r"file, line 1: 2 fertilities, .* 3 tokens"),
        ("--fertilities", "", "the file is empty"),
        ("--required-terms", "A\n", "file ends after line 1"),
    ],
)
def test_mismatched_files_are_reported(tmp_path, option, content, message):
    bounded = save_model(tmp_path / "bounded", fertility=0.5)
    (tmp_path / "file").write_text(content)
    with pytest.raises(DataError, match=message):
        translate(bounded, option, tmp_path / "file", input="a b c\na\n")


def test_fertility_of_a_missing_word_is_reported(tmp_path):
    bounded = save_model(tmp_path / "bounded", fertility=0.5)
    words = ("--word-fertility", "b=1", "--word-fertility", "zz=1")
    result = run("translate", bounded, *words, input="a b c\na\n")
    assert "--word-fertility zz: this word does not occur in the text" in result.stderr
    assert "--word-fertility b" not in result.stderr


def test_minimum_fertility_that_is_not_reached_is_logged(tmp_path, caplog):
    bounded = save_model(tmp_path / "bounded", fertility=9.0)
    short = "--max-length-ratio", 0, "--max-length-offset", 1
    with caplog.at_level("WARNING"):
        translate(bounded, "--word-fertility", "b=1:", input="a b c\n")
        assert not caplog.text
        # One token and the end symbol have two units of attention in total.
        translate(bounded, "--word-fertility", "b=4:", *short, input="a b c\n")
    assert "line 1: source token 1 (from 0), 'b', received" in caplog.text


def test_fertilities_below_one_unit_are_rejected_without_a_sink(tmp_path):
    bounded = save_model(tmp_path / "bounded", fertility=2.0, sink=False)
    lines, out = tmp_path / "fertilities.txt", tmp_path / "out.txt"
    lines.write_text("- - -\n0 0.5 0\n")
    with pytest.raises(DataError, match=r"line 2: the fertilities sum to 0\.5"):
        translate(bounded, "--fertilities", lines, "--output", out, input="a b c\na b c\n")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            ["--beam-size", "2", "--num-return", "3"],
            ConfigError,
            "num_return = 3 .* at least 3, not 2",
        ),
        (["--beam-size", "0"], ConfigError, "search options: beam"),
        (["--min-length", "100000"], ConfigError, "search options: .*min_length = 100000 exceeds 1004"),
        (["--mbr", "bleu", "--beam-size", "2", "--mbr-candidates", "4"], UsageError, "beam of at least 4"),
        (["--sample", "--top-p", "2"], ConfigError, "top_p"),
        (["--word-fertility", "a=1"], UsageError, r"data\.fertility"),
        (["--word-fertility", "a"], UsageError, "WORD=MAX"),
        (["--input", "nowhere.txt"], DataError, "nowhere.txt"),
        (["--output", "nowhere/out.txt"], DataError, "nowhere/out.txt"),
        (["--links-output", "nowhere/out.txt"], DataError, "nowhere/out.txt"),
        (["--device", "cuda:99"], UsageError, "cuda:99"),
    ],
)
def test_invalid_arguments_are_reported(model, arguments, error, message):
    with pytest.raises(error, match=message):
        translate(model, *arguments)


def test_missing_and_incompatible_models_are_reported(model, tmp_path):
    with pytest.raises(CheckpointError, match="nothing-here"):
        translate(tmp_path / "nothing-here")
    other = save_model(tmp_path / "other", target="A B C")
    with pytest.raises(UsageError, match="other: its target vocabulary"):
        translate(model, other)
    with pytest.raises(UsageError, match=r"data\.fertility"):
        translate(model, save_model(tmp_path / "bounded", fertility=2.0))


def test_invalid_utf8_is_reported_after_writing_earlier_lines(model, tmp_path):
    result = invoke("translate", model, input=b"a b\nc \xff d\n")
    assert isinstance(result.exception, DataError)
    assert "standard input: line 2, byte 3" in str(result.exception)
    assert result.stdout.splitlines() == translate(model, input="a b\n")
    out = tmp_path / "out.txt"
    with pytest.raises(DataError, match="line 2"):
        translate(model, "--output", out, input=b"a b\nc \xff d\n")
    assert list(tmp_path.iterdir()) == []


def test_translations_contain_the_terms_of_their_line(model, tmp_path):
    terms = tmp_path / "terms.txt"
    terms.write_text("G F\tA\n\n\nE\n\nB\n")
    plain, found = translate(model), translate(model, "--required-terms", terms)
    assert "G F" in found[0] and "A" in found[0].split()
    assert "E" in found[3].split() and "B" in found[5].split()
    assert [found[i] for i in (1, 2, 4)] == [plain[i] for i in (1, 2, 4)]
