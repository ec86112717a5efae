"""Tests of utilities for MBR decoding: the sentence scores of sacreBLEU, and REP by its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.metrics.coverage import repetition_sigma
from regard.metrics.translation import split_words
from regard.metrics.utility import utilities

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
@settings(max_examples=60, deadline=None)
@given(sentences=texts)
def test_bleu_and_chrf_match_sacrebleu_for_random_sentences(name, sentences):
    np.testing.assert_allclose(utilities(name, sentences), sacrebleu(name, sentences), rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(sentences=texts | st.just(SENTENCES))
def test_rep_is_100_minus_repetitions_per_100_reference_words(sentences):
    words = split_words(sentences)
    expected = [[100 - 100 * repetition_sigma(t, r) / max(len(r), 1) for r in words] for t in words]
    np.testing.assert_allclose(utilities("rep", sentences), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["bleu", "chrf", "rep"])
def test_equal_sentences_have_equal_utilities(name):
    found = utilities(name, ["a b", "c", "a b"])
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[:, 0], found[:, 2])
    assert utilities(name, ["a b c"]) == pytest.approx(100)
