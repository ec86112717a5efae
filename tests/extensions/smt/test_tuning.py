"""BLEU counts, the line search of MERT, and tuning."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_table import toy_decoder

from regard.errors import CheckpointError
from regard.extensions.smt.decoder import SearchLimits
from regard.extensions.smt.features import INITIAL_WEIGHTS
from regard.extensions.smt.mert import NBestLists, bleu_statistics, compute_bleu, line_search, maximize_bleu
from regard.extensions.smt.model import TuningConfig
from regard.extensions.smt.tuning import NBestPool, TuningRound, TuningState, TuningText, tune_weights
from regard.metrics.translation import count_statistics

CONFIG = TuningConfig(num_rounds=3, nbest_size=20, num_restarts=1)


def random_lists(seed: int, sentences: int = 12, features: int = 3) -> NBestLists:
    """Return random n-best lists with feature values and BLEU counts."""
    random_ = np.random.default_rng(seed)
    sizes = random_.integers(0, 9, sentences)
    sizes[0] = 6
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = [
        bleu_statistics([random_.integers(0, 4, random_.integers(4, 9)).tolist()], random_.integers(0, 4, 7))[
            0
        ]
        for _ in range(offsets[-1])
    ]
    values = random_.normal(size=(offsets[-1], features)).round(1)  # rounding gives parallel and equal lines
    return NBestLists(offsets, values, np.array(rows))


def test_bleu_equals_sacrebleu() -> None:
    rng = random.Random(2)
    outputs = [[rng.randint(0, 6) for _ in range(rng.randint(1, 12))] for _ in range(30)]
    references = [[rng.randint(0, 6) for _ in range(rng.randint(1, 12))] for _ in range(30)]
    total = sum(bleu_statistics([one], other)[0] for one, other in zip(outputs, references, strict=True))
    lines, wanted = ([" ".join(map(str, words)) for words in side] for side in (outputs, references))
    score = count_statistics("bleu", lines, [wanted], tokenize="none").corpus_score().score
    assert 100 * compute_bleu(total) == pytest.approx(score)


@pytest.mark.parametrize("seed", range(8))
def test_line_search_equals_a_fine_grid(seed: int) -> None:
    lists = random_lists(seed)
    random_ = np.random.default_rng(seed)
    weights, direction = random_.normal(size=3), random_.normal(size=3)
    step, value = line_search(lists, weights, direction, 8.0)
    assert abs(step) <= 8
    assert lists.bleu(weights + step * direction) == pytest.approx(value, abs=1e-9)
    grid = [lists.bleu(weights + x * direction) for x in np.linspace(-8, 8, 4001)]
    assert value >= max(grid) - 1e-12


def test_unbounded_line_search_finds_the_maximum() -> None:
    lists = random_lists(3)
    weights, direction = np.ones(3), np.array([1.0, -1.0, 0.5])
    step, value = line_search(lists, weights, direction)
    assert lists.bleu(weights + step * direction) == pytest.approx(value)
    assert value >= line_search(lists, weights, direction, 2.0)[1]


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
    seen = []
    text = TuningText(sources, references, sources)
    runs = [
        tune_weights(start, text, CONFIG, 5, num_threads=threads, report=seen.append) for threads in (1, 2)
    ]
    assert runs[0].bleu > seen[0].bleu
    assert runs[0].bleu == max(one.bleu for one in seen)
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert runs[0].weights[3] == INITIAL_WEIGHTS[3]


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_interrupted_tuning_ends_identically(stop: int, tmp_path: Path) -> None:
    decoder, corpus = toy_decoder(21, SearchLimits(stack_size=20))
    start = replace(decoder, weights=INITIAL_WEIGHTS * np.where(np.arange(len(INITIAL_WEIGHTS)) == 0, -1, 1))
    sources = [corpus.source.sentence(row).tolist() for row in range(len(corpus))]
    references = [corpus.target.sentence(row).tolist() for row in range(len(corpus))]
    seen: list[TuningRound] = []

    def run(directory: Path | None, report: Callable[[TuningRound], None]) -> TuningRound:
        text = TuningText(sources, references, sources)
        return tune_weights(start, text, CONFIG, 5, report=report, state_dir=directory)

    def report(done: TuningRound) -> None:
        if done.round_number == stop:
            raise KeyboardInterrupt

    whole = run(None, seen.append)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "kept", report)
    again: list[TuningRound] = []
    found = run(tmp_path / "kept", again.append)
    assert again[0].round_number == stop
    assert [(one.bleu, one.num_translations) for one in again] == [
        (one.bleu, one.num_translations) for one in seen[stop:]
    ]
    assert found.bleu == whole.bleu and np.array_equal(found.weights, whole.weights)


def test_damaged_tuning_state_is_named(tmp_path: Path) -> None:
    weights = np.zeros(3)
    pool = NBestPool()
    pool.add([(1, 2), (3,)], [weights, weights + 1], np.zeros((2, 4)))
    state = TuningState(
        [pool, NBestPool()], np.random.default_rng(1), weights, 1, TuningRound(0, weights, 7.0, 2)
    )
    state.save(tmp_path / "kept")
    again = TuningState.load(tmp_path / "kept")
    assert [one.words for one in again.pools] == [[(1, 2), (3,)], []]
    assert again.rng.random() == np.random.default_rng(1).random()
    (tmp_path / "kept" / "about.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a tuning state"):
        TuningState.load(tmp_path / "kept")
    state.save(tmp_path / "kept")
    (tmp_path / "kept" / "tuning.words.npy").unlink()
    with pytest.raises(CheckpointError, match=r"tuning\.words\.npy"):
        TuningState.load(tmp_path / "kept")
