"""Tests of `regard figures`: plots and tables of attention, training runs and analysis results."""

import dataclasses
import json
import math
import struct
import sys
import xml.etree.ElementTree as ET

import pytest
import typer
from test_translate import save_model
from typer.testing import CliRunner

from regard.cli.figures import figures
from regard.config import dump_toml, to_dict
from regard.data.text import TextProcessor
from regard.errors import DataError, UsageError
from regard.models import build_model
from regard.models.transformer.config import TransformerConfig
from regard.runs.config import CONFIG_FILE, END_MARKER, load_config
from regard.training.resume import write_weights
from regard.training.weights import named_weights

SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments):
    app = typer.Typer()
    app.command()(figures)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_figure_paths_are_on_stderr_and_the_table_is_optional(tmp_path) -> None:
    file = attention_file(tmp_path / "soft.jsonl", ["a", "dog"], line=1)
    result = run("history", "--input", file, "--output-dir", tmp_path)
    assert result.exit_code == 0 and result.stdout == ""
    assert str(tmp_path / "history-1.svg") in result.stderr


def test_unknown_figure_is_rejected_with_the_valid_names(tmp_path) -> None:
    result = run("histry", "-o", tmp_path / "new")
    assert isinstance(result.exception, UsageError) and "history" in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_directory_that_cannot_be_created_is_reported(tmp_path) -> None:
    file = attention_file(tmp_path / "file", ["a", "dog"], line=1)
    result = run("history", "--input", file, "-o", tmp_path / "file" / "charts")
    assert isinstance(result.exception, DataError) and "charts" in str(result.exception)


