"""Plot attention over three words in several rounds: Malaviya et al. (2018), Figure 1.

The attention of each transformation is plotted as bars and as points in a triangle. Each point of the
triangle is a distribution over three words: a corner gives all attention to one word, the opposite edge gives
it none. An upper bound on a word cuts off its corner; the rest of the triangle is the feasible region.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.plotting.svg.document import (
    INK,
    MUTED,
    Length,
    Point,
    clip_polygon,
    dot,
    line,
    polygon,
    svg_document,
    text,
)

__all__ = ["RoundAttention", "plot_bars", "plot_triangles"]

# Blue, orange and purple, distinct from each other and from the green of the bounds for color-blind readers.
_WORDS = ("#2f6db3", "#b85c00", "#7b4fa3")
_GREEN = "#15803d"
_FEASIBLE = "#d5eddb"
_FRAME = "#8a8f98"
_DASH = "5 3"

# Lengths in pixels.
_LEFT = 108
_TOP = 34
_COLUMN = 178
_MARGIN = 12

_SCALE = 84  # height of an attention of 1
_HIGHEST = 1.15  # upper end of the axis, above the largest sum in the figure
_SLOT = 48
_BAR = 30

_SIDE = 132.0
_HEIGHT = _SIDE * 3**0.5 / 2


@dataclass(frozen=True)
class RoundAttention:
    """The attention of one transformation over three words in several rounds.

    Attributes:
        name: Name of the transformation.
        weights: The distribution of each round.
        bounds: Upper bound of each word in each round; None for a transformation without bounds.
        unbounded: The distribution without bounds, for comparison; None to omit it.
    """

    name: str
    weights: Float[np.ndarray, "R 3"]
    bounds: Float[np.ndarray, "R 3"] | None = None
    unbounded: Float[np.ndarray, "R 3"] | None = None


def plot_bars(
    transformations: Sequence[RoundAttention],
    scores: Float[np.ndarray, "R 3"],
    fertility: Float[np.ndarray, "3"],
) -> str:
    """Plot the rounds and their sum as bars: one column per transformation, one row per round.

    The last row shows the cumulative attention.

    Args:
        transformations: The transformations.
        scores: Input scores of each round, for the labels of the rows.
        fertility: Fertility of each word, plotted as the bound of the cumulative attention.

    Returns:
        The text of an SVG file, with bounds as dashed green lines.
    """
    rounds = len(scores)
    row = _SCALE * _HIGHEST + 40
    width = _LEFT + _COLUMN * len(transformations) - 8
    height = _TOP + row * (rounds + 1) + 30
    parts = _headings(transformations)
    for r in range(rounds + 1):
        base = _TOP + row * r + _SCALE * _HIGHEST + 8
        label = f"round {r + 1}" if r < rounds else "cumulative"
        parts += _row_label(label, base - _SCALE / 2, scores[r] if r < rounds else None)
        for m, each in enumerate(transformations):
            values = each.weights[r] if r < rounds else each.weights.sum(0)
            limits = fertility if r == rounds else None if each.bounds is None else each.bounds[r]
            parts += _panel((_LEFT + _COLUMN * m, base), f"{each.name}, {label}", values, limits)
    parts += _legend(_LEFT, height - _MARGIN - 4)
    return svg_document(
        width, height, "Attention over three words in three rounds", _description(transformations), parts
    )


def _headings(transformations: Sequence[RoundAttention]) -> list[str]:
    middles = [_LEFT + _COLUMN * m + 1.5 * _SLOT for m in range(len(transformations))]
    return [
        text((x, 22), each.name, "middle", font_weight="bold", font_size=12)
        for x, each in zip(middles, transformations, strict=True)
    ]


def _row_label(label: str, y: Length, scores: np.ndarray | None) -> list[str]:
    parts = [text((_MARGIN, y), label, font_weight="bold")]
    if scores is not None:
        shown = ", ".join(f"{score:g}".replace("-", "−") for score in scores)
        parts.append(text((_MARGIN, y + 16), f"({shown})", fill=MUTED, font_size=11))
    return parts


def _panel(at: Point, name: str, values: np.ndarray, limits: np.ndarray | None) -> list[str]:
    """Return three bars with their values below and their bounds."""
    left, base = at
    full = base - _SCALE
    parts = [
        line([(left, full), (left + 3 * _SLOT, full)], stroke="#e3e3e3"),
        text((left - 5, full + 4), "1", "end", fill=MUTED, font_size=10),
        text((left - 5, base + 4), "0", "end", fill=MUTED, font_size=10),
    ]
    for i, value in enumerate(values):
        x, y = left + _SLOT * (i + 0.5), base - _SCALE * float(value)
        corners = [(x - _BAR / 2, base), (x - _BAR / 2, y), (x + _BAR / 2, y), (x + _BAR / 2, base)]
        if value > 0:
            parts.append(polygon(corners, f"{name}, word {i + 1}: {value:.4f}", fill=_WORDS[i]))
        parts.append(text((x, base + 15), _value(float(value)), "middle", font_size=11))
    parts.append(line([(left, base), (left + 3 * _SLOT, base)], stroke=_FRAME))
    for i, limit in enumerate(() if limits is None else limits):
        y = base - _SCALE * float(limit)
        ends = [(left + _SLOT * i + 3, y), (left + _SLOT * (i + 1) - 3, y)]
        # A white line below the dashes, so that they are visible on a bar that reaches its bound.
        parts.append(line(ends, stroke="#ffffff", stroke_width=2))
        parts.append(line(ends, stroke=_GREEN, stroke_width=2, stroke_dasharray=_DASH))
    return parts


def _legend(x: Length, y: Length) -> list[str]:
    parts: list[str] = []
    for i, color in enumerate(_WORDS):
        corners = [(x, y), (x, y - 10), (x + 10, y - 10), (x + 10, y)]
        parts += [polygon(corners, fill=color), text((x + 16, y), f"word {i + 1}", fill=MUTED, font_size=12)]
        x += 76
    dashes = line([(x, y - 4), (x + 26, y - 4)], stroke=_GREEN, stroke_width=2, stroke_dasharray=_DASH)
    return [*parts, dashes, text((x + 33, y), "bound (last row: fertility)", fill=MUTED, font_size=12)]


def plot_triangles(transformations: Sequence[RoundAttention], scores: Float[np.ndarray, "R 3"]) -> str:
    """Plot the rounds on the simplex: one column per transformation, one row per round.

    Args:
        transformations: The transformations.
        scores: Input scores of each round, for the labels of the rows.

    Returns:
        The text of an SVG file. The feasible region is shaded, the distribution is a filled point, and the
        distribution without bounds is a hollow point.
    """
    row = _HEIGHT + 62
    width = _LEFT + _COLUMN * len(transformations) - 8
    height = _TOP + row * len(scores) + 30
    parts = _headings(transformations)
    for r, given in enumerate(scores):
        base = _TOP + row * r + _HEIGHT + 22
        parts += _row_label(f"round {r + 1}", base - _HEIGHT / 2, given)
        for m, each in enumerate(transformations):
            left = _LEFT + _COLUMN * m + 1.5 * _SLOT - _SIDE / 2
            parts += _triangle((left, base), each, r)
    parts += _triangle_legend(_LEFT, height - _MARGIN - 4)
    return svg_document(
        width, height, "Transformations on the simplex of three words", _description(transformations), parts
    )


def _triangle(at: Point, each: RoundAttention, r: int) -> list[str]:
    corners = [_place(at, np.eye(3)[i]) for i in range(3)]
    bounds = np.ones(3) if each.bounds is None else each.bounds[r]
    allowed = corners
    for i in range(3):
        allowed = clip_polygon(allowed, lambda p, i=i: float(bounds[i]) - _share(at, p, i))
    parts = [polygon(corners, fill="#f4f4f5"), polygon(allowed, fill=_FEASIBLE)]
    parts.append(polygon(corners, fill="none", stroke=_FRAME))
    for i in range(3):
        if 0 <= bounds[i] < 1:
            parts.append(
                line(_level(at, i, float(bounds[i])), stroke=_GREEN, stroke_width=1.5, stroke_dasharray=_DASH)
            )
    (ax, ay), (bx, by), (cx, cy) = corners
    names = [((ax - 5, ay + 5), "end"), ((bx + 5, by + 5), "start"), ((cx, cy - 10), "middle")]
    for i, (place, anchor) in enumerate(names):
        parts.append(text(place, str(i + 1), anchor, fill=_WORDS[i], font_weight="bold", font_size=12))
    weights = each.weights[r]
    point = _place(at, weights)
    if each.unbounded is not None:
        other = _place(at, each.unbounded[r])
        parts.append(line([other, point], stroke=INK, stroke_width=1.2))
        parts.append(dot(other, 4, "without bounds", fill="#ffffff", stroke=INK, stroke_width=1.2))
    shown = ", ".join(_value(float(weight)) for weight in weights)
    parts.append(dot(point, 4.5, f"{each.name}, round {r + 1}: {shown}", fill=INK))
    parts.append(text((at[0] + _SIDE / 2, at[1] + 22), shown, "middle", font_size=11))
    return parts


def _place(at: Point, weights: np.ndarray) -> Point:
    """Return the position of a distribution in the triangle whose lower left corner is `at`."""
    return at[0] + _SIDE * float(weights[1] + weights[2] / 2), at[1] - _HEIGHT * float(weights[2])


def _share(at: Point, point: Point, word: int) -> Length:
    """Return the attention of a word at a point of the triangle."""
    third = (at[1] - point[1]) / _HEIGHT
    second = (point[0] - at[0]) / _SIDE - third / 2
    return (1 - second - third, second, third)[word]


def _level(at: Point, word: int, value: Length) -> list[Point]:
    """Return the line across the triangle on which a word has a given attention."""
    ends = []
    for other in {0, 1, 2} - {word}:
        weights = np.zeros(3)
        weights[word], weights[other] = value, 1 - value
        ends.append(_place(at, weights))
    return ends


def _triangle_legend(x: Length, y: Length) -> list[str]:
    box = [(x, y), (x, y - 10), (x + 14, y - 10), (x + 14, y)]
    style = {"fill": MUTED, "font_size": 12}
    return [
        polygon(box, fill=_FEASIBLE, stroke=_FRAME),
        text((x + 20, y), "feasible region", **style),
        line([(x + 140, y - 4), (x + 166, y - 4)], stroke=_GREEN, stroke_width=1.5, stroke_dasharray=_DASH),
        text((x + 172, y), "bound", **style),
        dot((x + 234, y - 4), 4.5, fill=INK),
        text((x + 244, y), "attention", **style),
        dot((x + 358, y - 4), 4, fill="#ffffff", stroke=INK, stroke_width=1.2),
        text((x + 368, y), "without bounds", **style),
        text((x + 500, y), "1, 2, 3: all on one word", **style),
    ]


def _value(value: Length) -> str:
    """Return a value with four decimals, or `0` if it is exactly zero."""
    return f"{value:.4f}" if value else "0"


def _description(transformations: Sequence[RoundAttention]) -> str:
    """Describe the numbers of the figure in words."""
    summary: list[str] = []
    for each in transformations:
        named = [(f"round {r}", weights) for r, weights in enumerate(each.weights, 1)]
        named.append(("cumulative", each.weights.sum(0)))
        rows = (f"{name} {', '.join(_value(float(weight)) for weight in row)}" for name, row in named)
        summary.append(f"{each.name}: {'; '.join(rows)}.")
    return " ".join(summary)
