"""Heat maps are well-formed for any words, white only at exact zeros, and show each weight or difference."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
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


def difference(values, **options):
    values = np.array([values], dtype=float)
    words = ("w",) * values.shape[-1]
    return difference_heatmap(AttentionMap(words, ("x",), values), NAMES, **options)


def colors(heat):
    """Return the color of each cell as #rrggbb, in rows."""
    ax = Figure().subplots()
    heat.figure().plot_on(ax)
    (mesh,) = (collection for collection in ax.collections if isinstance(collection, QuadMesh))
    return [[to_hex(color) for color in row] for row in np.asarray(mesh.get_array())]


def texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_only_exact_zeros_are_white_and_only_equal_weights_in_a_difference():
    (attention,) = colors(attention_heatmap(WEIGHTS[:1], SOURCE, ["x"]))
    assert [color == "#ffffff" for color in attention] == [True, False, False]
    ((*signs, white, small, negative),) = colors(difference([0.6, -0.6, 0.0, 1e-12, -1e-12]))
    red, blue = (to_rgb(color) for color in signs)
    assert red[0] > red[2] and blue[2] > blue[0] and white == "#ffffff" not in (small, negative)


@settings(max_examples=5)
@given(st.text(max_size=30), st.text(max_size=30))
@example("\ud800\udfff\ufffe", "\x00\x1b\x7f\u2028\u202e")
@example("<script>alert(1)</script>", '"&"</svg>')
def test_any_words_give_well_formed_xml_and_can_be_printed(source, target):
    figure = attention_heatmap(np.array([[0.5]]), [source], [target], title=source).figure()
    ET.fromstring(figure.svg)
    assert "<script" not in figure.svg and figure.render("pdf")


def test_long_word_is_truncated():
    word = "Donaudampfschifffahrtsgesellschaftskapitän"
    svg = attention_heatmap(np.array([[1.0]]), [word], ["x"]).figure().svg
    (label,) = (text for text in texts(svg) if text.endswith("…"))
    assert word.startswith(label[:-1])


def test_gold_links_are_outlined_and_possible_links_dashed(ax):
    heat = attention_heatmap(np.eye(2), ["a", "b"], TARGET, gold=parse_gold_links("0-0 1p1 7-7"))
    heat.figure().plot_on(ax)
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [(round(box.get_x()), box.get_linestyle() == "-") for box in boxes] == [(0, True), (1, False)]


def test_axes_have_the_colors_of_the_weights_and_the_words_as_labels(ax):
    heat = attention_heatmap(WEIGHTS, SOURCE, TARGET, marked=[1])
    assert colors(heat) == [[weight_color(weight) for weight in row] for row in WEIGHTS.tolist()]
    heat.figure().plot_on(ax)
    assert [label.get_text() for label in ax.get_xticklabels()] == SOURCE
    assert [label.get_text() for label in ax.get_yticklabels()] == TARGET
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["normal", "bold"]
    assert ax.yaxis_inverted() and ax.xaxis.get_ticks_position() == "top"


def test_each_head_has_a_map_a_caption_and_a_panel(ax):
    figure = attention_heatmap(np.full((3, 2, 2), 0.5), ["a", "b"], TARGET).figure()
    assert [ax.get_title("left") for ax in figure.matplotlib.axes] == ["head 0", "head 1", "head 2"]
    assert len(figure.panels) == 3
    with pytest.raises(UsageError, match="panel 3: the figure has 3 panels"):
        figure.plot_on(ax, 3)


def test_invalid_weights_have_a_color_of_their_own():
    weights = np.array([[np.nan, -0.1, np.inf, 2.0, 1.0]])
    ((nan, low, infinite, high, one),) = colors(attention_heatmap(weights, list("abcde"), ["x"]))
    assert nan == low == infinite != high == one
    assert colors(difference([np.nan]))[0][0] not in colors(difference([1.0, 0.5, 0.0, -0.5, -1.0]))[0]


def test_empty_sentence_gives_a_picture():
    for weights, source, target in ((np.zeros((0, 2)), ["a", "b"], []), (np.zeros((2, 0)), [], ["a", "b"])):
        figure = attention_heatmap(weights, source, target).figure()
        ET.fromstring(figure.svg)
        assert figure.render("pdf")


def test_mismatched_shapes_and_equal_names_are_rejected():
    with pytest.raises(DataError, match=r"shape \(2, 3\): expected target x source, 3 x 2"):
        attention_heatmap(np.zeros((2, 3)), ["a", "b"], ["x", "y", "z"])
    with pytest.raises(DataError, match="1 captions for 2 heads"):
        attention_heatmap(np.zeros((2, 1, 1)), ["a"], ["x"], captions=["only"])
    with pytest.raises(DataError, match="both systems of a difference are named 'a'"):
        difference_heatmap(AttentionMap(("w",), ("x",), np.zeros((1, 1))), ("a", "a"))


def test_two_maps_are_side_by_side_and_many_are_in_rows():
    words = [f"w{n}" for n in range(30)]
    two = attention_heatmap(np.ones((2, 5, 30)) / 30, words, words[:5]).figure().matplotlib
    assert two.get_figwidth() > 2 * 30 * 0.25 > two.get_figheight()
    many = attention_heatmap(np.ones((4, 5, 30)) / 30, words, words[:5]).figure().matplotlib
    assert many.get_figwidth() <= 12.5


def test_legend_names_the_systems_and_gold_links():
    svg = difference([0.5], gold=parse_gold_links("0-0")).figure().svg
    assert texts(svg)[-4:] == ["more in old", "equal", "more in new", "gold link"]
