"""BLEU counts, the line search of MERT, and tuning."""

import random
from dataclasses import replace

import numpy as np
import pytest
from toy_table import toy_decoder

from regard.extensions.smt.decoder import SearchLimits
from regard.extensions.smt.model import TuningConfig
from regard.extensions.smt.translation_options import INITIAL_WEIGHTS
from regard.extensions.smt.tuning import (
    NBestLists,
    TuningText,
    bleu_statistics,
    compute_bleu,
    line_search,
    maximize_bleu,
    tune_weights,
)
from regard.metrics.translation import count_statistics

CONFIG = TuningConfig(num_rounds=3, nbest_size=20, num_restarts=1)


def random_lists(seed: int, sentences: int = 12, features: int = 3) -> NBestLists:
    """Return random n-best lists with feature values and BLEU counts."""
    random_ = np.random.default_rng(seed)
    sizes = random_.integers(0, 9, sentences)
    sizes[0] = 6
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = []
    for _ in range(offsets[-1]):
        output = random_.integers(0, 4, random_.integers(4, 9)).tolist()
        rows.append(bleu_statistics(output, random_.integers(0, 4, 7).tolist()))
    values = random_.normal(size=(offsets[-1], features)).round(1)  # rounding gives parallel and equal lines
    return NBestLists(offsets, values, np.array(rows))


def test_bleu_equals_sacrebleu() -> None:
    rng = random.Random(2)
    outputs = [[rng.randint(0, 6) for _ in range(rng.randint(1, 12))] for _ in range(30)]
    references = [[rng.randint(0, 6) for _ in range(rng.randint(1, 12))] for _ in range(30)]
    total = sum(map(bleu_statistics, outputs, references))
    lines, wanted = ([" ".join(map(str, words)) for words in side] for side in (outputs, references))
    score = count_statistics("bleu", lines, [wanted], tokenize="none").corpus_score()
    assert 100 * compute_bleu(total) == pytest.approx(score)


@pytest.mark.parametrize("seed", range(8))
def test_line_search_equals_a_fine_grid(seed: int) -> None:
    lists = random_lists(seed)
    random_ = np.random.default_rng(seed)
    weights, direction = random_.normal(size=3), random_.normal(size=3)
    slopes, heights = lists.features @ direction, lists.features @ weights
    step, value = line_search(lists.offsets, slopes, heights, lists.counts, 8.0)
    assert abs(step) <= 8
    assert lists.bleu(weights + step * direction) == pytest.approx(value, abs=1e-9)
    grid = [lists.bleu(weights + x * direction) for x in np.linspace(-8, 8, 4001)]
    assert value >= max(grid) - 1e-12


def test_search_never_lowers_bleu_and_keeps_fixed_weights() -> None:
    for seed in range(4):
        lists, weights = random_lists(seed), np.array([1.0, -0.5, 0.3])
        free = np.array([0, 2])
        found, value = maximize_bleu(lists, weights, free, 2, np.random.default_rng(1))
        assert value >= lists.bleu(weights)
        assert value == pytest.approx(lists.bleu(found))
        assert found[1] == weights[1]


def test_tuning_improves_bleu_and_is_reproducible() -> None:
    decoder, corpus = toy_decoder(21, SearchLimits(stack_size=20))
    start = replace(decoder, weights=INITIAL_WEIGHTS * np.where(np.arange(len(INITIAL_WEIGHTS)) == 0, -1, 1))
    sources = [corpus.source.sentence(row).tolist() for row in range(len(corpus))]
    references = [corpus.target.sentence(row).tolist() for row in range(len(corpus))]
    text = TuningText(sources, references, sources)
    runs = [tune_weights(start, text, CONFIG, 5, num_threads=threads) for threads in (1, 2)]
    rounds = zip(*runs, strict=True)
    assert all(np.array_equal(first.weights, second.weights) for first, second in rounds)
    assert max(tuning_round.bleu for tuning_round in runs[0]) > runs[0][0].bleu
    assert {tuning_round.weights[3] for tuning_round in runs[0]} == {INITIAL_WEIGHTS[3]}
