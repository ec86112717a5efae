"""Plot the analyses of systems: errors, attention statistics, faithfulness, scores by source length.

The figures of attention statistics are those of Shankar & Sarawagi (2019), Figures 3 and 4, and the figure of
scores by length is that of Indurthi et al. (2019), Figure 2.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.metrics.attention import AttentionStatistics, Histogram
from regard.metrics.base import Estimate
from regard.metrics.by_length import LengthScores
from regard.plot.charts import (
    chart,
    label_axes,
    plot_curve,
    plot_groups,
    plot_histogram,
    set_numeric_axis,
    set_value_axis,
)
from regard.plot.figure import Figure
from regard.plot.style import MUTED

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = [
    "check_chart",
    "coverage_chart",
    "entropy_chart",
    "error_chart",
    "faithfulness_chart",
    "length_chart",
]

_MIN_STEPS_PER_BIN = 10  # time steps: the accuracy of a bin with fewer steps is too noisy to plot
_ENTROPY = "attention entropy (nats)"
_LOWER_IS_BETTER = ("REP", "DROP")
_INTERVALS = "error bars: 95 % intervals"


# Errors


def error_chart(counts: Float[np.ndarray, "N"]) -> Figure:
    """Return the histogram of the number of errors of a sentence: dropped words and contribution to REP."""

    def plot(ax: "matplotlib.axes.Axes") -> None:
        edges = tuple(range(math.floor(counts.max(initial=0)) + 2))
        shares = np.histogram(counts, edges)[0] / max(len(counts), 1)
        plot_histogram(ax, 0, edges, shares)
        set_numeric_axis(ax, edges[0], edges[-1])
        set_value_axis(ax, [shares], percent=True)
        label_axes(ax, "Share of sentences", "dropped words, and contribution to REP")

    summary = f"{int((counts > 0).sum())} of {len(counts)} sentences have errors."
    return chart("Errors per sentence", summary, [], [plot])


def check_chart(probabilities: Mapping[str, Float[np.ndarray, "N"]]) -> Figure:
    """Return the figure of the sentences whose probability reaches a threshold, by kind of error."""

    def plot(ax: "matplotlib.axes.Axes") -> None:
        thresholds = np.linspace(0, 1, 101)
        curves = [
            (values[:, None] >= thresholds).sum(axis=0).astype(float) for values in probabilities.values()
        ]
        for number, (name, curve) in enumerate(zip(probabilities, curves, strict=True)):
            plot_curve(ax, number, thresholds, curve, name=name)
        set_numeric_axis(ax, 0, 1)
        # All sentences have a probability of at least 0, so the interesting part starts after it.
        set_value_axis(ax, [curve[1:] for curve in curves])
        label_axes(ax, "Sentences with an error", "threshold of the probability")

    parts = (f"{int((values >= 0.5).sum())} {name}" for name, values in probabilities.items())
    summary = f"Sentences with a probability of at least 0.5: {', '.join(parts)}."
    return chart("Coverage check", summary, list(probabilities), [plot])


# Attention


def entropy_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of accuracy by entropy and of the distribution of the entropy (Figure 3), by model.

    Bins of the accuracy with fewer than 10 time steps are gaps.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    edges = _common_edges(statistics.entropies for statistics in models.values())

    def plot_accuracy(ax: "matplotlib.axes.Axes") -> None:
        for i, (name, statistics) in enumerate(models.items()):
            bins = statistics.entropies
            bin_edges = np.array(bins.edges)
            values, intervals = bins.accuracy, bins.accuracy_interval
            few = np.array(bins.counts) < _MIN_STEPS_PER_BIN
            values[few], intervals[few] = np.nan, np.nan
            plot_curve(ax, i, (bin_edges[:-1] + bin_edges[1:]) / 2, values, intervals, name)
        set_numeric_axis(ax, edges[0], edges[-1])
        set_value_axis(ax, [np.ones(1)], percent=True)
        note = f"only bins with at least {_MIN_STEPS_PER_BIN} time steps; {_INTERVALS}"
        label_axes(ax, "Accuracy of the next token", _ENTROPY, note)

    def plot_shares(ax: "matplotlib.axes.Axes") -> None:
        _plot_shares(ax, {name: statistics.entropies for name, statistics in models.items()})
        label_axes(ax, "Share of time steps", _ENTROPY)

    summary = "; ".join(
        f"{name}: mean entropy {statistics.entropy:.3f} nats, accuracy {statistics.accuracy:.1%}"
        for name, statistics in models.items()
    )
    title = "Accuracy against attention entropy, and the distribution of the entropy"
    return chart(title, f"{summary}.", list(models), [plot_accuracy, plot_shares])


def coverage_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of the distribution of coverage (Figure 4), by model.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _common_edges(statistics.coverages for statistics in models.values())

    def plot(ax: "matplotlib.axes.Axes") -> None:
        _plot_shares(ax, {name: statistics.coverages for name, statistics in models.items()})
        label_axes(ax, "Share of sentences", "coverage of the source sentence")

    summary = "; ".join(
        f"{name}: {statistics.coverage:.1%} on average" for name, statistics in models.items()
    )
    return chart("Coverage of the source sentences by attention", f"{summary}.", list(models), [plot])


def _plot_shares(ax: "matplotlib.axes.Axes", models: Mapping[str, Histogram]) -> None:
    edges = _common_edges(models.values())
    for i, (name, bins) in enumerate(models.items()):
        plot_histogram(ax, i, edges, bins.shares, name)
    set_numeric_axis(ax, edges[0], edges[-1])
    set_value_axis(ax, [bins.shares for bins in models.values()], percent=True)


def _common_edges(histograms: Iterable[Histogram]) -> tuple[float, ...]:
    """Return the bin edges that span the values of all models."""
    bins = list(histograms)
    edges = max((histogram.edges for histogram in bins), key=len)
    if any(histogram.edges != edges[: len(histogram.edges)] for histogram in bins):
        raise DataError("the histograms of the models have bins of different widths: use one width for all")
    return edges


# Scores by length


def length_chart(
    systems: Mapping[str, Mapping[str, LengthScores]], labels: Sequence[str], counts: Sequence[int] | None
) -> Figure:
    """Return the figure of scores by source length, with one panel per metric.

    Args:
        systems: Scores by system name and metric; all systems have the same metrics.
        labels: Label of each length bucket.
        counts: Number of sentences in each bucket, shown below the labels; None if unknown.
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
    counts: Sequence[int] | None,
) -> None:
    """Plot one metric by source length, with a point and an interval per bucket."""
    missing = (np.nan, np.nan)
    plot_groups(
        ax,
        {
            name: (
                np.array([np.nan if score is None else score.value for score in scores.buckets], dtype=float),
                np.array(
                    [missing if score is None else score.interval or missing for score in scores.buckets]
                ),
            )
            for name, scores in systems.items()
        },
        labels,
    )
    if counts is not None:
        style = {"textcoords": "offset points", "va": "top", "fontsize": 8, "color": MUTED}
        for middle, count in enumerate(counts):
            at = (middle, 0)
            ax.annotate(f"{count:,}", at, (0, -18), xycoords=ax.get_xaxis_transform(), ha="center", **style)
        ax.annotate("sentences", (0, 0), (-5, -18), xycoords="axes fraction", ha="right", **style)
    metric = next(iter(systems.values())).name
    title = f"{metric} (lower is better)" if metric in _LOWER_IS_BETTER else metric
    label_axes(ax, title, "source length (words)", _INTERVALS, pad=4 if counts is None else 16)


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
        plot_groups(ax, systems, [rule.replace("_", "\n") for rule in rules])
        label_axes(ax, "Fall of the probability (percentage points)", "removed token", _INTERVALS)

    summary = "; ".join(
        f"{name}, {rule}: {fall.value:.2f}" for name, falls in models.items() for rule, fall in falls.items()
    )
    title = "Fall of a token's probability when its most attributed source token is removed"
    return chart(title, f"{summary}.", list(models), [plot])
