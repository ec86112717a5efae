"""Bootstrap resampling against the normal interval of a mean and against sacreBLEU's paired test."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

from regard.errors import DataError
from regard.metrics.significance import bootstrap, paired_bootstrap
from regard.metrics.translation import count

WORDS = "the a cat dog bird house garden sees hears likes old new green small big under over behind".split()


def mean(summed):
    return summed[:, 0] / summed[:, 1]


def with_lengths(values):
    return np.stack([values, np.ones_like(values)], axis=1)


def corrupted(references, share, seed):
    """References with a share of their words replaced."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(
            str(generator.choice(WORDS)) if generator.random() < share else word for word in line.split()
        )
        for line in references
    ]


@pytest.fixture(scope="module")
def references():
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(WORDS, size=generator.integers(5, 15))) for _ in range(100)]


def test_interval_of_a_mean_is_the_normal_one():
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    estimate = bootstrap(with_lengths(values), mean, resamples=2000, seed=2)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_interval_of_a_mean_over_runs_counts_what_seeds_and_sentences_do():
    # A value for each run and one for each sentence, added: the variances of both means add up.
    generator = np.random.default_rng(1)
    runs, sentences = generator.normal(5.0, 1.0, size=40), generator.normal(0.0, 3.0, size=400)
    rows = np.stack([with_lengths(run + sentences) for run in runs])
    estimate = bootstrap(rows, mean, resamples=2000, seed=2)
    half = 1.96 * np.sqrt(runs.var() / len(runs) + sentences.var() / len(sentences))
    assert estimate.value == pytest.approx(runs.mean() + sentences.mean())
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.1)
    # Against another system of the same sentences, what these add to both goes out of the difference.
    others = generator.normal(5.2, 1.0, size=40)
    paired = paired_bootstrap(rows, np.stack([with_lengths(run + sentences) for run in others]), mean, 2000)
    half = 1.96 * (others - runs).std() / np.sqrt(len(runs))
    assert (paired.difference.high - paired.difference.low) / 2 == pytest.approx(half, rel=0.1)


def test_one_run_is_a_corpus():
    rows = with_lengths(np.random.default_rng(1).normal(size=30))
    assert bootstrap(rows[None], mean, 100) == bootstrap(rows, mean, 100)


def test_identical_outputs_differ_by_nothing(references):
    rows = count("bleu", corrupted(references, 0.3, 1), [references])
    result = paired_bootstrap(rows.rows, rows.rows.copy(), rows.aggregate, resamples=100)
    assert result.p_value == 1.0
    assert (result.difference.value, result.difference.low, result.difference.high) == (0, 0, 0)
    assert result.first == result.other


@pytest.mark.parametrize(("metric", "sign"), [("bleu", 1), ("chrf", 1), ("ter", -1)])
def test_a_clearly_better_output_is_significant(references, metric, sign):
    worse = count(metric, corrupted(references, 0.5, 1), [references])
    better = count(metric, corrupted(references, 0.2, 2), [references])
    result = paired_bootstrap(worse.rows, better.rows, worse.aggregate, resamples=200)
    assert result.p_value < 0.05
    assert sign * result.difference.value > 0
    assert sign * result.difference.low > 0 and sign * result.difference.high > 0
    assert result.difference.value == pytest.approx(result.other.value - result.first.value)


@pytest.mark.parametrize(("share", "significant"), [(0.2, True), (0.5, False)])
def test_verdict_agrees_with_sacrebleu(references, share, significant):
    first, other = corrupted(references, 0.5, 1), corrupted(references, share, 2)
    metric = sacrebleu.BLEU(force=True)
    _, scores = PairedTest([("first", first), ("other", other)], {"BLEU": metric}, [references], "bs", 300)()
    golden = scores["BLEU"][1]
    rows, other_rows = count("bleu", first, [references]), count("bleu", other, [references])
    result = paired_bootstrap(rows.rows, other_rows.rows, rows.aggregate, resamples=300)
    assert result.other.value == pytest.approx(golden.score)
    assert (result.p_value < 0.05) == (golden.p_value < 0.05) == significant
    # sacreBLEU gives the half-width of its interval of the score.
    assert (result.other.high - result.other.low) / 2 == pytest.approx(golden.ci, rel=0.2)


def test_false_alarms_are_as_rare_as_promised():
    generator = np.random.default_rng(3)
    p_values = []
    for seed in range(200):
        first, other = generator.normal(size=(2, 80))
        p_values.append(paired_bootstrap(with_lengths(first), with_lengths(other), mean, 100, seed).p_value)
    # 5 % of 200, within four standard errors.
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_same_seed_same_answer_and_the_order_of_systems_only_turns_the_sign():
    generator = np.random.default_rng(4)
    first, other = with_lengths(generator.normal(size=50)), with_lengths(generator.normal(size=50))
    result = paired_bootstrap(first, other, mean, 100, seed=5)
    assert paired_bootstrap(first, other, mean, 100, seed=5) == result
    assert paired_bootstrap(first, other, mean, 100, seed=6) != result
    turned = paired_bootstrap(other, first, mean, 100, seed=5)
    assert turned.p_value == result.p_value
    assert turned.difference.value == -result.difference.value
    assert turned.first == result.other == bootstrap(other, mean, 100, seed=5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_resampled_ratios_stay_between_the_least_and_the_greatest_sentence(pairs):
    rows = np.array(pairs, dtype=np.float64)
    estimate = bootstrap(rows, mean, resamples=20)
    ratios = rows[:, 0] / rows[:, 1]
    assert ratios.min() - 1e-12 <= estimate.low <= estimate.high <= ratios.max() + 1e-12


def test_what_cannot_be_resampled_is_refused():
    with pytest.raises(DataError, match="at least one sentence"):
        bootstrap(np.zeros((0, 2)), mean)
    with pytest.raises(DataError, match="2 sentences of one system but 3 of the other"):
        paired_bootstrap(np.ones((2, 2)), np.ones((3, 2)), mean)
    with pytest.raises(DataError, match="2 runs of one system but 1 of the other"):
        paired_bootstrap(np.ones((2, 3, 2)), np.ones((3, 2)), mean)
