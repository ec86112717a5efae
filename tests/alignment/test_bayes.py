"""Tests of the Bayesian aligner: samplers against enumerated distributions, and the quality of the links."""

import dataclasses
import itertools
import math
from collections import Counter

import numpy as np
import pytest

from regard.alignment import bayes
from regard.alignment.base import TrainingSetup
from regard.alignment.bayes import BayesAligner, LinkStatistics
from regard.alignment.bayes_kernels import MAX_JUMP, NUM_FERTILITIES
from regard.alignment.bayes_sampler import BayesConfig, Sampler, build_layout
from regard.alignment.corpus import Corpus
from regard.alignment.ibm import IBM1Config, IBMAligner
from regard.alignment.symmetrize import symmetrize
from regard.extensions.phrasebook.corpus import generate_splits
from regard.metrics.alignment import alignment_score
from regard.text.links import GoldLinks

QUICK = BayesConfig(effort=0.2, num_chains=3)
TINY = [("a b a", "x y"), ("b", "x z")]


def corpus_of(lines, words=None):
    pairs = ((source.split(), target.split()) for source, target in lines)
    return Corpus.from_tokens(pairs, words, allow_empty=True)


@pytest.fixture(scope="module")
def text():
    pairs = generate_splits({"train": 200}, seed=3)["train"]
    corpus = Corpus.from_tokens((pair.source, pair.target) for pair in pairs)
    return corpus, [GoldLinks(sure=pair.links, possible=pair.links) for pair in pairs]


def words_of(text):
    return text[0].source.words, text[0].target.words


@pytest.fixture(scope="module")
def trained(text):
    return BayesAligner.train(text[0], QUICK, TrainingSetup(num_threads=2, seed=1))


def random_jumps_and_ratios(words):
    random = np.random.default_rng(4)
    ratios = random.uniform(0.3, 2, (words, NUM_FERTILITIES)).astype(np.float32)
    return random.uniform(0.1, 1, 2 * MAX_JUMP + 1).astype(np.float32), ratios


def path_weight(path, source, jumps, ratios):
    """Return the product of jump and fertility ratios of one sentence's links, up to a factor."""
    linked = [place for place in path if place >= 0]
    weight = math.prod(
        float(jumps[MAX_JUMP + after - before])
        for before, after in itertools.pairwise([-1, *linked, len(source)])
    )
    for place, fertility in Counter(linked).items():
        weight *= math.prod(float(ratio) for ratio in ratios[source[place], :fertility])
    return weight


def paths(m, n):
    return itertools.product(range(-1, m), repeat=n)


def collapsed_weight(links, rows, config, targets):
    """Return the probability of links with the translation table integrated out, up to a factor.

    The integral is a ratio of gamma functions.
    """
    pairs, totals = Counter(), Counter()
    for path, (source, target) in zip(links, rows, strict=True):
        for place, token in zip(path, target, strict=True):
            word = int(source[place]) if place >= 0 else -1
            pairs[word, int(token)] += 1
            totals[word] += 1
    log = totals[-1] * math.log(config.null_probability)
    for count in pairs.values():
        alpha = config.alpha
        log += math.lgamma(count + alpha) - math.lgamma(alpha)
    for count in totals.values():
        total = targets * config.alpha
        log -= math.lgamma(count + total) - math.lgamma(total)
    return math.exp(log)


@pytest.mark.parametrize("with_jumps", [False, True])
# The oracle enumerates all links of both sentences, weighted by their joint probability.
def test_gibbs_sampler_matches_enumerated_link_posteriors(with_jumps):
    corpus = corpus_of(TINY)
    layout, slots = build_layout(corpus)
    config = BayesConfig(alpha=0.3, null_probability=0.4, num_samples=1)
    sampler = Sampler(layout, slots, (2, 3), config, np.random.SeedSequence(5))
    jumps, ratios = np.ones(2 * MAX_JUMP + 1), np.ones((2, NUM_FERTILITIES))
    if with_jumps:
        jumps, ratios = random_jumps_and_ratios(2)
        half = len(sampler.state.jumps) // 2
        sampler.state.jumps[:] = jumps[MAX_JUMP - half : MAX_JUMP + half + 1]
        sampler.state.reversed_jumps[:] = sampler.state.jumps[::-1]
        sampler.state.fertility_ratios[:] = ratios
    rows = [(corpus.source.sentence(row), corpus.target.sentence(row)) for row in range(2)]
    expected, total = np.zeros(len(layout.slots)), 0.0
    for links in itertools.product(*(paths(len(source), len(target)) for source, target in rows)):
        weight = collapsed_weight(links, rows, config, targets=3)
        for path, (source, _) in zip(links, rows, strict=True):
            weight *= path_weight(path, source, jumps, ratios)
        total += weight
        for row, path in enumerate(links):
            for j, place in enumerate(path):
                if place >= 0:
                    expected[layout.cells[row] + j * len(rows[row][0]) + place] += weight
    sampled = np.mean([sampler.marginals((0, 2)) for _ in range(40_000)], axis=0)
    np.testing.assert_allclose(sampled, expected / total, atol=0.01)


