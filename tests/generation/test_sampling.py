"""Tests of sampling: deterministic settings equal greedy search; frequencies match probabilities."""

import math

import numpy as np
import pytest
import torch

from generation.conftest import config, token_lists
from regard.data.batch import Batch, collate
from regard.generation.beam import beam_search
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.forced import force_decode
from regard.generation.sampling import sample
from regard.text.vocabulary import EOS


def draw(model, source, settings, options, lines, prefixes=None):
    """Return samples of sentences with the given line numbers."""
    return sample(model, Batch(source, None, torch.tensor(list(lines))), settings, options, prefixes)


def search(**options) -> GenerationConfig:
    return config(**{"beam_size": 1, **options})


def first_tokens(model, batch, num_samples: int, options: Sampling):
    """Sample translations of at most one token; return the tokens and the log-probabilities of the model."""
    settings = search(max_length_ratio=0.0, max_length_offset=1)
    samples = draw(model, batch([[5, 6]] * num_samples), settings, options, range(num_samples))
    memories, state = model.begin(batch([[5, 6]]))
    log_probs = model.step(torch.tensor([2]), memories, state).log_probs[0].detach()
    log_probs[[0, 2, 4]] = -torch.inf  # PAD, BOS and SINK are never sampled
    return [h.tokens[0] if h.tokens else EOS for (h,) in samples], log_probs


@pytest.mark.parametrize("options", [{"temperature": 1e-6}, {"top_k": 1}, {"top_p": 1e-9}])
def test_deterministic_settings_equal_greedy_search(model, batch, sentences, options):
    greedy = beam_search(model, batch(sentences), search())
    samples = draw(model, batch(sentences), search(), Sampling(**options), range(len(sentences)))
    assert token_lists(samples) == token_lists(greedy)


def test_samples_do_not_depend_on_batch_or_padding(model, batch, sentences):
    settings, lines = search(), list(range(1, len(sentences) + 1))
    together = draw(model, batch(sentences, extra=2), settings, Sampling(seed=7), lines)
    for sentence, line, found in zip(sentences, lines, together, strict=True):
        alone = draw(model, batch([sentence]), settings, Sampling(seed=7), [line])
        assert token_lists(alone) == token_lists([found])


def test_samples_depend_on_seed_and_line_number(build, batch):
    model, source = build(), batch([[5, 6, 7, 8]] * 8)
    first = token_lists(draw(model, source, search(), Sampling(seed=1), range(8)))
    assert first == token_lists(draw(model, source, search(), Sampling(seed=1), range(8)))
    assert first != token_lists(draw(model, source, search(), Sampling(seed=2), range(8)))
    assert len({row[0] for row in first}) > 2


def test_probabilities_and_attention_equal_forced_decoding(model, batch, sentences):
    settings, options = search(beam_size=3, num_return=3), Sampling(temperature=2.0, top_k=6)
    samples = draw(model, batch(sentences), settings, options, range(len(sentences)))
    for sentence, found in zip(sentences, samples, strict=True):
        pairs = collate([sentence] * 3, [[*h.tokens, EOS] for h in found], range(3))
        for ours, theirs in zip(found, force_decode(model, pairs), strict=True):
            assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-5)
            np.testing.assert_allclose(ours.attention[0], theirs.attention[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"temperature": 0.5}])
def test_token_frequencies_match_their_probabilities(build, batch, options):
    num_samples = 4000
    tokens, log_probs = first_tokens(build(seed=6), batch, num_samples, Sampling(**options))
    log_probs = log_probs / options.get("temperature", 1.0)
    if "top_k" in options:
        log_probs[log_probs < log_probs.topk(options["top_k"]).values[-1]] = -torch.inf
    expected = torch.softmax(log_probs, dim=0)
    counts = torch.bincount(torch.tensor(tokens), minlength=len(expected))
    # Counts are binomial: a deviation of 4.5 standard deviations has a probability below 1e-5.
    for count, probability in zip(counts.tolist(), expected.tolist(), strict=True):
        deviation = math.sqrt(num_samples * probability * (1 - probability))
        assert abs(count - num_samples * probability) <= 4.5 * deviation + 1e-9


def test_top_p_samples_only_from_the_nucleus(build, batch):
    p = 0.5
    tokens, log_probs = first_tokens(build(seed=6), batch, 300, Sampling(top_p=p))
    ordered, ids = torch.softmax(log_probs, dim=0).sort(descending=True)
    nucleus = set(ids[: int((ordered.cumsum(0) < p).sum()) + 1].tolist())
    assert set(tokens) == nucleus


def test_samples_respect_lengths_prefixes_and_blocking(model, batch, sentences):
    settings = search(beam_size=2, num_return=2, min_length=3, no_repeat_ngram_size=1, max_length_offset=1)
    prefixes = [[5]] * len(sentences)
    samples = draw(model, batch(sentences), settings, Sampling(), range(len(sentences)), prefixes)
    for sentence, found in zip(sentences, samples, strict=True):
        for h in found:
            assert h.tokens[0] == 5
            assert len(set(h.tokens)) == len(h.tokens)
            assert min(3, len(sentence) + 1) <= len(h.tokens) <= len(sentence) + 1
