"""Plot the analyses of systems: errors, attention statistics, faithfulness, scores by source length.

The figures of attention statistics are those of Shankar & Sarawagi (2019), Figures 3 and 4, and the figure of
scores by length is that of Indurthi et al. (2019), Figure 2. They consist of panels with curves and
histograms. A system has the same style in all panels (`regard.plot.style.series_style`). Values of NaN are
gaps.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.metrics.attention import AttentionStatistics, Histogram
from regard.metrics.base import Estimate
from regard.metrics.by_length import LengthScores
from regard.plot.figure import Figure
from regard.plot.style import INK, MUTED, Length, add_legend, new_figure, series_style

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_MIN_STEPS_PER_BIN = 10  # time steps: the accuracy of a bin with fewer steps is too noisy to plot
_ENTROPY = "attention entropy (nats)"
_LOWER_IS_BETTER = ("REP", "DROP")
_INTERVALS = "error bars: 95 % intervals"
_PANEL = (4.1, 3.1)  # width and height of a panel in inches
# Distances within a group of width 1, so that error bars do not overlap.
_SYSTEM_GAP = 0.14
_MAX_SYSTEM_SPREAD = 0.5
_MAX_MARKED_POINTS = 30  # maximum number of points that get a marker; more markers would hide the line


def plot_curve(
    ax: "matplotlib.axes.Axes",
    number: int,
    positions: Float[np.ndarray, "N"],
    values: Float[np.ndarray, "N"],
    intervals: Float[np.ndarray, "N 2"] | None = None,
    name: str = "",
) -> None:
    """Plot the curve of system `number`, with its intervals as error bars and a gap at each NaN."""
    style = series_style(number)
    if len(values) > _MAX_MARKED_POINTS:
        style["marker"] = ""
    if intervals is not None:
        known = ~np.isnan(intervals).any(axis=1)
        ax.vlines(
            positions[known], *intervals[known].T, color=style["color"], alpha=0.6, linewidth=0.9, zorder=2
        )
    # Markers at the ends of the axes are shown whole.
    ax.plot(positions, values, label=name, clip_on=False, zorder=2.5, **style)


def _plot_histogram(
    ax: "matplotlib.axes.Axes",
    number: int,
    edges: Sequence[Length],
    shares: Float[np.ndarray, "N"],
    name: str = "",
) -> None:
    """Plot the outline of a system's histogram over a light background; empty bins have no outline.

    There may be more edges than bins.
    """
    heights = np.where(shares > 0, shares, np.nan)
    bin_edges = edges[: len(shares) + 1]
    style = series_style(number)
    ax.stairs(heights, bin_edges, fill=True, color=style["color"], alpha=0.1, zorder=1.5)
    outline = {key: style[key] for key in ("color", "linestyle")}
    ax.stairs(heights, bin_edges, linewidth=1.5, label=name, clip_on=False, zorder=2, **outline)


def _plot_groups(
    ax: "matplotlib.axes.Axes",
    systems: Mapping[str, tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N 2"]]],
    labels: Sequence[str],
) -> None:
    """Plot a point with an interval for each system in each group, the systems of a group side by side.

    `systems` has the values and intervals of each group, by system name; NaN for none.
    """
    middles = np.arange(len(labels), dtype=np.float64)
    gap = min(_SYSTEM_GAP, _MAX_SYSTEM_SPREAD / max(len(systems) - 1, 1))
    for i, (name, (values, intervals)) in enumerate(systems.items()):
        plot_curve(ax, i, middles + (i - (len(systems) - 1) / 2) * gap, values, intervals, name)
    ax.set_xlim(-0.5, len(labels) - 0.5)
    ax.set_xticks(middles, labels, color=INK)
    set_value_axis(ax, [part.ravel() for pair in systems.values() for part in pair])


def _label_axes(
    ax: "matplotlib.axes.Axes", title: str, x_label: str, note: str = "", pad: Length = 4
) -> None:
    """Set the title, the label of the horizontal axis (`pad` points below its numbers) and a note."""
    ax.set_title(title)
    label = ax.set_xlabel(x_label, labelpad=pad)
    if note:
        ax.annotate(
            note,
            (0.5, 0),
            xycoords=label,
            xytext=(0, -3),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=8,
            color=MUTED,
        )


def _set_numeric_axis(ax: "matplotlib.axes.Axes", low: Length, high: Length) -> None:
    """Let the horizontal axis extend from one number to another, with a comma between thousands."""
    from matplotlib.ticker import FuncFormatter

    ax.set_xlim(low, high)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if abs(x) >= 1000 else f"{x:g}"))


def set_value_axis(ax: "matplotlib.axes.Axes", values: Sequence[np.ndarray], percent: bool = False) -> None:
    """Let the vertical axis extend from 0 to a round number above all values, shown in percent for shares."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    finite = np.concatenate([np.zeros(1), *(each[~np.isnan(each)] for each in values)])
    locator = MaxNLocator(7, steps=[1, 2, 5, 10])
    # An axis of zero height would be an error.
    ticks = locator.tick_values(finite.min(), finite.max() or 1.0)
    ax.yaxis.set_major_locator(locator)
    ax.set_ylim(ticks[0], ticks[-1])
    if percent:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))


