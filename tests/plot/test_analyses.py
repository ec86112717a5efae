"""The figure of scores by length shows each score, its interval and the number of sentences."""

import math

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.text import Annotation

from regard.metrics.by_length import LengthScores, SystemScore, bucket_by_length
from regard.plot.analyses import length_chart

BUCKETS = bucket_by_length([3] * 1200 + [15] * 5 + [70])
LABELS = [bucket.label for bucket in BUCKETS]
COUNTS = [len(bucket.sentence_ids) for bucket in BUCKETS]
VALUES = (30.0, 25.0, None, None, None, None, 12.25)


def scores(name, *values):
    found = [None if v is None else SystemScore(v, (v - 1.5, v + 2)) for v in values]
    return LengthScores(name, "", tuple(found), SystemScore(20.0))


def panels(systems):
    return length_chart(systems, LABELS, COUNTS).matplotlib.axes


def bars(ax):
    """Return the horizontal position and the ends of each error bar."""
    groups = [each for each in ax.collections if isinstance(each, LineCollection)]
    return [(s[0][0], s[0][1], s[1][1]) for group in groups for s in group.get_segments()]


@pytest.fixture
def two_panels():
    metrics = {"bleu": scores("BLEU", *VALUES), "rep": scores("REP", *VALUES)}
    return panels({name: metrics for name in ("soft", "hard")})


def test_buckets_are_labeled_with_number_of_sentences(two_panels):
    for ax in two_panels:
        assert [label.get_text() for label in ax.get_xticklabels()] == LABELS
        notes = [child.get_text() for child in ax.get_children() if isinstance(child, Annotation)]
        assert notes[: len(COUNTS) + 1] == ["1,200", "5", "0", "0", "0", "0", "1", "sentences"]


def test_points_are_the_scores_and_bars_the_intervals_except_for_empty_buckets(two_panels):
    for ax in two_panels:
        for line in ax.lines:
            expected = [math.nan if value is None else value for value in VALUES]
            np.testing.assert_array_equal(line.get_ydata(), expected)
        ends = [(low, high) for _, low, high in bars(ax)]
        assert ends == [(28.5, 32), (23.5, 27), (10.75, 14.25)] * 2


def test_description_contains_the_total_scores():
    chart = length_chart({name: {"bleu": scores("BLEU", *VALUES)} for name in ("soft", "hard")}, LABELS, None)
    assert chart.description == "soft: BLEU 20.00 overall; hard: BLEU 20.00 overall."


def test_systems_of_a_bucket_are_placed_side_by_side():
    (ax,) = panels({name: {"bleu": scores("BLEU", *[20.0] * 7)} for name in ("a", "b", "c")})
    positions = [x for x, _, _ in bars(ax)]
    assert len(set(positions)) == len(positions) == 21
    assert all(abs(x - round(x)) < 0.5 for x in positions)


def test_score_without_interval_has_a_point_but_no_bar():
    one = LengthScores("BLEU", "", (None,) * 6 + (SystemScore(40.0),), SystemScore(40.0))
    (ax,) = panels({"a": {"bleu": one}})
    assert ax.lines[0].get_ydata()[-1] == 40 and bars(ax) == []
