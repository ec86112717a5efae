"""Tests of hypotheses: the coverage penalty in their scores, and the trace of a search."""

import math

import numpy as np
import pytest
import torch

from generation.conftest import config
from regard.data.batch import Batch, collate
from regard.generation.beam import beam_search
from regard.generation.config import Sampling
from regard.generation.forced import force_decode
from regard.generation.hypothesis import HypothesisScorer, SearchTrace
from regard.generation.sampling import sample
from regard.text.vocabulary import EOS, SINK

STEPS, ROWS = 30, 6


def expected_score(hypothesis, num_words: int, weight: float = 0.7) -> float:
    """Return the score by Wu et al. (2016), Eq. 14, of a hypothesis for `num_words` source tokens."""
    received = hypothesis.attention[-1].mean(axis=1).sum(axis=0)[:num_words]
    penalty = weight * sum(math.log(max(0.1, min(1.0, float(a)))) for a in received)
    return hypothesis.log_probability / ((5 + len(hypothesis.tokens) + 1) / 6) ** 0.6 + penalty


def test_penalty_is_the_log_of_clamped_coverage_of_unmasked_tokens():
    heads = torch.tensor([[[0.1, 0.5, 2.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0, 0.0]]])
    words = torch.tensor([[True, True, True, False, False]])
    first = torch.zeros(1, 1, 5)  # another layer, which the penalty ignores
    found = HypothesisScorer(1.0, 2.0, 0.2).coverage_penalty((first, heads), words)
    assert found is not None
    assert float(found) == pytest.approx(2 * (math.log(0.2) + math.log(0.5) + math.log(1.0)))


@pytest.mark.parametrize(("weight", "rescore_only"), [(0.0, True), (0.7, True), (0.7, False)])
def test_scores_equal_the_formula_and_forced_decoding(model, batch, sentences, weight, rescore_only):
    penalty = {"weight": weight, "epsilon": 0.1, "rescore_only": rescore_only}
    search = config(beam_size=4, num_return=4, length_penalty=0.6, coverage_penalty=penalty)
    for sentence, found in zip(sentences, beam_search(model, batch(sentences, 2), search), strict=True):
        pairs = collate([sentence] * len(found), [[*h.tokens, EOS] for h in found], range(len(found)))
        expected = force_decode(model, pairs, HypothesisScorer.from_config(search))
        for hypothesis, forced in zip(found, expected, strict=True):
            score = expected_score(hypothesis, len(sentence), weight)
            assert hypothesis.score == pytest.approx(score, abs=1e-5)
            assert forced.score == pytest.approx(score, abs=1e-5)
            assert hypothesis.tokens == forced.tokens
            assert hypothesis.log_probability == pytest.approx(forced.log_probability, abs=1e-5)
            assert hypothesis.token_log_probs == pytest.approx(forced.token_log_probs, abs=1e-5)
            for ours, theirs in zip(hypothesis.attention, forced.attention, strict=True):
                assert ours.dtype == np.float32
                assert ours.shape == (len(hypothesis.tokens) + 1, 1, len(sentence))
                np.testing.assert_allclose(ours, theirs, atol=1e-5)
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_sink_is_not_penalized_in_search_and_sampling(build, batch, sentences):
    model = build(attention={"normalizer": "sparsemax"})
    penalty = {"weight": 0.7, "epsilon": 0.1}
    search = config(beam_size=3, num_return=3, length_penalty=0.6, coverage_penalty=penalty)
    source = batch([[*sentence, SINK] for sentence in sentences])
    samples = sample(model, Batch(source, None, torch.arange(len(sentences))), search, Sampling())
    for results in (beam_search(model, source, search), samples):
        for sentence, found in zip(sentences, results, strict=True):
            for hypothesis in found:
                expected = expected_score(hypothesis, len(sentence))
                assert hypothesis.score == pytest.approx(expected, abs=1e-5)


def record_search(forget_every: int | None) -> tuple[SearchTrace, list[list[int]]]:
    """Record a search in which each row continues one of the first two; return the trace and lineages."""
    generator = torch.Generator().manual_seed(1)
    trace = SearchTrace()
    lineages = [[row] for row in range(ROWS)]
    for step in range(STEPS):
        at = torch.arange(ROWS, dtype=torch.float32)
        trace.weights.append(((100 * step + at).view(-1, 1, 1).expand(-1, 2, 3),))
        if step == STEPS - 1:
            break
        parents = torch.randint(0, 2, (ROWS,), generator=generator)
        trace.choices.append((parents, 5 + torch.arange(ROWS), -torch.arange(ROWS, dtype=torch.float32)))
        lineages = [[*lineages[parent], row] for row, parent in enumerate(parents.tolist())]
        if forget_every and (step + 1) % forget_every == 0:
            trace.release_unused(torch.tensor([3]), torch.tensor([5]))
    return trace, lineages


@pytest.mark.parametrize("forget_every", [None, 1, 7])
def test_path_follows_its_parents(forget_every):
    trace, lineages = record_search(forget_every)
    steps = np.array([*[STEPS - 1] * ROWS, 3])
    rows = np.array([*range(ROWS), 5])
    paths = trace.backtrace(steps, rows, np.full(ROWS + 1, -9.0), np.full(ROWS + 1, 2))
    for path, lineage in zip(paths, lineages, strict=False):
        assert list(path.tokens) == [5 + row for row in lineage[1:]]
        assert list(path.token_log_probs) == [*(-row for row in lineage[1:]), -9.0]
        assert path.attention[0].shape == (STEPS, 2, 2)
        assert path.attention[0][:, 0, 0].tolist() == [100 * t + row for t, row in enumerate(lineage)]
    early = paths[-1]
    assert len(early.tokens) == 3
    assert early.attention[0][-1, 0, 0] == 305


def test_rows_without_surviving_hypotheses_are_released():
    trace, _ = record_search(forget_every=10)
    kept = [len(weights[0]) for weights in trace.weights]
    # Both rows that were continued at a step may be alive; row 5 of step 3 is finished and stays.
    assert max(kept[:3]) <= 3
    assert kept[3] <= 3
    assert max(kept[4:19]) <= 2
    assert kept[20:] == [ROWS] * 10
