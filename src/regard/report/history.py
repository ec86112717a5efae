"""Attention word by word: under each other the source sentence as every target word saw it.

The lecture's (Martins 2020) attention history: a row a target word, the source words on a ground as dark as
the attention they got. Exactly 0 is white.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.report.grid import clip_label, make_grid
from regard.report.heatmap import weight_colour
from regard.report.svg import INK, MUTED, number, picture, text

__all__ = ["svg_history"]

# Lengths in pixels; a label is cut to so many half-width characters.
_CHARACTER = 7.6
_LABEL = 24
_PAD = 7.0
_ROW = 26.0
_GAP = 3.0
_MARGIN = 14.0
_DARK = 0.45  # letters on more than this are white


def svg_history(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str], title: str = ""
) -> str:
    """Draw it.

    Args:
        weights: Attention of each target word to each source word.
        source: Source words.
        target: Target words.
        title: A line above the picture.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if weights and words do not fit each other.
    """
    grid = make_grid(weights, source, target)
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
            place = (
                f'x="{number(at)}" y="{number(base)}" width="{number(wide)}" height="{number(_ROW - _GAP)}"'
            )
            tip = f"<title>{escape(f'{grid.target[t]} → {full}: {weight:.4g}')}</title>"
            parts.append(f'<rect {place} rx="3" fill="{weight_colour(weight)}" stroke="#e3e3e3">{tip}</rect>')
            ink = "#ffffff" if weight > _DARK else INK if weight else MUTED
            parts.append(text((at + wide / 2, base + 17), word, "middle", fill=ink, pointer_events="none"))
    width = max(x + _MARGIN, 2 * _MARGIN + _width(title))
    said = "Each row is a target word; the darker the ground of a source word, the more attention it got."
    return picture(width, top + len(rows) * _ROW + _MARGIN, title or "Attention word by word", said, parts)


def _width(label: str) -> float:
    return _CHARACTER * cell_len(label)
