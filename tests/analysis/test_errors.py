"""Errors of a sentence match REP and DROP, are marked at their words, and lines fit the width."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regard.analysis.errors import SentenceErrors, count_errors
from regard.api.analysis_tables import format_errors
from regard.metrics.coverage import ReceivedAttention, received_attention

TEXT = st.lists(st.sampled_from("abc"), max_size=8).map(tuple)


def sentence(output, reference, line=1, **more):
    """Return a sentence with one source word."""
    return SentenceErrors(line, ("x",), tuple(reference.split()), tuple(output.split()), **more)


@pytest.mark.parametrize(
    ("output", "reference", "sigma", "marked"),
    [
        # Sigma: the worked examples of the definition. Marked are excess occurrences, never the first one.
        ("a a", "a b", 2, {1}),
        ("a a a", "a b", 6, {1, 2}),
        ("a a a", "a a b", 3, {1, 2}),
        ("a b", "a b", 0, set()),
        ("to be or to be", "to be", 1, {3, 4}),
        ("to be or to be to be", "", 3, {3, 4, 5, 6}),
    ],
)
def test_repetitions_are_counted_and_marked_in_place(output, reference, sigma, marked):
    found = sentence(output, reference)
    assert (found.repetition_score, found.num_errors, found.repeated) == (sigma, sigma, marked)


@given(TEXT, TEXT)
def test_words_are_marked_if_and_only_if_sigma_is_positive(output, reference):
    found = SentenceErrors(1, (), reference, output)
    assert bool(found.repeated) == (found.repetition_score > 0)
    assert 0 not in found.repeated
    counted = sum(found.ngrams.values()) + 2 * sum(found.doubled_counts.values())
    assert counted == found.repetition_score


def test_case_matters_unless_lowercased():
    assert sentence("No no", "yes").num_errors == 0
    ignoring = sentence("No no", "yes", lowercase=True)
    assert ignoring.num_errors == 2 and ignoring.output == ("No", "no")


def test_dropped_words_are_linked_only_to_the_reference():
    links = frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(1, 0)})
    found = SentenceErrors(1, ("x", "y", "z"), ("a", "b", "c"), ("b",), None, links)
    assert found.dropped == (0, 2) and found.num_errors == 2


def test_sum_over_sentences_gives_rep_and_drop():
    # By the formulas: sigma 3 and 0 over 4 + 1 words; 1 of 3 + 1 source words is dropped.
    links = [({(0, 0), (1, 2), (2, 3)}, {(0, 0), (2, 3)}), ({(0, 0)}, {(0, 0)})]
    pairs = [(frozenset(reference), frozenset(output)) for reference, output in links]
    texts = [("a a a c", "a a b c"), ("d", "d")]
    found = [sentence(*text, links=pair) for text, pair in zip(texts, pairs, strict=True)]
    without_links = [sentence(*text) for text in texts]
    for sentences, expected in ((found, {"rep": 100 * 3 / 5, "drop": 100 / 4}), (without_links, {"rep": 60})):
        scores = {name: counts.corpus_score() for name, counts in count_errors(sentences).items()}
        assert scores == pytest.approx(expected)


def test_attention_of_subword_tokens_is_summed_per_word_and_sink():
    weights = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.125, 0.125, 0.75]], dtype=np.float32)
    found = received_attention(weights, [0, 0, 1, -1], np.array([2.0, 1.5, 1.0], dtype=np.float32))
    assert found == ReceivedAttention((0.875, 0.375), 0.75, (3.5, 1.0))
    assert received_attention(weights, [0, 0, 1, 1]) == ReceivedAttention((0.875, 1.125))


def test_words_with_much_attention_are_flagged_and_those_with_little_are_not():
    bounded = ReceivedAttention((0.29, 0.3, 2.0, 2.1), None, (1.0, 1.0, 2.0, 2.0))
    assert bounded.excessive == {3}
    # Without bounds the limit is twice the mean, here 2.
    free = ReceivedAttention((0.0, 1.9, 2.1, 0.0))
    assert free.excessive == {2}


def test_record_is_json_with_null_for_infinite_bounds():
    received = ReceivedAttention((0.123456789, 1.0), 0.5, (math.inf, 2.0))
    links = frozenset({(0, 0), (1, 1)}), frozenset({(0, 1)})
    made = SentenceErrors(7, ("x", "y"), ("a", "b"), ("a", "a"), received, links).record()
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "line": 7,
        "num_errors": 3.0,
        "source": ["x", "y"],
        "reference": ["a", "b"],
        "output": ["a", "a"],
        "repetition_score": 2.0,
        "repeated": [1],
        "ngrams": {},
        "doubled_counts": {"a": 1},
        "dropped": [1],
        "attention": [0.123457, 1.0],
        "sink": 0.5,
        "fertility": [None, 2.0],
        "reference_links": "0-0 1-1",
        "output_links": "0-1",
    }
    bare = sentence("a", "a").record()
    assert [bare[name] for name in ("dropped", "attention", "sink", "fertility", "output_links")] == [
        None
    ] * 5


def made():
    """Return a sentence with dropped and repeated words, and with unusual attention."""
    return SentenceErrors(
        line=4,
        source=("ein", "rotes", "Haus", "京都"),
        reference=("a", "red", "house"),
        output=("a", "house", "a", "house", "house"),
        received=ReceivedAttention((1.0, 0.03, 3.5, 0.4), 0.07, (1.0, 1.0, 2.0, 1.5)),
        links=(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)})),
    )


def test_words_are_aligned_with_attention_and_errors_are_bracketed():
    assert [line.plain for line in format_errors(made())] == [
        "line 4: 5 = 1 dropped + 4 for repetitions",
        "source     ein     [rotes]  Haus     京都      <sink>",
        "attention  1.00/1  0.03/1   3.50/2+  0.40/1.5  0.07",
        "reference  a red house",
        "output     a house [a] [house] [house]",
        "repeated   a house (+2)  house doubled (+1)",
    ]


def test_sentence_without_attention_and_links_has_three_lines_of_text():
    assert [line.plain for line in format_errors(sentence("a \x1b[b]", ""))] == [
        "line 1: 0",
        "source     x",
        "reference",
        "output     a �[b]",
    ]


@pytest.mark.parametrize("width", [12, 20, 30, 47, 200])
def test_long_lines_are_wrapped_to_the_width(width):
    lines = [line.plain for line in format_errors(made(), width)]
    assert max(cell_len(line) for line in lines[1:]) <= width
    if width >= 30:
        shown = " ".join(lines)
        for field in ("[rotes]", "0.03/1", "京都", "0.40/1.5", "<sink>", "0.07", "[house]"):
            assert field in shown
    # A word and its attention start in the same column at any width.
    for word, number in (("Haus", "3.50/2+"), ("ein", "1.00/1")):
        if width >= 30:
            above = next(i for i, line in enumerate(lines) if re.search(rf"\b{word}\b", line))
            assert lines[above].index(word) == lines[above + 1].index(number)
