"""Tests of IBM models 1 and 2 against textbook values, Bayes' rule and their invariances."""

import numpy as np
import pytest
from aligner_text import table_probability
from hypothesis import given
from hypothesis import strategies as st

from regard.alignment.base import TrainingSetup
from regard.alignment.corpus import Corpus
from regard.alignment.em_kernels import expected_distance, log_normalizer_gradient, normalizer
from regard.alignment.ibm import IBM1Config, IBM2Config, IBMAligner, fit_tension

TEXTBOOK = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]

# Koehn (2010), Statistical Machine Translation, Figure 4.4: t(e|f) after iterations 1, 2 and 3.
KOEHN = {
    ("the", "das"): (0.5, 0.6364, 0.7479),
    ("book", "das"): (0.25, 0.1818, 0.1208),
    ("house", "das"): (0.25, 0.1818, 0.1313),
    ("the", "Buch"): (0.25, 0.1818, 0.1208),
    ("book", "Buch"): (0.5, 0.6364, 0.7479),
    ("a", "Buch"): (0.25, 0.1818, 0.1313),
    ("book", "ein"): (0.5, 0.4286, 0.3466),
    ("a", "ein"): (0.5, 0.5714, 0.6534),
    ("the", "Haus"): (0.5, 0.4286, 0.3466),
    ("house", "Haus"): (0.5, 0.5714, 0.6534),
}


def passes(corpus, config, **setting):
    reports = []
    model = IBMAligner.train(corpus, config, TrainingSetup(num_threads=2, report=reports.append, **setting))
    return model, reports


def textbook(iterations):
    corpus = Corpus.from_tokens((source.split(), target.split()) for source, target in TEXTBOOK)
    return corpus, passes(corpus, IBM1Config(iterations=iterations, null_word=False))


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_model_1_matches_textbook_values(iterations):
    corpus, (model, _) = textbook(iterations)
    for (target, source), wanted in KOEHN.items():
        (e,), (f,) = corpus.source.words.numbers([source]), corpus.target.words.numbers([target])
        assert table_probability(model.table, e, f) == pytest.approx(wanted[iterations - 1], abs=6e-5)


def test_model_1_converges_to_correct_links_and_perplexity():
    # Koehn (2010), Figure 4.4, last column: each word converges to one translation.
    corpus, (model, reports) = textbook(60)
    assert model.align(corpus).tolist() == [0, 1] * 3
    # Before the first iteration each English word has probability 1/4.
    assert reports[0].perplexity == pytest.approx(4)
    # After convergence each target word has probability 1/2 * 1.
    assert reports[-1].perplexity == pytest.approx(2, rel=1e-2)


@pytest.mark.parametrize(
    "config",
    [
        IBM1Config(iterations=12),
        IBM1Config(iterations=12, null_word=False),
        IBM2Config(iterations=12, alpha=0.0, fit_tension=False),
    ],
)
def test_likelihood_never_decreases_without_a_prior(small, config):
    _, reports = passes(small, config)
    likelihood = np.array([iteration.log_likelihood for iteration in reports])
    # Posteriors have float32 precision.
    assert (np.diff(likelihood) > -1e-6 * np.abs(likelihood[:-1])).all()
    assert likelihood[-1] > likelihood[0]


def test_posteriors_follow_bayes_rule_with_diagonal_prior(small):
    model, _ = passes(small, IBM2Config(iterations=2))
    for row, found in enumerate(model.posteriors(small)):
        # IBM 2 with the log-linear diagonal prior of Dyer et al. (2013). Null has probability 0.08.
        source, target = small.source.sentence(row), small.target.sentence(row)
        m, n = len(source), len(target)
        for j, word in enumerate(target):
            prior = np.exp(-model.tension * np.abs(np.arange(1, m + 1) / m - (j + 1) / n))
            joint = 0.92 * prior / prior.sum() * [table_probability(model.table, e, word) for e in source]
            null = 0.08 * table_probability(model.table, model.table.words, word)
            np.testing.assert_allclose(found[j], joint / (joint.sum() + null), rtol=2e-4, atol=1e-7)


# The closed forms of Dyer, Chahuneau & Smith (2013) against explicit sums.


def distances(j, n, m):
    return np.abs(np.arange(1, m + 1) / m - j / n)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.floats(0.1, 14))
def test_normalizer_and_gradient_equal_explicit_sums(j, n, m, tension):
    j = min(j, n)
    weights = np.exp(-tension * distances(j, n, m))
    assert normalizer(j, n, m, tension) == pytest.approx(weights.sum(), rel=1e-9)
    expected = -(weights * distances(j, n, m)).sum() / weights.sum()
    assert log_normalizer_gradient(j, n, m, tension) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("true", [2.0, 5.0, 9.0])
def test_fitting_recovers_the_true_tension(true):
    sizes = np.array([7, 12]), np.array([9, 10]), np.array([30, 20])
    words = float((sizes[1] * sizes[2]).sum())
    # A quarter of the words are aligned to null and have no distance.
    feature = 0.75 * expected_distance(*sizes, true)
    tension = 4.0
    for _ in range(200):
        tension = fit_tension(tension, feature, 0.25 * words, sizes)
    assert tension == pytest.approx(true, rel=1e-3)
