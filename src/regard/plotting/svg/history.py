"""Plot the attention history: one row per target word, with the source sentence shaded by its attention.

The figure follows the lecture by Martins (2020). The background of a source word is darker the more attention
the word received; exactly 0 is white.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.plotting.colormap import clip_label, label_maps
from regard.plotting.svg.document import INK, MUTED, format_coordinate, svg_document, text
from regard.plotting.svg.heatmap import weight_color

__all__ = ["history_svg"]

# Lengths in pixels; _LABEL is the maximum width of a label in half-width characters.
_CHARACTER = 7.6
_LABEL = 24
_PAD = 7.0
_ROW = 26.0
_GAP = 3.0
_MARGIN = 14.0
_DARK = 0.45  # text on larger weights is white


def history_svg(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str], title: str = ""
) -> str:
    """Plot the attention history of a translation.

    Args:
        weights: Attention of each target word to each source word.
        source: Source words.
        target: Target words.
        title: Title above the picture.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if the shapes of weights and words do not match.
    """
    grid = label_maps(weights, source, target)
    columns = [clip_label(word, _LABEL) for word in grid.source]
    rows = [clip_label(word, _LABEL) for word in grid.target]
    left = _MARGIN + max((_width(word) for word in rows), default=0.0) + 14
    places, x = [], left
    for word in columns:
        wide = _width(word) + 2 * _PAD
        places.append((x, wide))
        x += wide + _GAP
    top = _MARGIN + (24 if title else 0)
    parts = [text((_MARGIN, _MARGIN + 13), title, font_weight="bold")] if title else []
    for t, row in enumerate(rows):
        base = top + t * _ROW
        parts.append(text((left - 14, base + 17), row, "end", fill=INK))
        for (at, wide), word, full, weight in zip(
            places, columns, grid.source, grid.weights[0, t].tolist(), strict=True
        ):
            rectangle = [format_coordinate(number) for number in (at, base, wide, _ROW - _GAP)]
            place = 'x="{}" y="{}" width="{}" height="{}"'.format(*rectangle)
            tip = f"<title>{escape(f'{grid.target[t]} → {full}: {weight:.4g}')}</title>"
            parts.append(f'<rect {place} rx="3" fill="{weight_color(weight)}" stroke="#e3e3e3">{tip}</rect>')
            ink = "#ffffff" if weight > _DARK else INK if weight else MUTED
            parts.append(text((at + wide / 2, base + 17), word, "middle", fill=ink, pointer_events="none"))
    width = max(x + _MARGIN, 2 * _MARGIN + _width(title))
    summary = "Each row is a target word; a darker background of a source word means more attention."
    return svg_document(width, top + len(rows) * _ROW + _MARGIN, title or "Attention history", summary, parts)


def _width(label: str) -> float:
    return _CHARACTER * cell_len(label)
