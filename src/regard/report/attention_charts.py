"""Plot attention statistics of several models side by side: Shankar & Sarawagi (2019), Figures 3 and 4."""

from collections.abc import Mapping

import numpy as np

from regard.errors import DataError
from regard.metrics.attention import AttentionStatistics, Histogram
from regard.report.charts import Panel, Series, plot_panels

__all__ = ["plot_coverage", "plot_entropy"]

_MIN_STEPS_PER_BIN = 10  # time steps: the accuracy of a bin with fewer steps is too noisy to plot


def plot_entropy(models: Mapping[str, AttentionStatistics]) -> str:
    """Plot accuracy against entropy, and the histogram of entropies (Figure 3).

    Args:
        models: Attention statistics by model name.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if the bins of the models differ in width.
    """
    edges = _common_edges([one.entropies for one in models.values()])
    across = "attention entropy (nats)"
    curves = [_accuracy_curve(name, one.entropies) for name, one in models.items()]
    shares = [Series(name, one.entropies.shares) for name, one in models.items()]
    note = f"only bins with at least {_MIN_STEPS_PER_BIN} time steps; error bars: 95 % intervals"
    summary = "; ".join(
        f"{name}: mean entropy {one.entropy:.3f} nats, accuracy {one.accuracy:.1%}"
        for name, one in models.items()
    )
    return plot_panels(
        [
            Panel("Accuracy of the next token", across, edges, curves, "curve", note),
            Panel("Share of time steps", across, edges, shares, "histogram"),
        ],
        "Accuracy against attention entropy, and the distribution of the entropy",
        f"{summary}.",
    )


def plot_coverage(models: Mapping[str, AttentionStatistics]) -> str:
    """Plot the histogram of the coverage of the source sentences (Figure 4).

    Args:
        models: Attention statistics by model name.

    Returns:
        The text of an SVG file.

    Raises:
        DataError: if the bins of the models differ in width.
    """
    edges = _common_edges([one.coverages for one in models.values()])
    shares = [Series(name, one.coverages.shares) for name, one in models.items()]
    summary = "; ".join(f"{name}: {one.coverage:.1%} on average" for name, one in models.items())
    panel = Panel("Share of sentences", "coverage of the source sentence", edges, shares, "histogram")
    return plot_panels([panel], "Coverage of the source sentences by attention", f"{summary}.")


def _common_edges(bins: list[Histogram]) -> tuple[float, ...]:
    """Return the bin edges that span the values of all models."""
    edges = max((one.edges for one in bins), key=len)
    if any(one.edges != edges[: len(one.edges)] for one in bins):
        raise DataError("the histograms of the models have bins of different widths: use one width for all")
    return edges


def _accuracy_curve(name: str, bins: Histogram) -> Series:
    # NaN interrupts the curve where a bin has too few steps.
    few = np.array(bins.counts) < _MIN_STEPS_PER_BIN
    values, interval = bins.accuracy, bins.accuracy_interval
    values[few], interval[few] = np.nan, np.nan
    return Series(name, values, interval)
