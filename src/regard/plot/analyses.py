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
    label_axes,
    panel_figure,
    plot_curve,
    plot_histogram,
    set_numeric_axis,
    set_value_axis,
)
from regard.plot.figure import Figure
from regard.plot.style import INK, MUTED

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = [
    "check_chart",
    "coverage_chart",
    "entropy_chart",
    "error_chart",
    "faithfulness_chart",
    "length_chart",
    "plot_accuracy_by_entropy",
    "plot_coverage",
    "plot_entropy",
    "plot_error_counts",
    "plot_faithfulness",
    "plot_length",
    "plot_sentence_probabilities",
]

_MIN_STEPS_PER_BIN = 10  # time steps: the accuracy of a bin with fewer steps is too noisy to plot
_ENTROPY = "attention entropy (nats)"
_LOWER_IS_BETTER = ("REP", "DROP")
# Distances within a group of width 1, so that error bars do not overlap.
_SYSTEM_GAP = 0.14
_MAX_SYSTEM_SPREAD = 0.5


# Errors


def plot_error_counts(ax: "matplotlib.axes.Axes", counts: Float[np.ndarray, "N"]) -> None:
    """Plot the histogram of the number of errors of a sentence.

    Args:
        ax: The axes.
        counts: Number of errors of each sentence: its contribution to REP plus its dropped words.
    """
    edges = tuple(range(math.floor(counts.max(initial=0)) + 2))
    shares = np.histogram(counts, edges)[0] / max(len(counts), 1)
    plot_histogram(ax, 0, edges, shares)
    set_numeric_axis(ax, edges[0], edges[-1])
    set_value_axis(ax, [shares], percent=True)
    label_axes(ax, "Share of sentences", "dropped words, and contribution to REP")


def error_chart(counts: Float[np.ndarray, "N"]) -> Figure:
    """Return the figure of the number of errors of a sentence.

    Args:
        counts: Number of errors of each sentence.
    """
    summary = f"{int((counts > 0).sum())} of {len(counts)} sentences have errors."
    plot = partial(plot_error_counts, counts=counts)
    return Figure("Errors per sentence", summary, lambda: panel_figure([], [plot]))


# Coverage


def plot_sentence_probabilities(
    ax: "matplotlib.axes.Axes", probabilities: Mapping[str, Float[np.ndarray, "N"]]
) -> None:
    """Plot for each kind of error the number of sentences whose probability reaches a threshold.

    Args:
        ax: The axes.
        probabilities: Probability of each sentence, by kind of error.
    """
    thresholds = np.linspace(0, 1, 101)
    curves = [(values[:, None] >= thresholds).sum(axis=0).astype(float) for values in probabilities.values()]
    for number, (name, curve) in enumerate(zip(probabilities, curves, strict=True)):
        plot_curve(ax, number, thresholds, curve, name=name)
    set_numeric_axis(ax, 0, 1)
    # All sentences have a probability of at least 0, so the interesting part starts after it.
    set_value_axis(ax, [curve[1:] for curve in curves])
    label_axes(ax, "Sentences with an error", "threshold of the probability")


def check_chart(probabilities: Mapping[str, Float[np.ndarray, "N"]]) -> Figure:
    """Return the figure of the sentences with a probable error, by kind and threshold.

    Args:
        probabilities: Probability of each sentence, by kind of error.
    """
    parts = (f"{int((values >= 0.5).sum())} {name}" for name, values in probabilities.items())
    summary = f"Sentences with a probability of at least 0.5: {', '.join(parts)}."
    plot = partial(plot_sentence_probabilities, probabilities=probabilities)
    return Figure("Coverage check", summary, lambda: panel_figure(list(probabilities), [plot]))


# Attention


def plot_accuracy_by_entropy(ax: "matplotlib.axes.Axes", models: Mapping[str, AttentionStatistics]) -> None:
    """Plot the accuracy of the next token against the entropy of attention (Figure 3).

    Bins with fewer than 10 time steps are gaps.

    Args:
        ax: The axes.
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    edges = _common_edges(statistics.entropies for statistics in models.values())
    for i, (name, statistics) in enumerate(models.items()):
        bins = statistics.entropies
        bin_edges = np.array(bins.edges)
        values, intervals = bins.accuracy, bins.accuracy_interval
        few = np.array(bins.counts) < _MIN_STEPS_PER_BIN
        values[few], intervals[few] = np.nan, np.nan
        plot_curve(ax, i, (bin_edges[:-1] + bin_edges[1:]) / 2, values, intervals, name)
    set_numeric_axis(ax, edges[0], edges[-1])
    set_value_axis(ax, [np.ones(1)], percent=True)
    note = f"only bins with at least {_MIN_STEPS_PER_BIN} time steps; error bars: 95 % intervals"
    label_axes(ax, "Accuracy of the next token", _ENTROPY, note)


def plot_entropy(ax: "matplotlib.axes.Axes", models: Mapping[str, AttentionStatistics]) -> None:
    """Plot the histogram of the entropy of attention (Figure 3).

    Args:
        ax: The axes.
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _plot_shares(ax, {name: statistics.entropies for name, statistics in models.items()})
    label_axes(ax, "Share of time steps", _ENTROPY)


