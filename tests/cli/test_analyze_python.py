"""Tests of `regard.analyze`: its results and errors."""

import dataclasses

import pytest
from command_runs import GOLD, REFERENCE, SOURCE

import regard
from regard.analysis.attention import AttentionOptions
from regard.analysis.errors import ErrorAnalysis
from regard.analysis.length import LengthOptions
from regard.api.alignment import Aligner
from regard.errors import DataError, UsageError

SETTINGS = {"num_threads": 1, "device": "cpu"}


def test_loaded_models_and_lists_give_the_results_of_files(models, aligner, files):
    texts, lists = (files / "in.txt", files / "ref.txt"), (SOURCE, REFERENCE)
    loaded = [regard.load(model, device="cpu") for model in models]
    attention = AttentionOptions(files / "gold.talp", [4], prior=True, bin_width=0.5)
    length = LengthOptions(aligner, bucket_width=3, lowercase=True)
    given = Aligner.load(aligner, num_threads=1)
    results = [
        (
            regard.analyze.errors(models[0], *texts, aligner=aligner, **SETTINGS),
            regard.analyze.errors(loaded[0], *lists, aligner=given),
        ),
        (
            regard.analyze.attention(models, *texts, options=attention, **SETTINGS),
            regard.analyze.attention(loaded, *lists, options=dataclasses.replace(attention, gold_links=GOLD)),
        ),
        (
            regard.analyze.length(models, *texts, options=length, **SETTINGS),
            regard.analyze.length(loaded, *lists, options=length),
        ),
    ]
    for from_files, from_lists in results:
        expected = from_files.to_dict()
        unnamed = {name: None for name in ("source", "reference", "gold_links") if name in expected}
        unnamed |= {"aligner": None} if isinstance(from_files, ErrorAnalysis) else {}
        assert from_lists.to_dict() == expected | unnamed


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
