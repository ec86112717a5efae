"""Plot attention over three words in three rounds: Malaviya et al. (2018), Figure 1.

    python recipes/figures/constrained_attention.py OUTPUT_DIR

It writes `rounds.svg`, with the attention as bars, and `simplex.svg`, with the attention as points of a
triangle whose corners give all attention to one word. An upper bound on a word cuts off its corner. The
numbers are printed.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib import figure as pictures
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan, softmax, sparsemax
from regard.plot import Figure

# Double precision makes the printed digits those of the exact solutions.
SCORES = torch.tensor([[1.2, 0.8, -0.2], [0.7, 0.9, 0.1], [-0.2, 0.2, 0.9]], dtype=torch.float64)
FERTILITY = torch.ones(3, dtype=torch.float64)
COLORS = ("#2f6db3", "#b85c00", "#7b4fa3")  # distinct from each other and from green for color-blind readers
BOUND = {"color": "#15803d", "linestyle": (0, (3.2, 1.8)), "linewidth": 1.3}
FEASIBLE, INFEASIBLE, FRAME, INK = "#d5eddb", "#f4f4f5", "#8a8f98", "#1a1a1a"
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
HOLLOW = {"marker": "o", "color": INK, "markerfacecolor": "white", "markersize": 5.5, "markeredgewidth": 0.9}


@dataclass(frozen=True)
class Rounds:
    """The attention of a transformation: [round, word].

    Attributes:
        name: The name of the transformation.
        weights: The distribution of each round.
        bounds: The fertility that is left in each round, or None without bounds.
        unbounded: The distributions of the same transformation without bounds.
    """

    name: str
    weights: np.ndarray
    bounds: np.ndarray | None = None
    unbounded: np.ndarray | None = None


def compute_rounds() -> list[Rounds]:
    """Return the attention under softmax and sparsemax, free and with fertilities."""
    free = [Rounds(transform.__name__, transform(SCORES).numpy()) for transform in (softmax, sparsemax)]
    bounded = []
    for scan, loose in zip((constrained_softmax_scan, constrained_sparsemax_scan), free, strict=True):
        weights = scan(SCORES, FERTILITY)
        bounds = (FERTILITY - (weights.cumsum(0) - weights)).clamp(min=0)
        bounded.append(Rounds(f"constrained {loose.name}", weights.numpy(), bounds.numpy(), loose.weights))
    return [*free, *bounded]


def plot_bars(ax: Axes, weights: np.ndarray, bounds: np.ndarray | None) -> None:
    """Plot the attention of three words as bars, and bounds as dashed lines."""
    words, attended = np.arange(3), weights > 0
    ax.bar(words[attended], weights[attended], 0.62, color=np.array(COLORS)[attended])
    if bounds is not None:
        ax.hlines(bounds, words - 0.42, words + 0.42, clip_on=False, zorder=3, **BOUND)
    ax.set(xlim=(-0.5, 2.5), ylim=(0, 1.15), yticks=[0, 1])
    ax.set_xticks(words, [format_value(weight) for weight in weights], color=INK)
    ax.tick_params(length=0, labelsize=8)


def plot_triangle(ax: Axes, rounds: Rounds, number: int) -> None:
    """Plot the attention of a round as a point of the triangle, in which bounds cut off corners."""
    ax.fill(*CORNERS.T, facecolor=FEASIBLE, edgecolor=FRAME, linewidth=0.8)
    for word in range(3):
        bound = 1.0 if rounds.bounds is None else float(rounds.bounds[number, word])
        if bound < 1:
            others = [other for other in range(3) if other != word]
            ends = [bound * CORNERS[word] + (1 - bound) * CORNERS[other] for other in others]
            cut = np.array([CORNERS[word], *ends])
            ax.fill(*cut.T, facecolor=INFEASIBLE, edgecolor=FRAME, linewidth=0.8)
            ax.plot(*np.array(ends).T, **BOUND)
    for word, (place, ha, va) in enumerate(
        [((-4, 0), "right", "center"), ((4, 0), "left", "center"), ((0, 4), "center", "bottom")]
    ):
        at = {"xytext": place, "textcoords": "offset points", "ha": ha, "va": va}
        ax.annotate(str(word + 1), CORNERS[word], color=COLORS[word], fontweight="bold", **at)
    point = rounds.weights[number] @ CORNERS
    if rounds.unbounded is not None:
        free = rounds.unbounded[number] @ CORNERS
        ax.plot(*np.array([free, point]).T, color=INK, linewidth=0.9)
        ax.plot(*free, **HOLLOW)
    ax.plot(*point, "o", color=INK, markersize=6)
    values = ", ".join(format_value(weight) for weight in rounds.weights[number])
    ax.annotate(values, (0.5, 0), (0, -8), textcoords="offset points", ha="center", va="top", fontsize=8)
    ax.set_aspect("equal")
    ax.margins(0.04)
    ax.set_axis_off()


def make_grid(transformations: list[Rounds], labels: list[str], height: float, pad: float):
    """Return a picture and its axes, with a column per transformation and a row per label."""
    picture = pictures.Figure(figsize=(8.1, 0.5 + height * len(labels)))
    axes = picture.subplots(len(labels), len(transformations), squeeze=False)
    for ax, label in zip(axes[:, 0], labels, strict=True):
        at = {"xycoords": "axes fraction", "textcoords": "offset points"}
        ax.annotate(label, (0, 0.5), (-78, 0), ha="left", va="center", fontweight="bold", **at)
    for ax, rounds in zip(axes[0], transformations, strict=True):
        ax.set_title(rounds.name, loc="center", fontsize=9, pad=pad)
    return picture, axes


def rounds_picture(transformations: list[Rounds]) -> pictures.Figure:
    """Return the attention of all rounds as bars; the last row is the cumulative attention."""
    picture, axes = make_grid(transformations, [*round_labels(), "cumulative"], 1.3, 7)
    for rounds, column in zip(transformations, axes.T, strict=True):
        for number, ax in enumerate(column[:-1]):
            plot_bars(ax, rounds.weights[number], None if rounds.bounds is None else rounds.bounds[number])
        plot_bars(column[-1], rounds.weights.sum(0), FERTILITY.numpy())
    handles = [Patch(color=color, label=f"word {word + 1}") for word, color in enumerate(COLORS)]
    handles.append(Line2D([], [], label="bound (last row: fertility)", **BOUND))
    picture.legend(handles=handles, ncols=4, loc="outside lower center")
    return picture


def simplex_picture(transformations: list[Rounds]) -> pictures.Figure:
    """Return the attention of all rounds as points of the triangle."""
    picture, axes = make_grid(transformations, round_labels(), 1.75, 18)
    for rounds, column in zip(transformations, axes.T, strict=True):
        for number, ax in enumerate(column):
            plot_triangle(ax, rounds, number)
    handles = [
        Patch(facecolor=FEASIBLE, edgecolor=FRAME, label="feasible region"),
        Line2D([], [], label="bound", **BOUND),
        Line2D([], [], linestyle="", marker="o", color=INK, label="attention"),
        Line2D([], [], linestyle="", label="without bounds", **HOLLOW),
    ]
    picture.legend(handles=handles, ncols=4, loc="outside lower center")
    return picture


def round_labels() -> list[str]:
    """Return the number and the scores of each round."""
    scores = [", ".join(f"{score:g}".replace("-", "−") for score in row) for row in SCORES.tolist()]
    return [f"round {number}\n({row})" for number, row in enumerate(scores, 1)]


def format_value(value: float) -> str:
    """Return a number with four decimal places, or `0` for an exact zero."""
    return f"{value:.4f}" if value else "0"


def table(transformations: list[Rounds]) -> Iterator[str]:
    """Yield a line of numbers per transformation and round, and the cumulative attention."""
    for rounds in transformations:
        for label, row in zip(("1", "2", "3", "sum"), [*rounds.weights, rounds.weights.sum(0)], strict=True):
            yield "\t".join([rounds.name, label, *(format_value(weight) for weight in row.tolist())])


def main() -> None:
    """Write both figures and print the numbers."""
    parser = argparse.ArgumentParser(description="Plot attention over three words in three rounds.")
    parser.add_argument("output_dir", type=Path)
    output_dir = parser.parse_args().output_dir
    output_dir.mkdir(parents=True, exist_ok=True)
    transformations = compute_rounds()
    numbers = list(table(transformations))
    plots: dict[str, tuple[str, Callable[[list[Rounds]], pictures.Figure]]] = {
        "rounds": ("Attention over three words in three rounds", rounds_picture),
        "simplex": ("Transformations on the simplex of three words", simplex_picture),
    }
    for name, (title, plot) in plots.items():
        description = "; ".join(line.replace("\t", " ") for line in numbers)
        Figure(title, description, lambda plot=plot: plot(transformations)).save(output_dir / f"{name}.svg")
    print("\n".join(numbers))


if __name__ == "__main__":
    main()
