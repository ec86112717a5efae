"""Tests of IBM model 4 against enumerated alignments."""

import itertools
import math
from typing import get_args

import numpy as np
import pytest
from aligner_text import by_sentence, random_pairs

from regard.alignment.base import IterationStats, TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.em import Blocks, TranslationTable
from regard.alignment.hmm_kernels import NUM_JUMPS as JUMPS
from regard.alignment.ibm3_kernels import MAX_DISTORTION, MAX_FERTILITY, NUM_DISTANCES
from regard.alignment.ibm4 import IBM4Aligner, IBM4Config, train_ibm4
from regard.alignment.ibm4_kernels import count_cepts
from regard.alignment.word_aligner import aligner_kinds
from regard.data.fertility import AlignerName
from regard.errors import DataError

CONFIG = IBM4Config(iterations=2, hmm_iterations=2)


@pytest.fixture(scope="module")
def tiny():
    return Corpus.from_tokens(random_pairs(5, number=8, longest=4))


@pytest.fixture(scope="module")
def model(tiny):
    random = np.random.default_rng(2)
    table = TranslationTable.of(tiny, 1)
    table.values[:] = random.random(len(table.values), dtype=np.float32)
    fertilities = random.random((len(tiny.source.words) + 1, MAX_FERTILITY + 1), dtype=np.float32) + 0.05
    fertilities /= fertilities.sum(1, keepdims=True)
    distortions = random.random(NUM_DISTANCES) + 0.1, random.random(MAX_DISTORTION) + 0.1
    return IBM4Aligner(table, np.ones((2, JUMPS)), fertilities, *distortions, CONFIG)


def displacements(heads, m) -> tuple[list[int], list[int]]:
    """Return the displacements of the heads and of the other words, by Brown et al. (1993), Section 4.5."""
    first, rest, center = [], [], -1  # the position before the sentence
    for i in range(m):
        cept = [j for j, head in enumerate(heads) if head == i]
        if cept:
            first.append(cept[0] - center)
            rest += np.diff(cept).tolist()
            center = math.ceil(sum(cept) / len(cept))
    return first, rest


def probability(model, source, target, heads) -> float:
    """Return the probability of an alignment, by Brown et al. (1993) without word classes."""
    n, p1, smoothing = len(target), model.config.null_probability, model.config.smoothing
    none = sum(head < 0 for head in heads)
    # Each linked word can generate at most one null-aligned word, so these are at most half of all.
    if 2 * none > n:
        return 0.0
    found = math.comb(n - none, none) * p1**none * (1 - p1) ** (n - 2 * none)
    for i, word in enumerate(source):
        count = sum(head == i for head in heads)
        # The words of a cept are placed in order, so there is no factor f!, in contrast to Model 3.
        found *= float(model.fertilities[word, count])
    for j, head in enumerate(heads):
        found *= model.table.probability(model.table.words if head < 0 else source[head], target[j])
    first, rest = displacements(heads, len(source))
    for step in first:
        share = model.heads[MAX_DISTORTION + step] / model.heads.sum()
        found *= (1 - smoothing) * share + smoothing / NUM_DISTANCES
    for step in rest:
        share = model.others[step - 1] / model.others.sum()
        found *= (1 - smoothing) * share + smoothing / MAX_DISTORTION
    return found


def neighbors(heads, m):
    """Return an alignment and every alignment that differs by one move or swap."""
    near = {tuple(heads)}
    for j in range(len(heads)):
        near |= {(*heads[:j], i, *heads[j + 1 :]) for i in range(-1, m)}
        for k in range(j):
            swapped = list(heads)
            swapped[j], swapped[k] = heads[k], heads[j]
            near.add(tuple(swapped))
    return near


def test_hill_climbing_ends_at_a_local_maximum(model, tiny):
    best = by_sentence(model.align(tiny), tiny.target)
    for row, heads in enumerate(best):
        source, target = tiny.source.sentence(row), tiny.target.sentence(row)
        reached = probability(model, source, target, tuple(heads))
        near = [probability(model, source, target, other) for other in neighbors(tuple(heads), len(source))]
        assert max(near) <= reached * (1 + 1e-5)


def test_expectations_are_sums_over_the_neighborhood(model, tiny):
    (block,) = Blocks(tiny, model.table, 1)
    null = np.empty(int(tiny.target.lengths.sum()), np.float32)
    sums, counted = model.expect_fertilities(block, np.empty(len(block.layout.slots), np.float32), null, 1)
    likelihood, first, rest, at = 0.0, np.zeros(NUM_DISTANCES), np.zeros(MAX_DISTORTION), 0
    best = by_sentence(model.align(tiny), tiny.target)
    for row, links in enumerate(model.posteriors(tiny)):
        source, target = tiny.source.sentence(row), tiny.target.sentence(row)
        near = neighbors(tuple(best[row]), len(source))
        shares = {heads: probability(model, source, target, heads) for heads in near}
        total = sum(shares.values())
        likelihood += math.log(total)
        wanted, fertile = np.zeros(links.shape), np.zeros((len(source), MAX_FERTILITY + 1))
        for heads, share in shares.items():
            for j, head in enumerate(heads):
                if head >= 0:
                    wanted[j, head] += share / total
            steps = displacements(heads, len(source))
            for step in steps[0]:
                first[MAX_DISTORTION + step] += share / total
            for step in steps[1]:
                rest[step - 1] += share / total
            for i in range(len(source)):
                fertile[i, sum(head == i for head in heads)] += share / total
        np.testing.assert_allclose(links, wanted, atol=1e-5)
        np.testing.assert_allclose(counted[at : at + len(source)], fertile, atol=1e-5)
        at += len(source)
    assert sums[0] == pytest.approx(likelihood, rel=1e-5)
    np.testing.assert_allclose(sums[2:], np.concatenate([first, rest]), atol=1e-4)