def write_file(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def texts(path):
    """Return the text elements of a figure, without tooltips."""
    return [element.text for element in ET.parse(path).iter(f"{SVG}text")]


def test_missing_name_lists_the_figures_and_their_inputs() -> None:
    result = run()
    head, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert head[0] == "figure" and {len(row) for row in rows} == {3}
    names = [row[0] for row in rows]
    assert names[0] == "translations" and {"difference", "attention", "length", "training"} <= set(names)
    assert "--input" in str(run("--input", "a.json").exception)


def test_png_has_300_dots_per_inch(tmp_path) -> None:
    file = attention_file(tmp_path / "soft.jsonl", ["a", "dog"], line=1)
    assert run("history", "--input", file, "-o", tmp_path, "--format", "svg,png").exit_code == 0
    data = (tmp_path / "history-1.png").read_bytes()
    root = ET.parse(tmp_path / "history-1.svg").getroot()
    sides = tuple(round(int(root.get(side, "")) * 300 / 96) for side in ("width", "height"))
    assert struct.unpack_from(">II", data, 16) == pytest.approx(sides, abs=1)
    # 300 dots per inch are 11,811 per meter.
    assert struct.unpack_from(">IIB", data, data.index(b"pHYs") + 4) == (11811, 11811, 1)


def test_only_the_requested_formats_are_written(tmp_path) -> None:
    file = attention_file(tmp_path / "soft.jsonl", ["a", "dog"], line=1)
    for name, stem in (("translations", "translations-1"), ("history", "history-1")):
        assert run(name, "--input", file, "-o", tmp_path / name, "--format", "pdf, png").exit_code == 0
        assert {path.name for path in (tmp_path / name).iterdir()} == {f"{stem}.pdf", f"{stem}.png"}
    for wrong in ("jpg", "svg,jpg", ""):
        result = run("history", "--input", file, "-o", tmp_path / "new", "--format", wrong)
        assert isinstance(result.exception, UsageError) and "svg, pdf, png" in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_missing_matplotlib_is_reported(monkeypatch, tmp_path) -> None:
    file = attention_file(tmp_path / "soft.jsonl", ["a", "dog"], line=1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("history", "--input", file, "--format", "svg,pdf", "-o", tmp_path / "new")
    assert isinstance(result.exception, UsageError)
    assert "pip install 'regard[plot]'" in str(result.exception)
    assert not (tmp_path / "new").exists()
    # Attention maps in SVG do not need it.
    assert run("history", "--input", file, "-o", tmp_path / "new").exit_code == 0


def test_training_curves_equal_the_record(tmp_path) -> None:
    for name, last in (("one", 4.0), ("two", 2.0)):
        (tmp_path / name).mkdir()
        lines = [{"kind": "train", "step": 10 * n, "perplexity": 100.0 / n} for n in (1, 2, 3)]
        lines += [{"kind": "validation", "step": 30, "perplexity": last, "bleu": 12.5}]
        write_file(tmp_path / name / "record.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    result = run(
        "training",
        "--input",
        tmp_path / "one",
        "--input",
        tmp_path / "two" / "record.jsonl",
        "-o",
        tmp_path,
        "--table",
    )
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert rows[1][:4] == ["one", "training", "3", "30"]
    assert float(rows[2][4]) == pytest.approx(math.log(4), abs=1e-4)
    assert rows[3][:2] == ["one", "bleu"] and rows[3][4] == "12.5000"
    labels = texts(tmp_path / "training.svg")
    assert "one" in labels and "two" in labels and "Validation: BLEU" in labels
    empty_dir = tmp_path / "bare"
    empty_dir.mkdir()
    assert "bare" in str(run("training", "--input", empty_dir, "-o", tmp_path).exception)


def test_best_point_of_a_curve_ignores_nan(tmp_path) -> None:
    lines = [{"kind": "validation", "step": n, "perplexity": value} for n, value in ((1, math.nan), (2, 4.0))]
    write_file(tmp_path / "record.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    result = run("training", "--input", tmp_path / "record.jsonl", "-o", tmp_path, "--table")
    row = dict(zip(*(line.split("\t") for line in result.stdout.splitlines()), strict=True))
    assert float(row["best"]) == pytest.approx(math.log(4), abs=1e-4)


SCORE = {"value": 20.0, "interval": [18.0, 22.0], "difference": None, "p_value": None}


def analysis_result(name, value=20.0, sentences=5):
    score = {**SCORE, "value": value}
    scores = {"signature": "s", "buckets": [score, None], "all": score}
    buckets = [{"low": 1, "high": 10, "sentences": sentences}, {"low": 11, "high": None, "sentences": 0}]
    systems = {name: {"paths": [name], "bleu": scores}}
    return {"schema": "length_analysis", "schema_version": 1, "systems": systems, "buckets": buckets}


def test_scores_by_length_combine_several_files(tmp_path) -> None:
    files = [
        write_file(tmp_path / f"{name}.json", analysis_result(name, value))
        for name, value in (("a", 20.0), ("b", 30.0))
    ]
    result = run("length", "--input", files[0], "--input", files[1], "-o", tmp_path, "--table")
    assert result.stdout.splitlines() == [
        "system\tmetric\t1-10\t11+\tall",
        "a\tBLEU\t20.00\t\t20.00",
        "b\tBLEU\t30.00\t\t30.00",
    ]
    assert "sentences" in texts(tmp_path / "length.svg")
    other = write_file(tmp_path / "other.json", analysis_result("c", sentences=6))
    assert run("length", "--input", files[0], "--input", other, "-o", tmp_path).exit_code == 0
    assert "sentences" not in texts(tmp_path / "length.svg")
    assert "twice" in str(run("length", "--input", files[0], "--input", files[0], "-o", tmp_path).exception)


def test_scores_by_length_accept_a_reproduced_table(tmp_path) -> None:
    cell = {"score": 20.0, "interval": [18.0, 22.0]}
    rows = [
        {"row": "soft (TSA)", "metrics": {"sacrebleu:1-10": cell, "sacrebleu:11-20": cell}},
        {"row": "hard (THA)", "metrics": {"sacrebleu:1-10": cell}},
        {"row": "not run", "metrics": {}},
    ]
    path = write_file(tmp_path / "table.json", {"table": "indurthi2019-figure2", "rows": rows})
    result = run("length", "--input", path, "-o", tmp_path, "--table", "--json", tmp_path / "numbers.json")
    assert result.stdout.splitlines()[1:] == [
        "soft (TSA)\tBLEU\t20.00\t20.00\t",
        "hard (THA)\tBLEU\t20.00\t\t",
    ]
    numbers = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))
    assert numbers["lengths"] == ["1-10", "11-20"] and numbers["sentences"] is None
    cell |= {"sentences": 1, "interval": None}
    path = write_file(tmp_path / "table.json", {"table": "indurthi2019-figure2", "rows": rows})
    run("length", "--input", path, "-o", tmp_path, "--json", tmp_path / "numbers.json")
    assert json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))["sentences"] == [1, 1]


