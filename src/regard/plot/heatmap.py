"""Attention maps as heat maps, one or several in a picture.

A weight of exactly 0 is white; every other weight has a color, even a very small one.

A difference of two maps (Shankar & Sarawagi (2019), Figure 2) is red where one system attends more, and blue
where the other does. Exactly equal weights are white; every other difference has a color.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.metrics.alignment import AttentionMap, map_difference, match_columns
from regard.plot.figure import Figure
from regard.plot.style import Colormap, LabeledMaps, clip_label, label_maps, new_figure, printable
from regard.plot.terminal import TerminalMap
from regard.text.links import GoldLinks

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_BLUES = Colormap(((234, 242, 251), (150, 191, 229), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
# Colors of positive and negative differences.
_POSITIVE = Colormap(((253, 238, 232), (246, 178, 147), (217, 95, 70), (168, 22, 40), (92, 0, 24)))
_NEGATIVE = Colormap(((234, 242, 251), (156, 198, 232), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
_INVALID_COLOR = "#ff4fa3"
_GRID_COLOR = "#d9d9d9"
_MARK_COLOR = "#b3261e"  # of marked words, which are also bold
_NAME = 40  # maximum width of the name of a system in the legend of differences
_LABEL_CELLS = 24  # maximum width of a label in half-width characters

# Lengths in inches.
_CELL = 0.25
_CHARACTER = 0.077  # width of a half-width character
_MARGIN = 0.3  # space between maps, and for a caption
_LEGEND = 0.5  # height of the title and the legend
_WIDTH = 12.5


@dataclass(frozen=True)
class ColorScale:
    """A color scale with its legend.

    Attributes:
        fill: Function from a number to its color.
        legend: Numbers whose colors the legend shows, by label.
        outline: Color of the outline of gold links.
    """

    fill: Callable[[float], str]
    legend: Mapping[str, float]
    outline: str


def weight_color(weight: float) -> str:
    """Return the color of a weight: white for exactly 0, pink for negative or non-finite values."""
    if weight == 0:
        return "#ffffff"
    # An invalid value must not look like a weight.
    return _BLUES.color(weight) if np.isfinite(weight) and weight > 0 else _INVALID_COLOR


def _difference_color(difference: float) -> str:
    """Return the color of a difference: red if it is positive, blue if it is negative, white for 0."""
    if not np.isfinite(difference):
        return _INVALID_COLOR
    if difference == 0:
        return "#ffffff"
    return (_POSITIVE if difference > 0 else _NEGATIVE).color(abs(difference))


_WEIGHTS = ColorScale(weight_color, {f"{weight:g}": weight for weight in (0, 0.25, 0.5, 0.75, 1)}, "#e0521b")
_GOLD = "#f0b000"  # visible on the darkest red and blue and on white


@dataclass(frozen=True)
class HeatMap:
    """Numbers between words, shown as colored cells; columns are source words, rows are target words.

    Attributes:
        grid: The numbers and words.
        scale: The color scale.
        title: Title above the picture.
        gold: Gold links to outline: sure links with a solid line, possible links with a dashed line.
        marked: Indices of target words to mark.
    """

    grid: LabeledMaps
    scale: ColorScale
    title: str | None = None
    gold: GoldLinks | None = None
    marked: Collection[int] = ()

    def figure(self) -> Figure:
        """Return the heat map as a figure. Its panels are the maps alone, on axes with words."""
        description = "Rows are target words, columns are source words."
        panels = [partial(self._plot_panel, head=head) for head in range(len(self.grid.weights))]
        text = TerminalMap(self.grid) if len(panels) == 1 and self.scale is _WEIGHTS else None
        return Figure(self.title or "Attention", description, self._plot, panels, text)

    def _plot(self) -> "matplotlib.figure.Figure":
        """Plot all maps above a legend.

        Maps fill a row as long as they fit into its width. Two maps are meant for comparison: they stay in
        one row as long as each of them fits alone.
        """
        from matplotlib.patches import Patch

        grid, number = self.grid, len(self.grid.weights)
        left, top = (
            _CHARACTER * max((cell_len(clip_label(label, _LABEL_CELLS)) for label in labels), default=0)
            for labels in (grid.target, grid.source)
        )
        # The labels of the columns are slanted, so the last one extends to the right of the map.
        slanted = math.sqrt(0.5) * top
        width = left + _CELL * len(grid.source) + slanted + _MARGIN
        height = slanted + _CELL * len(grid.target) + _MARGIN
        columns = max(1, min(number, int(_WIDTH // width) * (2 if number == 2 else 1)))
        rows = -(-number // columns)
        handles = [
            Patch(facecolor=self.scale.fill(value), edgecolor=_GRID_COLOR, label=label)
            for label, value in self.scale.legend.items()
        ]
        if self.gold is not None:
            handles.append(Patch(fill=False, edgecolor=self.scale.outline, label="gold link"))
        legend_width = sum(_CHARACTER * cell_len(str(handle.get_label())) + _LEGEND for handle in handles)
        title = printable(self.title or "")
        min_width = max(legend_width, _CHARACTER * cell_len(title))
        figure = new_figure(max(columns * width, min_width), rows * height + _LEGEND)
        for head, caption in enumerate(grid.captions):
            ax = figure.add_subplot(rows, columns, head + 1)
            self._plot_panel(ax, head)
            ax.set_title(caption)
        figure.suptitle(title)
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles), handlelength=1)
        return figure

    def _links(self) -> list[tuple[int, int, bool]]:
        """Return the gold links between the words of the map: column, row, and whether the link is sure."""
        if self.gold is None:
            return []
        rows, columns = len(self.grid.target), len(self.grid.source)
        inside = (link for link in sorted(self.gold.possible) if link[0] < columns and link[1] < rows)
        return [(s, t, (s, t) in self.gold.sure) for s, t in inside]

    def _plot_panel(self, ax: "matplotlib.axes.Axes", head: int) -> None:
        """Plot one map on axes whose labels are the words, without title, caption and legend."""
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        grid = self.grid
        rows, columns = grid.weights.shape[1:]
        if rows and columns:
            colors = [
                [to_rgb(self.scale.fill(weight)) for weight in row] for row in grid.weights[head].tolist()
            ]
            ax.pcolormesh(np.array(colors), edgecolors=_GRID_COLOR, linewidth=0.75, clip_on=False)
        for s, t, sure in self._links():
            dashes = "-" if sure else (0, (2, 1.5))
            style = {"edgecolor": self.scale.outline, "linewidth": 1.5, "linestyle": dashes}
            ax.add_patch(Rectangle((s + 0.09, t + 0.09), 0.82, 0.82, fill=False, **style))
        # An axis of zero length would be an error.
        ax.set(xlim=(0, max(columns, 1)), ylim=(max(rows, 1), 0), aspect="equal")
        source, target = (
            [clip_label(word, _LABEL_CELLS) for word in words] for words in (grid.source, grid.target)
        )
        slanted = {"rotation": 45, "rotation_mode": "anchor", "ha": "left"}
        ax.set_xticks(np.arange(columns) + 0.5, source, **slanted)
        ax.set_yticks(np.arange(rows) + 0.5, target)
        ax.xaxis.tick_top()
        ax.tick_params(length=0, labelsize="medium", labelcolor="black")
        ax.grid(False)
        ax.spines[:].set_visible(False)
        for t in self.marked:
            ax.get_yticklabels()[t].set(color=_MARK_COLOR, fontweight="bold")


def attention_heatmap(
    weights: Float[np.ndarray, "T S"] | Float[np.ndarray, "H T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str | None = None,
    captions: Sequence[str] | None = None,
    gold: GoldLinks | None = None,
    marked: Collection[int] = (),
) -> HeatMap:
    """Return attention as a heat map.

    Args:
        weights: One map, or one map per head. Weights above 1 have the color of 1.
        source: Source words, one per column.
        target: Target words, one per row.
        title: Title above the picture.
        captions: One caption per head. Default: several heads are numbered from 0.
        gold: Gold links to outline: sure links with a solid line, possible links with a dashed line.
        marked: Indices of target words to mark.

    Raises:
        DataError: if the shapes of weights, words and captions do not match.
    """
    return HeatMap(label_maps(weights, source, target, captions), _WEIGHTS, title, gold, marked)


def difference_heatmap(
    difference: AttentionMap, names: tuple[str, str], title: str | None = None, gold: GoldLinks | None = None
) -> HeatMap:
    """Return the difference of two maps (`regard.metrics.alignment.map_difference`) as a heat map.

    Args:
        difference: The difference; values between -1 and 1.
        names: The system that has more attention where the difference is positive (red), and the one where
            it is negative (blue).
        title: Title above the picture.
        gold: Gold links to outline.

    Raises:
        DataError: if the names are equal.
    """
    if len(set(names)) != 2:
        raise DataError(f"both systems of a difference are named {names[0]!r}: give them different names")
    red, blue = (f"more in {clip_label(printable(name), _NAME)}" for name in names)
    scale = ColorScale(_difference_color, {blue: -1, "equal": 0, red: 1}, _GOLD)
    grid = label_maps(difference.weights, difference.columns, difference.target)
    return HeatMap(grid, scale, title, gold)


def maps_and_differences(
    line: int, maps: Mapping[str, AttentionMap], gold: GoldLinks | None = None
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
    stacked = np.stack([attention_map.weights for attention_map in matched.values()])
    title = f"Line {line}"
    heatmap = attention_heatmap(stacked, base.columns, base.target, title, list(maps), gold)
    figures = {f"maps-{line}": heatmap.figure()}
    for name, attention_map in others:
        file = f"difference-{line}" if len(others) == 1 else f"difference-{line}-{name}"
        difference = map_difference(attention_map, base, (name, first))
        figures[file] = difference_heatmap(difference, (name, first), title, gold).figure()
    return figures
