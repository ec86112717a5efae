"""Plot attention statistics of several models: Shankar & Sarawagi (2019), Figures 3 and 4."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regard.errors import DataError
from regard.metrics.attention import AttentionStatistics, Histogram
from regard.plotting.charts import (
    label_axes,
    panel_figure,
    plot_curve,
    plot_histogram,
    set_numeric_axis,
    set_value_axis,
)
from regard.plotting.figure import Figure

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["coverage_chart", "entropy_chart", "plot_accuracy_by_entropy", "plot_coverage", "plot_entropy"]

_MIN_STEPS_PER_BIN = 10  # time steps: the accuracy of a bin with fewer steps is too noisy to plot
_ENTROPY = "attention entropy (nats)"


def plot_accuracy_by_entropy(ax: "matplotlib.axes.Axes", models: Mapping[str, AttentionStatistics]) -> None:
    """Plot the accuracy of the next token against the entropy of attention (Figure 3).

    Bins with fewer than 10 time steps are gaps.

    Args:
        ax: The axes.
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    edges = _common_edges(one.entropies for one in models.values())
    for i, (name, one) in enumerate(models.items()):
        bins = one.entropies
        own = np.array(bins.edges)
        values, intervals = bins.accuracy, bins.accuracy_interval
        few = np.array(bins.counts) < _MIN_STEPS_PER_BIN
        values[few], intervals[few] = np.nan, np.nan
        plot_curve(ax, i, (own[:-1] + own[1:]) / 2, values, intervals, name)
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
    _plot_shares(ax, {name: one.entropies for name, one in models.items()})
    label_axes(ax, "Share of time steps", _ENTROPY)


def plot_coverage(ax: "matplotlib.axes.Axes", models: Mapping[str, AttentionStatistics]) -> None:
    """Plot the histogram of the coverage of the source sentences (Figure 4).

    Args:
        ax: The axes.
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _plot_shares(ax, {name: one.coverages for name, one in models.items()})
    label_axes(ax, "Share of sentences", "coverage of the source sentence")


def entropy_chart(models: Mapping[str, AttentionStatistics]) -> Figure:
    """Return the figure of accuracy by entropy and of the distribution of the entropy (Figure 3).

    Args:
        models: Attention statistics by model name.

    Raises:
        DataError: If the bins of the models differ in width.
    """
    _common_edges(one.entropies for one in models.values())
    panels = [partial(plot, models=models) for plot in (plot_accuracy_by_entropy, plot_entropy)]
    summary = "; ".join(
        f"{name}: mean entropy {one.entropy:.3f} nats, accuracy {one.accuracy:.1%}"
        for name, one in models.items()
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
    _common_edges(one.coverages for one in models.values())
    summary = "; ".join(f"{name}: {one.coverage:.1%} on average" for name, one in models.items())
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
    edges = max((one.edges for one in bins), key=len)
    if any(one.edges != edges[: len(one.edges)] for one in bins):
        raise DataError("the histograms of the models have bins of different widths: use one width for all")
    return edges
