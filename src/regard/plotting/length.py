"""Plot scores by source length for several systems: Indurthi et al. (2019), Figure 2."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regard.metrics.by_length import LengthScores
from regard.plotting.charts import label_axes, panel_figure, plot_curve, set_value_axis
from regard.plotting.colormap import INK, MUTED
from regard.plotting.figure import Figure

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["length_chart", "plot_length"]

_LOWER_IS_BETTER = ("REP", "DROP")
# Distances within a group of width 1, so that error bars do not overlap.
_SYSTEM_GAP = 0.14
_MAX_SYSTEM_SPREAD = 0.5


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
        values = np.array([np.nan if one is None else one.value for one in scores.buckets], dtype=np.float64)
        intervals = np.array([none if one is None else one.interval or none for one in scores.buckets])
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
        totals = {name: (one.name, one.total.value) for name, one in scores.items()}
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