def plot_coverage(ax: "matplotlib.axes.Axes", models: Mapping[str, AttentionStatistics]) -> None:
    """Plot the histogram of the coverage of the source sentences (Figure 4).

    Args:
        ax: The axes.
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _plot_shares(ax, {name: statistics.coverages for name, statistics in models.items()})
    label_axes(ax, "Share of sentences", "coverage of the source sentence")


def entropy_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of accuracy by entropy and of the distribution of the entropy (Figure 3).

    Args:
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _common_edges(statistics.entropies for statistics in models.values())
    panels = [partial(plot, models=models) for plot in (plot_accuracy_by_entropy, plot_entropy)]
    summary = "; ".join(
        f"{name}: mean entropy {statistics.entropy:.3f} nats, accuracy {statistics.accuracy:.1%}"
        for name, statistics in models.items()
    )
    title = "Accuracy against attention entropy, and the distribution of the entropy"
    return Figure(title, f"{summary}.", lambda: panel_figure(list(models), panels))


def coverage_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of the distribution of coverage (Figure 4).

    Args:
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _common_edges(statistics.coverages for statistics in models.values())
    summary = "; ".join(
        f"{name}: {statistics.coverage:.1%} on average" for name, statistics in models.items()
    )
    return Figure(
        "Coverage of the source sentences by attention",
        f"{summary}.",
        lambda: panel_figure(list(models), [partial(plot_coverage, models=models)]),
    )


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


def plot_length(
    ax: "matplotlib.axes.Axes",
    systems: Mapping[str, LengthScores],
    labels: Sequence[str],
    counts: Sequence[int] | None = None,
) -> None:
    """Plot one metric by source length, with a point and an interval per bucket.

    Args:
        ax: The axes.
        systems: Scores by system name, all of the same metric.
        labels: Label of each length bucket.
        counts: Number of sentences in each bucket, shown below the labels; None if unknown.
    """
    middles = np.arange(len(labels), dtype=np.float64)
    plotted: list[np.ndarray] = []
    for i, (name, scores) in enumerate(systems.items()):
        none = (np.nan, np.nan)
        values = np.array(
            [np.nan if score is None else score.value for score in scores.buckets], dtype=np.float64
        )
        intervals = np.array([none if score is None else score.interval or none for score in scores.buckets])
        gap = min(_SYSTEM_GAP, _MAX_SYSTEM_SPREAD / max(len(systems) - 1, 1))
        offset = (i - (len(systems) - 1) / 2) * gap
        plot_curve(ax, i, middles + offset, values, intervals.astype(np.float64), name)
        plotted += [values, intervals.ravel()]
    ax.set_xlim(-0.5, len(labels) - 0.5)
    ax.set_xticks(middles, labels, color=INK)
    set_value_axis(ax, plotted)
    if counts is not None:
        style = {"textcoords": "offset points", "va": "top", "fontsize": 8, "color": MUTED}
        for middle, count in zip(middles, counts, strict=True):
            at = (middle, 0)
            ax.annotate(f"{count:,}", at, (0, -18), xycoords=ax.get_xaxis_transform(), ha="center", **style)
        ax.annotate("sentences", (0, 0), (-5, -18), xycoords="axes fraction", ha="right", **style)
    metric = next(iter(systems.values())).name
    title = f"{metric} (lower is better)" if metric in _LOWER_IS_BETTER else metric
    pad = 4 if counts is None else 16
    label_axes(ax, title, "source length (words)", "error bars: 95 % intervals", pad)


def length_chart(
    systems: Mapping[str, Mapping[str, LengthScores]], labels: Sequence[str], counts: Sequence[int] | None
) -> Figure:
    """Return the figure of scores by source length, with one panel per metric.

    Args:
        systems: Scores by system name and metric; all systems have the same metrics.
        labels: Label of each length bucket.
        counts: Number of sentences in each bucket; None if unknown.
    """
    panels, summary = [], []
    for metric in next(iter(systems.values())):
        scores = {name: each[metric] for name, each in systems.items()}
        panels.append(partial(plot_length, systems=scores, labels=labels, counts=counts))
        totals = {
            name: (system_scores.name, system_scores.total.value) for name, system_scores in scores.items()
        }
        summary += [
            f"{name}: {label} {value:.2f} overall"
            for name, (label, value) in totals.items()
            if not math.isnan(value)
        ]
    return Figure(
        "Scores by the length of the source sentence",
        "; ".join(summary) + ".",
        lambda: panel_figure(list(systems), panels),
    )


# Faithfulness


def plot_faithfulness(ax: "matplotlib.axes.Axes", models: Mapping[str, Mapping[str, Estimate]]) -> None:
    """Plot the fall of the probabilities by the rule that selects the removed source token.

    Args:
        ax: The axes.
        models: Fall in percentage points by model name and rule; all models have the same rules.
    """
    rules = list(next(iter(models.values())))
    middles = np.arange(len(rules), dtype=np.float64)
    gap = min(_SYSTEM_GAP, _MAX_SYSTEM_SPREAD / max(len(models) - 1, 1))
    plotted: list[np.ndarray] = []
    for i, (name, falls) in enumerate(models.items()):
        values = np.array([falls[rule].value for rule in rules])
        intervals = np.array([(falls[rule].low, falls[rule].high) for rule in rules])
        plot_curve(ax, i, middles + (i - (len(models) - 1) / 2) * gap, values, intervals, name)
        plotted += [values, intervals.ravel()]
    ax.set_xlim(-0.5, len(rules) - 0.5)
    ax.set_xticks(middles, [rule.replace("_", "\n") for rule in rules], color=INK)
    set_value_axis(ax, plotted)
    label_axes(
        ax, "Fall of the probability (percentage points)", "removed token", "error bars: 95 % intervals"
    )


def faithfulness_chart(models: Mapping[str, Mapping[str, Estimate]]) -> Figure:
    """Return the figure of `plot_faithfulness`.

    Args:
        models: Fall in percentage points by model name and rule.
    """
    summary = "; ".join(
        f"{name}, {rule}: {fall.value:.2f}" for name, falls in models.items() for rule, fall in falls.items()
    )
    plot = partial(plot_faithfulness, models=models)
    title = "Fall of a token's probability when its most attributed source token is removed"
    return Figure(title, f"{summary}.", lambda: panel_figure(list(models), [plot]))
