"""Plot scores by source length for several systems: Indurthi et al. (2019), Figure 2."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from regard.metrics.by_length import Bucket, LengthScores
from regard.report.charts import Groups, Panel, Series, plot_panels

__all__ = ["plot_by_length", "plot_length_groups"]

_LOWER_IS_BETTER = ("REP", "DROP")


def plot_by_length(systems: Mapping[str, Mapping[str, LengthScores]], buckets: Sequence[Bucket]) -> str:
    """Plot one chart per metric, with a point and an interval per bucket and the sentence counts below.

    Args:
        systems: Scores by system name and metric; all systems have the same metrics.
        buckets: Length buckets to which the scores belong.

    Returns:
        The text of an SVG file.
    """
    labels, counts = [bucket.label for bucket in buckets], [len(bucket.sentence_ids) for bucket in buckets]
    return plot_length_groups(systems, labels, counts)


def plot_length_groups(
    systems: Mapping[str, Mapping[str, LengthScores]], labels: Sequence[str], counts: Sequence[int] | None
) -> str:
    """Plot scores by source length from the labels of the groups, without their sentences.

    Args:
        systems: Scores by system name and metric; all systems have the same metrics.
        labels: Label of each length group.
        counts: Number of sentences in each group; None if unknown.

    Returns:
        The text of an SVG file.
    """
    groups = Groups(labels, counts, "sentences")
    edges = range(len(labels) + 1)
    metrics = list(next(iter(systems.values())))
    panels, summary = [], []
    for metric in metrics:
        scores = {name: each[metric] for name, each in systems.items()}
        label = next(iter(scores.values())).name
        title = f"{label} (lower is better)" if label in _LOWER_IS_BETTER else label
        series = [_series(name, one) for name, one in scores.items()]
        note = "error bars: 95 % intervals"
        panels.append(Panel(title, "source length (words)", edges, series, "curve", note, groups, unit=""))
        totals = {name: one.total.value for name, one in scores.items()}
        summary += [
            f"{name}: {label} {value:.2f} overall" for name, value in totals.items() if not math.isnan(value)
        ]
    return plot_panels(panels, "Scores by the length of the source sentence", "; ".join(summary) + ".")


def _series(name: str, scores: LengthScores) -> Series:
    none = (np.nan, np.nan)
    ends = [none if one is None else one.interval or none for one in scores.buckets]
    return Series(
        name, np.array([np.nan if one is None else one.value for one in scores.buckets]), np.array(ends)
    )
