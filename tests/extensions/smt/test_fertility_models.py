"""Tests of IBM Models 3 and 4 against enumerated alignments."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from alignment.aligner_text import by_sentence, random_pairs, table_probability
from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.em import TranslationTable, iterate_blocks
from regard.alignment.hmm import NUM_JUMPS
from regard.errors import DataError
from regard.extensions.smt.fertility_models import (
    MAX_DISPLACEMENT,
    MAX_FERTILITY,
    NUM_DISPLACEMENTS,
    NUM_HEADS,
    IBM3Aligner,
    IBM3Config,
    IBM4Aligner,
    IBM4Config,
)
from regard.testing import check_aligner

ALIGNERS = {IBM3Aligner: IBM3Config, IBM4Aligner: IBM4Config}


@pytest.fixture(scope="module")
def tiny():
    return Corpus.from_tokens(random_pairs(5, number=8, longest=4))


@pytest.fixture(scope="module", params=ALIGNERS)
def model(request, tiny):
    random = np.random.default_rng(2)
    table = TranslationTable.of(tiny)
    table.values[:] = random.random(len(table.values), dtype=np.float32)
    fertilities = random.random((len(tiny.source.words) + 1, MAX_FERTILITY + 1), dtype=np.float32) + 0.05
    fertilities /= fertilities.sum(1, keepdims=True)
    config, displacements = ALIGNERS[request.param](), random.random(NUM_DISPLACEMENTS) + 0.1
    return request.param(table, np.ones((2, NUM_JUMPS)), config, fertilities, displacements)


def displacements(model, links, m) -> list[int]:
    """Return the index of each displacement of an alignment, by Brown et al. (1993), Section 4.5."""
    n = len(links)
    if not model.cepts:
        distances = [j - ((2 * i + 1) * n) // (2 * m) for j, i in enumerate(links) if i >= 0]
        return [MAX_DISPLACEMENT + distance for distance in distances]
    places, center = [], -1  # the position before the sentence
    for i in range(m):
        cept = [j for j, link in enumerate(links) if link == i]
        if cept:
            places.append(MAX_DISPLACEMENT + cept[0] - center)
            places += [NUM_HEADS + step - 1 for step in np.diff(cept)]
            center = math.ceil(sum(cept) / len(cept))
    return places


def probability(model, source, target, links) -> float:
    """Return the probability of an alignment, by Brown et al. (1993), with the distributions of regard."""
    n, p1, smoothing = len(target), model.config.null_probability, model.config.smoothing
    none = sum(link < 0 for link in links)
    # Each linked word can generate at most one null-aligned word, so these are at most half of all.
    if 2 * none > n:
        return 0.0
    product = math.comb(n - none, none) * p1**none * (1 - p1) ** (n - 2 * none)
    for i, word in enumerate(source):
        count = sum(link == i for link in links)
        # In Model 4, the words of a cept are placed in order, so there is no factor f!.
        product *= (1 if model.cepts else math.factorial(count)) * float(model.fertilities[word, count])
    for j, link in enumerate(links):
        product *= table_probability(model.table, model.table.words if link < 0 else source[link], target[j])
    parts = np.split(model.displacements, [NUM_HEADS])
    shares = np.concatenate([(1 - smoothing) * x / x.sum() + smoothing / len(x) for x in parts])
    return product * float(np.prod(shares[displacements(model, links, len(source))]))


def neighbors(links, m):
    """Return an alignment and every alignment that differs by one move or swap."""
    near = {tuple(links)}
    for j in range(len(links)):
        near |= {(*links[:j], i, *links[j + 1 :]) for i in range(-1, m)}
        for k in range(j):
            swapped = list(links)
            swapped[j], swapped[k] = links[k], links[j]
            near.add(tuple(swapped))
    return near


def test_hill_climbing_ends_at_a_local_maximum(model, tiny):
    # Without distortion, either x may as well be linked to the first a, but not both.
    pairs = [("a b".split(), "x y".split())] * 9 + [("a b a c a".split(), "y x z x".split())]
    repeated = Corpus.from_tokens(pairs)
    flat = replace(model.config, smoothing=1.0, iterations=1, hmm_iterations=1)
    trained = type(model).train(repeated, flat, TrainingSetup(num_threads=1))
    trained = replace(trained, displacements=model.displacements)  # with smoothing 1, without an effect
    for aligner, text in ((model, tiny), (trained, repeated)):
        for row, links in enumerate(by_sentence(aligner.align(text), text.target)):
            source, target = text.source.sentence(row), text.target.sentence(row)
            near = neighbors(tuple(links), len(source))
            most = max(probability(aligner, source, target, other) for other in near)
            assert most <= probability(aligner, source, target, tuple(links)) * (1 + 1e-5)


def test_posteriors_are_conditioned_on_the_other_links_and_counts_are_those_of_the_best(model, tiny):
    (block,) = iterate_blocks(tiny, model.table, 1)
    sums = model.expect(block, *block.buffers(), 1)
    best = by_sentence(model.align(tiny), tiny.target)
    likelihood, counts = 0.0, np.zeros(NUM_DISPLACEMENTS)
    fertilities = np.zeros_like(model.fertilities)
    for row, posteriors in enumerate(model.posteriors(tiny)):
        source, target, links = tiny.source.sentence(row), tiny.target.sentence(row), tuple(best[row])
        likelihood += math.log(probability(model, source, target, links))
        np.add.at(counts, displacements(model, links, len(source)), 1)
        for i, word in enumerate(source):
            fertilities[word, links.count(i)] += 1
        for j, posterior in enumerate(posteriors):
            moved = [(*links[:j], i, *links[j + 1 :]) for i in range(-1, len(source))]
            shares = np.array([probability(model, source, target, other) for other in moved])
            np.testing.assert_allclose(posterior, shares[1:] / shares.sum(), atol=1e-5)
    assert sums[0] == pytest.approx(likelihood, rel=1e-5)
    np.testing.assert_array_equal(sums[2:], np.concatenate([counts, fertilities.ravel()]))


@pytest.mark.parametrize("n", [1, 3, 6])
def test_probabilities_of_all_targets_sum_to_at_most_one(n):
    words = ["t0", "t1"]
    corpus = Corpus.from_tokens([(["s"], target) for target in itertools.product(words, repeat=n)])
    table = TranslationTable.of(corpus)
    table.values[:], table.nulls[:] = 1 / len(words), 1 / len(words)
    # Nearly all probability is on cepts of n adjacent words, so that a factor f! would exceed 1.
    fertilities = np.full((2, MAX_FERTILITY + 1), 1e-3, np.float32)
    fertilities[:, n] += 1 - fertilities.sum(1)
    displacements = np.full(NUM_DISPLACEMENTS, 1e-6)
    displacements[[MAX_DISPLACEMENT + 1, NUM_HEADS]] = 1
    config = IBM4Config(null_probability=0.01, smoothing=0.01)
    model = IBM4Aligner(table, np.ones((2, NUM_JUMPS)), config, fertilities, displacements)
    total = 0.0
    for row in range(len(corpus)):
        (block,) = iterate_blocks(corpus.subset(row, row + 1), table, 1)
        total += math.exp(model.expect(block, np.empty(n, np.float32), np.empty(n, np.float32), 1)[0])
    assert 0.8 < total <= 1


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_fertility_two_and_adjacent_words_are_learned(aligner):
    pairs = [("a b", "x y z"), ("b a", "z x y"), ("b", "z"), ("a", "x y")]
    corpus = Corpus.from_tokens((source.split(), target.split()) for source, target in pairs * 20)
    model = aligner.train(corpus, ALIGNERS[aligner](), TrainingSetup(num_threads=1))
    a, b = corpus.source.words.numbers(["a", "b"])
    assert model.fertilities[a].argmax() == 2 and model.fertilities[b].argmax() == 1
    if model.cepts:
        others = model.displacements[NUM_HEADS:]
        assert others[0] > 0.9 * others.sum()


@pytest.mark.parametrize("config", ALIGNERS.values())
def test_laws_of_aligners(config):
    check_aligner(config(iterations=2, hmm_iterations=2))


def test_damaged_arrays_are_named(model, tiny):
    arrays = model.arrays() | {"displacements": model.displacements[:5]}
    with pytest.raises(DataError, match="displacements"):
        type(model).load(arrays, model.config, (len(tiny.source.words), len(tiny.target.words)))
