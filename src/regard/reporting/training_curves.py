"""Read the training curves of a model directory from its `record.jsonl`."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError, DataError
from regard.text.reading import checked_file
from regard.training.metrics_logger import METRICS_FILE, read_metrics

__all__ = ["Curves", "Points", "read_curves"]

MAX_VALUE = 1e30
"""Bound of the absolute value of a number in the record; larger numbers cannot be plotted and are skipped."""
_MAX_POINTS = 400  # points per curve; more cannot be distinguished on a page

Points = tuple[tuple[float, float], ...]
"""A curve, as pairs of optimizer step and value."""


@dataclass(frozen=True)
class Curves:
    """The training curves of a run, as pairs of optimizer step and value.

    Attributes:
        train: Training perplexity, averaged since the previous point.
        valid: Validation perplexity.
        scores: Validation BLEU (0 to 100) and accuracy (percent) by name, if the run measured them.
    """

    train: Points = ()
    valid: Points = ()
    scores: Mapping[str, Points] = field(default_factory=dict)


def read_curves(directory: Path) -> Curves | None:
    """Return the training curves of a model directory, or None if it has no readable record."""
    try:
        # The log must not lead out of the directory.
        checked_file(directory, METRICS_FILE)
        entries = read_metrics(directory)
    except (DataError, CheckpointError):
        return None
    # A model directory without a log has no entries.
    if not entries:
        return None
    validations = [entry for entry in entries if entry.get("kind") == "validation"]
    scores = {name: _points(validations, name) for name in ("bleu", "accuracy")}
    return Curves(
        train=_points((entry for entry in entries if entry.get("kind") == "train"), "perplexity"),
        valid=_points(validations, "perplexity"),
        scores={name: points for name, points in scores.items() if points},
    )


def _points(entries: Iterable[dict[str, Any]], name: str) -> Points:
    """Return the entries that have both a step and a finite value under `name`.

    If there are more than `_MAX_POINTS`, they are evenly spaced ones, including the last.
    """
    pairs = ((_number(entry.get("step")), _number(entry.get(name))) for entry in entries)
    points = tuple((x, y) for x, y in pairs if x is not None and y is not None)
    step = max(math.ceil(len(points) / _MAX_POINTS), 1)
    # The start is shifted so that the steps end exactly at the last point.
    return points[(len(points) - 1) % step :: step]


def _number(value: Any) -> float | None:
    # `bool` is a subclass of `int`. The negated comparison also rejects NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_VALUE:
        return None
    return float(value)
