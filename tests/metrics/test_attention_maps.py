"""Maps of two systems are subtracted by words, whether or not one of them has a sink."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import DataError
from regard.metrics.maps import SINK_LABEL, AttentionMap, map_difference, match_maps

SOURCE, TARGET = ("der", "Hund"), ("the", "dog")
SOFT = AttentionMap(SOURCE, TARGET, np.array([[0.75, 0.25], [0.5, 0.5]]))
BOUND = AttentionMap(SOURCE, TARGET, np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]))
drawn = arrays(np.float64, (2, 2), elements=st.floats(0, 1))


def test_a_missing_sink_received_nothing():
    apart = map_difference(SOFT, BOUND)
    assert apart.columns == ("der", "Hund", SINK_LABEL)
    np.testing.assert_array_equal(apart.weights, [[0.25, 0.0, -0.25], [0.5, 0.0, -0.5]])


@given(drawn, drawn, st.booleans(), st.booleans())
def test_a_difference_is_antisymmetric_and_that_of_equals_is_zero(one, other, first, second):
    maps = [AttentionMap(SOURCE, TARGET, weights) for weights in (one, other)]
    own, theirs = (
        each.with_sink() if sink else each for each, sink in zip(maps, (first, second), strict=True)
    )
    apart = map_difference(own, theirs)
    np.testing.assert_array_equal(apart.weights, -map_difference(theirs, own).weights)
    np.testing.assert_array_equal(apart.weights[:, :2], one - other)
    assert not map_difference(own, maps[0]).weights.any()


def test_a_sink_of_one_is_a_column_of_all_and_none_of_none():
    matched = match_maps({"soft": SOFT, "bound": BOUND})
    assert {one.columns for one in matched.values()} == {("der", "Hund", SINK_LABEL)}
    assert match_maps({"one": SOFT, "two": SOFT})["one"].columns == SOURCE


def test_a_source_word_spelled_like_the_sink_is_a_word():
    plain = AttentionMap((SINK_LABEL,), ("a",), np.array([[1.0]]))
    bound = AttentionMap((SINK_LABEL,), ("a",), np.array([[0.25, 0.75]]))
    np.testing.assert_array_equal(map_difference(plain, bound).weights, [[0.75, -0.75]])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (SOURCE, ("the", "cat"), "word 2 of the translation: it is 'dog' in soft, it is 'cat' in other"),
        (SOURCE, ("the",), "word 2 of the translation: it is 'dog' in soft, there is none in other"),
        (("der", "Hund", "."), TARGET, "word 3 of the source: there is none in soft, it is '.' in other"),
    ],
)
def test_a_message_names_the_word_that_differs(source, target, message):
    other = AttentionMap(source, target, np.zeros((len(target), len(source))))
    with pytest.raises(DataError, match=f"soft and other have different words.*{message}"):
        map_difference(SOFT, other, ("soft", "other"))


def test_weights_of_other_words_are_refused():
    with pytest.raises(
        DataError, match="2 rows and 4 columns does not match 2 target words and 2 source words"
    ):
        AttentionMap(SOURCE, TARGET, np.zeros((2, 4)))


def test_tokens_are_joined_to_words_and_the_sink_comes_last():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    joined = AttentionMap.of_tokens(weights, ["ab"], ["x", "y"], [0, 0, -1], [0, 1])
    np.testing.assert_array_equal(joined.weights, [[0.75, 0.25], [0.5, 0.5]])
    assert joined.has_sink and joined.columns == ("ab", SINK_LABEL)
