"""The attention of single words: the history of a translation, and the self-attention of one word.

Both figures follow the lecture by Martins (2020). The history has one row per target word, with the source
sentence shaded by its attention: the background of a source word is darker the more attention the word
received; exactly 0 is white. Self-attention is shown as lines from the word to all words of one layer, one
color per head.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.plot.colors import weight_color
from regard.plot.figure import Figure, shapes_figure
from regard.plot.heatmap import LABEL_CELLS
from regard.plot.shapes import Box, Label, Segment, Shape
from regard.plot.style import INK, MUTED, clip_label, color_of, label_maps, printable

__all__ = ["history_figure", "self_attention_figure"]

# Lengths in pixels, of the figure of the history.
_CHARACTER = 7.6
_PAD = 7.0
_ROW = 26.0
_GAP = 3.0
_MARGIN = 14.0
_BASELINE = 17
_DARK = 0.45  # text on larger weights is white

# Lengths in pixels and weights of the figure of self-attention.
_WORD_ROW = 24.0
_TOP = _MARGIN + 52
_ACROSS = 190.0
_BOX = 11.0
_HEAD_GAP = 1.8  # distance between the lines of two heads
_SPREAD = 16.0  # maximum distance between the lines of the first and the last head
_MIN_WEIGHT = 0.02  # lines of smaller weights are omitted


def history_figure(
    weights: Float[np.ndarray, "T S"], source: Sequence[str], target: Sequence[str], title: str = ""
) -> Figure:
    """Return the figure of the attention history of a translation.

    Args:
        weights: Attention of each target word to each source word.
        source: Source words.
        target: Target words.
        title: Title above the picture.

    Raises:
        DataError: if the shapes of weights and words do not match.
    """
    grid = label_maps(weights, source, target)
    columns, rows = (
        [clip_label(word, LABEL_CELLS) for word in words] for words in (grid.source, grid.target)
    )
    left = _MARGIN + max(map(_width, rows), default=0.0) + 14
    top = _MARGIN + (24 if title else 0)
    shapes: list[Shape] = [Label((_MARGIN, _MARGIN + 13), title, bold=True)] if title else []
    for t, row in enumerate(rows):
        x, y = left, top + t * _ROW
        shapes.append(Label((left - 14, y + _BASELINE), row, "end"))
        for word, full, weight in zip(columns, grid.source, grid.weights[0, t].tolist(), strict=True):
            wide = _width(word) + 2 * _PAD
            tip = f"{grid.target[t]} → {full}: {weight:.4g}"
            style = {"fill": weight_color(weight), "stroke": "#e3e3e3", "radius": 3, "tip": tip}
            ink = "#ffffff" if weight > _DARK else INK if weight else MUTED
            shapes.append(Box((x, y), (wide, _ROW - _GAP), **style))
            shapes.append(Label((x + wide / 2, y + _BASELINE), word, "middle", ink))
            x += wide + _GAP
    across = left + sum(_width(word) + 2 * _PAD + _GAP for word in columns)
    size = max(across + _MARGIN, 2 * _MARGIN + _width(title)), top + len(rows) * _ROW + _MARGIN
    summary = "Each row is a target word; a darker background of a source word means more attention."
    return shapes_figure(title or "Attention history", summary, shapes, size)


def _width(label: str) -> float:
    return _CHARACTER * cell_len(label)


def self_attention_figure(
    weights: Float[np.ndarray, "H S"], words: Sequence[str], word: int, title: str
) -> Figure:
    """Return the figure of the self-attention of one word.

    Args:
        weights: Attention of the word to each word, per head.
        words: The words.
        word: Index of the word from which the lines start, counted from 0.
        title: Title above the picture.

    Raises:
        DataError: if weights and words do not match, or there is no such word.
    """
    if weights.shape[1] != len(words) or not 0 <= word < len(words):
        raise DataError(
            f"weights of {weights.shape[1]} words for {len(words)} words, word {word}: expected one weight "
            f"per word, and a word between 0 and {len(words) - 1}"
        )
    names = [clip_label(printable(text), LABEL_CELLS) for text in words]
    heads = len(weights)
    widest = _CHARACTER * max(map(cell_len, names))
    left = _MARGIN + widest + 8
    right = left + _ACROSS
    boxes = right + 4
    after = boxes + heads * (_BOX + 1) + 8
    middles = [_TOP + _WORD_ROW * (place + 0.5) for place in range(len(names))]
    shapes: list[Shape] = [Label((_MARGIN, _MARGIN + 13), title, bold=True)]
    shapes.append(Label((_MARGIN, _MARGIN + 34), "heads", color=MUTED, size=11))
    for h in range(heads):
        x = _MARGIN + 40 + h * 30
        shapes.append(_box(x, _MARGIN + 30, h, 1.0))
        shapes.append(Label((x + _BOX + 3, _MARGIN + 34), f"{h}", color=MUTED, size=11))
    for place, (name, y) in enumerate(zip(names, middles, strict=True)):
        color = INK if place == word else MUTED
        shapes.append(Label((left - 8, y + 4.5), name, "end", color, bold=place == word))
        shapes.append(Label((after, y + 4.5), name))
    for h, row in enumerate(weights.tolist()):
        # The lines of the heads lie side by side, so that equal links of two heads stay visible.
        aside = (h - (heads - 1) / 2) * min(_HEAD_GAP, _SPREAD / heads)
        for y, weight in zip(middles, row, strict=True):
            if weight >= _MIN_WEIGHT:
                ends = (left, middles[word] + aside), (right, y + aside)
                shapes.append(Segment(*ends, color_of(h), 1 + 2 * weight, min(weight**0.7, 1.0)))
    for h, row in enumerate(weights.tolist()):
        for place, (y, weight) in enumerate(zip(middles, row, strict=True)):
            tip = f"head {h}: {words[word]} → {words[place]}: {weight:.4g}"
            shapes.append(_box(boxes + h * (_BOX + 1), y, h, weight, tip))
    size = (
        max(after + widest + _MARGIN, 2 * _MARGIN + _width(title)),
        _TOP + _WORD_ROW * len(names) + _MARGIN,
    )
    summary = f"Lines from {words[word]!r} to the words it attends to, one color per head; darker means more."
    return shapes_figure(title, summary, shapes, size)


def _box(x: float, middle: float, head: int, weight: float, tip: str = "") -> Box:
    """Return a square with the given left edge and vertical center, as opaque as the weight."""
    opacity = min(max(weight, 0.0), 1.0)
    at, size = (x, middle - _BOX / 2), (_BOX, _BOX)
    return Box(at, size, color_of(head), "#e3e3e3", stroke_width=0.6, opacity=opacity, tip=tip)
