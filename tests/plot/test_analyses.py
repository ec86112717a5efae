"""Charts show the given numbers, and a system has the same style in every panel."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch
from matplotlib.text import Annotation

from regard.metrics.attention import AttentionStatistics, Histogram
from regard.metrics.by_length import LengthScores, SystemScore, bucket_by_length
from regard.plot.analyses import (
    chart,
    coverage_chart,
    entropy_chart,
    length_chart,
    plot_curve,
    set_value_axis,
)

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


def test_systems_of_a_bucket_are_placed_side_by_side():
    (ax,) = panels({name: {"bleu": scores("BLEU", *[20.0] * 7)} for name in ("a", "b", "c")})
    positions = [x for x, _, _ in bars(ax)]
    assert len(set(positions)) == len(positions) == 21
    assert all(abs(x - round(x)) < 0.5 for x in positions)


def test_score_without_interval_has_a_point_but_no_bar():
    one = LengthScores("BLEU", "", (None,) * 6 + (SystemScore(40.0),), SystemScore(40.0))
    (ax,) = panels({"a": {"bleu": one}})
    assert ax.lines[0].get_ydata()[-1] == 40 and bars(ax) == []


def statistics(entropies, coverages=(0.5, 1.0)):
    share = Histogram((0.0, 0.5, 1.0), tuple(int(100 * x) for x in coverages))
    return AttentionStatistics(9, 90, 0.5, 0.7, 3.0, 0.8, entropies, share)


def one_panel(plot):
    return chart("title", "", ["a"], [plot]).matplotlib.axes[0]


def outlines(ax):
    """Return the outlines of histograms, without the backgrounds."""
    return [patch for patch in ax.patches if isinstance(patch, StepPatch) and not patch.get_fill()]


def test_curve_passes_through_bin_centers_at_height_of_accuracy():
    bins = Histogram((0.0, 0.5, 1.0, 1.5), (100, 100, 100), (25, 50, 100))
    (line,) = entropy_chart({"a": statistics(bins)}).matplotlib.axes[0].lines
    assert line.get_xdata().tolist() == [0.25, 0.75, 1.25]
    assert line.get_ydata().tolist() == [0.25, 0.5, 1.0]


def test_bins_of_few_steps_have_a_share_but_no_accuracy():
    curve, shares = entropy_chart(
        {"m": statistics(Histogram((0.0, 0.2, 0.4), (91, 9), (91, 9)))}
    ).matplotlib.axes
    values = curve.lines[0].get_ydata()
    assert values[0] == 1 and math.isnan(values[1])
    (outline,) = outlines(shares)
    assert outline.get_data().values.tolist() == pytest.approx([0.91, 0.09])


def test_systems_differ_in_more_than_color():
    ax = one_panel(lambda ax: [plot_curve(ax, i, np.arange(3.0), np.ones(3)) for i in range(10)])
    styles = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in ax.lines}
    assert len(styles) == 10 and len({marker for _, marker, _ in styles}) > 3


def test_system_has_one_style_in_all_panels_and_one_legend_entry():
    models = {name: statistics(Histogram((0.0, 0.2), (50,), (25,))) for name in ("_one", "other")}
    figure = entropy_chart(models).matplotlib
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["_one", "other"]
    curve, shares = figure.axes
    found = [[line.get_color() for line in artists] for artists in (legend.get_lines(), curve.lines)]
    assert found[0] == found[1] and len(set(found[0])) == 2
    edges = [tuple(outline.get_edgecolor()) for outline in outlines(shares)]
    assert len(set(edges)) == 2


@settings(max_examples=30)
@given(st.lists(st.floats(-1e15, 1e15), max_size=30))
def test_value_axis_contains_all_values_and_zero(values):
    ax = one_panel(lambda ax: set_value_axis(ax, [np.array([*values, np.nan])]))
    low, high = ax.get_ylim()
    rounding = 1e-9 * (high - low)
    assert low < high and low <= min([0, *values]) + rounding and max([0, *values]) <= high + rounding


@pytest.mark.slow
@settings(max_examples=10)
@given(st.text(max_size=20))
def test_chart_with_any_name_can_be_rendered(name):
    figure = coverage_chart({name: statistics(Histogram((0.0, 0.2), (5,), (5,)))})
    assert figure.render("svg") and figure.render("pdf")