@pytest.mark.parametrize("n", range(1, 7))
def test_probabilities_of_all_targets_sum_to_at_most_one(n):
    words = ["t0", "t1"]
    corpus = Corpus.from_tokens([(["s"], target) for target in itertools.product(words, repeat=n)])
    table = TranslationTable.of(corpus, 1)
    table.values[:], table.nulls[:] = 1 / len(words), 1 / len(words)
    # Nearly all probability is on cepts of n adjacent words, so that a factor f! would exceed 1.
    fertilities = np.full((2, MAX_FERTILITY + 1), 1e-3, np.float32)
    fertilities[:, n] += 1 - fertilities.sum(1)
    heads, others = np.full(NUM_DISTANCES, 1e-6), np.full(MAX_DISTORTION, 1e-6)
    heads[MAX_DISTORTION + 1] = others[0] = 1
    config = IBM4Config(null_probability=0.01, smoothing=0.01)
    model = IBM4Aligner(table, np.ones((2, JUMPS)), fertilities, heads, others, config)
    total = 0.0
    for row in range(len(corpus)):
        (block,) = Blocks(corpus.subset(row, row + 1), table, 1)
        total += math.exp(model.expect(block, np.empty(n, np.float32), np.empty(n, np.float32), 1)[0])
    assert 0.8 < total <= 1


@pytest.mark.parametrize("fertility", [1, 2, 4, 7, 9])
def test_likelihood_of_a_repeated_word_is_that_of_words_placed_in_order(fertility):
    corpus = Corpus.from_tokens([(["s"], ["t"] * fertility)] * 200)
    passes: list[IterationStats] = []
    train_ibm4(corpus, IBM4Config(), TrainingSetup(num_threads=1, report=passes.append))
    head, other, null = 0.8 + 0.2 / NUM_DISTANCES, 0.8 + 0.2 / MAX_DISTORTION, 0.05
    expected = math.log(head * other ** (fertility - 1) * (1 - null) ** fertility)
    assert passes[-1].log_likelihood == pytest.approx(200 * expected, rel=0.01)


def test_result_does_not_depend_on_threads(phrases):
    corpus = phrases[1].subset(0, 300)
    one, three = (train_ibm4(corpus, CONFIG, TrainingSetup(num_threads=n)) for n in (1, 3))
    np.testing.assert_array_equal(one.fertilities, three.fertilities)
    np.testing.assert_array_equal(one.align(corpus, 1), three.align(corpus, 3))


def test_fertility_two_is_learned():
    pairs = [
        (["a", "b"], ["x", "y", "z"]),
        (["b", "a"], ["z", "x", "y"]),
        (["b"], ["z"]),
        (["a"], ["x", "y"]),
    ]
    corpus = Corpus.from_tokens(pairs * 20)
    model = train_ibm4(corpus, IBM4Config(), TrainingSetup(num_threads=1))
    words = {word: number for number, word in enumerate(corpus.source.words.words)}
    assert model.fertilities[words["a"]].argmax() == 2
    assert model.fertilities[words["b"]].argmax() == 1


def test_empty_sides_and_unknown_words_can_be_aligned(model, tiny):
    pairs = [([], ["t1"]), (["s1"], []), (["s1", "s2"], ["never", "seen", "t1"])]
    new = Corpus.from_tokens(pairs, (tiny.source.words, tiny.target.words), allow_empty=True)
    links = model.align(new)
    assert len(links) == 4 and links[0] == -1
    assert all(np.isfinite(found).all() for found in model.posteriors(new))


def test_initial_displacements_are_those_of_the_links():
    corpus = Corpus.from_tokens([(["a", "b", "c"], ["x", "y", "z", "w", "v"]), (["a"], ["x"])])
    links = np.array([1, 0, -1, 1, 1, 0], dtype=np.int32)
    found = count_cepts(0, 2, corpus.layout(), links)
    heads, others = np.split(found, [NUM_DISTANCES])
    # Source word 0 has target word 1; word 1 has words 0, 3 and 4. The second pair starts at its first word.
    expected = np.zeros(NUM_DISTANCES), np.zeros(MAX_DISTORTION)
    for step in (2, -1, 1):
        expected[0][MAX_DISTORTION + step] += 1
    for step in (3, 1):
        expected[1][step - 1] += 1
    np.testing.assert_array_equal(heads, expected[0])
    np.testing.assert_array_equal(others, expected[1])


def test_words_of_a_source_word_stay_together():
    """A source word with two target words: its second word follows the first in any order of the cepts."""
    pairs = [(["a", "b"], ["x", "y", "z"]), (["b", "a"], ["z", "x", "y"]), (["a"], ["x", "y"])]
    model = train_ibm4(Corpus.from_tokens(pairs * 20), IBM4Config(), TrainingSetup(num_threads=1))
    assert model.others.argmax() == 0 and model.others[0] > 0.9 * model.others.sum()


def test_saved_aligner_gives_the_same_links(model, tiny):
    state = model.state()
    loaded = IBM4Aligner.from_state(state, (len(tiny.source.words), len(tiny.target.words)))
    np.testing.assert_array_equal(loaded.align(tiny), model.align(tiny))
    state.arrays["heads"] = state.arrays["heads"][:5]
    with pytest.raises(DataError, match="heads"):
        IBM4Aligner.from_state(state, (len(tiny.source.words), len(tiny.target.words)))


def test_every_aligner_can_count_fertilities():
    assert set(get_args(AlignerName)) == set(aligner_kinds())
