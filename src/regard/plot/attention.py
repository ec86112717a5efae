"""Attention maps with matplotlib, for papers, and the figures that have both forms.

The colors and positions are those of the SVG form (`regard.plot.heatmap`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.metrics.alignment import AttentionMap, map_difference, match_columns
from regard.plot.colors import MapScale, weight_scale
from regard.plot.figure import Figure
from regard.plot.heatmap import (
    CELL,
    GRID_COLOR,
    LABEL_CELLS,
    MARGIN,
    MARK_COLOR,
    HeatMap,
    arrange_panels,
    attention_heatmap,
    combine_svgs,
    difference_heatmap,
    heatmap_svg,
)
from regard.plot.shapes import Label, plot_shapes
from regard.plot.style import Point, clip_label, pixel_figure
from regard.text.links import GoldLinks

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = [
    "combined_figure",
    "heatmap_figure",
    "maps_and_differences",
    "plot_attention",
    "plot_heatmap",
]


def plot_attention(
    ax: "matplotlib.axes.Axes",
    weights: Float[np.ndarray, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    gold: GoldLinks | None = None,
    marked: Collection[int] = (),
    scale: MapScale = "linear",
) -> None:
    """Plot an attention map; columns are source words, rows are target words.

    Args:
        ax: The axes.
        weights: The attention weights.
        source: Source words, one per column.
        target: Target words, one per row.
        gold: Gold links to outline: sure links with a solid line, possible links with a dashed line.
        marked: Indices of target words to mark.
        scale: Color scale: `linear`, or `sqrt` and `log` distinguish small weights.

    Raises:
        DataError: If the shapes of weights and words do not match.
        UsageError: If there is no such scale.
    """
    heat = attention_heatmap(weights, source, target, gold=gold, marked=marked)
    plot_heatmap(ax, replace(heat, scale=weight_scale(scale)))


def plot_heatmap(ax: "matplotlib.axes.Axes", heat: HeatMap, head: int = 0) -> None:
    """Plot one panel of a heat map, without its title, caption and legend.

    Args:
        ax: The axes.
        heat: The heat map.
        head: Index of the panel.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    grid = heat.grid
    rows, columns = grid.weights.shape[1:]
    if rows and columns:
        colors = [[to_rgb(heat.scale.fill(weight)) for weight in row] for row in grid.weights[head].tolist()]
        ax.pcolormesh(np.array(colors), edgecolors=GRID_COLOR, linewidth=0.75, clip_on=False)
    for s, t, sure in heat.links():
        dashes = "-" if sure else (0, (2, 1.5))
        style = {"edgecolor": heat.scale.outline, "linewidth": 1.5, "linestyle": dashes}
        ax.add_patch(Rectangle((s + 0.09, t + 0.09), 0.82, 0.82, fill=False, **style))
    # An axis of zero length would be an error.
    ax.set(xlim=(0, max(columns, 1)), ylim=(max(rows, 1), 0), aspect="equal")
    source, target = (
        [clip_label(word, LABEL_CELLS) for word in words] for words in (grid.source, grid.target)
    )
    slanted = {"rotation": 45, "rotation_mode": "anchor", "ha": "left"}
    ax.set_xticks(np.arange(columns) + 0.5, source, **slanted)
    ax.set_yticks(np.arange(rows) + 0.5, target)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize="medium", labelcolor="black")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    for t in heat.marked:
        ax.get_yticklabels()[t].set(color=MARK_COLOR, fontweight="bold")


def _plot_maps(
    maps: Mapping[str, HeatMap], corners: Sequence[Point], size: Point
) -> "matplotlib.figure.Figure":
    """Plot heat maps with their titles, captions and legends, each with its name above it.

    Args:
        maps: The heat maps by name. An empty name is omitted.
        corners: Upper left corner of each heat map in pixels.
        size: Width and height of the figure in pixels.
    """
    figure = pixel_figure(size)
    for (left, top), (name, heat) in zip(corners, maps.items(), strict=True):
        layout = heat.layout()
        # The axes of the decorations are measured in pixels.
        page = _add_axes(figure, (left, top), (layout.width, layout.height))
        named = [Label((MARGIN, -6), name, bold=True)] if name else []
        plot_shapes(page, [*named, *heat.decorations(layout)], (layout.width, layout.height))
        rows, columns = heat.grid.weights.shape[1:]
        for h, (x, y) in enumerate(layout.corners):
            cells = max(columns, 1) * CELL, max(rows, 1) * CELL
            plot_heatmap(_add_axes(figure, (left + x, top + y), cells), heat, h)
    return figure


def _add_axes(figure: "matplotlib.figure.Figure", at: Point, size: Point) -> "matplotlib.axes.Axes":
    """Add axes to a figure; `at` is the upper left corner in pixels."""
    width, height = 96 * figure.get_size_inches()
    return figure.add_axes((at[0] / width, 1 - (at[1] + size[1]) / height, size[0] / width, size[1] / height))


def heatmap_figure(heat: HeatMap) -> Figure:
    """Return the figure of a heat map (`attention_heatmap`, `difference_heatmap`)."""
    layout = heat.layout()
    description = "Rows are target words, columns are source words."
    plot = partial(_plot_maps, {"": heat}, [(0, 0)], (layout.width, layout.height))
    return Figure(heat.title or "Attention", description, plot, heatmap_svg(heat))


def combined_figure(maps: Mapping[str, HeatMap], title: str, description: str) -> Figure:
    """Return the figure of several heat maps, each with its name above it.

    Args:
        maps: The heat maps by name.
        title: Accessible title.
        description: Accessible description.
    """
    plot = partial(_plot_maps, maps, *arrange_panels(maps))
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
    stacked = np.stack([attention_map.weights for attention_map in matched.values()])
    title = f"Line {line}"
    heatmap = attention_heatmap(stacked, source, target, title, list(maps), gold)
    figures = {f"maps-{line}": heatmap_figure(heatmap)}
    for name, attention_map in others:
        file = f"difference-{line}" if len(others) == 1 else f"difference-{line}-{name}"
        difference = map_difference(attention_map, base, (name, first)).weights
        heat = difference_heatmap(difference, source, target, (name, first), title, gold=gold)
        figures[file] = heatmap_figure(heat)
    return figures
