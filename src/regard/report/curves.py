"""Read the training curves of a model folder from its `record.jsonl`; malformed lines are only counted."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.reading import LARGEST_JSON, NotJson, parse_json, read_limited
from regard.data.sealed import own_file
from regard.errors import DataError
from regard.training.record import RECORD_FILE

__all__ = ["Curves", "read_curves"]

LARGEST = 1e30
"""Bound of the absolute value of a number in the record; larger numbers cannot be plotted and are skipped."""
_MOST = 400  # points per curve; more cannot be distinguished on a page

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curves:
    """The training curves of a run, as pairs of optimizer step and value.

    Attributes:
        train: Training perplexity, averaged since the previous point.
        valid: Validation perplexity.
        scores: Validation BLEU (0 to 100) and accuracy (percent) by name, if the run measured them.
        best: Optimizer step of the best checkpoint; None if unknown.
        broken: Number of malformed lines in the record.
    """

    train: Points = ()
    valid: Points = ()
    scores: tuple[tuple[str, Points], ...] = ()
    best: int | None = None
    broken: int = 0


def read_curves(folder: Path) -> Curves | None:
    """Return the training curves of a model folder, or None if it has no readable record.

    Args:
        folder: The model folder.
    """
    try:
        content = read_limited(own_file(folder, RECORD_FILE), LARGEST_JSON)
    except DataError:
        return None
    entries: list[dict[str, Any]] = []
    broken = 0
    for line in content.splitlines():
        if not line.strip():
            continue
        try:
            entries.append(parse_json(line, dict[str, Any]))
        except NotJson:
            broken += 1
    validations = [entry for entry in entries if entry.get("kind") == "validation"]
    named = ((name, _points(validations, name)) for name in ("bleu", "accuracy"))
    best = [entry.get("update") for entry in validations if entry.get("best") is True]
    return Curves(
        train=_thinned(_points((entry for entry in entries if entry.get("kind") == "train"), "perplexity")),
        valid=_thinned(_points(validations, "perplexity")),
        scores=tuple((name, _thinned(points)) for name, points in named if points),
        best=best[-1] if best and isinstance(best[-1], int) else None,
        broken=broken,
    )


def _points(entries: Iterable[dict[str, Any]], name: str) -> Points:
    """Return the entries that have both a step and a finite value under `name`."""
    found = ((_number(entry.get("update")), _number(entry.get(name))) for entry in entries)
    return tuple((x, y) for x, y in found if x is not None and y is not None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value)


def _thinned(points: Points) -> Points:
    """Return at most `_MOST` evenly spaced points, including the last."""
    step = math.ceil(len(points) / _MOST)
    return points if step <= 1 else points[(len(points) - 1) % step :: step]
