"""`regard.check` and `regard.corrupt` on the phrasebook, and on input that is no ordinary translation."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

import pytest

import regard
from quick_coverage import phrasebook_model, train_quickly
from regard.errors import DataError, PluginError, UsageError
from regard.extensions.check.base import Detector, PairScores, SentenceError, WordPair
from regard.extensions.check.corruptions import CORRUPTIONS
from regard.extensions.phrasebook.corpus import generate
from regard.text.words import split_line


def phrases(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Return German sentences and their translations."""
    made = list(islice(generate(seed), count))
    return [" ".join(one.source) for one in made], [" ".join(one.target) for one in made]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> regard.CoverageModel:
    return regard.CoverageModel.load(phrasebook_model(tmp_path_factory))


@pytest.fixture(scope="module")
def damaged(model) -> regard.CorruptedText:
    return regard.corrupt(*phrases(200, 2), checker=model)


@pytest.mark.parametrize(
    ("detector", "error", "least"),
    [
        *(("combined", error, 0.9) for error in ("omission", "addition", "unrelated")),
        ("combined", "repetition", 0.95),
        ("length", "omission", 0.6),
        ("repetition", "repetition", 0.9),
    ],
)
def test_detectors_find_synthetic_errors(model, damaged, detector, error, least) -> None:
    found = regard.check(damaged.sources, damaged.translations, detector, checker=model, num_threads=1)
    assert found.evaluate(damaged.labels, num_bootstrap_samples=10).scores[error]["auroc"].value > least


def test_most_good_sentences_have_no_probable_error(model) -> None:
    found = regard.check(*phrases(200, 5), checker=model, num_threads=1)
    assert found.count("omission") < 20 and found.count("addition") < 20


def test_spans_show_words_in_the_raw_text(model) -> None:
    found = regard.check(["Ein  Hund, schläft."], ["A dog is sleeping."], checker=model, num_threads=1)
    (one,) = found.sentences
    assert [one.source[a:b] for a, b in one.source_words] == ["Ein", "Hund", ",", "schläft", "."]
    assert len(one.omitted) == 5 and one.to_data()["source_words"][1] == [5, 9]
    assert found.rows()[0]["translation"] == "A dog is sleeping."


def test_copied_source_is_untranslated(model) -> None:
    text = ["Die Frau liest ein Buch auf der Bank.", "Bayern München"]
    found = regard.check(text, text, checker=model, num_threads=1)
    copy, names = found.sentences
    assert copy.note == "copied" and copy.probabilities["omission"] >= 0.9 and copy.omitted.min() >= 0.9
    # Names are translated by copying them.
    assert names.note is None
    assert found.notes == ("line 1: the translation is a copy of the source, probably untranslated",)


def test_another_language_has_a_note(model) -> None:
    sources, translations = phrases(3, 6)
    other = ["Le chien dort sous la table verte.", *translations[1:]]
    first, second, _ = regard.check(sources, other, checker=model, num_threads=1).sentences
    assert first.note == "unknown_translation"
    assert second.note is None
    swapped = regard.check(translations, sources, checker=model, num_threads=1)
    assert all(one.note == "unknown_source" for one in swapped.sentences)
    assert "are the files swapped?" in swapped.notes[0]


def test_long_lists_of_lines_are_cut() -> None:
    found = regard.check(["ein Hund"] * 20, [""] * 20, "length")
    assert found.notes == ("lines 1, 2, 3, 4, 5, 6, 7, 8 and 12 more: the translation is empty",)


def test_detectors_without_a_model_work_without_training_text() -> None:
    found = regard.check(["Ein Hund schläft"], ["A dog dog sleeps"], "repetition")
    assert found.sentences[0].repeated.argmax() == 2 and found.count("repetition") == 1
    # With so few sentences, the usual length is that of the scripts.
    found = regard.check(["Zwei Hunde schlafen unter dem Tisch."], ["Dogs."], "length")
    assert found.count("omission") == 1
    chinese = regard.check(["两只狗在桌子下面睡觉。"], ["Two dogs are sleeping under the table."], "length")
    assert chinese.count("omission") == chinese.count("addition") == 0
    assert len(regard.check([], [], "length")) == 0
    # Untranslated segments do not change the usual length.
    sources, translations = phrases(100, 2)
    checks = (
        regard.check(sources + ["ein Hund"] * empty, translations + [""] * empty, "length")
        for empty in (0, 50)
    )
    first, second = ([one.probabilities for one in check.sentences[:100]] for check in checks)
    assert first == second


