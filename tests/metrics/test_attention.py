"""Tests of attention statistics under teacher forcing: entropy, support, coverage and binned accuracy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.metrics.attention import (
    Histogram,
    SentenceAttention,
    attention_statistics,
    coverage,
    entropy,
    summarize,
)


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_uniform_attention_has_entropy_log_n_and_one_hot_attention_0(size):
    weights = np.full((2, size), 1 / size, dtype=np.float32)
    assert entropy(weights) == pytest.approx([math.log(size)] * 2, abs=1e-6)
    assert entropy(np.eye(size, dtype=np.float32)).tolist() == [0.0] * size


@given(arrays(np.float64, (3, 5), elements=st.floats(1e-6, 1)), st.permutations(range(5)))
def test_entropy_is_bounded_and_permutation_invariant(weights, order):
    weights /= weights.sum(axis=1, keepdims=True)
    entropies = entropy(weights)
    assert (entropies >= 0).all() and (entropies <= math.log(5) + 1e-9).all()
    assert entropy(weights[:, order]) == pytest.approx(entropies)


def test_coverage_of_a_permutation_and_of_constant_attention():
    assert coverage(np.eye(5)[[3, 1, 4, 0, 2]]) == 1
    constant = np.zeros((5, 5))
    constant[:, 2] = 1
    assert coverage(constant) == pytest.approx(1 / 5)


def test_eos_counts_in_entropy_but_not_in_coverage_and_links():
    weights = np.array([[1.0, 0, 0], [0, 1.0, 0], [1 / 3, 1 / 3, 1 / 3]])[:, None]
    found = attention_statistics(weights, np.array([True, False, True]), [0, 1, 2], [0, 1])
    assert found.entropies == pytest.approx([0, 0, math.log(3)])
    assert found.coverage == pytest.approx(2 / 3)
    assert found.links == {(0, 0), (1, 1)}


def test_entropy_is_per_head_and_coverage_is_of_the_mean():
    heads = np.array([[[1.0, 0], [0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])  # (T, H, S)
    found = attention_statistics(heads, np.array([True, True]), [0, 1], [0])
    assert found.entropies == pytest.approx([0, math.log(2)])
    assert found.support.tolist() == [1, 2]
    assert found.coverage == pytest.approx(0.5)


def test_coverage_is_of_words_without_the_sink():
    # Source: a word of two subword tokens, a word, the sink. Target: one word of two subword tokens.
    weights = np.array([[0.5, 0.5, 0, 0], [0.5, 0, 0, 0.5], [0, 0, 0, 1.0]])[:, None]
    found = attention_statistics(weights, np.array([True] * 3), [0, 0, 1, -1], [0, 0])
    assert found.coverage == pytest.approx((0.75 + 0) / 2)
    assert found.links == {(0, 0)}


def sentence(entropies, right, covered=0.5):
    steps = len(entropies)
    return SentenceAttention(
        np.array(entropies, dtype=float), np.ones(steps), np.array(right), covered, frozenset({(0, 0)})
    )


def test_binned_accuracy_of_a_worked_example():
    one = sentence([0.0, 0.1, 0.3, 0.5], [True, False, True, True], 1.0)
    other = sentence([0.19, 0.7], [False, False], 0.52)
    found = summarize([one, other], width=0.25)
    assert (found.sentences, found.steps) == (2, 6)
    assert found.accuracy == pytest.approx(3 / 6)
    assert found.entropy == pytest.approx(1.79 / 6)
    assert found.coverage == pytest.approx(0.76)
    assert found.entropies == Histogram((0.0, 0.25, 0.5, 0.75), (3, 1, 2), (1, 1, 1))
    assert found.entropies.accuracy == pytest.approx([1 / 3, 1, 1 / 2])
    assert found.entropies.shares == pytest.approx([3 / 6, 1 / 6, 2 / 6])
    assert found.coverages.counts[10] == found.coverages.counts[19] == 1
    assert sum(found.coverages.counts) == 2 and len(found.coverages.counts) == 20


def test_rounding_does_not_change_the_bin():
    """0.6 nats and 15 % coverage are bin edges that sums of floats do not hit exactly."""
    for value in (0.6 - 1e-9, 0.6, 0.6 + 1e-9):
        found = summarize([sentence([value, 0.7], [True, True], value / 4)], width=0.2)
        assert found.entropies.counts == (0, 0, 0, 2)
        assert found.coverages.counts[3] == 1
    # The overall maximum lies on the last edge.
    assert summarize([sentence([0.6], [True])], width=0.2).entropies.counts == (0, 0, 1)


def test_intervals_are_wilson_intervals():
    """Brown, Cai & DasGupta (2001), Eq. 4, for 8 of 10: 0.4902 to 0.9433."""
    found = Histogram((0.0, 1.0, 2.0), (10, 0), (8, 0))
    assert found.accuracy_interval[0] == pytest.approx([0.4902, 0.9433], abs=1e-4)
    assert np.isnan(found.accuracy_interval[1]).all() and np.isnan(found.accuracy[1])
