"""Tests of beam search: comparison with exhaustive search, scores, constraints and batch invariance."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generation.conftest import config, score_all_translations, token_lists
from regard.config import from_dict
from regard.data.batch import collate
from regard.errors import ConfigError, RegardError
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig
from regard.generation.forced import force_decode
from regard.generation.hypothesis import HypothesisScorer
from regard.generation.token_constraints import largest_values
from regard.models.base import Prediction
from regard.text.vocabulary import BOS, EOS, PAD, SINK, UNK


def assert_same(first, second, tolerance=1e-4):
    """Assert that hypotheses, probabilities and attention are equal; ties in score may come in any order."""
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert one.score == pytest.approx(other.score, abs=tolerance)
        if one.tokens == other.tokens:
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=tolerance)
            for ours, theirs in zip(one.attention, other.attention, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=tolerance)
    assert len({h.tokens for h in first} & {h.tokens for h in second}) >= len(first) - 1


@pytest.mark.parametrize(
    "options",
    [
        {"length_penalty": 0.0},
        {"length_penalty": 1.0},
        {"length_penalty": 0.6, "coverage_penalty": {"weight": 2.0}},
        {"length_penalty": 0.6, "coverage_penalty": {"weight": 2.0, "rescore_only": False}},
    ],
)
def test_exhaustive_beam_finds_the_best_translations(build, batch, options):
    vocab_size, longest = 8, 3
    model = build(seed=1, vocab_size=vocab_size)
    limits = {"max_length_ratio": 0.0, "max_length_offset": longest, "scheme": {"stopping": "exact"}}
    search = config(beam_size=4**longest, num_return=20, **options, **limits)
    best, without_penalty = (
        score_all_translations(model, [5, 7, 6], vocab_size, longest, scorer)[:20]
        for scorer in (HypothesisScorer.from_config(search), HypothesisScorer(search.length_penalty))
    )
    changed = [h.tokens for h in best] != [h.tokens for h in without_penalty]
    assert changed == ("coverage_penalty" in options)
    found = beam_search(model, batch([[5, 7, 6]]), search)
    assert token_lists(found) == [[h.tokens for h in best]]
    assert [h.score for h in found[0]] == pytest.approx([h.score for h in best], abs=1e-5)


def test_beam_of_one_equals_the_greedy_loop(model, batch, sentences):
    search = config(beam_size=1, length_penalty=1.0)
    found = beam_search(model, batch(sentences), search)
    for sentence, (hypothesis,) in zip(sentences, found, strict=True):
        generated: list[int] = []
        with torch.no_grad():
            memories, state = model.begin(batch([sentence]))
            token = BOS
            for _ in range(len(sentence) + 4):
                prediction = model.step(torch.tensor([token]), memories, state)
                log_probs = prediction.log_probs[0].clone()
                log_probs[[PAD, BOS, SINK]] = -torch.inf
                token = int(log_probs.argmax())
                if token == EOS:
                    break
                generated.append(token)
                state = model.update(prediction, torch.tensor([0]), torch.tensor([token]))
        assert hypothesis.tokens == tuple(generated)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("coverage", [{}, {"weight": 0.7}, {"weight": 0.7, "rescore_only": False}])
def test_translation_does_not_depend_on_batch_or_padding(model, batch, sentences, beam, coverage):
    search = config(beam_size=beam, num_return=min(beam, 3), coverage_penalty=coverage)
    together = beam_search(model, batch(sentences, extra=3), search)
    reversed_order = beam_search(model, batch(sentences[::-1]), search)[::-1]
    for sentence, first, second in zip(sentences, together, reversed_order, strict=True):
        alone = beam_search(model, batch([sentence]), search)[0]
        assert_same(alone, first)
        assert_same(alone, second)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000), size=st.integers(1, 3), beam=st.integers(1, 4))
def test_blocked_ngrams_are_not_repeated(build, batch, seed, size, beam):
    search = config(beam_size=beam, no_repeat_ngram_size=size, min_length=6, max_length_offset=8)
    for (found,) in beam_search(build(seed, uniform=1.0), batch([[5, 6, 7], [8, 9]]), search):
        ngrams = list(zip(*(found.tokens[i:] for i in range(size)), strict=False))
        assert len(ngrams) == len(set(ngrams))


def test_lengths_are_within_their_limits(model, batch, sentences):
    search = config(beam_size=3, num_return=3, min_length=3, max_length_ratio=1.0, max_length_offset=1)
    for sentence, found in zip(sentences, beam_search(model, batch(sentences), search), strict=True):
        assert all(min(3, len(sentence) + 1) <= len(h.tokens) <= len(sentence) + 1 for h in found)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"min_length": 2011}, 2010),
        ({"min_length": 5, "max_length_ratio": 0.1, "max_source_length": 20, "max_length_offset": 2}, 4),
    ],
)
def test_minimum_length_above_every_maximum_is_refused(options, most):
    with pytest.raises(ConfigError, match=rf"min_length = {options['min_length']} exceeds {most}, the max"):
        from_dict(GenerationConfig, options)
    assert from_dict(GenerationConfig, {**options, "min_length": most}).min_length == most


def test_special_symbols_are_never_generated(build, batch, sentences):
    model = build()
    with torch.no_grad():
        model.output_bias[[PAD, BOS, SINK, UNK]] = 50.0
    generated = {t for (h,) in beam_search(model, batch(sentences), config(beam_size=3)) for t in h.tokens}
    assert generated == {UNK}
    search = config(beam_size=3, suppress_unk=True, min_length=2)
    generated = {t for (h,) in beam_search(model, batch(sentences), search) for t in h.tokens}
    assert generated and not generated & {PAD, BOS, SINK, UNK, EOS}


def test_translation_continues_the_prefix(model, batch, sentences):
    prefixes = [[5 + i % 4] * (i % 4) for i in range(len(sentences))]
    search = config(beam_size=3, num_return=2, length_penalty=0.5)
    found = beam_search(model, batch(sentences), search, prefixes)
    for sentence, prefix, hypotheses in zip(sentences, prefixes, found, strict=True):
        assert all(list(h.tokens[: len(prefix)]) == prefix for h in hypotheses)
        pairs = collate([sentence] * 2, [[*h.tokens, EOS] for h in hypotheses], [0, 1])
        for ours, theirs in zip(hypotheses, force_decode(model, pairs), strict=True):
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)
    free = beam_search(model, batch(sentences), search)
    given_best = [list(hypotheses[0].tokens) for hypotheses in free]
    again = beam_search(model, batch(sentences), search, given_best)
    assert [list(h[0].tokens[: len(p)]) for h, p in zip(again, given_best, strict=True)] == given_best


def test_finished_sentences_leave_the_batch(build, batch, sentences):
    model = build(seed=4)
    rows: list[int] = []
    step = model.step
    model.step = lambda tokens, memories, state: (rows.append(len(tokens)), step(tokens, memories, state))[1]
    beam_search(model, batch(sentences), config(beam_size=2))
    assert rows[0] == len(sentences)
    assert rows[1] == 2 * len(sentences)
    assert rows[-1] < rows[1]
    assert all(later <= earlier for earlier, later in itertools.pairwise(rows[1:]))


def test_pruning_the_trace_does_not_change_results(model, batch, sentences, monkeypatch):
    search = config(beam_size=4, num_return=4, max_length_offset=12)
    kept = beam_search(model, batch(sentences), search)
    monkeypatch.setattr("regard.generation.beam._RELEASE_EVERY", 1)
    for before, after in zip(kept, beam_search(model, batch(sentences), search), strict=True):
        assert_same(before, after, tolerance=0)


def test_exact_stopping_is_never_worse_than_heuristic_stopping(model, batch, sentences):
    searches = [
        config(beam_size=3, scheme={"stopping": stop}, length_penalty=1.5) for stop in ("heuristic", "exact")
    ]
    results = [beam_search(model, batch(sentences), search) for search in searches]
    for (heuristic,), (exact,) in zip(*results, strict=True):
        assert exact.score >= heuristic.score - 1e-6


def test_ties_are_broken_deterministically(build, batch, sentences):
    model = build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    search = config(beam_size=3, num_return=3)
    found = token_lists(beam_search(model, batch(sentences), search))
    assert found == token_lists(beam_search(model, batch(sentences), search))
    assert found == [token_lists(beam_search(model, batch([one]), search))[0] for one in sentences]


def test_nan_weights_raise_an_error(build, batch, sentences):
    model = build()
    with torch.no_grad():
        model.output_bias.fill_(torch.nan)
    with pytest.raises(RegardError, match="log-probabilities are NaN"):
        beam_search(model, batch(sentences), config(beam_size=3))


def test_search_does_not_change_training_mode_or_predictions(build, batch, sentences):
    model = build()
    model.train()
    kept: list[tuple[Prediction, torch.Tensor]] = []
    step = model.step

    def recording_step(tokens, memories, state):
        prediction = step(tokens, memories, state)
        kept.append((prediction, prediction.log_probs.clone()))
        return prediction

    model.step = recording_step
    beam_search(model, batch(sentences), config(beam_size=2, no_repeat_ngram_size=1))
    assert model.training
    assert all(torch.equal(prediction.log_probs, before) for prediction, before in kept)


def test_half_precision_models_return_float32_scores(build, batch, sentences):
    model = build().to(torch.bfloat16)
    for (hypothesis,) in beam_search(model, batch(sentences), config(beam_size=2)):
        assert hypothesis.attention[0].dtype == np.float32
        assert hypothesis.log_probability == pytest.approx(sum(hypothesis.token_log_probs))


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("levels", [3, 1 << 20])  # with many ties, and with almost none
@pytest.mark.parametrize("rows", [0, 40])
def test_largest_values_are_the_start_of_a_descending_sort(k: int, levels: int, rows: int) -> None:
    logits = torch.randint(levels, (rows, 1003)).float()
    logits[:, ::50] = -torch.inf
    values, indices = largest_values(logits, k)
    assert torch.equal(values, logits.sort(dim=1, descending=True).values[:, :k])
    assert torch.equal(logits.gather(1, indices), values)
    assert all(len(set(row)) == k for row in indices.tolist())