@pytest.mark.parametrize(
    ("source", "target", "sampled"),
    [
        ([0, 1, -1], [0, -1, 2], True),
        ([0, 1, -1], [0, -1, 2], False),
        ([0, 0], [0, 0], False),
        ([0, 0, 0], [0], False),
        ([0], [0] * 8, False),
        ([1, 0, 1, -1], [1, 0, 1, -1, 0], False),
        ([-1, -1], [-1, -1, -1], False),
    ],
)
# Words are repeated, and -1 is not in the vocabulary.
def test_posteriors_of_new_text_match_enumeration_under_learned_counts(source, target, sampled, monkeypatch):
    if sampled:
        monkeypatch.setattr(bayes, "MAX_ENUMERATED_ALIGNMENTS", 0)
    jumps, ratios = random_jumps_and_ratios(3)
    learned = LinkStatistics(
        starts=np.array([0, 2, 3]),
        columns=np.array([0, 2, 1], dtype=np.int32),
        values=np.array([2, 1, 4], dtype=np.float32),
        totals=np.array([3, 4], dtype=np.float32),
        nulls=np.array([1, 0, 1, 2], dtype=np.float32),
        jumps=jumps,
        ratios=ratios,
    )
    config = BayesConfig(alpha=0.4, null_probability=0.5, num_chains=4000, num_samples=4)
    numbered = corpus_of([("a " * len(source), "x " * len(target))])
    corpus = Corpus(
        dataclasses.replace(numbered.source, tokens=np.array(source, dtype=np.int32)),
        dataclasses.replace(numbered.target, tokens=np.array(target, dtype=np.int32)),
    )
    counts = {(0, 0): 2, (0, 2): 1, (1, 1): 4}
    expected, total = np.zeros((len(target), len(source))), 0.0
    for path in paths(len(source), len(target)):
        weight = path_weight(path, source, jumps, ratios)
        for place, token in zip(path, target, strict=True):
            if place < 0:
                seen = learned.nulls[token] if token >= 0 else 0
                weight *= config.null_probability * (seen + config.alpha) / (2 + 3 * config.alpha)
            else:
                word = source[place]
                seen, among = counts.get((word, token), 0), (3, 4, 0)[word]
                weight *= (seen + config.alpha) / (among + 3 * config.alpha)
        total += weight
        for j, place in enumerate(path):
            if place >= 0:
                expected[j, place] += weight
    (found,) = BayesAligner(learned, config).posteriors(corpus)
    np.testing.assert_allclose(found, expected / total, atol=0.01 if sampled else 1e-5)


def test_another_seed_changes_few_links(text, trained):
    other = BayesAligner.train(text[0], QUICK, TrainingSetup(num_threads=2, seed=2)).align(text[0])
    assert 0 < np.mean(other != trained.align(text[0])) < 0.2


def test_bayes_has_lower_alignment_error_rate_than_model_1(text, trained):
    corpus, gold = text
    setting = TrainingSetup(num_threads=2)

    def error(forward, backward):
        links = forward.align(corpus), backward.align(corpus.swapped())
        combined = list(symmetrize(corpus, *links, "grow-diag-final-and"))
        return alignment_score(combined, gold).aer

    ours = error(trained, BayesAligner.train(corpus.swapped(), QUICK, setting))
    simple = [IBMAligner.train(side, IBM1Config(), setting) for side in (corpus, corpus.swapped())]
    assert ours < 0.15 < error(*simple)


def test_training_accepts_pairs_with_an_empty_side():
    corpus = corpus_of([*TINY, ("", "x"), ("a", ""), *TINY])
    links = BayesAligner.train(corpus, QUICK, TrainingSetup(num_threads=1)).align(corpus)
    assert links[4] == -1
    assert len(links) == 9
