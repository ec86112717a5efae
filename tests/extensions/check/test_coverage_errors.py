"""Detection of coverage errors: exact synthetic labels, edge cases, and known errors in the phrasebook."""

import json
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from quick_coverage import phrasebook_model, train_quickly
from regard.errors import DataError
from regard.extensions.check.base import WordPair, build_detector, split_pairs
from regard.extensions.check.classifiers import LogisticRegression
from regard.extensions.check.corruptions import (
    CORRUPTIONS,
    CorruptionConfig,
    corrupt_pairs,
    with_unknown_words,
)
from regard.extensions.check.features import _repetitions, best_runs
from regard.extensions.check.model import ErrorModel, num_held_out
from regard.extensions.check.model_files import load_coverage_model, save_coverage_model
from regard.extensions.check.surface import doubled_words, longest_repetitions
from regard.extensions.phrasebook.corpus import generate
from regard.text.reading import compute_checksums
from regard.text.words import is_word


def phrases(count: int, seed: int) -> tuple[list[WordPair], list[frozenset[tuple[int, int]]]]:
    """Return pairs of the phrasebook and their gold links."""
    made = list(islice(generate(seed), count))
    return [WordPair(tuple(one.source), tuple(one.target)) for one in made], [one.links for one in made]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ErrorModel:
    return load_coverage_model(phrasebook_model(tmp_path_factory))


def test_an_unrelated_translation_is_no_omission(model) -> None:
    size = len(model.unrelated.weights)
    pairs = phrases(20, 4)[0]
    likely, never = (
        replace(model, unrelated=LogisticRegression(np.zeros(size), bias)).scores(pairs, 1)
        for bias in (3.0, -30.0)
    )
    for scores, others in zip(likely, never, strict=True):
        related = 1 - scores.sentence["unrelated"]
        assert related < 0.1 and others.sentence["unrelated"] < 0.1
        assert scores.sentence["repetition"] == others.sentence["repetition"]
        for error in ("omission", "addition"):
            assert scores.sentence[error] == pytest.approx(others.sentence[error] * related)
            assert scores.words[error] == pytest.approx(others.words[error] * related)


def test_an_empty_translation_omits_everything(model) -> None:
    (empty,) = model.scores([WordPair(("ein", "Hund"), ())], 1)
    assert {error for error, value in empty.sentence.items() if value} == {"omission"}
    assert empty.words["omission"].tolist() == [1.0, 1.0]
    assert model.scores([]) == []


def test_saved_model_gives_equal_scores_and_damage_is_named(model, tmp_path) -> None:
    pairs = phrases(10, 5)[0]
    save_coverage_model(model, tmp_path / "checker")
    loaded = load_coverage_model(tmp_path / "checker")
    ours, theirs = (one.scores(pairs, 1) for one in (model, loaded))
    assert [one.sentence for one in ours] == [one.sentence for one in theirs]
    assert loaded.critical.negations == model.critical.negations
    assert np.array_equal(loaded.critical.classes, model.critical.classes)
    assert loaded.critical.frequencies == tuple(map(dict, model.critical.frequencies))
    assert loaded.critical.losses == model.critical.losses
    path = tmp_path / "checker" / "checker.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    for wrong, message in (
        (description | {"format": 1}, "format 1, expected 6: train the model again"),
        ({}, r"checker\.json: not the description of a coverage model"),
        (
            description | {"contexts": {"no dog": [-10, 0]}},
            "contexts.no dog.0: .* greater than or equal to 0",
        ),
        (description | {"contexts": {"no dog": [np.nan, 0]}}, "contexts.no dog.0: .* finite"),
    ):
        path.write_text(json.dumps(wrong), encoding="utf-8")
        with pytest.raises(DataError, match=message):
            load_coverage_model(tmp_path / "checker")