def attention_file(path, target, line=2):
    """Write a file as `translate --attention-output` does, with all attention on the first word."""
    source = ["ein", "hund", "<läuft>"]
    weights = [[[[1.0, 0.0, 0.0]]] * (len(target) + 1)]
    entry = {"line": line, "source_tokens": source, "tokens": target, "posterior_attention": weights}
    return write_file(path, json.dumps(entry, ensure_ascii=False) + "\n")


def test_repeated_words_are_underlined(tmp_path) -> None:
    files = [
        attention_file(tmp_path / "soft.jsonl", ["a", "dog", "a", "dog"]),
        attention_file(tmp_path / "sparse.jsonl", ["a", "dog", "runs"]),
    ]
    result = run(
        "translations", "--input", files[0], "--input", files[1], "--line", 2, "-o", tmp_path, "--table"
    )
    assert result.stdout.splitlines()[1:] == ["soft\ta dog a dog\ta dog", "sparse\ta dog runs\t"]
    root = ET.parse(tmp_path / "translations-2.svg")
    labels = root.iter(f"{SVG}text")
    underlined = [label.text for label in labels if label.get("text-decoration") == "underline"]
    assert underlined == ["a", "dog"]
    assert "no line 7" in str(run("translations", "--input", files[0], "--line", 7, "-o", tmp_path).exception)


def test_history_has_one_row_per_word_and_white_cells_for_zero(tmp_path) -> None:
    file = attention_file(tmp_path / "soft.jsonl", ["a", "dog"], line=1)
    assert run("history", "--input", file, "-o", tmp_path).exit_code == 0
    root = ET.parse(tmp_path / "history-1.svg")
    boxes = [element.get("fill") for element in root.iter(f"{SVG}rect") if element.get("rx")]
    assert len(boxes) == 6
    white = [fill == "#ffffff" for fill in boxes]
    assert white == [False, True, True] * 2
    assert texts(tmp_path / "history-1.svg").count("<läuft>") == 2


@pytest.mark.parametrize("name", ["attention", "length", "translations", "history"])
@pytest.mark.parametrize("content", ["no JSON", "[1]", "{}", '{"rows": [1]}', '{"models": 3}'])
def test_invalid_input_files_are_reported(tmp_path, name, content) -> None:
    path = write_file(tmp_path / "wrong.json", content)
    result = run(name, "--input", path, "-o", tmp_path / "new")
    assert isinstance(result.exception, DataError) and "wrong.json" in str(result.exception)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "name", ["attention", "length", "translations", "difference", "history", "self-attention", "training"]
)
def test_missing_input_option_is_reported(tmp_path, name) -> None:
    result = run(name, "-o", tmp_path)
    assert isinstance(result.exception, UsageError) and "--input" in str(result.exception)


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    """Return a directory with three LSTM models, a Transformer, a source text and its reference."""
    root = tmp_path_factory.mktemp("plots")
    transformer = save_model(root / "transformer")
    base = load_config(transformer)
    sides = dataclasses.replace(TransformerConfig().encoder, num_layers=2)
    model_config = TransformerConfig(d_model=8, num_heads=2, encoder=sides, decoder=sides)
    config = dataclasses.replace(base, model=model_config)
    text = TextProcessor.load(transformer)
    model = build_model(config.model, len(text.source.vocabulary), len(text.target.vocabulary))
    write_weights(transformer, to_dict(config), named_weights(model), {})
    (transformer / CONFIG_FILE).write_text(dump_toml(config) + END_MARKER, encoding="utf-8")
    write_file(root / "in.txt", "a b c d\n\n")
    write_file(root / "ref.txt", "A B C\n\n")
    save_model(root / "one")
    save_model(root / "two", seed=1)
    save_model(root / "bound", fertility=0.75)
    return root


