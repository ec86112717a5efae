"""Tests of differences between the attention maps of two systems, with and without a sink."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import DataError
from regard.metrics.alignment import SINK_LABEL, AttentionMap, map_difference, match_columns

SOURCE, TARGET = ("der", "Hund"), ("the", "dog")
SOFT = AttentionMap(SOURCE, TARGET, np.array([[0.75, 0.25], [0.5, 0.5]]))
BOUND = AttentionMap(SOURCE, TARGET, np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]))
matrices = arrays(np.float64, (2, 2), elements=st.floats(0, 1))


def test_missing_sink_counts_as_zero():
    difference = map_difference(SOFT, BOUND)
    assert difference.columns == ("der", "Hund", SINK_LABEL)
    np.testing.assert_array_equal(difference.weights, [[0.25, 0.0, -0.25], [0.5, 0.0, -0.5]])


@given(matrices, matrices, st.booleans(), st.booleans())
def test_difference_is_antisymmetric_and_zero_for_equal_maps(one, other, first, second):
    attention_maps = [AttentionMap(SOURCE, TARGET, weights) for weights in (one, other)]
    own, theirs = (
        each.with_sink() if sink else each for each, sink in zip(attention_maps, (first, second), strict=True)
    )
    difference = map_difference(own, theirs)
    np.testing.assert_array_equal(difference.weights, -map_difference(theirs, own).weights)
    np.testing.assert_array_equal(difference.weights[:, :2], one - other)
    assert not map_difference(own, attention_maps[0]).weights.any()


def test_matched_maps_have_a_sink_column_if_any_has_one():
    matched = match_columns({"soft": SOFT, "bound": BOUND})
    assert {one.columns for one in matched.values()} == {("der", "Hund", SINK_LABEL)}
    assert match_columns({"one": SOFT, "two": SOFT})["one"].columns == SOURCE


def test_source_word_spelled_like_the_sink_label_is_a_word():
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
def test_message_has_the_first_different_word(source, target, message):
    other = AttentionMap(source, target, np.zeros((len(target), len(source))))
    with pytest.raises(DataError, match=f"soft and other have different words.*{message}"):
        map_difference(SOFT, other, ("soft", "other"))


def test_shape_of_weights_must_match_the_words():
    with pytest.raises(
        DataError, match="2 rows and 4 columns does not match 2 target words and 2 source words"
    ):
        AttentionMap(SOURCE, TARGET, np.zeros((2, 4)))


def test_tokens_are_merged_to_words_with_the_sink_as_last_column():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    joined = AttentionMap.of_tokens(weights, ["ab"], ["x", "y"], [0, 0, -1], [0, 1])
    np.testing.assert_array_equal(joined.weights, [[0.75, 0.25], [0.5, 0.5]])
    assert joined.has_sink and joined.columns == ("ab", SINK_LABEL)
