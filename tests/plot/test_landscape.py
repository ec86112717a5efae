"""Softmax and sparsemax compared: support regions, contours and curves equal the transformations."""

import numpy as np
import pytest
import torch
from matplotlib.contour import QuadContourSet
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from regard.functional import softmax, sparsemax
from regard.plot.landscape import Surface, curves_chart, support_regions, surfaces_chart


def grid(map, first: int, second: int) -> np.ndarray:
    """Return the first weight of (x, y, 0) on a grid, for x and y from -3 to 3."""
    across, down = np.meshgrid(np.linspace(-3, 3, first), np.linspace(-3, 3, second))
    return map(torch.tensor(np.stack([across, down, 0 * across], -1)))[..., 0].numpy()


def area(points) -> float:
    """Return the area of a polygon."""
    return (
        abs(sum(a * d - b * c for (a, b), (c, d) in zip(points, [*points[1:], *points[:1]], strict=True))) / 2
    )


def test_support_of_sparsemax_in_each_region_is_its_name() -> None:
    for support, corners in support_regions(3).items():
        shares = np.random.default_rng(0).dirichlet(np.ones(len(corners)), 50)
        points = shares @ np.array(corners)
        weights = sparsemax(torch.tensor(np.column_stack([points, np.zeros(50)])))
        attended = (torch.arange(1, 4)[:, None] == torch.tensor(support)).any(1)
        assert ((weights > 0) == attended).all(), support


def test_regions_fill_the_square() -> None:
    regions = support_regions(3)
    assert len(regions) == 7 and sum(map(area, regions.values())) == pytest.approx(36)


def surface(map):
    return Surface(map.__name__, 3, grid(map, 7, 7), grid(map, 61, 31), map is sparsemax)


@pytest.fixture(scope="module")
def panels():
    return surfaces_chart([surface(softmax), surface(sparsemax)]).matplotlib.axes


def bands(ax):
    """Return the corners of the bands of weight, from the lowest."""
    (contours,) = (each for each in ax.collections if isinstance(each, QuadContourSet))
    return contours.levels, [path.vertices for path in contours.get_paths()]


def test_contours_lie_at_their_weight(panels) -> None:
    levels, corners = bands(panels[2])
    assert levels[3] == pytest.approx(0.3)
    inside = corners[3][(np.abs(corners[3]) < 2.99).all(1)]
    weights = softmax(torch.tensor(np.column_stack([inside, np.zeros(len(inside))])))[:, 0].numpy()
    assert len(weights) > 30
    assert np.minimum(abs(weights - 0.3), abs(weights - 0.4)).max() < 1e-3


def test_unreachable_weight_has_no_band(panels) -> None:
    assert len(bands(panels[2])[1][-1]) == 0 < len(bands(panels[3])[1][-1])


def test_lowest_band_begins_where_sparsemax_is_above_zero(panels) -> None:
    lowest = bands(panels[3])[1][0]
    weights = sparsemax(torch.tensor(np.column_stack([lowest, np.zeros(len(lowest))])))[:, 0]
    assert (lowest[:, 0] >= -1 - 1e-6).all() and weights.min() < 1e-6


def test_surfaces_show_exact_zeros_white_and_label_every_region(panels) -> None:
    facets = []
    for ax in panels[:2]:
        (polygons,) = (each for each in ax.collections if isinstance(each, Poly3DCollection))
        facets.append([tuple(color) for color in polygons.get_facecolor()])
    white = (1.0, 1.0, 1.0, 1.0)
    assert [len(colors) for colors in facets] == [36, 36]
    assert white not in facets[0] and white in facets[1]
    labels = {text.get_text() for text in panels[3].texts}
    assert {"{1}", "{2}", "{3}", "{1,2}", "{1,3}", "{2,3}", "{1,2,3}"} == labels


def test_curves_and_their_description_state_where_they_are_zero_and_one() -> None:
    differences = np.linspace(-3, 3, 13)
    pairs = torch.tensor(np.column_stack([differences, 0 * differences]))
    curves = {map.__name__: map(pairs)[:, 0].numpy() for map in (softmax, sparsemax)}
    chart = curves_chart(differences, curves)
    assert "softmax is never 0 or 1; sparsemax is 0 up to -1 and 1 from 1." in chart.description
    (ax,) = chart.matplotlib.axes
    for line, (name, curve) in zip(ax.lines, curves.items(), strict=True):
        assert line.get_label() == name
        np.testing.assert_array_equal(line.get_ydata(), curve)
