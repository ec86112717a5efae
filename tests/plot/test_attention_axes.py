"""Attention maps with matplotlib have the colors, words, links and marks of the SVG form."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from regard.errors import DataError, UsageError
from regard.plot import plot_attention, plot_heatmap, plot_history, plot_self_attention
from regard.plot.attention import combined_figure, heatmap_figure
from regard.plot.colors import weight_color, weight_scale
from regard.plot.heatmap import attention_heatmap, difference_heatmap, heatmap_svg
from regard.plot.word_attention import history_figure, self_attention_figure
from regard.text.links import parse_gold_links

WEIGHTS = np.array([[0.0, 1e-12, 1.0], [0.25, 0.25, 0.5]])
SOURCE, TARGET = ["a", "b", "c"], ["x", "y"]


@pytest.fixture
def ax():
    return Figure().subplots()


def colors(ax):
    """Return the color of each cell, row by row."""
    (mesh,) = (each for each in ax.collections if isinstance(each, QuadMesh))
    array = mesh.get_array()
    return [[to_hex(color) for color in row] for row in np.asarray(array)]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_cells_have_the_colors_of_the_svg_form(ax):
    plot_attention(ax, WEIGHTS, SOURCE, TARGET)
    assert colors(ax) == [[weight_color(weight) for weight in row] for row in WEIGHTS.tolist()]
    assert [color == "#ffffff" for color in colors(ax)[0]] == [True, False, False]


def test_words_are_the_labels_and_the_first_row_is_above(ax):
    plot_attention(ax, WEIGHTS, SOURCE, TARGET, marked=[1])
    assert [label.get_text() for label in ax.get_xticklabels()] == SOURCE
    labels = ax.get_yticklabels()
    assert [label.get_text() for label in labels] == TARGET
    assert [label.get_fontweight() for label in labels] == ["normal", "bold"]
    assert ax.yaxis_inverted() and ax.xaxis.get_ticks_position() == "top"


def test_gold_links_are_outlined_and_possible_links_dashed(ax):
    plot_attention(ax, WEIGHTS, SOURCE, TARGET, gold=parse_gold_links("0-0 2p1 7-7"))
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    found = [(round(box.get_x()), round(box.get_y()), box.get_linestyle() == "-") for box in boxes]
    assert found == [(0, 0, True), (2, 1, False)]


def test_difference_is_red_where_positive_and_blue_where_negative(ax):
    plot_heatmap(ax, difference_heatmap(np.array([[0.6, -0.6, 0.0]]), SOURCE, ["x"], ("new", "old")))
    ((red, blue, white),) = colors(ax)
    assert red[1:3] > red[5:7] and blue[5:7] > blue[1:3] and white == "#ffffff"


def test_mismatched_shapes_are_rejected(ax):
    with pytest.raises(DataError, match="expected target x source"):
        plot_attention(ax, WEIGHTS, SOURCE, ["x"])
    with pytest.raises(DataError, match="word 3"):
        plot_self_attention(ax, np.eye(3), SOURCE, 3, "")


def test_figure_has_one_panel_per_head_and_a_legend():
    heat = attention_heatmap(np.stack([WEIGHTS] * 3), SOURCE, TARGET, "title", gold=parse_gold_links("0-0"))
    page, *panels = heatmap_figure(heat).matplotlib.axes
    assert [colors(panel) for panel in panels] == [colors(panels[0])] * 3
    assert texts(page) == ["title", "head 0", "head 1", "head 2", "0", "1", "gold link"]
    heat = difference_heatmap(WEIGHTS, SOURCE, TARGET, ("new", "old"))
    assert texts(heatmap_figure(heat).matplotlib.axes[0]) == ["more in old", "more in new"]


def test_both_forms_have_the_same_size():
    figure = heatmap_figure(attention_heatmap(WEIGHTS, SOURCE, TARGET))
    inches = figure.matplotlib.get_size_inches()
    size = " ".join(
        f'{name}="{96 * side:.0f}"' for name, side in zip(("width", "height"), inches, strict=True)
    )
    assert size in figure.svg


def test_combined_maps_have_their_names_above():
    maps = {name: attention_heatmap(WEIGHTS, SOURCE, TARGET) for name in ("one", "two")}
    pages = combined_figure(maps, "title", "").matplotlib.axes[::2]
    assert [texts(page)[0] for page in pages] == ["one", "two"]
    left, right = (page.get_position() for page in pages)
    assert left.x1 < right.x0 and left.y1 == right.y1 < 1


def test_history_has_one_row_per_word_and_white_cells_for_zero(ax):
    plot_history(ax, WEIGHTS, SOURCE, TARGET, "title")
    boxes = [to_hex(patch.get_facecolor()) for patch in ax.patches if isinstance(patch, FancyBboxPatch)]
    assert boxes == [weight_color(weight) for weight in WEIGHTS.ravel().tolist()]
    assert texts(ax) == ["title", "x", *SOURCE, "y", *SOURCE]


def test_self_attention_has_a_box_per_head_and_word_as_opaque_as_the_weight(ax):
    weights = np.array([[0.01, 0.99, 0.0], [0.5, 0.25, 0.25]])
    plot_self_attention(ax, weights, SOURCE, 1, "title")
    legend, boxes = ax.patches[:2], ax.patches[2:]
    assert [box.get_facecolor()[3] for box in legend] == [1, 1]
    assert [box.get_facecolor()[3] for box in boxes] == pytest.approx(weights.ravel().tolist())
    assert len(ax.lines) == 4  # weights below 0.02 have no line
    bold = [text.get_text() for text in ax.texts if text.get_fontweight() == "bold"]
    assert bold == ["title", "b"]


@settings(max_examples=10)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_words_can_be_printed(source, target):
    one = np.array([[0.5]])
    figures = [
        heatmap_figure(attention_heatmap(one, [source], [target], title=source)),
        history_figure(one, [source], [target], target),
        self_attention_figure(one, [source], 0, target),
    ]
    assert all(figure.render("png", dpi=20) for figure in figures)


def test_empty_sentences_can_be_printed():
    for weights, source, target in ((np.zeros((0, 2)), ["a", "b"], []), (np.zeros((2, 0)), [], ["a", "b"])):
        assert heatmap_figure(attention_heatmap(weights, source, target)).render("pdf")
        assert history_figure(weights, source, target).render("pdf")


@pytest.mark.parametrize("scale", ["sqrt", "log"])
def test_small_weights_have_different_colors_on_other_scales(ax, scale):
    weights = np.array([[0.001, 0.01, 0.0, 1.0]])
    plot_attention(ax, weights, list("abcd"), ["e"], scale=scale)
    found = colors(ax)[0]
    assert len(set(found)) == 4 and found[2] == "#ffffff"
    # The ends of all scales agree.
    assert found[3] == weight_color(1.0) and found[0] != weight_color(0.001)
    legend = heatmap_svg(replace(attention_heatmap(weights, list("abcd"), ["e"]), scale=weight_scale(scale)))
    assert {"sqrt": "square root", "log": "logarithmic"}[scale] in legend


def test_unknown_scale_is_refused():
    with pytest.raises(UsageError, match=r"scale='cubic': expected 'linear', 'sqrt', 'log'"):
        weight_scale("cubic")
