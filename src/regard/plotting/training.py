"""Plot the training curves of several runs: loss, and BLEU or accuracy if measured, by optimizer step."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regard.plotting.charts import label_axes, panel_figure, plot_curve, set_numeric_axis, set_value_axis
from regard.plotting.figure import Figure

if TYPE_CHECKING:
    import matplotlib.axes

__all__ = ["CURVES", "MetricCurve", "plot_training", "training_chart"]

CURVES = {
    "training": "Training: log perplexity (nats per token)",
    "validation": "Validation: log perplexity (nats per token)",
    "bleu": "Validation: BLEU",
    "accuracy": "Validation: accuracy (%)",
}
"""Title of each kind of curve."""

MetricCurve = Sequence[tuple[float, float]]
"""A curve, as pairs of optimizer step and value."""


def plot_training(ax: "matplotlib.axes.Axes", runs: Mapping[str, MetricCurve], kind: str) -> None:
    """Plot one kind of training curve of several runs.

    Args:
        ax: The axes.
        runs: Curve of each run by run name. A run without such a curve has no points.
        kind: Key of `CURVES`.
    """
    curves = [np.array(points, dtype=np.float64).reshape(-1, 2) for points in runs.values()]
    for i, (name, points) in enumerate(zip(runs, curves, strict=True)):
        plot_curve(ax, i, points[:, 0], points[:, 1], name=name)
    set_value_axis(ax, [points[:, 1] for points in curves])
    set_numeric_axis(ax, 0, max(float(points[:, 0].max(initial=0)) for points in curves) or 1.0)
    label_axes(ax, CURVES[kind], "optimizer steps")


def training_chart(runs: Mapping[str, Mapping[str, MetricCurve]]) -> Figure:
    """Return the figure of training curves, with one panel for each kind of curve that any run has.

    Args:
        runs: Curves of each run by run name and kind; at least one run must have a curve.
    """
    kinds = [kind for kind in CURVES if any(kind in curves for curves in runs.values())]
    by_kind = {kind: {run: curves.get(kind, ()) for run, curves in runs.items()} for kind in kinds}
    summary = [
        f"{run}: {CURVES[kind]} {points[-1][1]:.3g} at step {points[-1][0]:g}"
        for kind, curves in by_kind.items()
        for run, points in curves.items()
        if points
    ]
    panels = [partial(plot_training, runs=curves, kind=kind) for kind, curves in by_kind.items()]
    return Figure("Training curves", "; ".join(summary) + ".", lambda: panel_figure(list(runs), panels))
