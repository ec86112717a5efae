"""The coverage penalty: its formula, whom it counts, and what search makes of it."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.config import from_dict
from regard.data.batch import collate
from regard.data.vocabulary import EOS, SINK, UNK
from regard.decoding.beam import beam_search, beam_searches
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.ensemble import Ensemble
from regard.decoding.forced import force
from regard.decoding.penalties import CoveragePenalty, Scorer
from regard.decoding.sampling import sample
from regard.errors import ConfigError


def config(weight: float = 0.7, floor: float = 0.1, unfinished: bool = False, **options) -> SearchConfig:
    penalty = {"weight": weight, "floor": floor, "unfinished": unfinished}
    limits = {"max_length_ratio": 1.0, "max_length_extra": 4, "length_penalty": 0.6}
    return from_dict(SearchConfig, {**limits, "coverage_penalty": penalty, **options})


def penalty(hypothesis, words: int, weight: float = 0.7, floor: float = 0.1) -> float:
    """Wu et al. (2016), Eq. 14, with the floor, of the first `words` source tokens."""
    received = hypothesis.attention[-1].mean(axis=1).sum(axis=0)[:words]
    return weight * sum(math.log(max(floor, min(1.0, float(a)))) for a in received)


def plain(results):
    return [[(h.tokens, h.score) for h in hypotheses] for hypotheses in results]


def test_the_penalty_is_the_logarithm_between_the_floor_and_one_of_what_real_words_received():
    heads = torch.tensor([[[0.1, 0.5, 2.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0, 0.0]]])
    words = torch.tensor([[True, True, True, False, False]])
    first = torch.zeros(1, 1, 5)  # another layer, which is not looked at
    found = CoveragePenalty(2.0, 0.2)((first, heads), words)
    assert float(found) == pytest.approx(2 * (math.log(0.2) + math.log(0.5) + math.log(1.0)))


def test_nothing_is_added_without_a_weight():
    assert Scorer.of(SearchConfig()) == Scorer(1.0)
    assert Scorer.of(config(weight=0.0)).additions == ()
    assert Scorer.of(config(0.3, 0.2)) == Scorer(0.6, (CoveragePenalty(0.3, 0.2),))


@pytest.mark.parametrize("unfinished", [False, True])
def test_scores_are_those_of_the_formula_and_of_forced_decoding(model, batch, sentences, unfinished):
    search = config(beam=4, nbest=4, unfinished=unfinished)
    for sentence, found in zip(sentences, beam_search(model, batch(sentences, 2), search), strict=True):
        pairs = collate([sentence] * len(found), [[*h.tokens, EOS] for h in found], range(len(found)))
        for hypothesis, forced in zip(found, force(model, pairs, Scorer.of(search)), strict=True):
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)
            assert forced.score == pytest.approx(expected, abs=1e-5)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_translations(build, batch, unfinished):
    words, longest = 8, 3
    model = build(seed=1, words=words)
    source = [[5, 7, 6]]
    allowed = [UNK, *range(SINK + 1, words)]
    every = [list(t) for n in range(longest + 1) for t in itertools.product(allowed, repeat=n)]
    pairs = collate(source * len(every), [[*t, EOS] for t in every], range(len(every)))
    size = {
        "beam": len(allowed) ** longest,
        "nbest": 20,
        "max_length_ratio": 0.0,
        "max_length_extra": longest,
    }
    search = config(2.0, unfinished=unfinished, scheme={"stop": "certain"}, **size)
    best = sorted(force(model, pairs, Scorer.of(search)), key=lambda h: -h.score)[:20]
    plainly = sorted(force(model, pairs, Scorer(0.6)), key=lambda h: -h.score)[:20]
    assert [h.tokens for h in best] != [h.tokens for h in plainly]
    (found,) = beam_search(model, batch(source), search)
    assert [h.score for h in found] == pytest.approx([h.score for h in best], abs=1e-5)
    assert [h.tokens for h in found] == [h.tokens for h in best]


def test_a_sink_costs_nothing_however_little_it_gets(build, batch, sentences):
    model = build(attention={"map": "sparsemax"})
    sunk = [[*sentence, SINK] for sentence in sentences]
    for sentence, found in zip(
        sentences, beam_search(model, batch(sunk), config(beam=3, nbest=3)), strict=True
    ):
        for hypothesis in found:
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_sentence_is_translated_the_same_alone_in_a_batch_and_padded(model, batch, sentences, unfinished):
    search = config(beam=4, nbest=2, unfinished=unfinished)
    together = beam_search(model, batch(sentences, extra=3), search)
    for sentence, found in zip(sentences, together, strict=True):
        (alone,) = beam_search(model, batch([sentence]), search)
        assert [h.score for h in alone] == pytest.approx([h.score for h in found], abs=1e-4)


def test_certain_search_is_never_worse_than_likely_search(model, batch, sentences):
    pair = [
        beam_search(model, batch(sentences), config(beam=3, scheme={"stop": stop}))
        for stop in ("likely", "certain")
    ]
    for (likely,), (certain,) in zip(*pair, strict=True):
        assert certain.score >= likely.score - 1e-6


def test_one_search_answers_for_several_scorers_as_one_search_for_each(model, batch, sentences):
    options = [(alpha, beta) for alpha in (0.0, 0.5, 2.0) for beta in (0.0, 0.3, 2.0)]
    configs = [config(beta, length_penalty=alpha, beam=4, nbest=2) for alpha, beta in options]
    together = beam_searches(model, batch(sentences), configs[0], [Scorer.of(one) for one in configs])
    for found, one in zip(together, configs, strict=True):
        assert plain(found) == plain(beam_search(model, batch(sentences), one))
    assert len({str(plain(found)) for found in together}) > 1


def test_several_scorers_cannot_share_a_search_that_ranks_unfinished_hypotheses(model, batch, sentences):
    with pytest.raises(ConfigError, match="unfinished"):
        beam_searches(model, batch(sentences), config(unfinished=True), [Scorer()])


def test_the_ranking_of_unfinished_hypotheses_changes_what_is_found(build, batch, sentences):
    model = build(seed=4, attention={"scorer": "general"})  # which words it covers differs more
    found = [
        beam_search(model, batch(sentences), config(3.0, beam=3, unfinished=unfinished))
        for unfinished in (False, True)
    ]
    assert plain(found[0]) != plain(found[1])


def test_an_ensembles_penalty_is_that_of_all_its_heads(build, batch, sentences):
    model = Ensemble([build(seed=1), build(seed=2)])
    found = beam_search(model, batch(sentences), config(beam=3))
    for sentence, (hypothesis,) in zip(sentences, found, strict=True):
        assert hypothesis.attention[-1].shape[1] == 2
        lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
        expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
        assert hypothesis.score == pytest.approx(expected, abs=1e-5)


def test_what_is_drawn_has_the_score_of_the_formula(build, batch, sentences):
    drawn = sample(build(), batch(sentences), config(nbest=2), SamplingConfig(), range(len(sentences)))
    for sentence, found in zip(sentences, drawn, strict=True):
        for hypothesis in found:
            lp = ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6
            expected = hypothesis.log_probability / lp + penalty(hypothesis, len(sentence))
            assert hypothesis.score == pytest.approx(expected, abs=1e-5)


def test_covering_more_is_what_a_heavy_penalty_chooses(build, batch, sentences):
    model, size = build(seed=2), {"beam": 6, "nbest": 6}
    means = []
    for weight in (0.0, 5.0):
        best = [found[0] for found in beam_search(model, batch(sentences), config(weight, **size))]
        pairs = zip(best, sentences, strict=True)
        means.append(np.mean([penalty(h, len(sentence), 1.0) for h, sentence in pairs]))
    assert means[1] > means[0]