@pytest.mark.parametrize(
    ("sides", "options", "error", "message"),
    [
        ("a a", {"detector": "combined"}, UsageError, "--train SOURCE TARGET or --checker DIR"),
        ("a a", {"detector": "magic", "training": "aa"}, UsageError, "detector 'magic': expected one of"),
        ("ab a", {"detector": "length"}, DataError, "sources has 2 lines but translations has 1: parallel"),
        ("a a", {"training": ("a", "ab")}, DataError, "training sources has 1 lines but training translat"),
        ("a a", {"training": ("ab", "ab")}, DataError, "training text has 2 sentence pairs; at least 100"),
        ("a a", {"training": "aa", "checker": "x"}, UsageError, "only one of --checker"),
        ("a a", {"save_checker": "x"}, UsageError, r"\(--save-checker\) needs training"),
        ("a a", {"checker": "missing"}, DataError, r"checker\.json"),
    ],
)
def test_wrong_and_missing_inputs_are_named(sides, options, error, message) -> None:
    sources, translations = map(list, sides.split())
    if "training" in options:
        options = {**options, "training": tuple(map(list, options["training"]))}
    with pytest.raises(error, match=message):
        regard.check(sources, translations, **options)


def test_wrong_inputs_of_corruptions_are_named() -> None:
    with pytest.raises(DataError, match="sources has 1 lines but translations has 2"):
        regard.corrupt(["a"], ["b", "c"])
    with pytest.raises(UsageError, match="got 'typo'"):
        regard.corrupt(["a"], ["b"], "typo")


