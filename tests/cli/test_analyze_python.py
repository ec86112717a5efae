"""Tests of `regard.analyze`: its results and errors equal those of the commands."""

import dataclasses
import json

import pytest
from command_runs import GOLD, REFERENCE, SOURCE, run, write_lines

import regard
from regard.analysis.attention import AttentionOptions
from regard.analysis.length import LengthOptions
from regard.api.alignment import Aligner
from regard.errors import DataError, UsageError

SETTINGS = {"num_threads": 1, "device": "cpu"}


def command(kind, models, files, *arguments):
    """Return the results that a command writes."""
    options = ("--source", files / "in.txt", "--reference", files / "ref.txt", "--num-threads", 1)
    path = files / f"{kind}.json"
    assert run("analyze", kind, *models, *options, "--json", path, *arguments).exit_code == 0
    return json.loads(path.read_text(encoding="utf-8"))


def as_json(result):
    return json.loads(result.to_json())


def test_errors_equal_those_of_the_command(models, aligner, files):
    expected = command("errors", models[:1], files, "--aligner", aligner, "--beam-size", 2)
    texts = files / "in.txt", files / "ref.txt"
    found = regard.analyze.errors(models[0], *texts, aligner=aligner, beam_size=2, **SETTINGS)
    assert as_json(found) == expected and expected["schema"] == "error_analysis"
    loaded = regard.load(models[0], device="cpu", beam_size=2)
    given = Aligner.load(aligner, num_threads=1)
    same = regard.analyze.errors(loaded, SOURCE, REFERENCE, aligner=given)
    assert as_json(same) == expected | {"source": None, "reference": None, "aligner": None}


def test_attention_equals_that_of_the_command(models, files):
    arguments = ("--gold-links", files / "gold.talp", "--bin-width", 0.5, "--lines", 4, "--prior")
    expected = command("attention", models, files, *arguments)
    options = AttentionOptions(files / "gold.talp", [4], prior=True, bin_width=0.5)
    texts = files / "in.txt", files / "ref.txt"
    found = regard.analyze.attention(models, *texts, options=options, **SETTINGS)
    assert as_json(found) == expected and expected["schema"] == "attention_analysis"
    loaded = [regard.load(model, device="cpu") for model in models]
    same = regard.analyze.attention(
        loaded, SOURCE, REFERENCE, options=dataclasses.replace(options, gold_links=GOLD)
    )
    assert as_json(same) == expected | {"source": None, "reference": None, "gold_links": None}


def test_scores_by_length_equal_those_of_the_command(models, aligner, files):
    systems = [*models, write_lines(files / "out.txt", REFERENCE)]
    arguments = ("--bucket-width", 3, "--aligner", aligner, "--names", "a,b,c", "--lowercase")
    expected = command("length", systems, files, *arguments)
    options = LengthOptions(aligner, bucket_width=3, lowercase=True)
    texts = files / "in.txt", files / "ref.txt"
    found = regard.analyze.length(systems, *texts, options=options, names=["a", "b", "c"], **SETTINGS)
    assert as_json(found) == expected and expected["schema"] == "length_analysis"
    loaded = [*(regard.load(model, device="cpu") for model in models), files / "out.txt"]
    same = regard.analyze.length(loaded, SOURCE, REFERENCE, options=options, names=["a", "b", "c"])
    assert as_json(same) == expected | {"source": None, "reference": None}


def test_results_of_a_sentence_do_not_depend_on_the_other_sentences(models, aligner):
    for model in models:
        together = regard.analyze.errors(model, SOURCE, REFERENCE, aligner=aligner, **SETTINGS)
        attention = regard.analyze.attention(model, SOURCE, REFERENCE, **SETTINGS).models[model.name]
        single = regard.analyze.attention(model, SOURCE, REFERENCE, batch_size=1, **SETTINGS)
        for one in together.sentences:
            if not one.source:
                continue
            texts = [SOURCE[one.line - 1]], [REFERENCE[one.line - 1]]
            (alone,) = regard.analyze.errors(model, *texts, aligner=aligner, **SETTINGS).sentences
            assert (alone.output, alone.dropped, alone.repeated) == (one.output, one.dropped, one.repeated)
            if one.received is not None and alone.received is not None:
                assert alone.received.attention == pytest.approx(one.received.attention, abs=1e-4)
        for one, alone in zip(attention.sentences, single.models[model.name].sentences, strict=True):
            if one is not None and alone is not None:
                assert alone.entropies == pytest.approx(one.entropies, abs=1e-4)
                assert alone.links == one.links


def test_wrong_texts_and_models_are_reported(models):
    with pytest.raises(DataError, match="sources has 1 lines but references has 2"):
        regard.analyze.errors(models[0], ["a"], ["A", "B"])
    with pytest.raises(DataError, match="references: the list contains no text"):
        regard.analyze.attention(models[0], ["a"], [" "])
    with pytest.raises(DataError, match="gold_links has 1 lines but sources has 2"):
        regard.analyze.attention(models[0], ["a", "b"], ["A", "B"], options=AttentionOptions(["0-0"]))
    with pytest.raises(UsageError, match="expected a path, such as 'runs/first', got 3"):
        regard.analyze.length([3], ["a"], ["A"])
    with pytest.raises(UsageError, match="at least one model"):
        regard.analyze.length([], ["a"], ["A"])
    with pytest.raises(UsageError, match=r"device: .* is loaded already"):
        regard.analyze.errors(regard.load(models[0]), ["a"], ["A"], device="cpu")
    with pytest.raises(UsageError, match="no such model directory or file"):
        regard.analyze.errors(iter(["nowhere"]), ["a"], ["A"])
    with pytest.raises(UsageError, match="lines='all'"):
        regard.analyze.attention(models[0], ["a"], ["A"], options=AttentionOptions(lines="all"))


def test_results_are_tables_with_figures(models, aligner):
    errors = regard.analyze.errors(models[1], SOURCE, REFERENCE, aligner=aligner, **SETTINGS)
    lines = AttentionOptions(lines="auto")
    attention = regard.analyze.attention(models, SOURCE, REFERENCE, options=lines, **SETTINGS)
    length = regard.analyze.length(models, SOURCE, REFERENCE, **SETTINGS)
    assert len(errors.rows()) == len(SOURCE) and errors.rows()[0]["line"] == errors.sentences[0].line
    assert [row["model"] for row in attention.rows()] == ["free", "bound"]
    assert len(length.rows()) == 2 * 2 * 8  # systems, metrics, buckets and the whole text
    (maps,) = attention.maps
    assert set(attention.figures()) == {
        "entropy",
        "coverage",
        f"maps-{maps.line}",
        f"difference-{maps.line}",
    }
    for result in (errors, attention, length):
        assert "<table>" in result._repr_html_() and result.plot().svg.startswith("<?xml")
        assert repr(result).startswith(f"{type(result).__name__}(") and len(repr(result)) < 200
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.schema_version = 2  # pyright: ignore[reportAttributeAccessIssue]
    assert "REP" in repr(errors) and "entropy" in repr(attention) and "BLEU" in repr(length)
