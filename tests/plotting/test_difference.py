"""The difference of two maps: red where the first is greater, blue where the second is, white if equal."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.data.links import parse_gold_links
from regard.errors import DataError
from regard.plotting.heatmap import difference_heatmap, heatmap_svg

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("new", "old")


def fills(svg):
    """Return the RGB color of each cell."""
    rects = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    return [tuple(int(rect.get("fill")[i : i + 2], 16) for i in (1, 3, 5)) for rect in rects]


def plot(values, **options):
    values = np.array([values], dtype=float)
    return heatmap_svg(difference_heatmap(values, ["w"] * values.shape[-1], ["x"], NAMES, **options))


def test_greater_is_red_smaller_is_blue_and_equal_is_white():
    red, blue, white = fills(plot([0.6, -0.6, 0.0]))
    assert red[0] > red[2] and blue[2] > blue[0] and white == (255, 255, 255)


def test_only_equal_weights_are_white():
    assert all(fill != (255, 255, 255) for fill in fills(plot([1e-12, -1e-12])))


@pytest.mark.parametrize("sign", [1, -1])
def test_larger_differences_are_darker(sign):
    light = [sum(fill) for fill in fills(plot(sign * np.linspace(0, 1, 21)))]
    assert light == sorted(light, reverse=True) and len(set(light)) == 21


def test_nan_has_a_color_of_its_own():
    assert fills(plot([np.nan, 0.5, -0.5]))[0] not in fills(plot([1.0, 0.5, 0.0, -0.5, -1.0]))


def test_legend_names_the_systems_and_gold_links():
    root = ET.fromstring(plot([0.5], gold=parse_gold_links("0-0")))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:3] == ["more in old", "more in new", "gold link"]
    assert float(root.get("width")) > 250


def test_equal_names_are_rejected():
    with pytest.raises(DataError, match="both systems of a difference are named 'a'"):
        difference_heatmap(np.zeros((1, 1)), ["w"], ["x"], ("a", "a"))
