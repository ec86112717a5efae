"""The attention history: one row per target word, with the source sentence shaded by its attention.

The figure follows the lecture by Martins (2020). The background of a source word is darker the more attention
the word received; exactly 0 is white.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.plotting.colormap import INK, MUTED, LabeledMaps, clip_label, label_maps, printable
from regard.plotting.figure import Figure
from regard.plotting.heatmap import LABEL_CELLS, weight_color
from regard.plotting.style import pixel_figure, set_pixel_limits
from regard.plotting.svg import format_coordinate, svg_document, text

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["history_figure", "plot_history"]

# Lengths in pixels.
_CHARACTER = 7.6
_PAD = 7.0
_ROW = 26.0
_GAP = 3.0
_MARGIN = 14.0
_BASELINE = 17
_DARK = 0.45  # text on larger weights is white


@dataclass(frozen=True)
class _Layout:
    """Positions in pixels: left edge and width of each column, upper edge of the rows, and the whole size."""

    places: tuple[tuple[float, float], ...]
    left: float
    top: float
    width: float
    height: float


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
    grid = label_maps(weights, source, target)
    layout = _layout(grid, title)

    def plot() -> "matplotlib.figure.Figure":
        figure, ax = pixel_figure(layout.width, layout.height)
        plot_history(ax, weights, source, target, title)
        return figure

    parts = [text((_MARGIN, _MARGIN + 13), title, font_weight="bold")] if title else []
    for t, row in enumerate(grid.target):
        base = layout.top + t * _ROW
        parts.append(
            text((layout.left - 14, base + _BASELINE), clip_label(row, LABEL_CELLS), "end", fill=INK)
        )
        for (x, wide), word, weight in _row(grid, layout, t):
            rectangle = [format_coordinate(number) for number in (x, base, wide, _ROW - _GAP)]
            place = 'x="{}" y="{}" width="{}" height="{}"'.format(*rectangle)
            tip = f"<title>{escape(f'{row} → {word}: {weight:.4g}')}</title>"
            parts.append(f'<rect {place} rx="3" fill="{weight_color(weight)}" stroke="#e3e3e3">{tip}</rect>')
            style = {"fill": _ink(weight), "pointer_events": "none"}
            parts.append(
                text((x + wide / 2, base + _BASELINE), clip_label(word, LABEL_CELLS), "middle", **style)
            )
    title = title or "Attention history"
    summary = "Each row is a target word; a darker background of a source word means more attention."
    return Figure(title, summary, plot, svg_document(layout.width, layout.height, title, summary, parts))


def plot_history(
    ax: "matplotlib.axes.Axes",
    weights: Float[np.ndarray, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
) -> None:
    """Plot the attention history of a translation with matplotlib.

    Args:
        ax: The axes. Their limits are set to the size of the picture in pixels of 1/96 inch.
        weights: Attention of each target word to each source word.
        source: Source words.
        target: Target words.
        title: Title above the picture.

    Raises:
        DataError: if the shapes of weights and words do not match.
    """
    from matplotlib.patches import FancyBboxPatch

    grid = label_maps(weights, source, target)
    layout = _layout(grid, title)
    set_pixel_limits(ax, layout.width, layout.height)
    if title:
        ax.text(_MARGIN, _MARGIN + 13, printable(title), fontweight="bold")
    for t, row in enumerate(grid.target):
        base = layout.top + t * _ROW
        ax.text(layout.left - 14, base + _BASELINE, clip_label(row, LABEL_CELLS), ha="right")
        for (x, wide), word, weight in _row(grid, layout, t):
            shape = {"boxstyle": "round,pad=0,rounding_size=3", "linewidth": 0.7, "edgecolor": "#e3e3e3"}
            ax.add_patch(
                FancyBboxPatch((x, base), wide, _ROW - _GAP, facecolor=weight_color(weight), **shape)
            )
            style: dict[str, Any] = {"ha": "center", "color": _ink(weight)}
            ax.text(x + wide / 2, base + _BASELINE, clip_label(word, LABEL_CELLS), **style)


def _layout(grid: LabeledMaps, title: str) -> _Layout:
    left = _MARGIN + max((_width(word) for word in grid.target), default=0.0) + 14
    places, x = [], left
    for word in grid.source:
        wide = _width(word) + 2 * _PAD
        places.append((x, wide))
        x += wide + _GAP
    top = _MARGIN + (24 if title else 0)
    width = max(x + _MARGIN, 2 * _MARGIN + _CHARACTER * cell_len(title))
    return _Layout(tuple(places), left, top, width, top + len(grid.target) * _ROW + _MARGIN)


def _row(grid: LabeledMaps, layout: _Layout, t: int) -> Iterator[tuple[tuple[float, float], str, float]]:
    """Return the place, the word and the weight of each cell of a row."""
    return zip(layout.places, grid.source, grid.weights[0, t].tolist(), strict=True)


def _ink(weight: float) -> str:
    return "#ffffff" if weight > _DARK else INK if weight else MUTED


def _width(label: str) -> float:
    return _CHARACTER * cell_len(clip_label(label, LABEL_CELLS))
