"""Figures of single words show each weight: exact zeros are white, and heads as opaque as their weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from regard.errors import DataError
from regard.plot.colors import weight_color
from regard.plot.word_attention import history_figure, self_attention_figure

WEIGHTS = np.array([[0.0, 1e-12, 1.0], [0.25, 0.25, 0.5]])
SOURCE, TARGET = ["a", "b", "c"], ["x", "y"]


def axes(figure):
    (ax,) = figure.matplotlib.axes
    return ax, [text.get_text() for text in ax.texts]


def test_history_has_one_row_per_word_and_white_cells_for_zero():
    ax, texts = axes(history_figure(WEIGHTS, SOURCE, TARGET, "title"))
    boxes = [to_hex(patch.get_facecolor()) for patch in ax.patches]
    assert boxes == [weight_color(weight) for weight in WEIGHTS.ravel().tolist()]
    assert texts == ["title", "x", *SOURCE, "y", *SOURCE]


def test_self_attention_has_a_box_per_head_and_word_as_opaque_as_the_weight():
    weights = np.array([[0.01, 0.99, 0.0], [0.5, 0.25, 0.25]])
    ax, _ = axes(self_attention_figure(weights, SOURCE, 1, "title"))
    opacities = [box.get_facecolor()[3] for box in ax.patches]
    assert opacities == pytest.approx([1, 1, *weights.ravel().tolist()])  # the first two are the legend
    assert len(ax.lines) == 4  # weights below 0.02 have no line
    bold = [text.get_text() for text in ax.texts if text.get_fontweight() == "bold"]
    assert bold == ["title", "b"]


def test_mismatched_words_are_rejected():
    with pytest.raises(DataError, match="word 3"):
        self_attention_figure(np.eye(3), SOURCE, 3, "")


@settings(max_examples=5)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_words_can_be_printed(source, target):
    weights = np.array([[0.5]])
    assert history_figure(weights, [source], [target], target).render("png", dpi=20)
    assert self_attention_figure(weights, [source], 0, target).render("png", dpi=20)
    assert history_figure(np.zeros((0, 1)), [source], []).svg
