"""Charts show the given numbers, and a system has the same style in every panel."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch

from regard.errors import DataError
from regard.metrics.attention import AttentionStatistics, Histogram
from regard.plot.analyses import coverage_chart, entropy_chart
from regard.plot.charts import chart, plot_curve, set_value_axis


def statistics(entropies, coverages=(0.5, 1.0)):
    share = Histogram((0.0, 0.5, 1.0), tuple(int(100 * x) for x in coverages))
    return AttentionStatistics(9, 90, 0.5, 0.7, 3.0, 0.8, entropies, share)


def axes(figure):
    return figure.matplotlib.axes


def one_panel(plot):
    return axes(chart("title", "", ["a"], [plot]))[0]


def outlines(ax):
    """Return the outlines of histograms, without the backgrounds."""
    return [patch for patch in ax.patches if isinstance(patch, StepPatch) and not patch.get_fill()]


def test_curve_passes_through_bin_centers_at_height_of_accuracy():
    bins = Histogram((0.0, 0.5, 1.0, 1.5), (100, 100, 100), (25, 50, 100))
    (line,) = axes(entropy_chart({"a": statistics(bins)}))[0].lines
    assert line.get_xdata().tolist() == [0.25, 0.75, 1.25]
    assert line.get_ydata().tolist() == [0.25, 0.5, 1.0]


def test_bins_of_few_steps_have_a_share_but_no_accuracy():
    curve, shares = axes(entropy_chart({"m": statistics(Histogram((0.0, 0.2, 0.4), (91, 9), (91, 9)))}))
    values = curve.lines[0].get_ydata()
    assert values[0] == 1 and math.isnan(values[1])
    (outline,) = outlines(shares)
    assert outline.get_data().values.tolist() == pytest.approx([0.91, 0.09])


def test_error_bars_are_the_intervals():
    intervals = np.array([[0.25, 0.75], [np.nan, np.nan]])
    ax = one_panel(lambda ax: plot_curve(ax, 0, np.arange(2.0), np.array([0.5, 0.6]), intervals))
    (bars,) = (each for each in ax.collections if isinstance(each, LineCollection))
    assert [segment.tolist() for segment in bars.get_segments()] == [[[0, 0.25], [0, 0.75]]]


def test_long_curves_have_no_markers():
    values = np.linspace(0, 1, 31)
    ax = one_panel(lambda ax: [plot_curve(ax, 0, values[:n], values[:n]) for n in (30, 31)])
    assert [line.get_marker() in ("", "None") for line in ax.lines] == [False, True]


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


@settings(max_examples=10)
@given(st.text(max_size=20))
def test_chart_with_any_name_can_be_rendered(name):
    figure = coverage_chart({name: statistics(Histogram((0.0, 0.2), (5,), (5,)))})
    assert figure.render("svg") and figure.render("pdf")


def test_models_with_different_bins_are_rejected():
    one, other = (statistics(Histogram((0.0, high), (5,), (5,))) for high in (0.2, 0.25))
    with pytest.raises(DataError, match="bins of different widths"):
        entropy_chart({"one": one, "other": other})
