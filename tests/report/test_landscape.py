"""Softmax and sparsemax compared: support regions, contours and curves equal the transformations."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from regard.functional import softmax, sparsemax
from regard.report.landscape import Surface, _contour, plot_curves, plot_surfaces, support_regions

SVG = "{http://www.w3.org/2000/svg}"


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


def test_contours_lie_at_their_weight() -> None:
    surface = Surface("softmax", 3, grid(softmax, 5, 5), grid(softmax, 241, 61), False)
    points = np.array(_contour(surface, 0.3)[:-1])
    weights = softmax(torch.tensor(np.column_stack([points, np.zeros(len(points))])))[:, 0]
    assert len(points) > 30
    torch.testing.assert_close(weights, torch.full_like(weights, 0.3), atol=1e-4, rtol=0)


def test_unreachable_weight_has_no_contour() -> None:
    surface = Surface("softmax", 3, grid(softmax, 5, 5), grid(softmax, 25, 7), False)
    assert _contour(surface, 1.0) == []


def test_surfaces_show_exact_zeros_white_and_label_every_region() -> None:
    both = [
        Surface(map.__name__, 3, grid(map, 7, 7), grid(map, 61, 61), map is sparsemax)
        for map in (softmax, sparsemax)
    ]
    root = ET.fromstring(plot_surfaces(both))
    facets = [[path.get("fill") for path in group] for group in root.findall(f"{SVG}g")]
    assert [len(group) for group in facets] == [36, 36]
    assert "#ffffff" not in facets[0] and "#ffffff" in facets[1]
    labels = {element.text for element in root.iter(f"{SVG}text")}
    assert {"{1}", "{2}", "{3}", "{1,2}", "{1,3}", "{2,3}", "{1,2,3}"} <= labels


def test_description_of_curves_states_where_they_are_zero_and_one() -> None:
    differences = np.linspace(-3, 3, 13)
    pairs = torch.tensor(np.column_stack([differences, 0 * differences]))
    svg = plot_curves(differences, {map.__name__: map(pairs)[:, 0].numpy() for map in (softmax, sparsemax)})
    description = ET.fromstring(svg).findtext(f"{SVG}desc") or ""
    assert "softmax is never 0 or 1; sparsemax is 0 up to -1 and 1 from 1." in description