def chart(
    title: str,
    description: str,
    names: Sequence[str],
    panels: Sequence[Callable[["matplotlib.axes.Axes"], None]],
) -> Figure:
    """Return a figure of panels side by side, below a legend of the systems if they have names."""

    def plot() -> "matplotlib.figure.Figure":
        figure = new_figure(_PANEL[0] * len(panels), _PANEL[1])
        for ax, plot_panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            plot_panel(ax)
        if names:
            add_legend(figure, names)
        return figure

    return Figure(title, description, plot, panels=panels)


# Errors


def error_chart(counts: Float[np.ndarray, "N"]) -> Figure:
    """Return the histogram of the number of errors of a sentence: dropped words and contribution to REP."""

    def plot(ax: "matplotlib.axes.Axes") -> None:
        edges = tuple(range(math.floor(counts.max(initial=0)) + 2))
        shares = np.histogram(counts, edges)[0] / max(len(counts), 1)
        _plot_histogram(ax, 0, edges, shares)
        _set_numeric_axis(ax, edges[0], edges[-1])
        set_value_axis(ax, [shares], percent=True)
        _label_axes(ax, "Share of sentences", "dropped words, and contribution to REP")

    summary = f"{int((counts > 0).sum())} of {len(counts)} sentences have errors."
    return chart("Errors per sentence", summary, [], [plot])


# Attention


def entropy_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of accuracy by entropy and of the distribution of the entropy (Figure 3), by model.

    Bins of the accuracy with fewer than 10 time steps are gaps. The bins of all models have one width.
    """
    edges = max((statistics.entropies.edges for statistics in models.values()), key=len)

    def plot_accuracy(ax: "matplotlib.axes.Axes") -> None:
        for i, (name, statistics) in enumerate(models.items()):
            bins = statistics.entropies
            bin_edges = np.array(bins.edges)
            values, intervals = bins.accuracy, bins.accuracy_interval
            few = np.array(bins.counts) < _MIN_STEPS_PER_BIN
            values[few], intervals[few] = np.nan, np.nan
            plot_curve(ax, i, (bin_edges[:-1] + bin_edges[1:]) / 2, values, intervals, name)
        _set_numeric_axis(ax, edges[0], edges[-1])
        set_value_axis(ax, [np.ones(1)], percent=True)
        note = f"only bins with at least {_MIN_STEPS_PER_BIN} time steps; {_INTERVALS}"
        _label_axes(ax, "Accuracy of the next token", _ENTROPY, note)

    summary = "; ".join(
        f"{name}: mean entropy {statistics.entropy:.3f} nats, accuracy {statistics.accuracy:.1%}"
        for name, statistics in models.items()
    )
    title = "Accuracy against attention entropy, and the distribution of the entropy"
    histograms = {name: statistics.entropies for name, statistics in models.items()}
    plot_shares = partial(_plot_shares, models=histograms, title="Share of time steps", x_label=_ENTROPY)
    return chart(title, f"{summary}.", list(models), [plot_accuracy, plot_shares])


def coverage_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of the distribution of coverage (Figure 4), by model."""
    histograms = {name: statistics.coverages for name, statistics in models.items()}
    summary = "; ".join(
        f"{name}: {statistics.coverage:.1%} on average" for name, statistics in models.items()
    )
    labels = {"title": "Share of sentences", "x_label": "coverage of the source sentence"}
    plot = partial(_plot_shares, models=histograms, **labels)
    return chart("Coverage of the source sentences by attention", f"{summary}.", list(models), [plot])