def plot(models_dir, name, *arguments):
    files = ("--source", models_dir / "in.txt", "--device", "cpu", "-o", models_dir / "out")
    return run(name, *files, *arguments)


def test_models_are_plotted_on_own_and_given_translations(models_dir) -> None:
    two = ("--input", models_dir / "one", "--input", models_dir / "two")
    assert plot(models_dir, "translations", *two).exit_code == 0
    result = plot(models_dir, "difference", *two, "--reference", models_dir / "ref.txt", "--table")
    assert result.stdout.splitlines()[1].startswith("two\tone\t")
    labels = texts(models_dir / "out" / "difference-1.svg")
    assert {"a", "d", "A", "C", "more in two", "more in one"} <= set(labels)
    assert "empty" in str(plot(models_dir, "translations", *two, "--line", 2).exception)
    assert "2 lines" in str(plot(models_dir, "translations", *two, "--line", 3).exception)
    assert "--reference" in str(plot(models_dir, "difference", *two).exception)
    wrong = plot(models_dir, "translations", *two, "--layer", 1).exception
    assert "one attends to the source in 1 layers, counted from 0" in str(wrong)
    assert "--names" in str(plot(models_dir, "translations", *two, "--names", "a,a").exception)


def test_difference_of_models_with_and_without_a_sink(models_dir) -> None:
    two = ("--input", models_dir / "one", "--input", models_dir / "bound")
    two += ("--reference", models_dir / "ref.txt")
    result = plot(models_dir, "difference", *two, "--json", models_dir / "difference.json", "--table")
    assert result.exit_code == 0, result.exception
    systems = json.loads((models_dir / "difference.json").read_text())["systems"]
    assert systems["one"]["source"] == ["a", "b", "c", "d"]
    assert systems["bound"]["source"] == ["a", "b", "c", "d", "<sink>"]
    assert [sum(row) for row in systems["bound"]["weights"]] == pytest.approx([1, 1, 1])
    # The model without a sink counts as giving the sink no attention.
    soft = [[*row, 0.0] for row in systems["one"]["weights"]]
    differences = [
        abs(x - y)
        for one, other in zip(soft, systems["bound"]["weights"], strict=True)
        for x, y in zip(one, other, strict=True)
    ]
    total, largest = map(float, result.stdout.splitlines()[1].split("\t")[2:])
    expected = pytest.approx(sum(differences), abs=1e-3), pytest.approx(max(differences), abs=1e-3)
    assert (total, largest) == expected
    assert "<sink>" in texts(models_dir / "out" / "difference-1.svg")


def test_self_attention_has_one_row_per_head(models_dir) -> None:
    result = plot(
        models_dir, "self-attention", "--input", models_dir / "transformer", "--token", 2, "--table"
    )
    head, *rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert head == ["head", "a", "b", "c", "d"] and len(rows) == 2
    assert all(sum(map(float, row[1:])) == pytest.approx(1, abs=1e-3) for row in rows)
    bold = [
        element.text
        for element in ET.parse(models_dir / "out" / "self-attention.svg").iter(f"{SVG}text")
        if element.get("font-weight") == "bold"
    ]
    assert bold == ["Encoder, layer 1: self-attention of 'c'", "c"]
    assert [row[0] for row in rows] == ["0", "1"]
    assert "Transformers" in str(plot(models_dir, "self-attention", "--input", models_dir / "one").exception)
    beyond = ("--input", models_dir / "transformer", "--token", 4)
    assert "--token 4" in str(plot(models_dir, "self-attention", *beyond).exception)
