"""Tests of `regard analyze errors`: its output agrees with `translate`, `align` and `evaluate`."""

import json
import re
from dataclasses import replace

import pytest
from analysis_text import SOURCE
from test_translate import run, save_model

from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.ibm import IBM1Config
from regard.attention.soft import NoAttentionConfig
from regard.cli.output import Output
from regard.config import dump_toml, to_dict
from regard.data.text import TextProcessor, TextSide
from regard.errors import DataError
from regard.models import build_model
from regard.models.rnn.config import RnnConfig
from regard.runs.checksums import write_weights
from regard.runs.description import CONFIG_FILE, END_MARKER
from regard.runs.weights import load_weights, named_weights
from regard.text.tokenizers.subwords import BytePairConfig, BytePairTokenizer
from regard.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from regard.training.run_config import load_config

FERTILITY = 0.75


@pytest.fixture
def files(tmp_path):
    source, reference = tmp_path / "in.txt", tmp_path / "ref.txt"
    source.write_text("".join(f"{line}\n" for line in SOURCE), encoding="utf-8")
    reference.write_text("".join(f"{line.upper()}\n" for line in SOURCE), encoding="utf-8")
    return source, reference


def run_analysis(model, files, *arguments):
    options = ("--source", files[0], "--reference", files[1], "--num-threads", 1)
    result = run("analyze", "errors", *(model if isinstance(model, list) else [model]), *options, *arguments)
    assert result.exit_code == 0, result.output
    return result


def figures(model, files, tmp_path, *arguments):
    path = tmp_path / "figures.json"
    run_analysis(model, files, "--json", path, *arguments)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("which", [0, 1])
def test_output_agrees_with_translate_align_and_evaluate(models, aligner, files, tmp_path, which):
    found = figures(models[which], files, tmp_path, "--aligner", aligner, "--beam-size", 2, "--batch-size", 2)
    out, weights = tmp_path / "out.txt", tmp_path / "weights.jsonl"
    options = ("--output", out, "--attention-output", weights, "--beam-size", 2)
    run("translate", models[which], "--input", files[0], *options)
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
    texts = {"s": SOURCE, "r": [line.upper() for line in SOURCE], "o": out.read_text().splitlines()}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{lines[line]}\n" for line in kept))
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


def test_worst_sentences_are_listed_first_up_to_the_number(models, aligner, files, tmp_path):
    found = figures(models[0], files, tmp_path, "--aligner", aligner)
    order = [(-sentence["num_errors"], sentence["line"]) for sentence in found["sentences"]]
    assert order == sorted(order) and order[0][0] < order[-1][0]
    for sentence in found["sentences"]:
        assert sentence["num_errors"] == sentence["repetition_score"] + len(sentence["dropped"])
    for number, count in ((2, 2), (0, len(SOURCE)), (50, len(SOURCE))):
        text = run_analysis(models[0], files, "--aligner", aligner, "--num-sentences", number).stdout
        headings = [line for line in text.splitlines() if line.startswith("line ")]
        lines = [sentence["line"] for sentence in found["sentences"][:count]]
        assert [int(head.split()[1].rstrip(":")) for head in headings] == lines
        last = f"REP {found['rep']:.2f}, DROP {found['drop']:.2f}; {count} of 6 sentences shown"
        assert text.splitlines()[-1] == last


def test_files_get_the_piped_output_without_colors(models, aligner, files, tmp_path):
    out = tmp_path / "out.txt"
    assert run_analysis(models[1], files, "--aligner", aligner, "-o", out).stdout == ""
    text = out.read_text(encoding="utf-8")
    assert text == run_analysis(models[1], files, "--aligner", aligner).stdout
    assert "\x1b" not in text and f"/{FERTILITY}" in text and "<sink>" in text


def test_terminal_output_has_colors_and_wraps(models, aligner, files, monkeypatch):
    monkeypatch.setattr(Output, "is_terminal", True)
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    text = run_analysis(models[1], files, "--aligner", aligner).stdout
    assert re.search(r"\x1b\[(\d;)?3\dm", text) and f"/{FERTILITY}" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= 40
    assert "REP " in lines[-2] + lines[-1]


def test_missing_aligner_is_reported_and_drop_is_omitted(models, files, tmp_path):
    path = tmp_path / "figures.json"
    result = run_analysis(models[0], files, "--json", path)
    assert len(result.stderr.splitlines()) == 1 and "--aligner" in result.stderr
    assert "REP" in result.stdout and "DROP" not in result.stdout
    found = json.loads(path.read_text())
    assert found["drop"] is None
    assert all(s["dropped"] is None and s["num_errors"] == s["repetition_score"] for s in found["sentences"])