def _plot_shares(
    ax: "matplotlib.axes.Axes", models: Mapping[str, Histogram], title: str, x_label: str
) -> None:
    edges = max((bins.edges for bins in models.values()), key=len)
    for i, (name, bins) in enumerate(models.items()):
        _plot_histogram(ax, i, edges, bins.shares, name)
    _set_numeric_axis(ax, edges[0], edges[-1])
    set_value_axis(ax, [bins.shares for bins in models.values()], percent=True)
    _label_axes(ax, title, x_label)


# Scores by length


def length_chart(
    systems: Mapping[str, Mapping[str, LengthScores]], labels: Sequence[str], counts: Sequence[int]
) -> Figure:
    """Return the figure of scores by source length, with one panel per metric, the same for all systems.

    The labels of the buckets have the numbers of sentences (`counts`) below them.
    """
    panels, summary = [], []
    for metric in next(iter(systems.values())):
        scores = {name: system[metric] for name, system in systems.items()}
        panels.append(partial(_plot_length, systems=scores, labels=labels, counts=counts))
        summary += [
            f"{name}: {metric_scores.name} {metric_scores.total.value:.2f} overall"
            for name, metric_scores in scores.items()
            if not math.isnan(metric_scores.total.value)
        ]
    title = "Scores by the length of the source sentence"
    return chart(title, "; ".join(summary) + ".", list(systems), panels)


def _plot_length(
    ax: "matplotlib.axes.Axes",
    systems: Mapping[str, LengthScores],
    labels: Sequence[str],
    counts: Sequence[int],
) -> None:
    """Plot one metric by source length, with a point and an interval per bucket."""
    missing = (np.nan, np.nan)
    points: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, scores in systems.items():
        values = [np.nan if score is None else score.value for score in scores.buckets]
        intervals = [missing if score is None else score.interval or missing for score in scores.buckets]
        points[name] = np.array(values, dtype=float), np.array(intervals)
    _plot_groups(ax, points, labels)
    style = {"textcoords": "offset points", "va": "top", "fontsize": 8, "color": MUTED}
    for middle, count in enumerate(counts):
        at = (middle, 0)
        ax.annotate(f"{count:,}", at, (0, -18), xycoords=ax.get_xaxis_transform(), ha="center", **style)
    ax.annotate("sentences", (0, 0), (-5, -18), xycoords="axes fraction", ha="right", **style)
    metric = next(iter(systems.values())).name
    title = f"{metric} (lower is better)" if metric in _LOWER_IS_BETTER else metric
    _label_axes(ax, title, "source length (words)", _INTERVALS, pad=16)


# Faithfulness


def faithfulness_chart(models: Mapping[str, Mapping[str, Estimate]]) -> Figure:
    """Return the figure of the fall of the probabilities by model and rule, in percentage points.

    A rule selects the removed source token; all models have the same rules.
    """
    rules = list(next(iter(models.values())))

    def plot(ax: "matplotlib.axes.Axes") -> None:
        systems = {
            name: (
                np.array([falls[rule].value for rule in rules]),
                np.array([(falls[rule].low, falls[rule].high) for rule in rules]),
            )
            for name, falls in models.items()
        }
        _plot_groups(ax, systems, [rule.replace("_", "\n") for rule in rules])
        _label_axes(ax, "Fall of the probability (percentage points)", "removed token", _INTERVALS)

    summary = "; ".join(
        f"{name}, {rule}: {fall.value:.2f}" for name, falls in models.items() for rule, fall in falls.items()
    )
    title = "Fall of a token's probability when its most attributed source token is removed"
    return chart(title, f"{summary}.", list(models), [plot])