def with_value(value):
    """Return a function that replaces the first value of a tensor."""
    return lambda tensor: torch.cat([tensor.new_tensor([value]), tensor.flatten()[1:]]).reshape(tensor.shape)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        *(
            ("words.source/means", lambda tensor, kind=kind: tensor.to(kind), "means: dtype ")
            for kind in (torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.float32, torch.complex64)
        ),
        ("stems.links/keys", lambda tensor: tensor.flip(0), "not in ascending order"),
        ("stems.links/keys", lambda tensor: tensor[:-1], "not in ascending order, or"),
        ("stems.links/keys", with_value(-1), "values from -1"),
        ("words.links/counts", with_value(-1), "values from -1"),
        ("words.target/occurrences", lambda tensor: tensor[:0], r"shape \(0,\), expected"),
        ("words.target/unknown", with_value(np.nan), "values from nan"),
        ("stems.source/deviations", with_value(-0.05), "values from -0.05"),
        ("regressions/omission", lambda tensor: tensor[:1], r"shape \(1,\), expected"),
        ("regressions/unrelated", with_value(np.nan), "values from nan"),
        ("length/values", with_value(1e300), "values from"),
        ("length/values", lambda tensor: -tensor, "values from"),
        ("tagger.omission/center", with_value(np.inf), "values from .* to inf"),
        ("tagger.omission/scale", with_value(0), "values from 0.0"),
        ("tagger.addition/near.weight", with_value(1e38), "values from"),
        ("tagger.addition/near.weight", lambda tensor: tensor[None], "shape"),
        ("tagger.addition/near.weight", lambda tensor: None, "missing"),
    ],
)
def test_arrays_of_another_form_are_named_although_the_checksum_is_right(
    model, tmp_path, name, change, reason
) -> None:
    save_coverage_model(model, tmp_path / "checker")
    file = tmp_path / "checker" / "checker.safetensors"
    tensors = load_file(file)
    changed = {**tensors, name: change(tensors[name])}
    seal(file, {key: value for key, value in changed.items() if value is not None})
    with pytest.raises(DataError, match=f"checker.safetensors: .*{reason}"):
        load_coverage_model(tmp_path / "checker")
    seal(file, {**tensors, f"{name}2": torch.zeros(1)})
    with pytest.raises(DataError, match=f"{name}2: unknown"):
        load_coverage_model(tmp_path / "checker")


