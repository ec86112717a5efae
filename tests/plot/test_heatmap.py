"""SVG maps are well-formed for any words, white only at exact zeros, and show every weight or difference."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.plot.heatmap import attention_heatmap, difference_heatmap, heatmap_svg
from regard.plot.style import Colormap
from regard.text.links import parse_gold_links

SVG = "{http://www.w3.org/2000/svg}"


def attention_svg(*arguments, **options):
    return heatmap_svg(attention_heatmap(*arguments, **options))


def cells(svg):
    """Return the fill and the tooltip of each cell, in row-major order."""
    rects = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    return [(rect.get("fill"), rect.findtext(f"{SVG}title")) for rect in rects]


def test_only_exact_zeros_are_white():
    found = cells(attention_svg(np.array([[0.0, 1e-12, 1.0]]), ["a", "b", "c"], ["x"]))
    assert [fill == "#ffffff" for fill, _ in found] == [True, False, False]


def test_greater_weights_are_darker():
    weights = np.linspace(0, 1, 21)[None]
    fills = [fill for fill, _ in cells(attention_svg(weights, ["w"] * 21, ["x"]))]
    light = [sum(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill in fills]
    assert light == sorted(light, reverse=True) and len(set(light)) == 21


def test_tooltip_shows_words_and_weight_to_four_digits():
    found = cells(attention_svg(np.array([[0.123456, 2e-7], [0.0, 1.0]]), ["das", "Haus"], ["the", "house"]))
    tips = [tip for _, tip in found]
    assert tips == ["the → das: 0.1235", "the → Haus: 2e-07", "house → das: 0", "house → Haus: 1"]


def test_markup_in_words_is_escaped():
    svg = attention_svg(
        np.array([[1.0]]), ["<script>alert(1)</script>"], ['"&"'], title="<b>", captions=["</svg>"]
    )
    root = ET.fromstring(svg)
    assert "<script" not in svg
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"<b>", "</svg>", '"&"'} <= set(texts)
    assert not list(root.iter(f"{SVG}script"))


@given(st.text(max_size=40), st.text(max_size=40))
@example("\ud800\udfff\ufffe", "\x00\x1b\x7f\u2028\u202e")
def test_any_words_give_well_formed_xml(source, target):
    ET.fromstring(attention_svg(np.array([[0.5]]), [source], [target], title=source))


def test_long_word_is_truncated_and_shown_in_full_in_the_tooltip():
    word = "Donaudampfschifffahrtsgesellschaftskapitän"
    root = ET.fromstring(attention_svg(np.array([[1.0]]), [word], ["x"]))
    label = next(text for text in root.iter(f"{SVG}text") if (text.text or "").endswith("…"))
    assert word.startswith(label.text[:-1])
    assert label.findtext(f"{SVG}title") == word


def test_labels_lie_within_the_picture():
    words = ["internationalization"] * 3
    root = ET.fromstring(attention_svg(np.full((2, 1, 3), 0.5), words, ["x"]))
    width = float(root.get("width"))
    panels = [group for group in root.findall(f"{SVG}g") if group.get("transform")][:2]
    for panel in panels:
        left = float(panel.get("transform").removeprefix("translate(").split()[0])
        # The last label starts in the third column (24 px each), has 20 characters and rises at 45 degrees.
        assert left + 2.5 * 24 + 20 * 7 * 0.707 < width


def test_gold_links_are_outlined_and_possible_links_dashed():
    svg = attention_svg(np.eye(2), ["a", "b"], ["x", "y"], gold=parse_gold_links("0-0 1p1 7-7"))
    outlines = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("x") in ("2", "26")]
    assert [(rect.get("x"), rect.get("stroke-dasharray") is not None) for rect in outlines] == [
        ("2", False),
        ("26", True),
    ]


def test_each_head_has_a_map_and_a_caption():
    svg = attention_svg(np.full((3, 2, 2), 0.5), ["a", "b"], ["x", "y"])
    assert len(cells(svg)) == 12
    assert all(f">head {head}<" in svg for head in (0, 1, 2))


def test_invalid_weights_have_a_color_of_their_own():
    fills = [
        fill
        for fill, _ in cells(
            attention_svg(np.array([[np.nan, -0.1, np.inf, 2.0, 1.0]]), list("abcde"), ["x"])
        )
    ]
    assert fills[0] == fills[1] == fills[2] != fills[3] == fills[4]


def test_empty_sentence_gives_a_picture():
    ET.fromstring(attention_svg(np.zeros((0, 2)), ["a", "b"], []))
    ET.fromstring(attention_svg(np.zeros((2, 0)), [], ["a", "b"]))


def test_mismatched_shapes_are_rejected_and_named():
    with pytest.raises(DataError, match=r"shape \(2, 3\): expected target x source, 3 x 2"):
        attention_svg(np.zeros((2, 3)), ["a", "b"], ["x", "y", "z"])
    with pytest.raises(DataError, match="1 captions for 2 heads"):
        attention_svg(np.zeros((2, 1, 1)), ["a"], ["x"], captions=["only"])


def test_color_ramp_passes_through_its_stops():
    ramp = Colormap(((0, 0, 0), (100, 200, 50), (255, 255, 255)))
    assert [ramp.color(weight) for weight in (0.0, 0.25, 0.5, 1.0, 7.0)] == [
        "#000000",
        "#326419",
        "#64c832",
        "#ffffff",
        "#ffffff",
    ]


def test_two_maps_are_side_by_side_and_many_are_in_rows():
    words = [f"w{n}" for n in range(30)]
    root = ET.fromstring(attention_svg(np.ones((2, 5, 30)) / 30, words, words[:5], captions=["one", "two"]))
    assert float(root.get("width")) > 2 * 24 * 30 > float(root.get("height"))
    many = ET.fromstring(attention_svg(np.ones((4, 5, 30)) / 30, words, words[:5], captions=list("abcd")))
    assert float(many.get("width")) <= 1200


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
