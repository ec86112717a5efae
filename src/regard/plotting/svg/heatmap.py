"""Plot attention maps as self-contained SVG heat maps, without scripts, external fonts or styles.

A weight of exactly 0 is white; every other weight has a color, even a very small one. The tooltip of a cell
shows its words and its weight.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.data.links import GoldLinks
from regard.plotting.colormap import Colormap, LabeledMaps, clip_label, label_maps, printable
from regard.plotting.svg.document import Length

__all__ = ["INVALID_COLOR", "ColorScale", "attention_svg", "heatmap_svg", "weight_color"]

_BLUES = Colormap(((234, 242, 251), (150, 191, 229), (70, 136, 199), (26, 80, 152), (6, 34, 84)))
INVALID_COLOR = "#ff4fa3"

# Lengths in pixels; _LABEL is the maximum width of a label in half-width characters.
_CELL = 24
_FONT = 13
_CHARACTER = 7.4
_LABEL = 24
_GAP = 8
_MARGIN = 12.0
_LINE = 20.0
_MARKED = "#b3261e"  # color of marked words, which are also bold and underlined
_SLOPE = 0.7072  # sine and cosine of 45 degrees
_WIDTH = 1200


def attention_svg(
    weights: Float[np.ndarray, "T S"] | Float[np.ndarray, "H T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str | None = None,
    captions: Sequence[str] | None = None,
    gold: GoldLinks | None = None,
    marked: Collection[int] = (),
) -> str:
    """Plot attention as a heat map; columns are source words, rows are target words.

    Args:
        weights: One map, or one map per head. Weights above 1 have the color of 1; their tooltips show the
            true value.
        source: Source words, one per column.
        target: Target words, one per row.
        title: Title above the picture.
        captions: One caption per head. Default: several heads are numbered from 0.
        gold: Gold links to outline: sure links with a solid line, possible links with a dashed line.
        marked: Indices of target words to mark.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if the shapes of weights, words and captions do not match.
    """
    return heatmap_svg(label_maps(weights, source, target, captions), _WEIGHT_COLORS, title, gold, marked)


@dataclass(frozen=True)
class ColorScale:
    """A color scale with its legend.

    Attributes:
        fill: Function from a number to its color.
        legend: SVG elements of the legend, with the origin at (0, 0) and 12 pixels high.
        width: Width of the legend in pixels.
        outline: Color of the outline of gold links.
    """

    fill: Callable[[float], str]
    legend: tuple[str, ...]
    width: Length
    outline: str


def heatmap_svg(
    grid: LabeledMaps,
    paint: ColorScale,
    title: str | None = None,
    gold: GoldLinks | None = None,
    marked: Collection[int] = (),
) -> str:
    """Plot numbers between words as colored cells; columns are source words, rows are target words.

    Args:
        grid: The numbers and words.
        paint: The color scale.
        title: Title above the picture.
        gold: Gold links to outline.
        marked: Indices of target words to mark.

    Returns:
        The text of an SVG file.
    """
    left = _GAP + max((_width(clip_label(label, _LABEL)) for label in grid.target), default=0.0)
    slanted = [_SLOPE * (_width(clip_label(label, _LABEL)) + _FONT) for label in grid.source]
    top = _GAP + max(slanted, default=0.0) + (_LINE if any(grid.captions) else 0)
    across, down = _CELL * len(grid.source), _CELL * len(grid.target)
    # The slanted labels extend to the right beyond the last column.
    lean = max((_CELL * (s + 0.5) + reach - across for s, reach in enumerate(slanted)), default=0.0)
    panel_width, panel_height = left + across + max(lean, 0.0) + _MARGIN, top + down + _MARGIN

    # Fill a row with the panels that fit into its width. Two panels are meant for comparison: they stay in
    # one row as long as each of them fits alone.
    fitting = int(_WIDTH // panel_width) * (2 if len(grid.weights) == 2 else 1)
    columns = max(1, min(len(grid.weights), fitting))
    rows = -(-len(grid.weights) // columns)
    head = _MARGIN + (_LINE if title else 0)
    width = max(
        _MARGIN + columns * panel_width,
        2 * _MARGIN + _width(title or ""),
        2 * _MARGIN + paint.width + (90 if gold else 0),
    )
    height = head + rows * panel_height + _LINE + _MARGIN

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f"aria-label={quoteattr(printable(title or 'attention'))} "
        f'font-family="sans-serif" font-size="{_FONT}" fill="#1a1a1a">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    if title:
        parts.append(
            f'<text x="{_MARGIN}" y="{_MARGIN + _FONT}" font-weight="bold">{escape(printable(title))}</text>'
        )
    for h in range(len(grid.weights)):
        x = _MARGIN + (h % columns) * panel_width + left
        y = head + (h // columns) * panel_height + top
        parts.append(f'<g transform="translate({x:.1f} {y:.1f})">')
        parts += [
            *_labels(grid, h, left, top, marked),
            *_cells(grid, h, paint),
            *_outlines(gold, grid, paint),
            "</g>",
        ]
    parts += [*_legend(_MARGIN, height - _MARGIN - _LINE / 2, paint, gold is not None), "</svg>"]
    return "\n".join(parts) + "\n"


def _labels(grid: LabeledMaps, head: int, left: float, top: float, marked: Collection[int]) -> list[str]:
    parts = []
    if grid.captions[head]:
        x, y = -left, -top + _FONT
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="#555555">{escape(grid.captions[head])}</text>')
    for s, label in enumerate(grid.source):
        x = _CELL * (s + 0.5) + _FONT / 4
        parts.append(f'<text transform="translate({x:.1f} {-_GAP}) rotate(-45)">{_label(label)}</text>')
    for t, label in enumerate(grid.target):
        y = _CELL * (t + 0.5) + _FONT * 0.36
        style = f' fill="{_MARKED}" font-weight="bold" text-decoration="underline"' if t in marked else ""
        parts.append(f'<text x="{-_GAP}" y="{y:.1f}" text-anchor="end"{style}>{_label(label)}</text>')
    return parts


def _label(label: str) -> str:
    """Return a clipped label, with the full text as its tooltip."""
    shown = clip_label(label, _LABEL)
    return escape(shown) + (f"<title>{escape(label)}</title>" if shown != label else "")


def _cells(grid: LabeledMaps, head: int, paint: ColorScale) -> list[str]:
    parts = ['<g stroke="#d9d9d9" stroke-width="1">']
    for t, target in enumerate(grid.target):
        for s, source in enumerate(grid.source):
            weight = float(grid.weights[head, t, s])
            tip = escape(f"{target} → {source}: {weight:.4g}")
            place = f'x="{_CELL * s}" y="{_CELL * t}" width="{_CELL}" height="{_CELL}"'
            parts.append(f'<rect {place} fill="{paint.fill(weight)}"><title>{tip}</title></rect>')
    return [*parts, "</g>"]


def weight_color(weight: float) -> str:
    """Return the color of a weight: white for exactly 0, pink for negative or non-finite values."""
    if weight == 0:
        return "#ffffff"
    # An invalid value must not look like a weight.
    return _BLUES.color(weight) if np.isfinite(weight) and weight > 0 else INVALID_COLOR


def _outlines(gold: GoldLinks | None, grid: LabeledMaps, paint: ColorScale) -> list[str]:
    if gold is None:
        return []
    # Without pointer-events="none" the outlines would hide the tooltips of the cells.
    parts = [f'<g fill="none" stroke="{paint.outline}" stroke-width="2" pointer-events="none">']
    for s, t in sorted(gold.possible):
        if s < len(grid.source) and t < len(grid.target):
            dashed = "" if (s, t) in gold.sure else ' stroke-dasharray="4 3"'
            side = _CELL - 4
            parts.append(
                f'<rect x="{_CELL * s + 2}" y="{_CELL * t + 2}" width="{side}" height="{side}"{dashed}/>'
            )
    return [*parts, "</g>"]


def _legend(x: float, y: float, paint: ColorScale, gold: bool) -> list[str]:
    parts = [f'<g transform="translate({x:.1f} {y:.1f})" font-size="11" fill="#555555">', *paint.legend]
    if gold:
        at = paint.width + 11
        parts.append(
            f'<rect x="{at:g}" y="1" width="10" height="10" fill="none" '
            f'stroke="{paint.outline}" stroke-width="2"/>'
            f'<text x="{at + 16:g}" y="10">gold link</text>'
        )
    return [*parts, "</g>"]


def _width(text: str) -> float:
    return _CHARACTER * cell_len(text)


_WEIGHT_COLORS = ColorScale(
    weight_color,
    (
        '<rect width="12" height="12" fill="#ffffff" stroke="#d9d9d9"/><text x="18" y="10">0</text>',
        *(
            f'<rect x="{36 + 8 * step}" width="8" height="12" fill="{_BLUES.color((step + 0.5) / 10)}"/>'
            for step in range(10)
        ),
        '<text x="122" y="10">1</text>',
    ),
    width=130,
    outline="#e0521b",
)
