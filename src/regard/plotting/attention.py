"""Attention maps with matplotlib, for papers, and the figures that have both forms.

The colors and positions are those of the SVG form (`regard.plotting.heatmap`).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.data.links import GoldLinks
from regard.metrics.maps import AttentionMap, map_difference, match_columns
from regard.plotting.colormap import MUTED, clip_label, printable
from regard.plotting.difference import difference_heatmap
from regard.plotting.figure import Figure
from regard.plotting.heatmap import (
    CELL,
    GRID_COLOR,
    LABEL_CELLS,
    MARGIN,
    MARK_COLOR,
    STEP,
    HeatMap,
    arrange,
    attention_heatmap,
    combine_svgs,
    heatmap_svg,
)
from regard.plotting.style import add_box, pixel_figure
from regard.plotting.svg import Point

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = [
    "combined_figure",
    "heatmap_figure",
    "maps_and_differences",
    "plot_attention",
    "plot_difference",
    "plot_heatmap",
]


def plot_attention(
    ax: "matplotlib.axes.Axes",
    weights: Float[np.ndarray, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    gold: GoldLinks | None = None,
    marked: Collection[int] = (),
) -> None:
    """Plot an attention map; columns are source words, rows are target words.

    Args:
        ax: The axes.
        weights: The attention weights.
        source: Source words, one per column.
        target: Target words, one per row.
        gold: Gold links to outline: sure links with a solid line, possible links with a dashed line.
        marked: Indices of target words to mark.

    Raises:
        DataError: If the shapes of weights and words do not match.
    """
    plot_heatmap(ax, attention_heatmap(weights, source, target, gold=gold, marked=marked))


def plot_difference(
    ax: "matplotlib.axes.Axes",
    differences: Float[np.ndarray, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    gold: GoldLinks | None = None,
) -> None:
    """Plot the difference of two attention maps: red where it is positive, blue where it is negative.

    Args:
        ax: The axes.
        differences: The differences, between -1 and 1.
        source: Source words, one per column.
        target: Target words, one per row.
        gold: Gold links to outline.

    Raises:
        DataError: If the shapes of differences and words do not match.
    """
    plot_heatmap(ax, difference_heatmap(differences, source, target, ("positive", "negative"), gold=gold))


def plot_heatmap(ax: "matplotlib.axes.Axes", heat: HeatMap, head: int = 0) -> None:
    """Plot one panel of a heat map, without its title, caption and legend.

    Args:
        ax: The axes.
        heat: The heat map.
        head: Index of the panel.
    """
    from matplotlib.colors import to_rgb

    grid = heat.grid
    rows, columns = grid.weights.shape[1:]
    if rows and columns:
        colors = [[to_rgb(heat.scale.fill(weight)) for weight in row] for row in grid.weights[head].tolist()]
        ax.pcolormesh(np.array(colors), edgecolors=GRID_COLOR, linewidth=0.75, clip_on=False)
    for s, t, sure in heat.links():
        dashes = "-" if sure else (0, (2, 1.5))
        style = {"edgecolor": heat.scale.outline, "linewidth": 1.5, "linestyle": dashes}
        add_box(ax, (s + 0.09, t + 0.09), (0.82, 0.82), fill=False, **style)
    # An axis of zero length would be an error.
    ax.set(xlim=(0, max(columns, 1)), ylim=(max(rows, 1), 0), aspect="equal")
    source, target = (
        [clip_label(word, LABEL_CELLS) for word in words] for words in (grid.source, grid.target)
    )
    slanted = {"rotation": 45, "rotation_mode": "anchor", "ha": "left"}
    ax.set_xticks(np.arange(columns) + 0.5, source, **slanted)
    ax.set_yticks(np.arange(rows) + 0.5, target)
    ax.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    ax.tick_params(length=0, labelsize="medium", labelcolor="black")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    for t in heat.marked:
        ax.get_yticklabels()[t].set(color=MARK_COLOR, fontweight="bold")


def _plot_map(
    figure: "matplotlib.figure.Figure", page: "matplotlib.axes.Axes", heat: HeatMap, origin: Point = (0, 0)
) -> None:
    """Plot all panels of a heat map, its title and its legend.

    Args:
        figure: The figure.
        page: Axes that cover the figure, measured in pixels.
        heat: The heat map.
        origin: Upper left corner of the heat map.
    """
    layout = heat.layout()
    left, top = origin
    down, across = (max(number, 1) * CELL for number in heat.grid.weights.shape[1:])
    width, height = page.get_xlim()[1], page.get_ylim()[0]
    if heat.title:
        page.text(left + layout.title[0], top + layout.title[1], printable(heat.title), fontweight="bold")
    for h, corner in enumerate(layout.corners):
        x, y = left + corner[0], top + corner[1]
        panel = x / width, 1 - (y + down) / height, across / width, down / height
        plot_heatmap(figure.add_axes(panel), heat, h)
        if heat.grid.captions[h]:
            page.text(x - layout.labels[0], y - layout.labels[1] + 13, heat.grid.captions[h], color=MUTED)
    _plot_legend(page, heat, (left + layout.legend[0], top + layout.legend[1]))


def _plot_legend(page: "matplotlib.axes.Axes", heat: HeatMap, at: Point) -> None:
    (x, y), scale = at, heat.scale
    low, bar, high = scale.places
    small = {"fontsize": 8.25, "color": MUTED}
    if scale.white_box:
        add_box(page, (x, y), (12, 12), facecolor="white", edgecolor=GRID_COLOR)
    page.text(x + low, y + 10, scale.low, **small)
    for i, color in enumerate(scale.steps):
        add_box(page, (x + bar + STEP * i, y), (STEP, 12), color=color)
    page.text(x + high, y + 10, scale.high, **small)
    if heat.gold is not None:
        x += scale.width + 11
        add_box(page, (x, y + 1), (10, 10), fill=False, edgecolor=scale.outline, linewidth=1.5)
        page.text(x + 16, y + 10, "gold link", **small)


def heatmap_figure(heat: HeatMap) -> Figure:
    """Return the figure of a heat map (`attention_heatmap`, `difference_heatmap`)."""

    def plot() -> "matplotlib.figure.Figure":
        layout = heat.layout()
        figure, page = pixel_figure(layout.width, layout.height)
        _plot_map(figure, page, heat)
        return figure

    description = "Rows are target words, columns are source words."
    return Figure(heat.title or "Attention", description, plot, heatmap_svg(heat))


def combined_figure(maps: Mapping[str, HeatMap], title: str, description: str) -> Figure:
    """Return the figure of several heat maps, each with its name above it.

    Args:
        maps: The heat maps by name.
        title: Accessible title.
        description: Accessible description.
    """

    def plot() -> "matplotlib.figure.Figure":
        corners, (width, height) = arrange(maps)
        figure, page = pixel_figure(width, height)
        for (x, y), (name, heat) in zip(corners, maps.items(), strict=True):
            page.text(x + MARGIN, y - 6, printable(name), fontweight="bold")
            _plot_map(figure, page, heat, (x, y))
        return figure

    return Figure(title, description, plot, combine_svgs(maps, title, description))


def maps_and_differences(
    line: int,
    maps: Mapping[str, AttentionMap],
    gold: GoldLinks | None = None,
) -> dict[str, Figure]:
    """Return figures of the maps of several systems, and of their differences from the first system.

    Args:
        line: Number of the sentence, for file names and titles.
        maps: Map of each system by name, over the same words. If one has a sink, all get its column.
        gold: Gold links to outline.

    Returns:
        Figures by file name: `maps-LINE`, and `difference-LINE` or one per system.

    Raises:
        DataError: if the maps have different words.
    """
    matched = match_columns(maps)
    (first, base), *others = matched.items()
    source, target = base.columns, base.target
    stacked = np.stack([one.weights for one in matched.values()])
    title = f"Line {line}"
    every = attention_heatmap(stacked, source, target, title, list(maps), gold)
    figures = {f"maps-{line}": heatmap_figure(every)}
    for name, one in others:
        file = f"difference-{line}" if len(others) == 1 else f"difference-{line}-{name}"
        difference = map_difference(one, base, (name, first)).weights
        heat = difference_heatmap(difference, source, target, (name, first), title, gold=gold)
        figures[file] = heatmap_figure(heat)
    return figures
