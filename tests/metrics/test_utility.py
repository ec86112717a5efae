"""Tests of utilities for MBR decoding and of the rewards of prefixes against their definitions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.metrics.utility import prefix_bleu, utilities

SENTENCES = [
    "The cat sat on the mat .",
    "A cat sat on the mat.",
    "the the the the cat cat",
    "the cat sat on the mat, on the mat, on the mat.",
    "Cat",
    "ct",
    "",
    "Größe: 3,5 m (ca. 10 Fuß)!",
    "The cat sat on the mat .",
]
METRICS = {"bleu": BLEU(effective_order=True), "chrf": CHRF()}
texts = st.lists(st.text("ab .,'", max_size=24), min_size=1, max_size=5)


def sacrebleu(name: str, sentences: list[str]) -> np.ndarray:
    score = METRICS[name].sentence_score
    return np.array([[score(output, [reference]).score for reference in sentences] for output in sentences])


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_bleu_and_chrf_match_sacrebleu_sentence_scores(name):
    found = utilities(name, SENTENCES)
    np.testing.assert_allclose(found, sacrebleu(name, SENTENCES), rtol=1e-12, atol=1e-12)
    assert found[0, 0] == pytest.approx(100)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@settings(max_examples=60)
@given(sentences=texts)
def test_bleu_and_chrf_match_sacrebleu_for_random_sentences(name, sentences):
    np.testing.assert_allclose(utilities(name, sentences), sacrebleu(name, sentences), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_equal_sentences_have_equal_utilities(name):
    found = utilities(name, ["a b", "c", "a b"])
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[:, 0], found[:, 2])
    assert utilities(name, ["a b c"]) == pytest.approx(100)


END, UNKNOWN = 3, 1


def naive(words: list[int], reference: list[int]) -> float:
    """Compute R as defined in `prefix_bleu`."""
    words, reference = ([w for w in side if w != END] for side in (words, reference))
    if not words:
        return 0.0
    total = 0.0
    for n in range(1, 5):
        output, target = (
            Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (words, reference)
        )
        matches = sum(min(c, target[gram]) for gram, c in output.items() if UNKNOWN not in gram)
        total += math.log((matches + 1) / (sum(output.values()) + 1))
    brevity = math.exp(1 - len(reference) / len(words)) if len(words) < len(reference) else 1.0
    return brevity * math.exp(total / 4) * len(reference)


@st.composite
def batches(draw):
    rows, width = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    largest, size = draw(st.integers(4, 8)), rows * width
    lengths, steps = ([draw(st.integers(1, width)) for _ in range(rows)] for _ in range(2))
    tokens = st.binary(min_size=size, max_size=size)  # one draw, which is faster than one for each token
    sides = [
        1 + np.frombuffer(draw(tokens), np.uint8).reshape(rows, width).astype(np.int64) % largest
        for _ in range(2)
    ]
    for row, length in enumerate(lengths):
        sides[1][row, length - 1] = END
    return sides[0], np.array(steps), sides[1], np.array(lengths)


@given(batches())
@settings(max_examples=200)
def test_every_prefix_matches_the_definition(batch) -> None:
    produced, steps, reference, lengths = batch
    found = prefix_bleu(produced, steps, reference, lengths, END, UNKNOWN)
    for row, length in enumerate(lengths):
        target = reference[row, :length].tolist()
        for t in range(steps[row]):
            expected = naive(produced[row, : t + 1].tolist(), target)
            assert found[row, t] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert (found[row, steps[row] :] == 0).all()


def test_reference_has_its_length_as_reward() -> None:
    reference = np.array([[5, 6, 7, 8, 9, END]])
    found = prefix_bleu(reference, np.array([6]), reference, np.array([6]), END, UNKNOWN)
    assert found[0, -1] == pytest.approx(5.0)
    assert (np.diff(found[0, :5]) > 0).all() and found[0, 4] == found[0, 5]


def test_empty_translation_has_reward_zero() -> None:
    """A translation that consists of EOS symbols is empty."""
    reference = np.array([[5, 6, END]])
    three = np.array([3])
    assert (prefix_bleu(np.full((1, 3), END), three, reference, three, END, UNKNOWN) == 0).all()
