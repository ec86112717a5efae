"""Read the training curves of a model directory from its `record.jsonl`; malformed lines are only counted."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.text.reading import MAX_JSON_BYTES, InvalidJsonError, checked_file, parse_json, read_limited
from regard.training.metrics_logger import METRICS_FILE

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
        best_step: Optimizer step of the best checkpoint; None if unknown.
        num_malformed_lines: Number of malformed lines in the record.
    """

    train: Points = ()
    valid: Points = ()
    scores: tuple[tuple[str, Points], ...] = ()
    best_step: int | None = None
    num_malformed_lines: int = 0


def read_curves(directory: Path) -> Curves | None:
    """Return the training curves of a model directory, or None if it has no readable record.

    Args:
        directory: The model directory.
    """
    try:
        content = read_limited(checked_file(directory, METRICS_FILE), MAX_JSON_BYTES)
    except DataError:
        return None
    entries: list[dict[str, Any]] = []
    num_malformed = 0
    for line in content.splitlines():
        if not line.strip():
            continue
        try:
            entries.append(parse_json(line, dict[str, Any]))
        except InvalidJsonError:
            # An interrupted run may leave an incomplete line; the other lines remain useful.
            num_malformed += 1
    validations = [entry for entry in entries if entry.get("kind") == "validation"]
    named = ((name, _points(validations, name)) for name in ("bleu", "accuracy"))
    best = [entry.get("step") for entry in validations if entry.get("best") is True]
    return Curves(
        train=_subsample(_points((entry for entry in entries if entry.get("kind") == "train"), "perplexity")),
        valid=_subsample(_points(validations, "perplexity")),
        scores=tuple((name, _subsample(points)) for name, points in named if points),
        best_step=best[-1] if best and isinstance(best[-1], int) else None,
        num_malformed_lines=num_malformed,
    )


def _points(entries: Iterable[dict[str, Any]], name: str) -> Points:
    """Return the entries that have both a step and a finite value under `name`."""
    points = ((_number(entry.get("step")), _number(entry.get(name))) for entry in entries)
    return tuple((x, y) for x, y in points if x is not None and y is not None)


def _number(value: Any) -> float | None:
    # `bool` is a subclass of `int`. The negated comparison also rejects NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_VALUE:
        return None
    return float(value)


def _subsample(points: Points) -> Points:
    """Return at most `_MAX_POINTS` evenly spaced points, including the last."""
    step = math.ceil(len(points) / _MAX_POINTS)
    # The start is shifted so that the steps end exactly at the last point.
    return points if step <= 1 else points[(len(points) - 1) % step :: step]
