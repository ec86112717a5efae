"""Tests of IBM Models 3 and 4 against enumerated alignments."""

import itertools
import math

import numpy as np
import pytest

from alignment.aligner_text import by_sentence, random_pairs, table_probability
from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.em import TranslationTable, iterate_blocks
from regard.alignment.hmm import NUM_JUMPS
from regard.errors import DataError
from regard.extensions.smt.fertility_kernels import (
    MAX_DISTORTION,
    MAX_FERTILITY,
    NUM_DISTANCES,
    count_distortions,
)
from regard.extensions.smt.fertility_models import IBM3Aligner, IBM3Config, IBM4Aligner, IBM4Config

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
    sizes = request.param.distortion_sizes
    distortions = {name: random.random(size) + 0.1 for name, size in sizes.items()}
    config = ALIGNERS[request.param]()
    return request.param(table, np.ones((2, NUM_JUMPS)), fertilities, distortions, config)


def displacements(links, m) -> tuple[list[int], list[int]]:
    """Return the displacements of the heads and of the other words, by Brown et al. (1993), Section 4.5."""
    heads, others, center = [], [], -1  # the position before the sentence
    for i in range(m):
        cept = [j for j, link in enumerate(links) if link == i]
        if cept:
            heads.append(cept[0] - center)
            others += np.diff(cept).tolist()
            center = math.ceil(sum(cept) / len(cept))
    return heads, others


