"""Tests of bootstrap resampling against normal intervals and the paired test of sacreBLEU."""

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from regard.errors import DataError
from regard.metrics.base import bootstrap, paired_bootstrap
from regard.metrics.translation import count_statistics

WORDS = "the a cat dog bird house garden sees hears likes old new green small big under over behind".split()


def mean(summed):
    return summed[:, 0] / summed[:, 1]


def with_lengths(values):
    return np.stack([values, np.ones_like(values)], axis=1)


def corrupted(references, fraction, seed):
    """Return the references with a random fraction of their words replaced."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(
            str(generator.choice(WORDS)) if generator.random() < fraction else word for word in line.split()
        )
        for line in references
    ]


@pytest.fixture(scope="module")
def references():
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(WORDS, size=generator.integers(5, 15))) for _ in range(100)]


def test_interval_of_a_mean_matches_the_normal_interval():
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    estimate = bootstrap(with_lengths(values), mean, resamples=2000, seed=2)
    half_width = 1.96 * values.std() / np.sqrt(len(values))
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half_width, abs=0.15 * half_width)
    assert estimate.high == pytest.approx(values.mean() + half_width, abs=0.15 * half_width)


def test_interval_over_runs_includes_variance_of_seeds_and_sentences():
    # The value is the sum of a run effect and a sentence effect, so the variances of both means add up.
    generator = np.random.default_rng(1)
    runs, sentences = generator.normal(5.0, 1.0, size=40), generator.normal(0.0, 3.0, size=400)
    rows = np.stack([with_lengths(run + sentences) for run in runs])
    estimate = bootstrap(rows, mean, resamples=2000, seed=2)
    half_width = 1.96 * np.sqrt(runs.var() / len(runs) + sentences.var() / len(sentences))
    assert estimate.value == pytest.approx(runs.mean() + sentences.mean())
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half_width, rel=0.1)
    # In a comparison on the same sentences, the sentence effects cancel in the difference.
    others = generator.normal(5.2, 1.0, size=40)
    paired = paired_bootstrap(rows, np.stack([with_lengths(run + sentences) for run in others]), mean, 2000)
    half_width = 1.96 * (others - runs).std() / np.sqrt(len(runs))
    assert (paired.difference.high - paired.difference.low) / 2 == pytest.approx(half_width, rel=0.1)


def test_identical_outputs_have_difference_zero(references):
    rows = count_statistics("bleu", corrupted(references, 0.3, 1), [references])
    result = paired_bootstrap(rows.rows, rows.rows.copy(), rows.aggregate, resamples=100)
    assert result.p_value == 1.0
    assert (result.difference.value, result.difference.low, result.difference.high) == (0, 0, 0)
    assert result.first == result.other


@pytest.mark.parametrize(("fraction", "significant"), [(0.2, True), (0.5, False)])
def test_significance_agrees_with_sacrebleu(references, fraction, significant):
    first, other = corrupted(references, 0.5, 1), corrupted(references, fraction, 2)
    metric = sacrebleu.BLEU(force=True)
    _, scores = PairedTest([("first", first), ("other", other)], {"BLEU": metric}, [references], "bs", 300)()
    theirs = scores["BLEU"][1]
    rows, other_rows = (
        count_statistics("bleu", first, [references]),
        count_statistics("bleu", other, [references]),
    )
    result = paired_bootstrap(rows.rows, other_rows.rows, rows.aggregate, resamples=300)
    assert result.other.value == pytest.approx(theirs.score)
    assert (result.p_value < 0.05) == (theirs.p_value < 0.05) == significant
    # sacreBLEU reports the half-width of the confidence interval.
    assert (result.other.high - result.other.low) / 2 == pytest.approx(theirs.ci, rel=0.2)


def test_false_positive_rate_is_at_most_the_level():
    generator = np.random.default_rng(3)
    p_values = []
    for seed in range(200):
        first, other = generator.normal(size=(2, 80))
        p_values.append(paired_bootstrap(with_lengths(first), with_lengths(other), mean, 100, seed).p_value)
    # 5 % of 200, within four standard errors.
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_result_is_seeded_and_antisymmetric_in_the_systems():
    generator = np.random.default_rng(4)
    first, other = with_lengths(generator.normal(size=50)), with_lengths(generator.normal(size=50))
    result = paired_bootstrap(first, other, mean, 100, seed=5)
    assert paired_bootstrap(first, other, mean, 100, seed=5) == result
    assert paired_bootstrap(first, other, mean, 100, seed=6) != result
    swapped = paired_bootstrap(other, first, mean, 100, seed=5)
    assert swapped.p_value == result.p_value
    assert swapped.difference.value == -result.difference.value
    assert swapped.first == result.other == bootstrap(other, mean, 100, seed=5)


def test_mismatched_or_empty_counts_raise():
    with pytest.raises(DataError, match="at least one sentence"):
        bootstrap(np.zeros((0, 2)), mean)
    with pytest.raises(DataError, match="2 sentences of one system but 3 of the other"):
        paired_bootstrap(np.ones((2, 2)), np.ones((3, 2)), mean)
    with pytest.raises(DataError, match="2 runs of one system but 1 of the other"):
        paired_bootstrap(np.ones((2, 3, 2)), np.ones((3, 2)), mean)
