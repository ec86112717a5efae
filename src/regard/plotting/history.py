"""The attention history: one row per target word, with the source sentence shaded by its attention.

The figure follows the lecture by Martins (2020). The background of a source word is darker the more attention
the word received; exactly 0 is white.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.plotting.colormap import INK, MUTED, clip_label, label_maps
from regard.plotting.figure import Figure, shapes_figure
from regard.plotting.heatmap import LABEL_CELLS, weight_color
from regard.plotting.shapes import Box, Label, Point, Shape, plot_shapes

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["history_figure", "plot_history"]

# Lengths in pixels.
_CHARACTER = 7.6
_PAD = 7.0
_ROW = 26.0
_GAP = 3.0
_MARGIN = 14.0
_BASELINE = 17
_DARK = 0.45  # text on larger weights is white


def history_figure(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str], title: str = ""
) -> Figure:
    """Return the figure of the attention history of a translation.

    Args:
        weights: Attention of each target word to each source word.
        source: Source words.
        target: Target words.
        title: Title above the picture.

    Raises:
        DataError: if the shapes of weights and words do not match.
    """
    shapes, size = _picture(weights, source, target, title)
    summary = "Each row is a target word; a darker background of a source word means more attention."
    return shapes_figure(title or "Attention history", summary, shapes, size)


def plot_history(
    ax: "matplotlib.axes.Axes",
    weights: Float[np.ndarray, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
) -> None:
    """Plot the picture of `history_figure` on matplotlib axes.

    The limits of the axes are set to the size of the picture in pixels of 1/96 inch.
    """
    plot_shapes(ax, *_picture(weights, source, target, title))


def _picture(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str], title: str
) -> tuple[list[Shape], Point]:
    """Return the shapes and the size of the picture."""
    grid = label_maps(weights, source, target)
    columns, rows = (
        [clip_label(word, LABEL_CELLS) for word in words] for words in (grid.source, grid.target)
    )
    left = _MARGIN + max(map(_width, rows), default=0.0) + 14
    top = _MARGIN + (24 if title else 0)
    shapes: list[Shape] = [Label((_MARGIN, _MARGIN + 13), title, bold=True)] if title else []
    for t, row in enumerate(rows):
        x, y = left, top + t * _ROW
        shapes.append(Label((left - 14, y + _BASELINE), row, "end"))
        for word, full, weight in zip(columns, grid.source, grid.weights[0, t].tolist(), strict=True):
            wide = _width(word) + 2 * _PAD
            tip = f"{grid.target[t]} → {full}: {weight:.4g}"
            style = {"fill": weight_color(weight), "stroke": "#e3e3e3", "radius": 3, "tip": tip}
            ink = "#ffffff" if weight > _DARK else INK if weight else MUTED
            shapes.append(Box((x, y), (wide, _ROW - _GAP), **style))
            shapes.append(Label((x + wide / 2, y + _BASELINE), word, "middle", ink))
            x += wide + _GAP
    across = left + sum(_width(word) + 2 * _PAD + _GAP for word in columns)
    width = max(across + _MARGIN, 2 * _MARGIN + _width(title))
    return shapes, (width, top + len(rows) * _ROW + _MARGIN)


def _width(label: str) -> float:
    return _CHARACTER * cell_len(label)
