"""Tests of the closed forms of Dyer, Chahuneau & Smith (2013) against explicit sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.alignment.diagonal import (
    MAX_TENSION,
    expected_distance,
    fit_tension,
    length_counts,
    log_normalizer_gradient,
    normalizer,
)


def distances(j, n, m):
    return np.abs(np.arange(1, m + 1) / m - j / n)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.floats(0.1, 14))
def test_normalizer_and_gradient_equal_explicit_sums(j, n, m, tension):
    j = min(j, n)
    weights = np.exp(-tension * distances(j, n, m))
    assert normalizer(j, n, m, tension) == pytest.approx(weights.sum(), rel=1e-9)
    expected = -(weights * distances(j, n, m)).sum() / weights.sum()
    assert log_normalizer_gradient(j, n, m, tension) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_sizes_count_distinct_length_pairs():
    sizes = length_counts(np.array([3, 2, 3, 3]), np.array([4, 2, 4, 5]))
    assert [list(map(int, row)) for row in zip(*sizes, strict=True)] == [[2, 2, 1], [3, 4, 2], [3, 5, 1]]


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


def test_tension_stays_within_its_bounds():
    sizes = np.array([7]), np.array([9]), np.array([1])
    tension = 4.0
    for _ in range(100):
        tension = fit_tension(tension, 0.0, 0.0, sizes)
    assert tension == MAX_TENSION
