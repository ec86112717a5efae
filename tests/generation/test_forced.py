"""Tests of forced decoding: top-scoring next tokens, attention weights and posteriors."""

import logging

import numpy as np
import pytest
import torch

from generation.conftest import TEXT
from regard.config import from_dict
from regard.data.batch import collate
from regard.generation.config import GenerationConfig, Sampling
from regard.generation.forced import predict_tokens
from regard.generation.lines import enumerate_lines
from regard.generation.neural_translator import NeuralTranslator
from regard.text.vocabulary import EOS

POSTERIOR = {"kind": "posterior", "top_k": 0, "posterior_weight": 1.0}
PAIRS = [
    ("a b c", "C B A"),
    ("", "A"),
    ("d", "D E F G"),
    ("e f g a b", ""),
    ("c c c c", "C C"),
    ("x y a", "A X B"),
]


def forced(model, pairs=PAIRS, **batch):
    search = from_dict(GenerationConfig, batch)
    return list(NeuralTranslator(model, TEXT, search).score(pairs, predictions=True))


def test_top_scoring_token_equals_exhaustive_search(model, sentences):
    targets = [[*tokens[::-1][:4], EOS] for tokens in sentences]
    found = predict_tokens(model, collate(sentences, targets, range(len(sentences))))
    vocab_size = model.output_bias.shape[0]
    with torch.inference_mode():
        for row, (source, target) in enumerate(zip(sentences, targets, strict=True)):
            for t in range(len(target)):
                candidates = [[*target[:t], token] for token in range(vocab_size)]
                batch = collate([source] * vocab_size, candidates, range(vocab_size))
                scores = model(batch).log_likelihood[:, t]
                assert scores[found[row, t]] == pytest.approx(float(scores.max()), abs=1e-5)


def test_posterior_is_proportional_to_prior_times_token_likelihood(build):
    """Posterior attention: Shankar & Sarawagi (2019), Eq. 13, from the joint distribution of Eq. 7."""
    model = build(seed=3, attention=POSTERIOR)
    line = forced(model, [("a b c d", "C A")])[0]
    batch = TEXT.batch([TEXT.source.encode("a b c d")], [[*TEXT.target.encode("C A"), EOS]], [0])
    with torch.inference_mode():
        outcome = model(batch)
    # Of the joint distribution of source token and target token; source tokens are sorted by probability.
    joint = (outcome.log_weights + outcome.log_likelihoods)[0].exp().numpy()
    shares = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(np.sort(line.posteriors[-1][:, 0]), np.sort(shares), atol=1e-6)
    assert np.abs(line.attention[-1] - line.posteriors[-1]).max() > 1e-3
    np.testing.assert_allclose(line.token_log_probs, np.log(joint.sum(1)), atol=1e-6)


def test_skipped_lines_are_logged(build, caplog):
    with caplog.at_level(logging.WARNING):
        found = forced(build(), max_source_length=4)
    assert [line.error is not None for line in found] == [False, True, False, True, False, False]
    assert [record.args[0] for record in caplog.records] == [2, 4]


@pytest.mark.parametrize("sampling", [None, Sampling()], ids=["beam", "sample"])
@pytest.mark.parametrize(
    "changes",
    [
        {"attention": {**POSTERIOR, "coupling": "monotonic"}},
        {"attention": {"kind": "hard"}},
        {"attention": {"kind": "soft"}},
        {"two": True},  # a mechanism from outside the package that observes tokens
    ],
)
def test_translation_and_scoring_return_the_same_attention_as_analysis(build, changes, sampling):
    model, sources = build(seed=3, **changes), [source for source, _ in PAIRS]
    search = from_dict(
        GenerationConfig, {"beam_size": 3, "num_return": 2, "suppress_unk": True, "max_length_ratio": 1.0}
    )
    # Only for soft attention are prior weights and posteriors the same.
    has_posterior, num_different = changes != {"attention": {"kind": "soft"}}, 0
    for result in NeuralTranslator(model, TEXT, search, sampling).translate(enumerate_lines(sources)):
        pairs = [(result.source, one.text) for one in result.nbest]
        scored = NeuralTranslator(model, TEXT, search).score(pairs)
        lines = zip(result.nbest, forced(model, pairs), scored, strict=True)
        for one, expected, score in lines:
            assert expected.error is None and score.error is None
            prior, posterior = expected.attention[0], expected.posterior_attention[0]
            for found in (one, score):
                np.testing.assert_allclose(found.attention[0], prior, atol=1e-6)
                np.testing.assert_allclose(found.posterior_attention[0], posterior, atol=1e-6)
                assert bool(found.posteriors) == has_posterior
            np.testing.assert_allclose(one.attention_map, posterior[:-1, 0], atol=1e-6)
            assert one.links == score.links
            num_different += not np.allclose(prior, posterior, atol=1e-5)
    assert bool(num_different) == has_posterior
