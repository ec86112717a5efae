"""Plot the self-attention of one word in one layer: lines from the word to all words, one color per head.

The figure follows the lecture by Martins (2020).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.plotting.colormap import clip_label, printable
from regard.plotting.svg.document import MUTED, color_of, line, polygon, svg_document, text

__all__ = ["self_attention_svg"]

# Lengths in pixels; _LABEL is the maximum width of a label in half-width characters.
_CHARACTER = 7.6
_LABEL = 24
_ROW = 24.0
_MARGIN = 14.0
_ACROSS = 190.0
_BOX = 11.0
_HEAD_GAP = 1.8  # distance between the lines of two heads
_SPREAD = 16.0  # maximum distance between the lines of the first and the last head
_MIN_WEIGHT = 0.02  # lines of smaller weights are omitted


def self_attention_svg(weights: Float[np.ndarray, "H S"], words: Sequence[str], word: int, title: str) -> str:
    """Plot the self-attention of one word.

    Args:
        weights: Attention of the word to each word, per head.
        words: The words.
        word: Index of the word from which the lines start, counted from 0.
        title: Title above the picture.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if weights and words do not match, or there is no such word.
    """
    if weights.shape[1] != len(words) or not 0 <= word < len(words):
        raise DataError(
            f"weights of {weights.shape[1]} words for {len(words)} words, word {word}: expected one weight "
            f"per word, and a word between 0 and {len(words) - 1}"
        )
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
            if weight >= _MIN_WEIGHT:
                aside = (h - (len(weights) - 1) / 2) * min(_HEAD_GAP, _SPREAD / len(weights))
                ends = [(left, middles[word] + aside), (right, y + aside)]
                style: dict[str, str | float] = {"stroke": color_of(h), "opacity": round(weight**0.7, 3)}
                parts.append(line(ends, stroke_width=1 + 2 * weight, stroke_linecap="round", **style))
    for h, row in enumerate(weights.tolist()):
        for place, (y, weight) in enumerate(zip(middles, row, strict=True)):
            tip = f"head {h}: {printable(words[word])} → {printable(words[place])}: {weight:.4g}"
            parts.append(_box(boxes + h * (_BOX + 1), y, h, weight, tip))
    width = max(after + widest + _MARGIN, 2 * _MARGIN + _CHARACTER * cell_len(title))
    summary = f"Lines from {words[word]!r} to the words it attends to, one color per head; darker means more."
    return svg_document(width, top + _ROW * len(names) + _MARGIN, title, summary, parts)


def _box(x: float, middle: float, head: int, weight: float, tip: str = "") -> str:
    """Return a square with the given left edge and vertical center, as opaque as the weight."""
    low, high = middle - _BOX / 2, middle + _BOX / 2
    corners = [(x, low), (x + _BOX, low), (x + _BOX, high), (x, high)]
    shown = round(min(max(weight, 0.0), 1.0), 3)
    return polygon(corners, tip, fill=color_of(head), fill_opacity=shown, stroke="#e3e3e3", stroke_width=0.6)
