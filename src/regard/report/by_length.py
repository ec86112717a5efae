"""The figure of scores by source length, several systems side by side: Indurthi et al. (2019), Figure 2."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from regard.metrics.by_length import Bucket, LengthScores
from regard.report.charts import Groups, Panel, Series, svg_panels

__all__ = ["svg_by_length", "svg_groups"]

_LOWER = ("REP", "DROP")


def svg_by_length(systems: Mapping[str, Mapping[str, LengthScores]], buckets: Sequence[Bucket]) -> str:
    """Draw a chart of each metric, with a point and an interval a bucket, and the number of sentences below.

    Args:
        systems: The scores of each system, by its name, of the same metrics each.
        buckets: What they are scores of.
    """
    labels, counts = [bucket.label for bucket in buckets], [len(bucket.rows) for bucket in buckets]
    return svg_groups(systems, labels, counts)


def svg_groups(
    systems: Mapping[str, Mapping[str, LengthScores]], labels: Sequence[str], counts: Sequence[int] | None
) -> str:
    """Draw the same of groups whose sentences are not at hand.

    Args:
        systems: The scores of each system, by its name, of the same metrics each.
        labels: The lengths of each group.
        counts: The sentences of each group; none where they are not known.
    """
    groups = Groups(labels, counts, "sentences")
    edges = range(len(labels) + 1)
    metrics = list(next(iter(systems.values())))
    panels, said = [], []
    for metric in metrics:
        scores = {name: each[metric] for name, each in systems.items()}
        label = next(iter(scores.values())).name
        title = f"{label} (lower is better)" if label in _LOWER else label
        series = [_series(name, one) for name, one in scores.items()]
        note = "bars: 95 % intervals"
        panels.append(Panel(title, "words of the source", edges, series, "curve", note, groups, unit=""))
        totals = {name: one.total.value for name, one in scores.items()}
        said += [
            f"{name}: {label} {value:.2f} on all" for name, value in totals.items() if not math.isnan(value)
        ]
    return svg_panels(panels, "Scores by the length of the source sentence", "; ".join(said) + ".")


def _series(name: str, scores: LengthScores) -> Series:
    none = (np.nan, np.nan)
    ends = [none if one is None else one.interval or none for one in scores.buckets]
    return Series(
        name, np.array([np.nan if one is None else one.value for one in scores.buckets]), np.array(ends)
    )
