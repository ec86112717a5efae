"""Plot the training curves of several runs: loss, and BLEU or accuracy if measured, by optimizer step."""

import math
from collections.abc import Mapping

import numpy as np

from regard.report.charts import Panel, Series, plot_panels
from regard.report.training_curves import Curves, Points

__all__ = ["curves_by_kind", "plot_training"]

_TITLES = {
    "training": "Training: log perplexity (nats per token)",
    "validation": "Validation: log perplexity (nats per token)",
    "bleu": "Validation: BLEU",
    "accuracy": "Validation: accuracy (%)",
}


def curves_by_kind(curves: Curves) -> dict[str, Points]:
    """Return the curves of a run by kind, as pairs of optimizer step and value.

    Args:
        curves: The training curves of a model directory; perplexities become log perplexities.
    """
    logs = {
        name: tuple((step, math.log(max(value, 1.0))) for step, value in points)
        for name, points in (("training", curves.train), ("validation", curves.valid))
    }
    found = logs | {name: points for name, points in curves.scores if name in _TITLES}
    return {name: points for name, points in found.items() if points}


def plot_training(runs: Mapping[str, Mapping[str, Points]]) -> str:
    """Plot one chart for each kind of curve that any run has.

    Args:
        runs: Curves of each run (`curves_by_kind`) by run name; at least one run must have a curve.

    Returns:
        The text of an SVG file.
    """
    last = max(points[-1][0] for curves in runs.values() for points in curves.values())
    panels, summary = [], []
    for kind, title in _TITLES.items():
        if not any(kind in curves for curves in runs.values()):
            continue
        series = []
        for run, curves in runs.items():
            points = np.array(curves.get(kind, ()), dtype=np.float64).reshape(-1, 2)
            series.append(Series(run, points[:, 1], positions=points[:, 0]))
            if len(points):
                summary.append(f"{run}: {title} {points[-1, 1]:.3g} at step {points[-1, 0]:g}")
        panels.append(Panel(title, "optimizer steps", (0.0, last), series, "curve", unit=""))
    return plot_panels(panels, "Training curves", "; ".join(summary) + ".")
