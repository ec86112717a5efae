"""Bar and triangle charts of rounds: heights, positions and the feasible region match the numbers."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon, Rectangle

from regard.plot.simplex import RoundAttention, clip_polygon, rounds_chart, simplex_chart

SCORES = np.array([[1.0, 0.5, -0.5]])
ONES = np.ones(3)


def area(points) -> float:
    """Return the area of a polygon."""
    return (
        abs(sum(a * d - b * c for (a, b), (c, d) in zip(points, [*points[1:], *points[:1]], strict=True))) / 2
    )


def polygons(ax):
    """Return the corners of the whole triangle and of the feasible region."""
    return [patch.get_xy()[:-1].tolist() for patch in ax.patches if isinstance(patch, Polygon)]


def points(ax):
    """Return the position and the fill color of each point."""
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    return [((line.get_xdata()[0], line.get_ydata()[0]), line.get_markerfacecolor()) for line in dots]


def test_bars_have_height_of_weights_and_zeros_have_no_bar() -> None:
    chart = rounds_chart([RoundAttention("map", np.array([[0.75, 0.25, 0.0]]))], SCORES, ONES)
    one_round, total = chart.matplotlib.axes
    for ax in (one_round, total):
        bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert [bar.get_height() for bar in bars] == [0.75, 0.25]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["0.7500", "0.2500", "0"]


def test_bounds_are_dashed_lines_at_their_value() -> None:
    bounded = RoundAttention("map", np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 1.0, 1.0]]))
    one_round, total = rounds_chart([bounded], SCORES, 2 * ONES).matplotlib.axes
    for ax, limits in ((one_round, [0.5, 1, 1]), (total, [2, 2, 2])):
        dashed = [each for each in ax.collections if isinstance(each, LineCollection)][-1]
        assert [segment[0][1] for segment in dashed.get_segments()] == limits
        assert dashed.get_linestyle()[0][1] is not None  # the dash pattern; None for a solid line


@pytest.mark.parametrize("word", range(3))
def test_corners_of_the_triangle_are_single_words(word) -> None:
    (ax,) = simplex_chart([RoundAttention("map", np.eye(3)[[word]])], SCORES).matplotlib.axes
    ((point, _),) = points(ax)
    assert point == pytest.approx(polygons(ax)[0][word])


def test_feasible_region_has_the_expected_area() -> None:
    # The bound of 0.5 cuts off a triangle of half the side; bounds of 1 cut off nothing.
    weights, bounds = np.array([[0.4, 0.3, 0.3]]), np.array([[0.5, 1.0, 1.0]])
    (ax,) = simplex_chart([RoundAttention("map", weights, bounds, weights)], SCORES).matplotlib.axes
    whole, feasible = polygons(ax)
    assert area(feasible) == pytest.approx(0.75 * area(whole))
    assert [fill for _, fill in points(ax)].count("white") == 1  # the unconstrained point


def test_infeasible_bounds_have_no_region() -> None:
    weights, bounds = np.array([[0.3, 0.3, 0.3]]), np.full((1, 3), 0.3)
    (ax,) = simplex_chart([RoundAttention("map", weights, bounds)], SCORES).matplotlib.axes
    assert len(polygons(ax)) == 1


def test_description_contains_the_numbers() -> None:
    chart = simplex_chart([RoundAttention("sparse", np.array([[0.7, 0.3, 0.0]]))], SCORES)
    assert chart.description == "sparse: round 1 0.7000, 0.3000, 0; cumulative 0.7000, 0.3000, 0."


def test_clipping_keeps_the_nonnegative_side() -> None:
    square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
    assert area(clip_polygon(square, lambda p: 2 - p[0] - p[1])) == pytest.approx(2)
    assert clip_polygon(square, lambda p: p[0] + 1) == square
    assert clip_polygon(square, lambda p: -1 - p[0]) == []
