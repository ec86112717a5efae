"""What a word gives to all words of its sentence in one layer: lines from the word, a colour a head.

The lecture's (Martins 2020) picture of self-attention.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.report.grid import clip_label, printable
from regard.report.svg import MUTED, colour_of, line, picture, polygon, text

__all__ = ["svg_fan"]

# Lengths in pixels; a label is cut to so many half-width characters.
_CHARACTER = 7.6
_LABEL = 24
_ROW = 24.0
_MARGIN = 14.0
_ACROSS = 190.0
_BOX = 11.0
_APART = 1.8  # between the lines of heads...
_SPREAD = 16.0  # ...of which the first and the last are no further apart than this
_FAINT = 0.02  # what is less is not drawn


def svg_fan(weights: Float[np.ndarray, "H S"], words: Sequence[str], word: int, title: str) -> str:
    """Draw it.

    Args:
        weights: What the word gives to each word, of each head.
        words: The words.
        word: The one the lines come from, from 0.
        title: A line above the picture.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if weights and words do not fit each other.
    """
    if weights.shape[1] != len(words) or not 0 <= word < len(words):
        raise DataError(f"weights of {weights.shape[1]} words, {len(words)} words, the word {word}")
    names = [clip_label(printable(one), _LABEL) for one in words]
    widest = _CHARACTER * max(cell_len(name) for name in names)
    left = _MARGIN + widest + 8
    right = left + _ACROSS
    boxes = right + 4
    after = boxes + len(weights) * (_BOX + 1) + 8
    top = _MARGIN + 52
    middles = [top + _ROW * (place + 0.5) for place in range(len(names))]
    parts = [text((_MARGIN, _MARGIN + 13), title, font_weight="bold")]
    parts.append(text((_MARGIN, _MARGIN + 34), "heads", fill=MUTED, font_size=11))
    for h in range(len(weights)):
        x = _MARGIN + 40 + h * 30
        parts.append(_box(x, _MARGIN + 30, h, 1.0))
        parts.append(text((x + _BOX + 3, _MARGIN + 34), f"{h}", fill=MUTED, font_size=11))
    for place, (name, y) in enumerate(zip(names, middles, strict=True)):
        bold: dict[str, str | float] = {"font_weight": "bold"} if place == word else {"fill": MUTED}
        parts.append(text((left - 8, y + 4.5), name, "end", **bold))
        parts.append(text((after, y + 4.5), name))
    for h, row in enumerate(weights.tolist()):
        for y, weight in zip(middles, row, strict=True):
            if weight >= _FAINT:
                aside = (h - (len(weights) - 1) / 2) * min(_APART, _SPREAD / len(weights))
                ends = [(left, middles[word] + aside), (right, y + aside)]
                style: dict[str, str | float] = {"stroke": colour_of(h), "opacity": round(weight**0.7, 3)}
                parts.append(line(ends, stroke_width=1 + 2 * weight, stroke_linecap="round", **style))
    for h, row in enumerate(weights.tolist()):
        for place, (y, weight) in enumerate(zip(middles, row, strict=True)):
            tip = f"head {h}: {printable(words[word])} → {printable(words[place])}: {weight:.4g}"
            parts.append(_box(boxes + h * (_BOX + 1), y, h, weight, tip))
    width = max(after + widest + _MARGIN, 2 * _MARGIN + _CHARACTER * cell_len(title))
    said = f"Lines from {words[word]!r} to the words it looks at, a colour a head, the darker the more."
    return picture(width, top + _ROW * len(names) + _MARGIN, title, said, parts)


def _box(x: float, middle: float, head: int, weight: float, tip: str = "") -> str:
    """A square whose left edge and middle are given."""
    low, high = middle - _BOX / 2, middle + _BOX / 2
    corners = [(x, low), (x + _BOX, low), (x + _BOX, high), (x, high)]
    shown = round(min(max(weight, 0.0), 1.0), 3)
    return polygon(corners, tip, fill=colour_of(head), fill_opacity=shown, stroke="#e3e3e3", stroke_width=0.6)
