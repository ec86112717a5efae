"""Attention maps as heat maps, one or several in a picture.

A weight of exactly 0 is white; every other weight has a color, even a very small one. In the SVG form, the
tooltip of a cell shows its words and its weight.

A difference of two maps (Shankar & Sarawagi (2019), Figure 2) is red where one system attends more, and blue
where the other does. Exactly equal weights are white; every other difference has a color.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.metrics.alignment import AttentionMap, map_difference, match_columns
from regard.plot import svg
from regard.plot.figure import Figure
from regard.plot.style import (
    INK,
    MUTED,
    Colormap,
    LabeledMaps,
    Length,
    Point,
    clip_label,
    label_maps,
    new_figure,
    printable,
)
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
_MARK_COLOR = "#b3261e"  # of marked words, which are also bold and, in SVG, underlined
_NAME = 40  # maximum width of the name of a system in the legend of differences
_STEPS = 6  # colors of each sign in the legend of differences
_LABEL_CELLS = 24  # maximum width of a label in half-width characters

# Lengths in pixels.
_CELL = 24
_MARGIN = 12.0  # distance of a heat map from the border of the picture
_CHARACTER = 7.4
_SMALL_CHARACTER = 6.2  # width of a character of the legend
_LEGEND_STEP = 8  # width of a color in the legend
_GAP = 8
_LINE = 20.0
_SLOPE = 0.7072  # sine and cosine of 45 degrees
_WIDTH = 1200


@dataclass(frozen=True)
class ColorScale:
    """A color scale with its legend.

    Attributes:
        fill: Function from a number to its color.
        low: Label of the first color in the legend.
        high: Label of the last color in the legend.
        steps: Colors in the legend.
        outline: Color of the outline of gold links.
        white_box: Whether the legend begins with a white box for exactly 0.
    """

    fill: Callable[[float], str]
    low: str
    high: str
    steps: tuple[str, ...]
    outline: str
    white_box: bool = False

    @property
    def places(self) -> tuple[float, float, float, float]:
        """Return the left edges of lower label, colors and upper label, and the right edge, in pixels."""
        start = 18.0 if self.white_box else 0.0
        bar = start + _SMALL_CHARACTER * cell_len(self.low) + 10
        high = bar + _LEGEND_STEP * len(self.steps) + 6
        return start, bar, high, high + _SMALL_CHARACTER * cell_len(self.high)


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


_WEIGHTS = ColorScale(
    weight_color, "0", "1", tuple(_BLUES.color((step + 0.5) / 10) for step in range(10)), "#e0521b", True
)
_DIFFERENCE_STEPS = tuple(_difference_color((step + 0.5) / _STEPS) for step in range(-_STEPS, _STEPS))
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
        title = self.title or "Attention"
        description = "Rows are target words, columns are source words."
        size, columns, elements = self._picture()
        panels = [partial(self._plot_panel, head=head) for head in range(len(self.grid.weights))]

        def plot() -> "matplotlib.figure.Figure":
            figure = new_figure(size[0] / 96, size[1] / 96)
            rows = -(-len(panels) // columns)
            for number, plot_panel in enumerate(panels):
                ax = figure.add_subplot(rows, columns, number + 1)
                plot_panel(ax)
                ax.set_title(self.grid.captions[number])
            figure.suptitle(self.title or "")
            if not self.scale.white_box:
                figure.supxlabel(f"blue: {self.scale.low}, red: {self.scale.high}", color=MUTED)
            return figure

        return Figure(title, description, plot, svg.document(size, title, description, elements), panels)

    def _picture(self) -> tuple[Point, int, list[str]]:
        """Return the width and height of the SVG picture, the number of columns of panels, and the elements.

        Panels fill a row as long as they fit into its width. Two panels are meant for comparison: they stay
        in one row as long as each of them fits alone.
        """
        grid = self.grid
        left = _GAP + max((_width(clip_label(label, _LABEL_CELLS)) for label in grid.target), default=0.0)
        slanted = [_SLOPE * (_width(clip_label(label, _LABEL_CELLS)) + svg.FONT) for label in grid.source]
        top = _GAP + max(slanted, default=0.0) + (_LINE if any(grid.captions) else 0)
        across, down = _CELL * len(grid.source), _CELL * len(grid.target)
        # The slanted labels extend to the right beyond the last column.
        lean = max((_CELL * (s + 0.5) + reach - across for s, reach in enumerate(slanted)), default=0.0)
        panel_width, panel_height = left + across + max(lean, 0.0) + _MARGIN, top + down + _MARGIN
        fitting = int(_WIDTH // panel_width) * (2 if len(grid.weights) == 2 else 1)
        columns = max(1, min(len(grid.weights), fitting))
        head = _MARGIN + (_LINE if self.title else 0)
        elements: list[str] = []
        if self.title:
            elements.append(svg.label((_MARGIN, _MARGIN + svg.FONT), self.title, bold=True))
        for h, caption in enumerate(grid.captions):
            row, column = divmod(h, columns)
            x, y = _MARGIN + column * panel_width, head + row * panel_height
            if caption:
                elements.append(svg.label((x, y + svg.FONT), caption, color=MUTED))
            elements.append(svg.group((x + left, y + top), self._panel(h)))
        height = head + -(-len(grid.weights) // columns) * panel_height + _LINE + _MARGIN
        elements.append(svg.group((_MARGIN, height - _MARGIN - _LINE / 2), self._legend()))
        width = max(
            _MARGIN + columns * panel_width,
            2 * _MARGIN + _width(self.title or ""),
            2 * _MARGIN + self.scale.places[-1] + (90 if self.gold else 0),
        )
        return (width, height), columns, elements

    def _legend(self) -> list[str]:
        """Return the legend of the SVG picture."""
        elements: list[str] = []
        low, bar, high, end = self.scale.places
        if self.scale.white_box:
            elements.append(_outlined((0, 0), 12, "#ffffff", _GRID_COLOR))
        for i, color in enumerate(self.scale.steps):
            elements.append(svg.rectangle((bar + _LEGEND_STEP * i, 0), (_LEGEND_STEP, 12), color))
        labels = [(low, self.scale.low), (high, self.scale.high)]
        if self.gold is not None:
            box = end + 11
            elements.append(_outlined((box, 1), 10, "none", self.scale.outline, width=2))
            labels.append((box + 16, "gold link"))
        return [*elements, *(svg.label((x, 10), name, color=MUTED, size=11) for x, name in labels)]

    def _panel(self, head: int) -> list[str]:
        """Return the cells of one map, with their words and gold links, from the corner of the cells."""
        elements: list[str] = []
        for s, word in enumerate(self.grid.source):
            elements.append(_word_label((_CELL * (s + 0.5) + svg.FONT / 4, -_GAP), word, angle=45))
        for t, word in enumerate(self.grid.target):
            at = -_GAP, _CELL * (t + 0.5) + svg.FONT * 0.36
            elements.append(_word_label(at, word, anchor="end", marked=t in self.marked))
        for t, target in enumerate(self.grid.target):
            for s, source in enumerate(self.grid.source):
                weight = float(self.grid.weights[head, t, s])
                at, tip = (_CELL * s, _CELL * t), f"{target} → {source}: {weight:.4g}"
                elements.append(_outlined(at, _CELL, self.scale.fill(weight), _GRID_COLOR, tip=tip))
        for s, t, sure in self._links():
            at, dashes = (_CELL * s + 2, _CELL * t + 2), {} if sure else {"stroke_dasharray": "4 3"}
            elements.append(_outlined(at, _CELL - 4, "none", self.scale.outline, width=2, **dashes))
        return elements

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


def _outlined(
    at: Point, side: Length, fill: str, stroke: str, width: int = 1, tip: str = "", **style: str
) -> str:
    """Return a square with an outline."""
    return svg.rectangle(at, (side, side), fill, tip, stroke=stroke, stroke_width=width, **style)


def _word_label(at: Point, word: str, anchor: str = "start", angle: int = 0, marked: bool = False) -> str:
    """Return a clipped word, with the whole word as its tooltip."""
    clipped = clip_label(word, _LABEL_CELLS)
    color, tip = _MARK_COLOR if marked else INK, "" if clipped == word else word
    return svg.label(at, clipped, anchor=anchor, color=color, marked=marked, angle=angle, tip=tip)


def _width(text: str) -> float:
    return _CHARACTER * cell_len(text)


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
        weights: One map, or one map per head. Weights above 1 have the color of 1; their tooltips show the
            true value.
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
    scale = ColorScale(_difference_color, blue, red, _DIFFERENCE_STEPS, _GOLD)
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