def distances(links, m) -> list[int]:
    """Return the distance of each link from the diagonal."""
    n = len(links)
    return [j - ((2 * i + 1) * n) // (2 * m) for j, i in enumerate(links) if i >= 0]


def distortion(model, links, m) -> float:
    """Return the probability of the distortion of an alignment, with regard's distributions."""
    smoothing, product = model.config.smoothing, 1.0
    if model.cepts:
        for steps, (name, size), first in zip(
            displacements(links, m), model.distortion_sizes.items(), (MAX_DISTORTION, -1), strict=True
        ):
            shares = model.distortions[name] / model.distortions[name].sum()
            for step in steps:
                product *= (1 - smoothing) * shares[first + step] + smoothing / size
        return product
    n = len(links)
    for j, i in enumerate(links):
        if i >= 0:
            middle = ((2 * i + 1) * n) // (2 * m)
            shares = model.distortions["distortions"][MAX_DISTORTION - middle :][:n]
            product *= (1 - smoothing) * shares[j] / shares.sum() + smoothing / n
    return product


def probability(model, source, target, links) -> float:
    """Return the probability of an alignment, by Brown et al. (1993)."""
    n, p1 = len(target), model.config.null_probability
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
    return product * distortion(model, links, len(source))


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
    for row, links in enumerate(by_sentence(model.align(tiny), tiny.target)):
        source, target = tiny.source.sentence(row), tiny.target.sentence(row)
        reached = probability(model, source, target, tuple(links))
        near = [probability(model, source, target, other) for other in neighbors(tuple(links), len(source))]
        assert max(near) <= reached * (1 + 1e-5)


def test_expectations_are_sums_over_the_neighborhood(model, tiny):
    (block,) = iterate_blocks(tiny, model.table, 1)
    null = np.empty(int(tiny.target.lengths.sum()), np.float32)
    sums, counted = model.expect_fertilities(block, np.empty(len(block.layout.slots), np.float32), null, 1)
    likelihood, at = 0.0, 0
    counts = [np.zeros(size) for size in model.distortion_sizes.values()]
    best = by_sentence(model.align(tiny), tiny.target)
    for row, posteriors in enumerate(model.posteriors(tiny)):
        source, target = tiny.source.sentence(row), tiny.target.sentence(row)
        near = neighbors(tuple(best[row]), len(source))
        shares = {links: probability(model, source, target, links) for links in near}
        total = sum(shares.values())
        likelihood += math.log(total)
        expected, fertile = np.zeros(posteriors.shape), np.zeros((len(source), MAX_FERTILITY + 1))
        for links, share in shares.items():
            for j, link in enumerate(links):
                if link >= 0:
                    expected[j, link] += share / total
            m = len(source)
            steps = displacements(links, m) if model.cepts else (distances(links, m),)
            for array, places, first in zip(counts, steps, (MAX_DISTORTION, -1), strict=False):
                np.add.at(array, first + np.array(places, dtype=int), share / total)
            for i in range(m):
                fertile[i, sum(link == i for link in links)] += share / total
        np.testing.assert_allclose(posteriors, expected, atol=1e-5)
        np.testing.assert_allclose(counted[at : at + len(source)], fertile, atol=1e-5)
        at += len(source)
    assert sums[0] == pytest.approx(likelihood, rel=1e-5)
    np.testing.assert_allclose(sums[2:], np.concatenate(counts), atol=1e-4)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_probabilities_of_all_targets_sum_to_at_most_one(n):
    words = ["t0", "t1"]
    corpus = Corpus.from_tokens([(["s"], target) for target in itertools.product(words, repeat=n)])
    table = TranslationTable.of(corpus)
    table.values[:], table.nulls[:] = 1 / len(words), 1 / len(words)
    # Nearly all probability is on cepts of n adjacent words, so that a factor f! would exceed 1.
    fertilities = np.full((2, MAX_FERTILITY + 1), 1e-3, np.float32)
    fertilities[:, n] += 1 - fertilities.sum(1)
    heads, others = np.full(NUM_DISTANCES, 1e-6), np.full(MAX_DISTORTION, 1e-6)
    heads[MAX_DISTORTION + 1] = others[0] = 1
    config = IBM4Config(null_probability=0.01, smoothing=0.01)
    distortions = {"heads": heads, "others": others}
    model = IBM4Aligner(table, np.ones((2, NUM_JUMPS)), fertilities, distortions, config)
    total = 0.0
    for row in range(len(corpus)):
        (block,) = iterate_blocks(corpus.subset(row, row + 1), table, 1)
        total += math.exp(model.expect(block, np.empty(n, np.float32), np.empty(n, np.float32), 1)[0])
    assert 0.8 < total <= 1


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_result_does_not_depend_on_threads(aligner):
    corpus = Corpus.from_tokens(random_pairs(1, number=300))
    config = ALIGNERS[aligner](iterations=2, hmm_iterations=2)
    single, three = (aligner.train(corpus, config, TrainingSetup(num_threads=n)) for n in (1, 3))
    np.testing.assert_array_equal(single.fertilities, three.fertilities)
    np.testing.assert_array_equal(single.align(corpus, 1), three.align(corpus, 3))


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_fertility_two_and_adjacent_words_are_learned(aligner):
    pairs = [("a b", "x y z"), ("b a", "z x y"), ("b", "z"), ("a", "x y")]
    corpus = Corpus.from_tokens((source.split(), target.split()) for source, target in pairs * 20)
    model = aligner.train(corpus, ALIGNERS[aligner](), TrainingSetup(num_threads=1))
    a, b = corpus.source.words.numbers(["a", "b"])
    assert model.fertilities[a].argmax() == 2 and model.fertilities[b].argmax() == 1
    if model.cepts:
        others = model.distortions["others"]
        assert others[0] > 0.9 * others.sum()


def test_initial_distortions_are_those_of_the_links(model):
    corpus = Corpus.from_tokens([(["a", "b", "c"], ["x", "y", "z", "w", "v"]), (["a"], ["x"])])
    links = np.array([1, 0, -1, 1, 1, 0], dtype=np.int32)
    counts = count_distortions(0, 2, corpus.layout(), model._parameters(), links)
    expected = np.zeros(len(counts))
    # Model 3: the diagonal of the first pair is at target positions 0, 2 and 4. Model 4: source word 0 has
    # target word 1; word 1 has words 0, 3 and 4. The second pair starts at its first word.
    for step in (2, -1, 1) if model.cepts else (-2, 1, 1, 2, 0):
        expected[MAX_DISTORTION + step] += 1
    for step in (3, 1) if model.cepts else ():
        expected[NUM_DISTANCES + step - 1] += 1
    np.testing.assert_array_equal(counts, expected)


def test_loaded_aligner_gives_the_same_links_on_new_text(model, tiny):
    pairs = [([], ["t1"]), (["s1"], []), (["s1", "s2"], ["never", "seen", "t1"])]
    new = Corpus.from_tokens(pairs, (tiny.source.words, tiny.target.words), allow_empty=True)
    sizes, arrays = (len(tiny.source.words), len(tiny.target.words)), model.arrays()
    loaded = type(model).load(arrays, model.config, sizes)
    links = loaded.align(new)
    np.testing.assert_array_equal(links, model.align(new))
    assert len(links) == 4 and links[0] == -1
    assert all(np.isfinite(posteriors).all() for posteriors in loaded.posteriors(new))
    name = next(iter(model.distortion_sizes))
    with pytest.raises(DataError, match=name):
        type(model).load(arrays | {name: arrays[name][:5]}, model.config, sizes)
