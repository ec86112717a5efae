"""The self-attention of one word in one layer: lines from the word to all words, one color per head.

The figure follows the lecture by Martins (2020).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from rich.cells import cell_len

from regard.errors import DataError
from regard.plotting.colormap import MUTED, clip_label, color_of, printable
from regard.plotting.figure import Figure
from regard.plotting.heatmap import LABEL_CELLS
from regard.plotting.style import add_box, pixel_figure, set_pixel_limits
from regard.plotting.svg import Point, line, polygon, svg_document, text

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

__all__ = ["plot_self_attention", "self_attention_figure"]

# Lengths in pixels.
_CHARACTER = 7.6
_ROW = 24.0
_MARGIN = 14.0
_ACROSS = 190.0
_BOX = 11.0
_TOP = _MARGIN + 52
_HEAD_GAP = 1.8  # distance between the lines of two heads
_SPREAD = 16.0  # maximum distance between the lines of the first and the last head
_MIN_WEIGHT = 0.02  # lines of smaller weights are omitted
_FRAME = "#e3e3e3"


@dataclass(frozen=True)
class _Picture:
    """The parts of the picture and their positions in pixels.

    Attributes:
        weights: Attention of the word to each word, per head.
        words: The words, printable.
        word: Index of the word from which the lines start.
        title: Title above the picture.
    """

    weights: Float[np.ndarray, "H S"]
    words: tuple[str, ...]
    word: int
    title: str

    def __post_init__(self) -> None:
        if self.weights.shape[1] != len(self.words) or not 0 <= self.word < len(self.words):
            raise DataError(
                f"weights of {self.weights.shape[1]} words for {len(self.words)} words, word {self.word}: "
                f"expected one weight per word, and a word between 0 and {len(self.words) - 1}"
            )

    @property
    def labels(self) -> list[str]:
        return [clip_label(word, LABEL_CELLS) for word in self.words]

    @property
    def widest(self) -> float:
        return _CHARACTER * max(map(cell_len, self.labels))

    @property
    def left(self) -> float:
        """The start of the lines; the words on the left end before it."""
        return _MARGIN + self.widest + 8

    @property
    def boxes(self) -> float:
        """The left edge of the boxes."""
        return self.left + _ACROSS + 4

    @property
    def after(self) -> float:
        """The start of the words on the right."""
        return self.boxes + len(self.weights) * (_BOX + 1) + 8

    @property
    def size(self) -> tuple[float, float]:
        width = max(self.after + self.widest + _MARGIN, 2 * _MARGIN + _CHARACTER * cell_len(self.title))
        return width, _TOP + _ROW * len(self.words) + _MARGIN

    def middle(self, place: int) -> float:
        """Return the height of a word."""
        return _TOP + _ROW * (place + 0.5)

    def lines(self) -> Iterator[tuple[list[Point], int, float]]:
        """Yield the ends, the head and the weight of each line."""
        heads = len(self.weights)
        for (head, place), weight in np.ndenumerate(self.weights):
            if weight >= _MIN_WEIGHT:
                aside = (head - (heads - 1) / 2) * min(_HEAD_GAP, _SPREAD / heads)
                start = self.left, self.middle(self.word) + aside
                end = self.left + _ACROSS, self.middle(place) + aside
                yield [start, end], head, float(weight)

    def squares(self) -> Iterator[tuple[Point, int, int, float]]:
        """Yield the upper left corner, the head, the word and the weight of each box."""
        for (head, place), weight in np.ndenumerate(self.weights):
            corner = self.boxes + head * (_BOX + 1), self.middle(place) - _BOX / 2
            yield corner, head, place, min(max(float(weight), 0.0), 1.0)

    def legend(self) -> Iterator[tuple[Point, int]]:
        """Yield the upper left corner of the box of each head in the legend."""
        for head in range(len(self.weights)):
            yield (_MARGIN + 40 + head * 30, _MARGIN + 30 - _BOX / 2), head


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
    picture = _Picture(weights, tuple(map(printable, words)), word, title)

    def plot() -> "matplotlib.figure.Figure":
        figure, ax = pixel_figure(*picture.size)
        plot_self_attention(ax, weights, words, word, title)
        return figure

    summary = f"Lines from {words[word]!r} to the words it attends to, one color per head; darker means more."
    return Figure(title, summary, plot, svg_document(*picture.size, title, summary, _svg_parts(picture)))


def _svg_parts(picture: _Picture) -> Iterator[str]:
    small: dict[str, Any] = {"fill": MUTED, "font_size": 11}
    yield text((_MARGIN, _MARGIN + 13), picture.title, font_weight="bold")
    yield text((_MARGIN, _MARGIN + 34), "heads", **small)
    for (x, y), head in picture.legend():
        yield _svg_box((x, y), head, 1.0)
        yield text((x + _BOX + 3, y + _BOX / 2 + 4), f"{head}", **small)
    for place, label in enumerate(picture.labels):
        style = {"font_weight": "bold"} if place == picture.word else {"fill": MUTED}
        yield text((picture.left - 8, picture.middle(place) + 4.5), label, "end", **style)
        yield text((picture.after, picture.middle(place) + 4.5), label)
    for ends, head, weight in picture.lines():
        shade = {"stroke": color_of(head), "opacity": round(weight**0.7, 3)}
        yield line(ends, stroke_width=1 + 2 * weight, stroke_linecap="round", **shade)
    for corner, head, place, weight in picture.squares():
        words = picture.words
        tip = f"head {head}: {words[picture.word]} → {words[place]}: {picture.weights[head, place]:.4g}"
        yield _svg_box(corner, head, weight, tip)


def _svg_box(at: Point, head: int, weight: float, tip: str = "") -> str:
    x, y = at
    corners = [(x, y), (x + _BOX, y), (x + _BOX, y + _BOX), (x, y + _BOX)]
    style = {"fill": color_of(head), "fill_opacity": round(weight, 3), "stroke": _FRAME, "stroke_width": 0.6}
    return polygon(corners, tip, **style)


def plot_self_attention(
    ax: "matplotlib.axes.Axes", weights: Float[np.ndarray, "H S"], words: Sequence[str], word: int, title: str
) -> None:
    """Plot the self-attention of one word with matplotlib.

    Args:
        ax: The axes. Their limits are set to the size of the picture in pixels of 1/96 inch.
        weights: Attention of the word to each word, per head.
        words: The words.
        word: Index of the word from which the lines start, counted from 0.
        title: Title above the picture.

    Raises:
        DataError: if weights and words do not match, or there is no such word.
    """
    from matplotlib.colors import to_rgba

    picture = _Picture(weights, tuple(map(printable, words)), word, title)
    set_pixel_limits(ax, *picture.size)
    ax.text(_MARGIN, _MARGIN + 13, printable(title), fontweight="bold")
    ax.text(_MARGIN, _MARGIN + 34, "heads", color=MUTED, fontsize=8.25)
    for (x, y), head in picture.legend():
        add_box(ax, (x, y), (_BOX, _BOX), facecolor=color_of(head), edgecolor=_FRAME)
        ax.text(x + _BOX + 3, y + _BOX / 2 + 4, f"{head}", color=MUTED, fontsize=8.25)
    for place, label in enumerate(picture.labels):
        style: dict[str, Any] = {"fontweight": "bold"} if place == word else {"color": MUTED}
        ax.text(picture.left - 8, picture.middle(place) + 4.5, label, ha="right", **style)
        ax.text(picture.after, picture.middle(place) + 4.5, label)
    for ends, head, weight in picture.lines():
        width = 0.75 + 1.5 * weight
        shade = {"color": color_of(head), "alpha": min(weight**0.7, 1)}
        ax.plot(*np.array(ends).T, linestyle="-", linewidth=width, solid_capstyle="round", **shade)
    for corner, head, _, weight in picture.squares():
        color = to_rgba(color_of(head), weight)
        add_box(ax, corner, (_BOX, _BOX), facecolor=color, edgecolor=_FRAME)
