"""Tests of AER on worked examples (Och & Ney 2003), of links from attention, and of differences of maps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.errors import DataError
from regard.metrics.alignment import (
    SINK_LABEL,
    AlignmentScore,
    AttentionMap,
    aer_from_counts,
    alignment_score,
    count_links,
    links_from_weights,
    map_difference,
)
from regard.text.links import GoldLinks, parse_gold_links, parse_links


def test_aer_of_a_worked_example():
    # A has 4 links: 2 of the 3 sure ones, 1 more that is possible, 1 wrong.
    gold, links = parse_gold_links("0-0 1-1 2-2 3p2"), parse_links("0-0 1-1 3-2 3-3")
    assert alignment_score([links], [gold]) == AlignmentScore(3 / 4, 2 / 3, 1 - (2 + 3) / (4 + 3))


def test_counts_are_summed_over_the_corpus():
    gold = [parse_gold_links("0-0 1-1 2-2 3p2"), parse_gold_links("0-0"), parse_gold_links("0p0")]
    links = [parse_links("0-0 1-1 3-2 3-3"), parse_links(""), parse_links("0-0 0-1")]
    # |A| = 4 + 0 + 2, |S| = 3 + 1 + 0, |A & S| = 2, |A & P| = 3 + 0 + 1.
    assert alignment_score(links, gold) == AlignmentScore(4 / 6, 2 / 4, 1 - (2 + 4) / (6 + 4))
    np.testing.assert_array_equal(count_links(links, gold), [[4, 3, 2, 3], [0, 1, 0, 0], [2, 0, 0, 1]])


pairs = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@given(st.lists(st.tuples(pairs, pairs, pairs), min_size=1, max_size=4))
def test_aer_from_counts_equals_aer_from_links(sentences):
    links = [found for found, _, _ in sentences]
    gold = [GoldLinks(sure, sure | more) for _, sure, more in sentences]
    score = alignment_score(links, gold)
    summed = count_links(links, gold).sum(axis=0, keepdims=True)
    assert aer_from_counts(summed)[0] == pytest.approx(score.aer)
    assert all(0 <= part <= 1 for part in (score.precision, score.recall, score.aer))


def test_empty_alignment_has_recall_zero():
    assert alignment_score([frozenset()], [parse_gold_links("0-0")]) == AlignmentScore(1.0, 0.0, 1.0)
    assert alignment_score([frozenset()], [parse_gold_links("")]) == AlignmentScore(1.0, 1.0, 0.0)


def test_subwords_are_summed_over_source_and_averaged_over_target():
    # Source: word 0 in two subword tokens, word 1, EOS. Target: word 0, word 1 in two subword tokens, EOS.
    weights = np.array(
        [[0.3, 0.3, 0.4, 0.0], [0.0, 0.1, 0.9, 0.0], [0.5, 0.4, 0.1, 0.0], [0.0, 0.0, 0.1, 0.9]]
    )
    # Word 0 attends with (0.6, 0.4). Word 1 attends with the mean of (0.1, 0.9) and (0.9, 0.1). This is
    # a tie, in which the first word wins.
    assert links_from_weights(weights, [0, 0, 1, -1], [0, 1, 1, -1]) == parse_links("0-0 0-1")
    weights[1] = [0.0, 0.0, 1.0, 0.0]
    assert links_from_weights(weights, [0, 0, 1, -1], [0, 1, 1, -1]) == parse_links("0-0 1-1")


def test_word_that_attends_only_to_non_words_is_not_linked():
    weights = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    assert links_from_weights(weights, source_words=[0, -1]) == parse_links("0-1")
    assert links_from_weights(weights, source_words=[-1, -1]) == frozenset()
    assert links_from_weights(np.zeros((0, 3))) == frozenset()
    # Symbols that a tokenizer adds to every line are no words either.
    boundary = np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]])
    assert links_from_weights(boundary, [0, 1, -2]) == parse_links("1-0")


def test_word_that_attends_mainly_to_the_sink_is_not_linked():
    # Half of the first target word's attention is on the sink, but no more than on a source word.
    weights = np.array([[0.5, 0.0, 0.5], [0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
    assert links_from_weights(weights, [0, 1, -1]) == parse_links("0-0 1-2")
    assert links_from_weights(weights) == parse_links("0-0 2-1 1-2")
    # The subword tokens of a target word are averaged before they are compared with the sink.
    assert links_from_weights(weights, [0, 1, -1], [0, 0, 1]) == parse_links("1-1")


@given(arrays(np.float64, (4, 3), elements=st.sampled_from([0.0, 1e-9, 0.25, 0.5, 1.0])), st.floats(0.1, 10))
def test_links_are_invariant_to_the_scale_of_the_weights(weights, scale):
    links = links_from_weights(weights)
    assert all(weights[t, s] == weights[t].max() > 0 for s, t in links)
    assert len(links) == np.count_nonzero(weights.max(axis=1) > 0)
    assert len(links_from_weights(scale * weights)) == len(links)


SOURCE, TARGET = ("der", "Hund"), ("the", "dog")
SOFT = AttentionMap(SOURCE, TARGET, np.array([[0.75, 0.25], [0.5, 0.5]]))
BOUND = AttentionMap(SOURCE, TARGET, np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]))


def test_missing_sink_counts_as_zero():
    difference = map_difference(SOFT, BOUND)
    assert difference.columns == ("der", "Hund", SINK_LABEL)
    np.testing.assert_array_equal(difference.weights, [[0.25, 0.0, -0.25], [0.5, 0.0, -0.5]])


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (SOURCE, ("the", "cat"), "word 2 of the translation is 'dog' in soft and 'cat' in other"),
        (SOURCE, ("the",), "word 2 of the translation is 'dog' in soft and missing in other"),
        (("der", "Hund", "."), TARGET, "word 3 of the source is missing in soft and '.' in other"),
    ],
)
def test_message_has_the_first_different_word(source, target, message):
    other = AttentionMap(source, target, np.zeros((len(target), len(source))))
    with pytest.raises(DataError, match=f"soft and other have different words.*{message}"):
        map_difference(SOFT, other, ("soft", "other"))


def test_tokens_are_merged_to_words_with_the_sink_as_last_column():
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    joined = AttentionMap.of_tokens(weights, ["ab"], ["x", "y"], [0, 0, -1], [0, 1])
    np.testing.assert_array_equal(joined.weights, [[0.75, 0.25], [0.5, 0.5]])
    assert joined.has_sink and joined.columns == ("ab", SINK_LABEL)
