"""Heat maps are well-formed for any words, white only at exact zeros, and show each weight or difference."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.errors import DataError, UsageError
from regard.metrics.alignment import AttentionMap
from regard.plot.heatmap import attention_heatmap, difference_heatmap, weight_color
from regard.text.links import parse_gold_links

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("new", "old")
WEIGHTS = np.array([[0.0, 1e-12, 1.0], [0.25, 0.25, 0.5]])
SOURCE, TARGET = ["a", "b", "c"], ["x", "y"]


@pytest.fixture
def ax():
    return Figure().subplots()


def attention_svg(*arguments, **options):
    return attention_heatmap(*arguments, **options).figure().svg


def difference_svg(values, **options):
    values = np.array([values], dtype=float)
    difference = AttentionMap(("w",) * values.shape[-1], ("x",), values)
    return difference_heatmap(difference, NAMES, **options).figure().svg


def cells(svg):
    """Return the fill and the tooltip of each cell, in row-major order."""
    rects = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    return [(rect.get("fill"), rect.findtext(f"{SVG}title")) for rect in rects]


def fills(svg):
    """Return the RGB color of each cell."""
    return [tuple(int(fill[i : i + 2], 16) for i in (1, 3, 5)) for fill, _ in cells(svg)]


def texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_only_exact_zeros_are_white_and_only_equal_weights_in_a_difference():
    attention = [fill == "#ffffff" for fill, _ in cells(attention_svg(WEIGHTS[:1], SOURCE, ["x"]))]
    assert attention == [True, False, False]
    red, blue, white, *rest = fills(difference_svg([0.6, -0.6, 0.0, 1e-12, -1e-12]))
    assert red[0] > red[2] and blue[2] > blue[0] and white == (255, 255, 255) not in rest


def test_tooltip_shows_words_and_weight_to_four_digits():
    weights = np.array([[0.123456, 2e-7], [0.0, 1.0]])
    tips = [tip for _, tip in cells(attention_svg(weights, ["das", "Haus"], ["the", "house"]))]
    assert tips == ["the → das: 0.1235", "the → Haus: 2e-07", "house → das: 0", "house → Haus: 1"]


@given(st.text(max_size=40), st.text(max_size=40))
@example("\ud800\udfff\ufffe", "\x00\x1b\x7f\u2028\u202e")
@example("<script>alert(1)</script>", '"&"</svg>')
def test_any_words_give_well_formed_xml(source, target):
    svg = attention_svg(np.array([[0.5]]), [source], [target], title=source)
    ET.fromstring(svg)
    assert "<script" not in svg


@settings(max_examples=5)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_words_can_be_printed(source, target):
    heat = attention_heatmap(np.array([[0.5]]), [source], [target], title=source)
    assert heat.figure().render("pdf")


def test_long_word_is_truncated_and_shown_in_full_in_the_tooltip():
    word = "Donaudampfschifffahrtsgesellschaftskapitän"
    root = ET.fromstring(attention_svg(np.array([[1.0]]), [word], ["x"]))
    label = next(text for text in root.iter(f"{SVG}text") if (text.text or "").endswith("…"))
    assert word.startswith(label.text[:-1])
    assert label.findtext(f"{SVG}title") == word


def test_gold_links_are_outlined_and_possible_links_dashed(ax):
    figure = attention_heatmap(np.eye(2), ["a", "b"], TARGET, gold=parse_gold_links("0-0 1p1 7-7")).figure()
    rects = ET.fromstring(figure.svg).iter(f"{SVG}rect")
    outlines = [rect for rect in rects if rect.get("x") in ("2", "26")]
    dashed = [(rect.get("x"), rect.get("stroke-dasharray") is not None) for rect in outlines]
    assert dashed == [("2", False), ("26", True)]
    figure.plot_on(ax)
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [(round(box.get_x()), box.get_linestyle() == "-") for box in boxes] == [(0, True), (1, False)]


def test_axes_have_the_colors_of_the_svg_form_and_the_words_as_labels(ax):
    attention_heatmap(WEIGHTS, SOURCE, TARGET, marked=[1]).figure().plot_on(ax)
    (mesh,) = (collection for collection in ax.collections if isinstance(collection, QuadMesh))
    colors = [[to_hex(color) for color in row] for row in np.asarray(mesh.get_array())]
    assert colors == [[weight_color(weight) for weight in row] for row in WEIGHTS.tolist()]
    assert [label.get_text() for label in ax.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in ax.get_yticklabels()] == TARGET
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["normal", "bold"]
    assert ax.yaxis_inverted() and ax.xaxis.get_ticks_position() == "top"


def test_each_head_has_a_map_a_caption_and_a_panel(ax):
    figure = attention_heatmap(np.full((3, 2, 2), 0.5), ["a", "b"], TARGET).figure()
    assert len(cells(figure.svg)) == 12
    assert {"head 0", "head 1", "head 2"} <= set(texts(figure.svg))
    assert len(figure.panels) == 3
    with pytest.raises(UsageError, match="panel 3: the figure has 3 panels"):
        figure.plot_on(ax, 3)


def test_invalid_weights_have_a_color_of_their_own():
    nan, low, infinite, high, one = fills(
        attention_svg(np.array([[np.nan, -0.1, np.inf, 2.0, 1.0]]), list("abcde"), ["x"])
    )
    assert nan == low == infinite != high == one
    assert fills(difference_svg([np.nan]))[0] not in fills(difference_svg([1.0, 0.5, 0.0, -0.5, -1.0]))


def test_empty_sentence_gives_a_picture():
    for weights, source, target in ((np.zeros((0, 2)), ["a", "b"], []), (np.zeros((2, 0)), [], ["a", "b"])):
        figure = attention_heatmap(weights, source, target).figure()
        ET.fromstring(figure.svg)
        assert figure.render("pdf")


def test_mismatched_shapes_and_equal_names_are_rejected():
    with pytest.raises(DataError, match=r"shape \(2, 3\): expected target x source, 3 x 2"):
        attention_svg(np.zeros((2, 3)), ["a", "b"], ["x", "y", "z"])
    with pytest.raises(DataError, match="1 captions for 2 heads"):
        attention_svg(np.zeros((2, 1, 1)), ["a"], ["x"], captions=["only"])
    with pytest.raises(DataError, match="both systems of a difference are named 'a'"):
        difference_heatmap(AttentionMap(("w",), ("x",), np.zeros((1, 1))), ("a", "a"))


def test_two_maps_are_side_by_side_and_many_are_in_rows():
    words = [f"w{n}" for n in range(30)]
    root = ET.fromstring(attention_svg(np.ones((2, 5, 30)) / 30, words, words[:5], captions=["one", "two"]))
    assert float(root.get("width")) > 2 * 24 * 30 > float(root.get("height"))
    many = ET.fromstring(attention_svg(np.ones((4, 5, 30)) / 30, words, words[:5], captions=list("abcd")))
    assert float(many.get("width")) <= 1200


def test_legend_names_the_systems_and_gold_links():
    svg = difference_svg([0.5], gold=parse_gold_links("0-0"))
    assert texts(svg)[-3:] == ["more in old", "more in new", "gold link"]
    assert float(ET.fromstring(svg).get("width")) > 250
