"""How training went, runs side by side: loss and, where it was measured, BLEU or accuracy against updates."""

import math
from collections.abc import Mapping

import numpy as np

from regard.report.charts import Panel, Series, svg_panels
from regard.report.curves import Curves

__all__ = ["Points", "drawn_curves", "svg_training"]

Points = tuple[tuple[float, float], ...]

_TITLES = {
    "training": "Training: log perplexity (nats a token)",
    "validation": "Validation: log perplexity (nats a token)",
    "bleu": "Validation: BLEU",
    "accuracy": "Validation: accuracy (%)",
}


def drawn_curves(curves: Curves) -> dict[str, Points]:
    """The curves that a run has, by what they are of: updates, and what was measured after them."""
    logs = {
        name: tuple((update, math.log(max(value, 1.0))) for update, value in points)
        for name, points in (("training", curves.train), ("validation", curves.valid))
    }
    found = logs | {name: points for name, points in curves.scores if name in _TITLES}
    return {name: points for name, points in found.items() if points}


def svg_training(runs: Mapping[str, Mapping[str, Points]]) -> str:
    """Draw a chart of each kind of curve that a run has.

    Args:
        runs: The curves of each run (`drawn_curves`), by its name; one at least has some.
    """
    last = max(points[-1][0] for curves in runs.values() for points in curves.values())
    panels, said = [], []
    for kind, title in _TITLES.items():
        if not any(kind in curves for curves in runs.values()):
            continue
        series = []
        for run, curves in runs.items():
            points = np.array(curves.get(kind, ()), dtype=np.float64).reshape(-1, 2)
            series.append(Series(run, points[:, 1], at=points[:, 0]))
            if len(points):
                said.append(f"{run}: {title} {points[-1, 1]:.3g} at update {points[-1, 0]:g}")
        panels.append(Panel(title, "updates", (0.0, last), series, "curve", unit=""))
    return svg_panels(panels, "How training went", "; ".join(said) + ".")
