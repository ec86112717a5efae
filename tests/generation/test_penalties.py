"""Tests of the coverage penalty: its formula, the source tokens it counts, and its effect on search."""

import math

import pytest
import torch

from generation.conftest import score_all_translations
from regard.config import from_dict
from regard.data.batch import Batch, collate
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.forced import force_decode
from regard.generation.penalties import HypothesisScorer
from regard.generation.sampling import sample
from regard.text.vocabulary import EOS, SINK


def config(
    weight: float = 0.7, epsilon: float = 0.1, rescore_only: bool = True, **options
) -> GenerationConfig:
    penalty = {"weight": weight, "epsilon": epsilon, "rescore_only": rescore_only}
    limits = {"max_length_ratio": 1.0, "max_length_offset": 4, "length_penalty": 0.6}
    return from_dict(GenerationConfig, {**limits, "coverage_penalty": penalty, **options})


def penalty(hypothesis, words: int, weight: float = 0.7, epsilon: float = 0.1) -> float:
    """Return the coverage penalty of Wu et al. (2016), Eq. 14, for `words` source tokens.

    Coverage below `epsilon` counts as `epsilon`.
    """
    received = hypothesis.attention[-1].mean(axis=1).sum(axis=0)[:words]
    return weight * sum(math.log(max(epsilon, min(1.0, float(a)))) for a in received)


def tokens_and_scores(results):
    return [[(h.tokens, h.score) for h in hypotheses] for hypotheses in results]


def test_penalty_is_the_log_of_clamped_coverage_of_unmasked_tokens():
    heads = torch.tensor([[[0.1, 0.5, 2.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0, 0.0]]])
    words = torch.tensor([[True, True, True, False, False]])
    first = torch.zeros(1, 1, 5)  # another layer, which the penalty ignores
    found = HypothesisScorer(1.0, 2.0, 0.2).coverage_penalty((first, heads), words)
    assert found is not None
    assert float(found) == pytest.approx(2 * (math.log(0.2) + math.log(0.5) + math.log(1.0)))


def test_zero_weight_adds_no_penalty():
    assert HypothesisScorer.from_config(GenerationConfig()) == HypothesisScorer(1.0)
    assert HypothesisScorer.from_config(config(0.3, 0.2)) == HypothesisScorer(0.6, 0.3, 0.2)


@pytest.mark.parametrize("rescore_only", [True, False])
def test_scores_equal_the_formula_and_forced_decoding(model, batch, sentences, rescore_only):
    search = config(beam_size=4, num_return=4, rescore_only=rescore_only)
    for sentence, found in zip(sentences, beam_search(model, batch(sentences, 2), search), strict=True):
        pairs = collate([sentence] * len(found), [[*h.tokens, EOS] for h in found], range(len(found)))
        for hypothesis, forced in zip(
            found, force_decode(model, pairs, HypothesisScorer.from_config(search)), strict=True
        ):
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)
            assert forced.score == pytest.approx(expected, abs=1e-5)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("rescore_only", [True, False])
def test_exhaustive_beam_finds_the_best_translations(build, batch, rescore_only):
    vocab_size, longest = 8, 3
    model = build(seed=1, vocab_size=vocab_size)
    size = {
        "beam_size": 4**longest,
        "num_return": 20,
        "max_length_ratio": 0.0,
        "max_length_offset": longest,
    }
    search = config(2.0, rescore_only=rescore_only, scheme={"stopping": "exact"}, **size)
    best, without_penalty = (
        score_all_translations(model, [5, 7, 6], vocab_size, longest, scorer)[:20]
        for scorer in (HypothesisScorer.from_config(search), HypothesisScorer(0.6))
    )
    assert [h.tokens for h in best] != [h.tokens for h in without_penalty]
    (found,) = beam_search(model, batch([[5, 7, 6]]), search)
    assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-5)
    assert [h.tokens for h in found] == [h.tokens for h in best]


def test_sink_is_not_penalized(build, batch, sentences):
    model = build(attention={"normalizer": "sparsemax"})
    with_sink = [[*sentence, SINK] for sentence in sentences]
    for sentence, found in zip(
        sentences, beam_search(model, batch(with_sink), config(beam_size=3, num_return=3)), strict=True
    ):
        for hypothesis in found:
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rescore_only", [True, False])
def test_translation_does_not_depend_on_batch_or_padding(model, batch, sentences, rescore_only):
    search = config(beam_size=4, num_return=2, rescore_only=rescore_only)
    together = beam_search(model, batch(sentences, extra=3), search)
    for sentence, found in zip(sentences, together, strict=True):
        (alone,) = beam_search(model, batch([sentence]), search)
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-4)


def test_samples_are_scored_by_the_formula(build, batch, sentences):
    source = Batch(batch(sentences), None, torch.arange(len(sentences)))
    samples = sample(build(), source, config(num_return=2), Sampling())
    for sentence, found in zip(sentences, samples, strict=True):
        for hypothesis in found:
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)