@pytest.mark.parametrize("detector", ["combined", "repetition"])
def test_long_pairs_are_not_checked_and_have_a_note(model, damaged, detector) -> None:
    sources, translations = list(damaged.sources[:30]), list(damaged.translations[:30])
    expected = regard.check(sources, translations, detector, checker=model)
    long = "ein Hund " * 600
    sources = [sources[0], long, *sources[1:], long, sources[0]]
    translations = [translations[0], long, *translations[1:], translations[0], long]
    found = regard.check(sources, translations, detector, checker=model)
    others = [one for one in found.sentences if one.note != "too_long"]
    unchecked = [one for one in found.sentences if one.note == "too_long"]
    assert [one.line for one in unchecked] == [2, 32, 33]
    assert {value for one in unchecked for value in one.probabilities.values()} == {0.0}
    for one, other in zip(others, expected.sentences, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    assert found.notes[0].startswith("lines 2, 32, 33: a side has more than 1,000 words")


@pytest.mark.slow
def test_long_training_pairs_are_ignored(caplog, monkeypatch) -> None:
    train_quickly(monkeypatch, 300)
    sources, translations = ([*side, "ein Hund " * 600, "ein Hund " * 600] for side in phrases(200, 1))
    with caplog.at_level("WARNING"):
        trained = regard.CoverageModel.train(sources, translations, num_threads=1)
    assert caplog.records[0].getMessage().startswith("2 of 202 training pairs have a side of more than 1000")
    assert regard.check(sources[-1:], translations[-1:], checker=trained).sentences[0].note == "too_long"


def test_result_is_a_table_and_json(model, damaged) -> None:
    found = regard.check(damaged.sources, damaged.translations, checker=model, num_threads=1)
    assert tuple(found.to_dict()["counts"]) == get_args(SentenceError)
    assert list(found.to_pandas()["line"]) == list(range(1, len(damaged) + 1))
    # The order is that of the percentages that are shown.
    percentages = [math.floor(100 * round(one.worst, 4) + 0.5) for one in (*found.worst(1), *found.sentences)]
    assert percentages[0] == max(percentages)


def test_text_of_any_size_is_checked_block_by_block(model, damaged) -> None:
    pairs = list(zip(damaged.sources, damaged.translations, strict=True))
    streamed = list(islice(model.check_pairs(cycle(pairs)), len(pairs) + 1))
    expected = regard.check(damaged.sources, damaged.translations, checker=model).sentences
    assert [one.line for one in streamed] == list(range(1, len(pairs) + 2))
    for one, other in zip(streamed, [*expected, expected[0]], strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


@pytest.mark.slow
def test_pickled_checker_gives_the_same_result_in_another_process(model, damaged) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(model.judge, damaged.sources[:20], damaged.translations[:20]).result()
    here = model.judge(damaged.sources[:20], damaged.translations[:20])
    # The libraries round sums differently, depending on the addresses of arrays.
    assert [each.omitted for each in there] == [pytest.approx(each.omitted, abs=1e-6) for each in here]
    assert [each.errors for each in there] == pytest.approx([each.errors for each in here], abs=1e-6)


class OddDetector(Detector):
    """Finds additions in translations with an odd number of words."""

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        return [PairScores({"addition": float(len(pair.target) % 2)}) for pair in pairs]


def test_detector_of_a_plugin_is_used_by_name() -> None:
    regard.register_detector("odd")(OddDetector)
    found = regard.check(["a", "b"], ["one", "two words"], "odd")
    assert [one.probabilities["addition"] for one in found.sentences] == [1.0, 0.0]
    assert found.sentences[0].added.tolist() == []
    with pytest.raises(PluginError, match="is not a subclass of"):
        regard.register_detector("odder")(dict)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_labels_of_corrupted_text_show_the_change(model, kind) -> None:
    sources, translations = phrases(60, 7)
    raw = [f"{line[:1].upper()}{line[1:]} (or so)." for line in translations]
    made = regard.corrupt(sources, raw, kind, rate=1.0, checker=model)
    assert set(made.kinds) <= {kind, None} and made.kinds.count(kind) > 10
    for before, after, labels, own in zip(raw, made.translations, made.labels, made.kinds, strict=True):
        if own is None:
            assert after == before and not any(labels.errors.values())
            continue
        if kind in ("unrelated", "replacement"):
            # Such a translation is wrong rather than incomplete: omissions and additions have no labels.
            assert labels.errors == {"repetition": False, "unrelated": kind == "unrelated"}
            continue
        new = [span for error in ("addition", "repetition") for span in labels.spans[error]]
        if kind in ("insertion", "repetition"):
            (span,) = new
            # Without the new words, the words are those of the original.
            assert split_line(after[: span[0]] + " " + after[span[1] :]) == split_line(before)
        assert bool(labels.spans["omission"]) == (kind in ("deletion", "truncation"))
        assert not labels.errors["unrelated"]
        if kind == "truncation":
            assert after.endswith((" so).", " or).", ".")) and len(after) < len(before)
            assert before.startswith(after[: len(after) // 2])


def test_corrupted_text_depends_on_the_seed_only(model) -> None:
    texts = phrases(50, 8)
    first, again, other = (regard.corrupt(*texts, checker=model, seed=seed) for seed in (1, 1, 2))
    assert first.to_dict() == again.to_dict() and other.translations != first.translations


def test_the_next_check_with_the_same_training_files_loads_the_checker(model, tmp_path, monkeypatch) -> None:
    trained, messages = [], []
    monkeypatch.setattr(regard.CoverageModel, "train", lambda *texts, **_: trained.append(texts) or model)

    def check(text: str, cache: Path | str) -> regard.CoverageCheck:
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        (tmp_path / "text").write_text(text)
        training = tmp_path / "text", tmp_path / "text"
        return regard.check(["ein Hund"], ["a dog"], training=training, on_message=messages.append)

    first, second = (check("a\n", tmp_path / "cache").sentences[0] for _ in range(2))
    assert first.probabilities == second.probabilities and len(trained) == 1
    assert messages[-1].startswith(f"loaded the checker of this training text from {tmp_path / 'cache'}")
    check("b\n", tmp_path / "cache")
    check("b\n", Path(os.devnull))
    assert len(trained) == 3 and ", but not saved: " in messages[-1]

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    check("b\n", "")
    assert len(trained) == 4 and messages[-1].endswith(" s")