def seal(file, tensors) -> None:
    """Write the tensors of a checker and their checksum."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    description = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    description["sha256"] = compute_checksums(file.parent, [file.name])
    file.with_suffix(".json").write_text(json.dumps(description), encoding="utf-8")


@pytest.mark.parametrize(
    ("num_pairs", "size"),
    # At least 50 pairs, a third of a small text, and not more of a large one than is needed.
    [(100, 50), (900, 300), (3_000, 600), (10_000, 1_500), (1_000_000, 6_000)],
)
def test_pairs_are_held_out(num_pairs, size) -> None:
    assert num_held_out(num_pairs) == size


@pytest.mark.parametrize("name", ["combined", "repetition"])
def test_detectors_follow_their_interface(model, name) -> None:
    texts = ["Ein Hund läuft .", "Zwei Kinder spielen .", "Ein Mann", "", "Ja", ""]
    translations = ["A dog runs .", "Two children play play .", "", "A woman .", "Yes", ""]
    pairs, detector = split_pairs(texts, translations), build_detector(name, model)
    results = detector.detect(pairs)
    for pair, scores in zip(pairs, results, strict=True):
        assert set(scores.words) <= set(scores.sentence) == set(results[0].sentence)
        assert all(0 <= value <= 1 for value in scores.sentence.values())
        for error, words in scores.words.items():
            assert words.shape == (len(pair.source if error == "omission" else pair.target),)
            assert ((words >= 0) & (words <= 1)).all()
        (alone,) = detector.detect([pair])
        assert alone.sentence == pytest.approx(scores.sentence, abs=1e-4)
        assert all(
            alone.words[error] == pytest.approx(scores.words[error], abs=1e-4) for error in scores.words
        )


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_labels_of_synthetic_errors_are_exact(kind) -> None:
    pairs, links = phrases(200, 7)
    corrupted = corrupt_pairs(pairs, links, CorruptionConfig(kinds=(kind,), rate=1.0))
    for pair, own, made in zip(pairs, links, corrupted, strict=True):
        assert made.pair.source == pair.source
        if made.kind is None:
            assert made.pair == pair and not made.omitted | made.added | made.repeated
        elif kind in ("deletion", "truncation"):
            lost = Counter(pair.target) - Counter(made.pair.target)
            assert sum(lost.values()) == len(pair.target) - len(made.pair.target) > 0
            linked = {word for i in made.omitted for word in (pair.target[j] for k, j in own if k == i)}
            assert made.omitted and linked <= set(lost)
        elif kind == "replacement":
            assert made.omitted and sorted(made.added) == list(range(min(made.added), max(made.added) + 1))
            rest = [word for j, word in enumerate(made.pair.target) if j not in made.added]
            assert len(rest) < len(pair.target) and not Counter(rest) - Counter(pair.target)
        elif kind in ("insertion", "repetition"):
            extra = made.added | made.repeated
            kept = tuple(word for j, word in enumerate(made.pair.target) if j not in extra)
            assert extra and kept == pair.target
        else:
            assert made.pair.target != pair.target and made.added == frozenset(range(len(made.pair.target)))


def test_unknown_words_change_neither_labels_nor_lengths() -> None:
    examples = corrupt_pairs(*phrases(500, 5), CorruptionConfig(seed=2))
    changed = with_unknown_words(examples, 0.5, 0.2, 7)
    assert changed == with_unknown_words(examples, 0.5, 0.2, 7) != with_unknown_words(examples, 0.5, 0.2, 8)
    known = {word for one in examples for side in (one.pair.source, one.pair.target) for word in side}
    counts, unknown = Counter(), {"source": set(), "target": set()}
    for old, new in zip(examples, changed, strict=True):
        assert replace(new, pair=old.pair) == old
        for side in ("source", "target"):
            for before, after in zip(getattr(old.pair, side), getattr(new.pair, side), strict=True):
                counts["words"] += 1
                if after != before:
                    assert len(after) == len(before) and is_word(before) and is_word(after)
                    assert after not in known
                    counts["unknown"] += 1
                    unknown[side].add(after)
    # An unknown word must not be the copy of one of the other side.
    assert unknown["source"] and unknown["target"] and not unknown["source"] & unknown["target"]
    assert 0.05 < counts["unknown"] / counts["words"] < 0.15
    assert 0.3 < np.mean([old == new for old, new in zip(examples, changed, strict=True)]) < 0.7


def test_logistic_regression_solves_its_optimality_condition() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(500, 3)) * [1, 10, 0.1]
    labels = generator.random(500) < 1 / (1 + np.exp(-(features @ [1.0, -0.2, 5.0] + 0.3)))
    fitted = LogisticRegression.fit(features, labels)
    # The gradient of the penalized likelihood vanishes in each standardized direction.
    scaled = (features - features.mean(0)) / features.std(0)
    residual = fitted.probabilities(features) - labels
    assert scaled.T @ residual + fitted.weights * features.std(0) == pytest.approx(np.zeros(3), abs=1e-5)
    assert residual.sum() == pytest.approx(0, abs=0.01)


def test_an_example_of_weight_three_counts_as_three() -> None:
    generator = np.random.default_rng(1)
    features, labels = generator.normal(size=(200, 2)), generator.random(200) < 0.3
    weights = generator.integers(1, 4, size=200)
    weighted = LogisticRegression.fit(features, labels, weights.astype(float))
    repeated = LogisticRegression.fit(np.repeat(features, weights, axis=0), np.repeat(labels, weights))
    assert weighted.weights == pytest.approx(repeated.weights)
    assert weighted.bias == pytest.approx(repeated.bias)


@pytest.mark.slow
def test_pairs_for_calibration_change_nothing_else(monkeypatch) -> None:
    train_quickly(monkeypatch)
    pairs, others = (phrases(200, seed)[0] for seed in (1, 2))
    # The order in which `ErrorModel.train` holds pairs out; the second half of them is for calibration.
    _, rows = np.array_split(np.random.default_rng(1).permutation(200)[: num_held_out(200)], 2)
    mixed = [others[row] if row in rows else pair for row, pair in enumerate(pairs)]
    first, second = (ErrorModel.train(text, num_threads=1) for text in (pairs, mixed))
    for links, other in zip(first.links, second.links, strict=True):
        for norms, changed in zip(links.norms, other.norms, strict=True):
            np.testing.assert_array_equal(norms.means, changed.means)
    for error, tagger in first.taggers.items():
        for name, array in tagger.parameters.items():
            np.testing.assert_array_equal(array, second.taggers[error].parameters[name])
    assert first.sentences["omission"].bias != second.sentences["omission"].bias


@given(st.lists(st.floats(-10, 10), max_size=12))
def test_best_runs_equal_enumeration(values) -> None:
    sums = [sum(values[i:j]) for i in range(len(values)) for j in range(i + 1, len(values) + 1)]
    offsets = np.array([0, len(values), len(values)])
    assert best_runs(np.array(values), offsets) == pytest.approx([max([0.0, *sums]), 0.0], abs=1e-9)


def test_what_the_source_repeats_and_words_that_are_usually_doubled_are_no_repetitions() -> None:
    source, words = ("sore", "mouth", "and", "sore", "mouth"), ("wunder", "mund", "und", "wunder", "mund")
    assert longest_repetitions(("die", "die"), frozenset({"die"})) == [(0.0, 0)] * 2
    assert longest_repetitions(("die",) * 3, frozenset({"die"}))[1:] == [(1.0, 1)] * 2
    assert longest_repetitions(("1", "(", "1", "(")) == [(0.0, 0)] * 4
    diagonal = np.eye(5, dtype=np.float32)
    assert _repetitions(source, words, diagonal, frozenset())[:, 0].max() == 0
    assert _repetitions(("sore", "mouth", "hurts"), words, diagonal[:3], frozenset())[:, 0].max() > 0
    # Without links, the source itself shows that a repeated word is correct.
    calls, nothing = ("halt", ",", "halt"), np.zeros((3, 3), np.float32)
    assert _repetitions(("stop", ",", "stop"), calls, nothing, frozenset())[:, 0].max() == 0
    assert _repetitions(("stop", ",", "now"), calls, nothing, frozenset())[:, 0].max() > 0
    training = [WordPair(("x",), ("die", "Die", "Tür"))] * 3 + [WordPair(("x",), ("das", "das"))] * 2
    assert doubled_words(training) == {"die"}


def repetition(target: str) -> float:
    (scores,) = build_detector("repetition").detect(split_pairs(["x y z"], [target]))
    return scores.sentence["repetition"]


@pytest.mark.parametrize(
    "target",
    [
        *("谢谢", "妈妈和爸爸", "いい", "いろいろな人", "กรรม", "မြန်မြန်", "天天向上"),
        *("मेरे मामा रोटी खाते हैं", "वह धीरे धीरे चलता है", "বার বার", "آہستہ آہستہ", "천천히 천천히 가"),
    ],
)
def test_doubled_characters_and_reduplicated_words_are_no_repetitions(target: str) -> None:
    assert repetition(target) < 0.1


@pytest.mark.parametrize(
    "target",
    [
        *("the the", "Ma\u0308dchen M\u00e4dchen", "धीरे धीरे धीरे", "मेरा नाम मेरा नाम"),
        *("我们的我们的", "哈哈哈哈", "ธรรมธรรมธรรม"),
    ],
)
def test_further_copies_and_copied_phrases_are_repetitions(target: str) -> None:
    assert repetition(target) == 0.9


def test_encoding_of_letters_does_not_change_a_check(model) -> None:
    sources = ["Das Mädchen schläft .", "Später fährt sie nach Köln ."]
    targets = ["The girl sleeps .", "Später fährt sie ."]

    def scores(change) -> list:
        pairs = split_pairs(map(change, sources), map(change, targets))
        return [one.sentence for one in model.scores(pairs)]

    plain = scores(str)
    assert scores(lambda line: unicodedata.normalize("NFD", line)) == plain
    assert scores(lambda line: line.replace("ä", "\u00adä")) == plain
