"""Tests of the HMM aligner against an enumeration of all paths."""

from itertools import product

import numpy as np
import pytest
from aligner_text import by_sentence, random_pairs, table_probability

from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.em import TranslationTable
from regard.alignment.hmm import MAX_HMM_JUMP, NUM_JUMPS, HMMAligner, HMMConfig


@pytest.fixture(scope="module")
def tiny():
    return Corpus.from_tokens(random_pairs(5, number=6, longest=4))


@pytest.fixture(scope="module")
def model(tiny):
    random = np.random.default_rng(2)
    table = TranslationTable.of(tiny)
    table.values[:] = random.random(len(table.values), dtype=np.float32)
    return HMMAligner(table, random.random((2, NUM_JUMPS)) + 0.1, HMMConfig())


def paths(model, source, target):
    """Yield every path (a source position or -1 per target word) with its probability."""
    m, config = len(source), model.config
    # Row -1 is for jumps from before the first word, which have their own distribution.
    moves = np.zeros((m + 1, m))
    for origin in range(-1, m):
        row = model.jumps[1 if origin < 0 else 0]
        jumps = np.array([row[MAX_HMM_JUMP + i - origin] for i in range(m)])
        moves[origin] = (1 - config.smoothing) * jumps / jumps.sum() + config.smoothing / m
    for path in product(range(-1, m), repeat=len(target)):
        weight, position = 1.0, -1
        for word, place in zip(target, path, strict=True):
            if place < 0:
                weight *= config.null_probability * table_probability(model.table, model.table.words, word)
            else:
                weight *= (1 - config.null_probability) * moves[position, place]
                weight *= table_probability(model.table, source[place], word)
                position = place
        yield path, weight


def test_posteriors_and_viterbi_match_enumeration(model, tiny):
    viterbi = HMMAligner(model.table, model.jumps, HMMConfig(decoding="viterbi"))
    best = by_sentence(viterbi.align(tiny), tiny.target)
    for row, found in enumerate(model.posteriors(tiny)):
        source, target = tiny.source.sentence(row), tiny.target.sentence(row)
        wanted, total, most = np.zeros(found.shape), 0.0, (0.0, ())
        for path, probability in paths(model, source, target):
            total += probability
            most = max(most, (probability, path))
            for j, place in enumerate(path):
                if place >= 0:
                    wanted[j, place] += probability
        np.testing.assert_allclose(found, wanted / total, atol=2e-6)
        assert tuple(best[row]) == most[1]


def test_log_likelihood_and_expected_jumps_match_enumeration(model, tiny):
    from regard.alignment.em import iterate_blocks

    (block,) = iterate_blocks(tiny, model.table, 1)
    size = int(tiny.target.lengths.sum())
    sums = model.expect(block, np.empty(len(block.layout.slots), np.float32), np.empty(size, np.float32), 1)
    likelihood, jumps = 0.0, np.zeros((2, NUM_JUMPS))
    for row in range(len(tiny)):
        found = list(paths(model, tiny.source.sentence(row), tiny.target.sentence(row)))
        total = sum(probability for _, probability in found)
        likelihood += np.log(total)
        for path, probability in found:
            position = -1
            for place in path:
                if place >= 0:
                    jumps[int(position < 0), MAX_HMM_JUMP + place - position] += probability / total
                    position = place
    assert sums[0] == pytest.approx(likelihood, rel=1e-6)
    np.testing.assert_allclose(sums[2:].reshape(2, NUM_JUMPS), jumps, atol=1e-4)


def test_long_sentences_do_not_underflow():
    # Products of 150 probabilities would underflow in float32 without scaling.
    words = [f"w{number}" for number in range(150)]
    corpus = Corpus.from_tokens([(words, words), (words[:1], words * 2), (words * 2, words[:1])])
    model = HMMAligner.train(corpus, HMMConfig(iterations=3), TrainingSetup(num_threads=1))
    assert np.isfinite(model.table.values).all() and np.isfinite(model.jumps).all()
    for links in model.posteriors(corpus):
        assert np.isfinite(links).all() and (links.sum(axis=1) < 1 + 1e-4).all()