def test_subword_tokens_are_joined_into_words(tmp_path, files):
    model = save_model(tmp_path / "subwords", fertility=FERTILITY)
    text = TextProcessor.load(model)
    # The vocabulary keeps its size. Without merges, every character is a subword token.
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "a@@", "b@@", "c", "d@@", "e", "f", "g"))
    source = TextSide(BytePairTokenizer(BytePairConfig(tokenized=True), b"#version: 0.2\n"), vocabulary)
    weights = load_weights(model)
    TextProcessor(source, text.target, text.budget).save(model)
    write_weights(model, to_dict(load_config(model)), weights, {})
    files[0].write_text("abc de\n" * len(SOURCE))
    found = figures(model, files, tmp_path)["sentences"][0]
    assert found["source"] == ["abc", "de"]
    assert found["fertility"] == pytest.approx([3 * FERTILITY, 2 * FERTILITY])
    assert sum(found["attention"]) + found["sink"] == pytest.approx(len(found["output"]), abs=1e-4)


def test_models_without_attention_have_no_attention_output(models, files, tmp_path):
    directory = tmp_path / "none"
    directory.mkdir()
    TextProcessor.load(models[0]).save(directory)
    base = load_config(models[0])
    assert isinstance(base.model, RnnConfig)
    config = replace(base, model=replace(base.model, attention=NoAttentionConfig()))
    size = len(TextProcessor.load(directory).source.vocabulary)
    write_weights(directory, to_dict(config), named_weights(build_model(config.model, size, size)), {})
    (directory / CONFIG_FILE).write_text(dump_toml(config) + END_MARKER, encoding="utf-8")
    assert all(sentence["attention"] is None for sentence in figures(directory, files, tmp_path)["sentences"])


def test_ensemble_of_a_model_with_itself_equals_the_model(models, files, tmp_path):
    one, two = (figures(models_given, files, tmp_path) for models_given in ([models[1]], [models[1]] * 2))
    assert len(two.pop("models")) == 2 and one.pop("models")
    for both in zip(one["sentences"], two["sentences"], strict=True):
        first, second = (sentence.pop("attention") for sentence in both)
        assert second == (None if first is None else pytest.approx(first, abs=1e-4))
        first, second = (sentence.pop("sink") for sentence in both)
        assert second == (None if first is None else pytest.approx(first, abs=1e-4))
    assert one == two


def test_overlong_lines_are_skipped(models, files, tmp_path):
    files[0].write_text("a " * 2000 + "\n" + "a\n" * 5)
    found = figures(models[0], files, tmp_path)
    assert found["num_lines"] == 6 and sorted(s["line"] for s in found["sentences"]) == [2, 3, 4, 5, 6]
    files[0].write_text(("a " * 2000 + "\n") * 6)
    with pytest.raises(DataError, match="too long"):
        run_analysis(models[0], files)


def test_aligner_with_unknown_vocabulary_is_reported(models, files, tmp_path):
    pairs = [(["x", "y"], ["X", "Y"])] * 3
    train_both(Corpus.from_tokens(pairs), IBM1Config(), TrainingSetup(num_threads=1)).save(
        tmp_path / "strange"
    )
    warnings = run_analysis(models[0], files, "--aligner", tmp_path / "strange").stderr.splitlines()
    assert len(warnings) == 1 and "100% of the words are not in the vocabulary" in warnings[0]


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        ("a\n", "A\nB\n", "has 1 lines but .* has 2"),
        ("\n\n", "A\nB\n", r"in\.txt: the file contains no text"),
        ("a\nb\n", "\n \n", r"ref\.txt: the file contains no text"),
        ("", "", "the file is empty"),
    ],
)
def test_mismatched_text_is_reported(models, files, tmp_path, source, reference, message):
    files[0].write_text(source)
    files[1].write_text(reference)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=message):
        run_analysis(models[0], files, "-o", tmp_path / "out", "--json", tmp_path / "json")
    assert sorted(tmp_path.iterdir()) == before


def test_missing_analysis_is_a_usage_error(models, files):
    result = run("analyze")
    assert result.exit_code == 2 and all(name in result.output for name in ("errors", "attention", "length"))
