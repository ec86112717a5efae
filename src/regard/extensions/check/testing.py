"""The laws of the interface of detectors, for detectors that plugins add: `check_detector`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.extensions.check.base import DetectionInput, Detector, PairScores, build_detector
from regard.extensions.check.text import WordPair, split_pairs

__all__ = ["check_detector"]

_DETECTION_TEXT = (
    ("Ein Hund läuft durch den Park .", "A dog runs through the park ."),
    ("Zwei Kinder spielen .", "Two children play play ."),
    ("Ein Mann liest eine Zeitung .", ""),
    ("", "A woman ."),
    ("Ja", "Yes"),
)


def check_detector(name: str, inputs: DetectionInput | None = None) -> None:
    """Check that a detector of coverage errors follows its interface (`regard.extensions.check.base`).

    The laws: one result per pair, also for empty sides; the same errors for all pairs; finite scores; one
    score per word of the side of an error; equal inputs give equal scores; a pair alone has the scores that
    it has in a text.

    Args:
        name: Name of the registered detector.
        inputs: Its inputs, such as a coverage model or translators. Default: none.

    Raises:
        AssertionError: if a law does not hold; names it.
        UsageError: if there is no such detector, or an input that it needs is missing.
    """
    detector = build_detector(name, inputs or DetectionInput())
    try:
        _check_laws(detector, lambda: build_detector(name, inputs or DetectionInput()))
    except Exception as error:  # the code of a detector may raise anything
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        raise AssertionError(f"{name}: {kind}{error}") from error


def _check_laws(detector: Detector, build: Callable[[], Detector]) -> None:
    pairs = split_pairs(*zip(*_DETECTION_TEXT, strict=True))
    results = detector.detect(pairs)
    if len(results) != len(pairs):
        raise AssertionError(f"{len(pairs)} pairs have {len(results)} results: expected one each")
    for pair, scores in zip(pairs, results, strict=True):
        _check_pair_scores(pair, scores, set(results[0].sentence))
    again = detector.detect(pairs)
    alone = [build().detect([pair])[0] for pair in pairs]
    for law, others in (("equal inputs", again), ("a pair alone equals a pair in a text", alone)):
        for expected, scores in zip(results, others, strict=True):
            _check_equal_scores(law, expected, scores)


def _check_pair_scores(pair: WordPair, scores: PairScores, errors: set[str]) -> None:
    """Check the errors and the shapes of the scores of a pair."""
    if set(scores.sentence) != errors:
        raise AssertionError(f"the errors of {pair} are {set(scores.sentence)}, those of the first {errors}")
    for error, values in scores.words.items():
        words = pair.source if error == "omission" else pair.target
        if np.shape(values) != (len(words),):
            raise AssertionError(f"{error} of {pair}: shape {np.shape(values)}, expected {(len(words),)}")
        if error not in errors:
            raise AssertionError(f"{error}: words have scores, but the sentence has none")
    for values in (*scores.words.values(), *scores.sentence.values()):
        if not np.isfinite(values).all():
            raise AssertionError(f"{pair}: scores are not finite")


def _check_equal_scores(law: str, expected: PairScores, scores: PairScores) -> None:
    for error, value in expected.sentence.items():
        _check_close(f"{law}: {error}", scores.sentence[error], value)
    for error, values in expected.words.items():
        _check_close(f"{law}: {error}", scores.words[error], values)


def _check_close(law: str, actual: Any, expected: Any) -> None:
    if np.shape(actual) != np.shape(expected) or not np.allclose(actual, expected, rtol=1e-4, atol=1e-4):
        raise AssertionError(f"{law}: {actual} differs from {expected}")
