"""Bar and triangle charts of rounds: heights, positions and the feasible region match the numbers."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.plotting.svg.document import clip_polygon
from regard.report.simplex import RoundAttention, plot_bars, plot_triangles

SVG = "{http://www.w3.org/2000/svg}"
SCORES = np.array([[1.0, 0.5, -0.5]])
ONES = np.ones(3)


def area(points) -> float:
    """Return the area of a polygon."""
    return (
        abs(sum(a * d - b * c for (a, b), (c, d) in zip(points, [*points[1:], *points[:1]], strict=True))) / 2
    )


def outline(path: ET.Element) -> list[tuple[float, float]]:
    """Return the corners of a path of one absolute and several relative moves."""
    x = y = 0.0
    corners = []
    for dx, dy in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path.get("d", "")):
        x, y = x + float(dx), y + float(dy)
        corners.append((x, y))
    return corners


def elements(svg: str, name: str, **wanted) -> list[ET.Element]:
    """Return the elements of a kind that have the given attributes."""
    found = ET.fromstring(svg).iter(f"{SVG}{name}")
    return [each for each in found if all(each.get(key) == value for key, value in wanted.items())]


def test_bars_have_height_of_weights_and_zeros_have_no_bar() -> None:
    svg = plot_bars([RoundAttention("map", np.array([[0.75, 0.25, 0.0]]))], SCORES, ONES)
    bars = [path for path in elements(svg, "path") if path.find(f"{SVG}title") is not None]
    assert [bar.findtext(f"{SVG}title") for bar in bars[:2]] == [
        "map, round 1, word 1: 0.7500",
        "map, round 1, word 2: 0.2500",
    ]
    assert len(bars) == 4  # two of the round and two of the sum
    assert area(outline(bars[0])) == pytest.approx(3 * area(outline(bars[1])), rel=0.01)


def test_bounds_are_dashed_lines_at_their_value() -> None:
    bounded = RoundAttention("map", np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 1.0, 1.0]]))
    svg = plot_bars([bounded], SCORES, ONES)
    bar = next(path for path in elements(svg, "path") if path.find(f"{SVG}title") is not None)
    dashed = [path for path in elements(svg, "path") if path.get("stroke-dasharray")]
    assert len(dashed) == 3 + 3 + 1  # bounds, fertilities and the legend
    assert outline(dashed[0])[0][1] == min(y for _, y in outline(bar))


@pytest.mark.parametrize("word", range(3))
def test_corners_of_the_triangle_are_single_words(word) -> None:
    svg = plot_triangles([RoundAttention("map", np.eye(3)[[word]])], SCORES)
    corners = outline(elements(svg, "path")[0])
    point = elements(svg, "circle")[0]
    assert (float(point.get("cx", 0)), float(point.get("cy", 0))) == pytest.approx(corners[word], abs=0.1)


def test_feasible_region_has_the_expected_area() -> None:
    # The bound of 0.5 cuts off a triangle of half the side; bounds of 1 cut off nothing.
    weights, bounds = np.array([[0.4, 0.3, 0.3]]), np.array([[0.5, 1.0, 1.0]])
    svg = plot_triangles([RoundAttention("map", weights, bounds, weights)], SCORES)
    whole, feasible = elements(svg, "path")[:2]
    assert area(outline(feasible)) == pytest.approx(0.75 * area(outline(whole)), rel=0.01)
    assert len(elements(svg, "circle", fill="#ffffff")) == 2  # the unconstrained point, and the legend


def test_description_contains_the_numbers() -> None:
    svg = plot_triangles([RoundAttention("sparse", np.array([[0.7, 0.3, 0.0]]))], SCORES)
    description = ET.fromstring(svg).findtext(f"{SVG}desc")
    assert description == "sparse: round 1 0.7000, 0.3000, 0; cumulative 0.7000, 0.3000, 0."


def test_clipping_keeps_the_nonnegative_side() -> None:
    square = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0)]
    assert area(clip_polygon(square, lambda p: 2 - p[0] - p[1])) == pytest.approx(2)
    assert clip_polygon(square, lambda p: p[0] + 1) == square
    assert clip_polygon(square, lambda p: -1 - p[0]) == []
