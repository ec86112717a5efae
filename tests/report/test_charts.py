"""Charts show the given numbers, and a system has the same style in every panel."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.metrics.attention import AttentionStatistics, Histogram
from regard.report.attention_charts import plot_coverage, plot_entropy
from regard.report.charts import Panel, Series, plot_panels

SVG = "{http://www.w3.org/2000/svg}"
EDGES = (0.0, 0.5, 1.0, 1.5)


def panel(*series, kind="curve", edges=EDGES, note=""):
    return Panel("title", "nats", edges, series, kind, note)


def plot(*panels):
    return ET.fromstring(plot_panels(panels, "name", "description"))


def tooltips(root):
    """Return the tooltips of the markers of a curve."""
    return [tip for tip in (each.findtext(f"{SVG}title") for each in root) if tip]


def lines(root, stroke):
    """Return the strokes of one color, each as a list of corners."""
    found = []
    for path in root.iter(f"{SVG}path"):
        if path.get("stroke") == stroke and path.get("fill") == "none" and not path.get("opacity"):
            x = y = 0.0
            corners = []
            for dx, dy in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d", "")):
                x, y = x + float(dx), y + float(dy)
                corners.append((x, y))
            found.append(corners)
    return found


def test_curve_passes_through_bin_centers_at_height_of_shares():
    root = plot(panel(Series("a", np.array([0.25, 0.5, 1.0]))))
    color = root.find(f"{SVG}circle").get("fill")
    legend, (one, two, three) = lines(root, color)
    assert len(legend) == 2
    assert two[0] - one[0] == pytest.approx(three[0] - two[0], abs=0.2)
    # In SVG, y decreases upward.
    assert (two[1] - three[1]) == pytest.approx(2 * (one[1] - two[1]), abs=0.2)


def test_curve_has_a_gap_at_missing_values():
    edges = (0, 1, 2, 3, 4, 5)
    root = plot(panel(Series("a", np.array([0.1, 0.2, np.nan, 0.4, 0.5])), edges=edges))
    color = root.find(f"{SVG}circle").get("fill")
    assert [len(corners) for corners in lines(root, color)[1:]] == [2, 2]
    assert tooltips(root) == [
        f"a, {low} to {low + 1}: {share:.1%}" for low, share in ((0, 0.1), (1, 0.2), (3, 0.4), (4, 0.5))
    ]


def test_tooltip_of_a_point_shows_its_interval():
    series = Series("a", np.array([0.5]), np.array([[0.25, 0.75]]))
    assert tooltips(plot(panel(series, edges=(0, 1)))) == ["a, 0 to 1: 50.0% (25.0% to 75.0%)"]


def test_histogram_steps_have_height_of_shares_and_empty_bins_none():
    root = plot(panel(Series("a", np.array([0.5, 0.0, 0.25])), kind="histogram"))
    color = root.find(f"{SVG}circle").get("fill")
    _, first, last = lines(root, color)
    heights = [max(y for _, y in corners) - min(y for _, y in corners) for corners in (first, last)]
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    assert last[0][0] - first[-1][0] == pytest.approx(first[-1][0] - first[0][0], abs=0.2)


def test_missing_bins_are_zero():
    series = Series("a", np.array([0.2, 0.3, 0.5])), Series("b", np.array([1.0]))
    root = plot(panel(*series, kind="histogram"))
    assert tooltips(root) == [
        "0 to 0.5: a 20.0%, b 100.0%",
        "0.5 to 1: a 30.0%, b 0.0%",
        "1 to 1.5: a 50.0%, b 0.0%",
    ]


def test_systems_differ_in_more_than_color():
    series = [Series(f"system {i}", np.array([0.5, 0.5, 0.5])) for i in range(10)]
    root = plot(panel(*series))
    styles = {
        (path.get("stroke"), path.get("stroke-dasharray"))
        for path in root.iter(f"{SVG}path")
        if path.get("stroke-width") == "2"
    }
    assert len(styles) == 10 and len({dashes for _, dashes in styles}) > 3


def test_system_has_one_style_in_all_panels_and_one_legend_entry():
    series = Series("one", np.array([0.5, 0.2, 0.3])), Series("other", np.array([0.1, 0.2, 0.3]))
    root = plot(panel(*series), panel(*series, kind="histogram"))
    assert [text.text for text in root.iter(f"{SVG}text")].count("other") == 1
    strokes = [path.get("stroke-dasharray") for path in root.iter(f"{SVG}path") if path.get("stroke-width")]
    assert strokes.count(None) == strokes.count("7 3") == 3  # legend, curve and steps


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30), st.floats(1e-3, 5.0), st.text(max_size=20))
def test_any_chart_is_well_formed_and_within_its_borders(shares, width, name):
    edges = tuple((np.arange(len(shares) + 1) * width).tolist())
    series = Series(name, np.array(shares))
    root = plot(panel(series, edges=edges), panel(series, kind="histogram", edges=edges))
    wide, high = float(root.get("width")), float(root.get("height"))
    for path in root.iter(f"{SVG}path"):
        x = y = 0.0
        for dx, dy in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d", "")):
            x, y = x + float(dx), y + float(dy)
            assert -1 <= x <= wide and -1 <= y <= high


def figures(entropies, coverages=(0.5, 1.0)):
    share = Histogram((0.0, 0.5, 1.0), tuple(int(100 * x) for x in coverages))
    return AttentionStatistics(9, 90, 0.5, 0.7, 3.0, 0.8, entropies, share)


def test_bins_of_few_steps_show_their_share_but_no_accuracy():
    svg = plot_entropy({"m": figures(Histogram((0.0, 0.2, 0.4), (91, 9), (91, 9)))})
    tips = tooltips(ET.fromstring(svg))
    assert [tip.split(" (")[0] for tip in tips] == [
        "m, 0 to 0.2: 100.0%",
        "0 to 0.2: m 91.0%",
        "0.2 to 0.4: m 9.0%",
    ]


def test_models_with_different_bins_are_rejected():
    one, other = figures(Histogram((0.0, 0.2), (5,), (5,))), figures(Histogram((0.0, 0.25), (5,), (5,)))
    with pytest.raises(DataError, match="bins of different widths"):
        plot_entropy({"one": one, "other": other})


def test_coverage_chart_has_a_text_description():
    root = ET.fromstring(plot_coverage({"soft": figures(Histogram((0.0, 0.2), (5,), (5,)))}))
    assert root.findtext(f"{SVG}desc") == "soft: 80.0% on average."
