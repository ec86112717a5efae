"""Figures of attention for several models side by side, Shankar & Sarawagi (2019), Figures 3 and 4."""

from collections.abc import Mapping

import numpy as np

from regard.errors import DataError
from regard.metrics.attention import AttentionFigures, Bins
from regard.report.charts import Panel, Series, svg_panels

__all__ = ["svg_coverage", "svg_entropy"]

_FEW = 10  # steps in a bin: the share of fewer that are right says nothing


def svg_entropy(models: Mapping[str, AttentionFigures]) -> str:
    """Draw accuracy against entropy, and the histogram of entropies (Figure 3).

    Args:
        models: The figures of each model, by its name.

    Raises:
        DataError: if their bins are not of the same width.
    """
    edges = _longest([one.entropies for one in models.values()])
    across = "entropy of attention (nats)"
    curves = [_curve(name, one.entropies) for name, one in models.items()]
    shares = [Series(name, one.entropies.shares) for name, one in models.items()]
    note = f"bins of {_FEW} steps or more; bars: 95 % intervals"
    said = "; ".join(
        f"{name}: mean entropy {one.entropy:.3f} nats, {one.accuracy:.1%} right"
        for name, one in models.items()
    )
    return svg_panels(
        [
            Panel("Next words right", across, edges, curves, "curve", note),
            Panel("Share of steps", across, edges, shares, "histogram"),
        ],
        "Accuracy against the entropy of attention, and how often each entropy occurs",
        f"{said}.",
    )


def svg_coverage(models: Mapping[str, AttentionFigures]) -> str:
    """Draw the histogram of how much of a source sentence is looked at (Figure 4).

    Args:
        models: The figures of each model, by its name.

    Raises:
        DataError: if their bins are not of the same width.
    """
    edges = _longest([one.coverages for one in models.values()])
    shares = [Series(name, one.coverages.shares) for name, one in models.items()]
    said = "; ".join(f"{name}: {one.coverage:.1%} on average" for name, one in models.items())
    panel = Panel("Share of sentences", "coverage of the source sentence", edges, shares, "histogram")
    return svg_panels([panel], "How much of the source sentences is looked at", f"{said}.")


def _longest(bins: list[Bins]) -> tuple[float, ...]:
    """The edges that hold all values."""
    edges = max((one.edges for one in bins), key=len)
    if any(one.edges != edges[: len(one.edges)] for one in bins):
        raise DataError("figures with bins of other widths cannot be drawn into one picture")
    return edges


def _curve(name: str, bins: Bins) -> Series:
    few = np.array(bins.counts) < _FEW
    values, interval = bins.accuracy, bins.interval
    values[few], interval[few] = np.nan, np.nan
    return Series(name, values, interval)
