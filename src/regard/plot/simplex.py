"""Plot attention over three words in several rounds: Malaviya et al. (2018), Figure 1.

The attention of each transformation is plotted as bars and as points in a triangle. Each point of the
triangle is a distribution over three words: a corner gives all attention to one word, the opposite edge gives
it none. An upper bound on a word cuts off its corner; the rest of the triangle is the feasible region.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.plot.figure import Figure
from regard.plot.style import INK, MUTED, Length, Point, new_figure

if TYPE_CHECKING:
    import matplotlib.artist
    import matplotlib.axes
    import matplotlib.figure

__all__ = [
    "RoundAttention",
    "clip_polygon",
    "plot_bars",
    "plot_triangle",
    "rounds_chart",
    "simplex_chart",
]

# Blue, orange and purple, distinct from each other and from the green of the bounds for color-blind readers.
_WORDS = ("#2f6db3", "#b85c00", "#7b4fa3")
_GREEN = "#15803d"
_FEASIBLE = "#d5eddb"
_FRAME = "#8a8f98"
_SMALL = 8  # size of small text in points
_HEIGHT = 3**0.5 / 2  # of a triangle whose side is 1
_DASHED = {"color": _GREEN, "linestyle": (0, (3.2, 1.8)), "linewidth": 1.3}


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
    ax: "matplotlib.axes.Axes", weights: Float[np.ndarray, "3"], bounds: Float[np.ndarray, "3"] | None
) -> None:
    """Plot the attention of three words as bars, with the values below and bounds as dashed green lines.

    Args:
        ax: The axes.
        weights: Attention of each word.
        bounds: Upper bound of each word; None to plot no bounds.
    """
    words = np.arange(3)
    attended = weights > 0
    ax.bar(words[attended], weights[attended], 0.62, color=np.array(_WORDS)[attended])
    if bounds is not None:
        # A white line below the dashes, so that they are visible on a bar that reaches its bound.
        for style in ({"color": "white", "linewidth": 1.8}, _DASHED):
            ax.hlines(bounds, words - 0.42, words + 0.42, clip_on=False, zorder=3, **style)
    ax.set_xlim(-0.5, 2.5)
    ax.set_ylim(0, 1.15)
    ax.set_yticks([0, 1])
    ax.set_xticks(words, [_value(float(weight)) for weight in weights], color=INK)
    ax.tick_params(length=0, labelsize=_SMALL)


def plot_triangle(
    ax: "matplotlib.axes.Axes",
    weights: Float[np.ndarray, "3"],
    bounds: Float[np.ndarray, "3"] | None = None,
    unbounded: Float[np.ndarray, "3"] | None = None,
) -> None:
    """Plot a distribution over three words as a point in a triangle, with the feasible region shaded.

    Args:
        ax: The axes.
        weights: Attention of each word.
        bounds: Upper bound of each word, plotted as a dashed green line; None for no bounds.
        unbounded: The distribution without bounds, plotted as a hollow point; None to omit it.
    """
    corners = [_place(np.eye(3)[i]) for i in range(3)]
    limits = np.ones(3) if bounds is None else bounds
    allowed = corners
    for i in range(3):
        # The default argument binds the current i; a closure would use the last one.
        allowed = clip_polygon(allowed, lambda p, i=i: float(limits[i]) - _share(p, i))
    ax.fill(*np.array(corners).T, facecolor="#f4f4f5", edgecolor=_FRAME, linewidth=0.8)
    if allowed:
        ax.fill(*np.array(allowed).T, facecolor=_FEASIBLE, edgecolor=_FRAME, linewidth=0)
    for i, limit in enumerate(limits.tolist()):
        if 0 <= limit < 1:
            ax.plot(*np.array(_level(i, limit)).T, **_DASHED)
    names = [((-4, 0), "right", "center"), ((4, 0), "left", "center"), ((0, 4), "center", "bottom")]
    for i, (offset, ha, va) in enumerate(names):
        at = {"xytext": offset, "textcoords": "offset points", "ha": ha, "va": va}
        ax.annotate(str(i + 1), corners[i], color=_WORDS[i], fontweight="bold", **at)
    point = _place(weights)
    if unbounded is not None:
        other = _place(unbounded)
        ax.plot(*np.array([other, point]).T, color=INK, linewidth=0.9)
        ax.plot(*other, **_HOLLOW)
    ax.plot(*point, "o", color=INK, markersize=6)
    shown = ", ".join(_value(float(weight)) for weight in weights)
    at = {"xytext": (0, -8), "textcoords": "offset points", "ha": "center", "va": "top"}
    ax.annotate(shown, (0.5, 0), fontsize=_SMALL, **at)
    ax.set_aspect("equal")
    ax.margins(0.04)
    ax.set_axis_off()


def rounds_chart(
    transformations: Sequence[RoundAttention],
    scores: Float[np.ndarray, "R 3"],
    fertility: Float[np.ndarray, "3"],
) -> Figure:
    """Return the figure of all rounds as bars: one column per transformation, one row per round.

    The last row shows the cumulative attention.

    Args:
        transformations: The transformations.
        scores: Input scores of each round, for the labels of the rows.
        fertility: Fertility of each word, plotted as the bound of the cumulative attention.
    """

    def plot() -> "matplotlib.figure.Figure":
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        figure, axes = _grid_figure(transformations, [*_round_labels(scores), ("cumulative", "")], 1.3)
        for one, (*rounds, last) in zip(transformations, axes.T, strict=True):
            for r, ax in enumerate(rounds):
                plot_bars(ax, one.weights[r], None if one.bounds is None else one.bounds[r])
            plot_bars(last, one.weights.sum(0), fertility)
        handles = [
            *(Patch(color=color, label=f"word {i + 1}") for i, color in enumerate(_WORDS)),
            Line2D([], [], label="bound (last row: fertility)", **_DASHED),
        ]
        _add_legend(figure, handles)
        return figure

    return Figure("Attention over three words in three rounds", _description(transformations), plot)


def simplex_chart(transformations: Sequence[RoundAttention], scores: Float[np.ndarray, "R 3"]) -> Figure:
    """Return the figure of all rounds on the simplex: one column per transformation, one row per round.

    Args:
        transformations: The transformations.
        scores: Input scores of each round, for the labels of the rows.
    """

    def plot() -> "matplotlib.figure.Figure":
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        figure, axes = _grid_figure(transformations, _round_labels(scores), 1.75, pad=18)
        for one, rounds in zip(transformations, axes.T, strict=True):
            for r, ax in enumerate(rounds):
                limits = (None if each is None else each[r] for each in (one.bounds, one.unbounded))
                plot_triangle(ax, one.weights[r], *limits)
        handles = [
            Patch(facecolor=_FEASIBLE, edgecolor=_FRAME, label="feasible region"),
            Line2D([], [], label="bound", **_DASHED),
            Line2D([], [], linestyle="", marker="o", color=INK, markersize=6, label="attention"),
            Line2D([], [], linestyle="", label="without bounds", **_HOLLOW),
            Line2D([], [], linestyle="", label="1, 2, 3: all on one word"),
        ]
        _add_legend(figure, handles)
        return figure

    return Figure("Transformations on the simplex of three words", _description(transformations), plot)


_HOLLOW = {"marker": "o", "color": INK, "markerfacecolor": "white", "markersize": 5.5, "markeredgewidth": 0.9}


def _round_labels(scores: np.ndarray) -> list[tuple[str, str]]:
    """Return the number and the scores of each round."""
    shown = [", ".join(f"{score:g}".replace("-", "−") for score in row) for row in scores]
    return [(f"round {r + 1}", f"({row})") for r, row in enumerate(shown)]


def _grid_figure(
    transformations: Sequence[RoundAttention],
    labels: Sequence[tuple[str, str]],
    height: Length,
    pad: Length = 7,
) -> "tuple[matplotlib.figure.Figure, np.ndarray]":
    """Return a figure and its axes, with a column per transformation and a row per label.

    Args:
        transformations: The transformations, whose names are the titles of the columns.
        labels: Label of each row, and a line in small print below it.
        height: Height of a row in inches.
        pad: Distance of the titles from the panels in points.
    """
    figure = new_figure(1.1 + 1.75 * len(transformations), 0.5 + height * len(labels))
    axes = figure.subplots(len(labels), len(transformations), squeeze=False)
    for ax, (label, small) in zip(axes[:, 0], labels, strict=True):
        at = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "left"}
        ax.annotate(label, (0, 0.5), (-78, 3), fontweight="bold", **at)
        ax.annotate(small, (0, 0.5), (-78, -9), fontsize=_SMALL, color=MUTED, **at)
    for ax, one in zip(axes[0], transformations, strict=True):
        ax.set_title(one.name, loc="center", fontsize=9, pad=pad)
    return figure, axes


def _add_legend(figure: "matplotlib.figure.Figure", handles: "Sequence[matplotlib.artist.Artist]") -> None:
    style = {"loc": "outside lower center", "handlelength": 2, "labelcolor": MUTED}
    figure.legend(handles=handles, ncols=len(handles), **style)


def clip_polygon(points: Sequence[Point], inside: Callable[[Point], Length]) -> list[Point]:
    """Clip a convex polygon to the half-plane where a linear function is not negative.

    The algorithm is that of Sutherland & Hodgman (1974).

    Args:
        points: The corners of the polygon, in order.
        inside: The linear function; its zeros form the clipping line.
    """
    kept: list[Point] = []
    for here, after in zip(points, [*points[1:], *points[:1]], strict=True):
        a, b = inside(here), inside(after)
        if a >= 0:
            kept.append(here)
        # The edge crosses the line only if its ends lie strictly on different sides.
        if a * b < 0:
            share = a / (a - b)
            kept.append((here[0] + share * (after[0] - here[0]), here[1] + share * (after[1] - here[1])))
    return kept


def _place(weights: np.ndarray) -> Point:
    """Return the position of a distribution in the triangle from (0, 0) to (1, 0)."""
    return float(weights[1] + weights[2] / 2), _HEIGHT * float(weights[2])


def _share(point: Point, word: int) -> Length:
    """Return the attention of a word at a point of the triangle."""
    # This inverts `_place`: the height depends on the third word alone.
    third = point[1] / _HEIGHT
    second = point[0] - third / 2
    return (1 - second - third, second, third)[word]


def _level(word: int, value: Length) -> list[Point]:
    """Return the line across the triangle on which a word has a given attention."""
    ends = []
    # The rest of the attention goes to one other word at each end of the line.
    for other in sorted({0, 1, 2} - {word}):
        weights = np.zeros(3)
        weights[word], weights[other] = value, 1 - value
        ends.append(_place(weights))
    return ends


def _value(value: float) -> str:
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
