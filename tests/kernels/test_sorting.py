"""Tests of sorting and binary search for kernels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels.compilation import search_key, stable_argsort

# Few distinct values, so that equal keys are frequent.
KEYS = st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 1e-300, 2.0, 3.0, np.inf]), max_size=150)


@given(KEYS)
def test_order_equals_the_stable_order_of_numpy(keys) -> None:
    keys = np.array(keys, dtype=np.float64)
    np.testing.assert_array_equal(stable_argsort(keys), np.argsort(keys, kind="stable"))


@given(st.sets(st.integers(-20, 20)), st.integers(-25, 25))
def test_key_is_found_at_its_position(found, key) -> None:
    keys = np.array(sorted(found), dtype=np.int64)
    assert search_key(keys, key, 0, len(keys)) == (sorted(found).index(key) if key in found else -1)


def test_first_of_equal_keys_in_the_range_is_found() -> None:
    keys = np.array([1, 3, 3, 3, 5, 2, 3])
    assert [search_key(keys, 3, *limits) for limits in ((0, 5), (2, 5), (5, 7), (0, 1))] == [1, 2, 6, -1]
