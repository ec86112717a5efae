"""The difference of two maps: red where one has more, blue where the other has, white where none has."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.data.links import parse_gold
from regard.errors import DataError
from regard.report.difference import svg_difference

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("new", "old")


def fills(svg):
    rects = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    return [tuple(int(rect.get("fill")[i : i + 2], 16) for i in (1, 3, 5)) for rect in rects]


def draw(values, **options):
    values = np.array([values], dtype=float)
    return svg_difference(values, ["w"] * values.shape[-1], ["x"], NAMES, **options)


def test_more_is_red_less_is_blue_and_equal_is_white():
    red, blue, white = fills(draw([0.6, -0.6, 0.0]))
    assert red[0] > red[2] and blue[2] > blue[0] and white == (255, 255, 255)


def test_nothing_but_equality_is_white():
    assert all(fill != (255, 255, 255) for fill in fills(draw([1e-12, -1e-12])))


@pytest.mark.parametrize("sign", [1, -1])
def test_greater_differences_are_darker(sign):
    light = [sum(fill) for fill in fills(draw(sign * np.linspace(0, 1, 21)))]
    assert light == sorted(light, reverse=True) and len(set(light)) == 21


def test_what_is_no_number_passes_for_neither():
    assert fills(draw([np.nan, 0.5, -0.5]))[0] not in fills(draw([1.0, 0.5, 0.0, -0.5, -1.0]))


def test_the_key_says_who_is_red_and_who_is_blue():
    root = ET.fromstring(draw([0.5], gold=parse_gold("0-0")))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[-3:] == ["more in old", "more in new", "gold link"]
    assert float(root.get("width")) > 250


def test_one_system_has_no_difference():
    with pytest.raises(DataError, match="both systems of a difference are named 'a'"):
        svg_difference(np.zeros((1, 1)), ["w"], ["x"], ("a", "a"))
