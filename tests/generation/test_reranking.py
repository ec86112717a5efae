"""Tests of minimum Bayes risk decoding: the definition, ties, duplicates, and use in the translator."""

import math

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from generation.conftest import TEXT, config
from regard.generation.config import Sampling
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.generation.reranking import MBR, rank_candidates

CANDIDATES = ["a cat sat on a mat", "the cat sat on the mat", "the cat is on the mat", "dogs", "the cat sat"]
METRICS = {"bleu": BLEU(effective_order=True), "chrf": CHRF()}


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@pytest.mark.parametrize("sampled", [True, False])
def test_ranking_equals_the_definition(name, sampled):
    logs = [-1.0, -2.0, -2.5, -4.0, -3.0]
    weights = [0.2] * 5 if sampled else [math.exp(p) / sum(map(math.exp, logs)) for p in logs]
    # A constant changes nothing, even if probabilities underflow.
    log_probs = [log - 1e4 for log in logs]
    expected = [
        sum(
            w * METRICS[name].sentence_score(candidate, [other]).score
            for w, other in zip(weights, CANDIDATES, strict=True)
        )
        for candidate in CANDIDATES
    ]
    found = rank_candidates(CANDIDATES, log_probs, MBR(utility=name), sampled)
    assert [index for index, _ in found] == sorted(range(5), key=lambda i: -expected[i])
    assert [utility for _, utility in found] == pytest.approx(sorted(expected, reverse=True))


def test_duplicate_samples_count_twice_but_are_returned_once():
    texts = ["x y", "a b c d", "x y", "a b c e"]
    found = rank_candidates(texts, [-1.0] * 4, MBR(utility="bleu"), sampled=True)
    assert sorted(index for index, _ in found) == [0, 1, 3]
    other = METRICS["bleu"].sentence_score("x y", ["a b c d"]).score
    expected = np.mean([100.0, other, 100.0, 0.0])
    assert dict(found)[0] == pytest.approx(expected)


@pytest.mark.parametrize("sampling", [None, Sampling()])
def test_translator_returns_the_best_candidates(build, sampling):
    model, lines = build(), ["a b c", "", "d e", "g f e d c"]
    all_searched, two = config(beam_size=8, num_return=8), config(beam_size=8, num_return=2)
    wide = NeuralTranslator(model, TEXT, all_searched, sampling).translate(enumerate_lines(lines))
    chosen = NeuralTranslator(model, TEXT, two, sampling, mbr=MBR(num_candidates=8))
    for candidates, found in zip(wide, chosen.translate(enumerate_lines(lines)), strict=True):
        texts = [one.text for one in candidates.nbest]
        if not texts:
            assert found.nbest == ()
            continue
        log_probs = [one.log_probability for one in candidates.nbest]
        expected = rank_candidates(texts, log_probs, MBR(), sampling is not None)[:2]
        assert [one.text for one in found.nbest] == [texts[index] for index, _ in expected]
        assert [one.score for one in found.nbest] == pytest.approx([u for _, u in expected])
        assert found.log_probability in log_probs
