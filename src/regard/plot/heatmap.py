"""Attention maps as heat maps: colors, layout, and the form as self-contained SVG.

A weight of exactly 0 is white; every other weight has a color, even a very small one. The tooltip of a cell
shows its words and its weight. `regard.plot.attention` plots the same maps with matplotlib.

A difference of two maps (Shankar & Sarawagi (2019), Figure 2) is red where one system attends more, and blue
where the other does. Exactly equal weights are white; every other difference has a color.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.plot.colors import INVALID_COLOR, LEGEND_STEP, ColorScale, weight_scale
from regard.plot.shapes import FONT, Box, Label, Shape, svg_document, svg_parts
from regard.plot.style import (
    MUTED,
    Colormap,
    LabeledMaps,
    Length,
    Point,
    clip_label,
    label_maps,
    printable,
)
from regard.text.links import GoldLinks

__all__ = [
    "CELL",
    "GRID_COLOR",
    "LABEL_CELLS",
    "MARGIN",
    "MARK_COLOR",
    "HeatMap",
    "arrange_panels",
    "attention_heatmap",
    "combine_svgs",
    "difference_heatmap",
    "heatmap_svg",
]

# Colors of positive and negative differences.
_POSITIVE = Colormap(((253, 238, 232), (246, 178, 147), (217, 95, 70), (168, 22, 40), (92, 0, 24)))
_NEGATIVE = Colormap(((234, 242, 251), (156, 198, 232), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
_GOLD = "#f0b000"  # visible on the darkest red and blue and on white
_NAME = 40  # maximum width of the name of a system in the legend of differences
_STEPS = 6  # colors of each sign in the legend of differences
GRID_COLOR = "#d9d9d9"
MARK_COLOR = "#b3261e"
"""Color of marked words, which are also bold and, in SVG, underlined."""

CELL = 24
"""Width and height of a cell in pixels."""
LABEL_CELLS = 24
"""Maximum width of a label in half-width characters."""
MARGIN = 12.0
"""Distance of a heat map from the border of the picture in pixels."""

# Lengths in pixels.
_CHARACTER = 7.4
_GAP = 8
_LINE = 20.0
_SLOPE = 0.7072  # sine and cosine of 45 degrees
_WIDTH = 1200
_NAME_HEIGHT = 26.0
_COMBINED_WIDTH = 1400


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

    def layout(self) -> "HeatMapLayout":
        """Return the positions of all parts.

        Panels fill a row as long as they fit into its width. Two panels are meant for comparison: they stay
        in one row as long as each of them fits alone.
        """
        grid = self.grid
        left = _GAP + max((_width(clip_label(label, LABEL_CELLS)) for label in grid.target), default=0.0)
        slanted = [_SLOPE * (_width(clip_label(label, LABEL_CELLS)) + FONT) for label in grid.source]
        top = _GAP + max(slanted, default=0.0) + (_LINE if any(grid.captions) else 0)
        across, down = CELL * len(grid.source), CELL * len(grid.target)
        # The slanted labels extend to the right beyond the last column.
        lean = max((CELL * (s + 0.5) + reach - across for s, reach in enumerate(slanted)), default=0.0)
        panel_width, panel_height = left + across + max(lean, 0.0) + MARGIN, top + down + MARGIN
        fitting = int(_WIDTH // panel_width) * (2 if len(grid.weights) == 2 else 1)
        columns = max(1, min(len(grid.weights), fitting))
        rows = -(-len(grid.weights) // columns)
        head = MARGIN + (_LINE if self.title else 0)
        width = max(
            MARGIN + columns * panel_width,
            2 * MARGIN + _width(self.title or ""),
            2 * MARGIN + self.scale.width + (90 if self.gold else 0),
        )
        height = head + rows * panel_height + _LINE + MARGIN
        corners = tuple(
            (MARGIN + (h % columns) * panel_width + left, head + (h // columns) * panel_height + top)
            for h in range(len(grid.weights))
        )
        return HeatMapLayout(width, height, corners, (left, top))

    def decorations(self, layout: "HeatMapLayout") -> list[Shape]:
        """Return the title, the captions and the legend."""
        shapes: list[Shape] = []
        if self.title:
            shapes.append(Label((MARGIN, MARGIN + FONT), self.title, bold=True))
        for (x, y), caption in zip(layout.corners, self.grid.captions, strict=True):
            if caption:
                at = x - layout.labels[0], y - layout.labels[1] + FONT
                shapes.append(Label(at, caption, color=MUTED))
        x, y = MARGIN, layout.height - MARGIN - _LINE / 2
        low, bar, high = self.scale.places
        if self.scale.white_box:
            shapes.append(Box((x, y), (12, 12), "#ffffff", GRID_COLOR))
        for i, color in enumerate(self.scale.steps):
            shapes.append(Box((x + bar + LEGEND_STEP * i, y), (LEGEND_STEP, 12), color))
        labels = [(low, self.scale.low), (high, self.scale.high)]
        if self.gold is not None:
            box = x + self.scale.width + 11
            shapes.append(Box((box, y + 1), (10, 10), "none", self.scale.outline, stroke_width=2))
            labels.append((self.scale.width + 27, "gold link"))
        return [*shapes, *(Label((x + at, y + 10), name, color=MUTED, size=11) for at, name in labels)]

    def links(self) -> list[tuple[int, int, bool]]:
        """Return the gold links between the words of the map: column, row, and whether the link is sure."""
        if self.gold is None:
            return []
        rows, columns = len(self.grid.target), len(self.grid.source)
        inside = (link for link in sorted(self.gold.possible) if link[0] < columns and link[1] < rows)
        return [(s, t, (s, t) in self.gold.sure) for s, t in inside]


@dataclass(frozen=True)
class HeatMapLayout:
    """Positions in a heat map in pixels, from the upper left corner.

    Attributes:
        width: Width of the picture.
        height: Height of the picture.
        corners: Upper left corner of the cells of each panel.
        labels: Width of the row labels and height of the column labels of a panel.
    """

    width: Length
    height: Length
    corners: tuple[Point, ...]
    labels: Point


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
    return HeatMap(label_maps(weights, source, target, captions), weight_scale("linear"), title, gold, marked)


def heatmap_svg(heat: HeatMap) -> str:
    """Return the text of an SVG file of a heat map."""
    layout = heat.layout()
    parts = svg_parts(heat.decorations(layout))
    for h, (x, y) in enumerate(layout.corners):
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})">')
        parts += [*_labels(heat), *_cells(heat, h), *_outlines(heat), "</g>"]
    description = "Rows are target words, columns are source words."
    return svg_document((layout.width, layout.height), heat.title or "Attention", description, parts)


def _labels(heat: HeatMap) -> list[str]:
    parts = []
    for s, label in enumerate(heat.grid.source):
        x = CELL * (s + 0.5) + FONT / 4
        parts.append(f'<text transform="translate({x:.1f} {-_GAP}) rotate(-45)">{_label(label)}</text>')
    for t, label in enumerate(heat.grid.target):
        y = CELL * (t + 0.5) + FONT * 0.36
        marked = t in heat.marked
        style = f' fill="{MARK_COLOR}" font-weight="bold" text-decoration="underline"' if marked else ""
        parts.append(f'<text x="{-_GAP}" y="{y:.1f}" text-anchor="end"{style}>{_label(label)}</text>')
    return parts


def _label(label: str) -> str:
    """Return a clipped label, with the full text as its tooltip."""
    clipped = clip_label(label, LABEL_CELLS)
    return escape(clipped) + (f"<title>{escape(label)}</title>" if clipped != label else "")


def _cells(heat: HeatMap, head: int) -> list[str]:
    parts = [f'<g stroke="{GRID_COLOR}" stroke-width="1">']
    for t, target in enumerate(heat.grid.target):
        for s, source in enumerate(heat.grid.source):
            weight = float(heat.grid.weights[head, t, s])
            tip = escape(f"{target} → {source}: {weight:.4g}")
            place = f'x="{CELL * s}" y="{CELL * t}" width="{CELL}" height="{CELL}"'
            parts.append(f'<rect {place} fill="{heat.scale.fill(weight)}"><title>{tip}</title></rect>')
    return [*parts, "</g>"]


def _outlines(heat: HeatMap) -> list[str]:
    if heat.gold is None:
        return []
    # Without pointer-events="none" the outlines would hide the tooltips of the cells.
    parts = [f'<g fill="none" stroke="{heat.scale.outline}" stroke-width="2" pointer-events="none">']
    side = CELL - 4
    for s, t, sure in heat.links():
        dashed = "" if sure else ' stroke-dasharray="4 3"'
        place = f'x="{CELL * s + 2}" y="{CELL * t + 2}" width="{side}" height="{side}"'
        parts.append(f"<rect {place}{dashed}/>")
    return [*parts, "</g>"]


def _width(text: str) -> float:
    return _CHARACTER * cell_len(text)


# Several heat maps in one picture


def arrange_panels(maps: Mapping[str, HeatMap]) -> tuple[list[Point], Point]:
    """Arrange heat maps with their names above, from left to right, in rows of limited width.

    Returns:
        The upper left corner of each map without its name, and the width and height of all, in pixels.
    """
    corners: list[Point] = []
    x = y = tallest = across = 0.0
    for name, heat in maps.items():
        layout = heat.layout()
        width = max(layout.width, 2 * MARGIN + _CHARACTER * cell_len(name))
        if x and x + width > _COMBINED_WIDTH:
            x, y, tallest = 0.0, y + tallest + _GAP, 0.0
        corners.append((x, y + _NAME_HEIGHT))
        x, tallest = x + width + _GAP, max(tallest, _NAME_HEIGHT + layout.height)
        across = max(across, x - _GAP)
    return corners, (across, y + tallest)


def combine_svgs(maps: Mapping[str, HeatMap], title: str, description: str) -> str:
    """Return the text of an SVG file of several heat maps, each with its name above it.

    Args:
        maps: The heat maps by name.
        title: Accessible title of the combined picture.
        description: Accessible description of the combined picture.
    """
    corners, size = arrange_panels(maps)
    parts: list[str] = []
    for (x, y), (name, heat) in zip(corners, maps.items(), strict=True):
        parts += svg_parts([Label((x + MARGIN, y - 6), name, bold=True)])
        parts.append(heatmap_svg(heat).replace("<svg ", f'<svg x="{x:g}" y="{y:g}" ', 1))
    return svg_document(size, title, description, parts)


def difference_heatmap(
    differences: Float[np.ndarray, "T S"] | Float[np.ndarray, "N T S"],
    source: Sequence[str],
    target: Sequence[str],
    names: tuple[str, str],
    title: str | None = None,
    captions: Sequence[str] | None = None,
    gold: GoldLinks | None = None,
) -> HeatMap:
    """Return the difference of maps (`regard.metrics.alignment.map_difference`) as a heat map.

    Args:
        differences: One difference, or several over the same words; values between -1 and 1.
        source: Source words, one per column.
        target: Target words, one per row.
        names: The system that has more attention where a difference is positive (red), and the one where it
            is negative (blue).
        title: Title above the picture.
        captions: One caption per difference.
        gold: Gold links to outline.

    Raises:
        DataError: if the names are equal, or the shapes of differences, words and captions do not match.
    """
    if len(set(names)) != 2:
        raise DataError(f"both systems of a difference are named {names[0]!r}: give them different names")
    red, blue = (f"more in {clip_label(printable(name), _NAME)}" for name in names)
    steps = tuple(_cell_color((step + 0.5) / _STEPS) for step in range(-_STEPS, _STEPS))
    scale = ColorScale(_cell_color, blue, red, steps, _GOLD)
    return HeatMap(label_maps(differences, source, target, captions), scale, title, gold)


def _cell_color(difference: float) -> str:
    if not np.isfinite(difference):
        return INVALID_COLOR
    if difference == 0:
        return "#ffffff"
    return (_POSITIVE if difference > 0 else _NEGATIVE).color(abs(difference))
