"""Checks with a multilingual encoder: `regard check --encoder`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

import regard
from quick_coverage import train_quickly
from regard.errors import UsageError
from regard.extensions.check.base import WordPair, build_detector
from regard.extensions.check.model import ErrorModel

VOCABULARY = 60


class Lexicon:
    """An encoder that gives the words with a number the same vector in all languages."""

    vectors = np.random.default_rng(1).normal(size=(VOCABULARY, 32))

    def embed(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        tables = [self.vectors[[int(word[1:]) for word in words]] for words in sentences]
        texts = [table.sum(axis=0) for table in tables]
        words, texts = np.concatenate(tables), np.stack(texts)
        units = [
            each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-9) for each in (words, texts)
        ]
        return units[0], units[1]


def parallel(languages: str, count: int, seed: int) -> list[WordPair]:
    """Return sentences in which the words of two languages differ by their first letter."""
    generator = np.random.default_rng(seed)
    lines = [generator.integers(VOCABULARY, size=generator.integers(5, 12)) for _ in range(count)]
    return [WordPair(*(tuple(f"{side}{number}" for number in line) for side in languages)) for line in lines]


def damaged(pairs: list[WordPair]) -> list[WordPair]:
    """Return the pairs, of which the first lacks three words and the second is a wrong pair."""
    short = WordPair(pairs[0].source, pairs[0].target[:1] + pairs[0].target[4:])
    return [short, WordPair(pairs[1].source, pairs[2].target), *pairs[2:]]


def test_classifiers_of_a_language_pair_find_the_errors_of_another(monkeypatch) -> None:
    train_quickly(monkeypatch)
    model = ErrorModel.train(parallel("ab", 300, 1), 1, Lexicon())
    assert model.is_multilingual
    scores = build_detector("combined", model, 1).detect(damaged(parallel("cd", 40, 2)))
    omissions = [score.sentence["omission"] for score in scores]
    assert omissions[0] > 0.5 > max(omissions[2:])
    assert set(np.argsort(-scores[0].words["omission"])[:3]) == {1, 2, 3}
    unrelated = [score.sentence["unrelated"] for score in scores]
    assert unrelated[1] > 0.5 > max(unrelated[2:])


def test_without_a_model_an_encoder_finds_unrelated_translations() -> None:
    detector = build_detector("rules", num_threads=1)
    detector.encoder = Lexicon()
    pairs = damaged(parallel("ab", 40, 3))
    unrelated = [score.sentence["unrelated"] for score in detector.detect(pairs)]
    assert unrelated[1] > 0.5 > max(unrelated[2:])
    # A pair with an empty side is not unrelated, and does not change the usual similarity.
    empty = [WordPair((), ()), WordPair(pairs[0].source, ()), WordPair((), pairs[0].target)]
    detector = build_detector("rules", num_threads=1)
    detector.encoder = Lexicon()
    with_empty = [score.sentence["unrelated"] for score in detector.detect(empty * 40 + pairs)]
    assert with_empty == [0.0] * 120 + unrelated
    # The usual similarities are those of the first block of a text.
    assert "unrelated" in detector.detect(pairs[:3])[0].sentence
    few = build_detector("rules", num_threads=1)
    few.encoder = detector.encoder
    assert "unrelated" not in few.detect(pairs[:19])[0].sentence


def test_a_saved_checker_needs_its_encoder(tmp_path: Path, monkeypatch) -> None:
    train_quickly(monkeypatch)
    torch.manual_seed(1)
    for name in ("encoder", "other"):
        tiny.bert(tmp_path / name)
    sources, targets = tiny.TEXT[::2] * 40, tiny.TEXT[1::2] * 40
    checker = tmp_path / "checker"
    options = {"encoder": tmp_path / "encoder", "num_threads": 1}
    texts = sources[:30], targets[:30]
    first = regard.check(*texts, training=(sources, targets), save_checker=checker, **options)
    second = regard.check(*texts, checker=checker, **options)
    assert first.detector == "combined"
    assert {path.name for path in checker.iterdir()} == {"checker.json", "checker.safetensors"}
    for before, after in zip(first.sentences, second.sentences, strict=True):
        assert before.probabilities == pytest.approx(after.probabilities, abs=1e-4)
        np.testing.assert_allclose(before.omitted, after.omitted, atol=1e-4)
    with pytest.raises(UsageError, match=r"trained with an encoder.*--encoder DIR"):
        regard.check(*texts, checker=checker)
    with pytest.raises(UsageError, match="not trained with the encoder"):
        regard.check(*texts, checker=checker, encoder=tmp_path / "other")
    rules = regard.check(*texts, **options)
    assert rules.detector == "rules" and "unrelated" in rules.errors
    corrupted = regard.corrupt(*texts, checker=regard.CoverageModel.load(checker, 1, tmp_path / "encoder"))
    assert len(corrupted) == 30
