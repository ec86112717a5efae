"""The training curves of a model folder, from its `record.jsonl`; broken lines are counted, not fatal."""

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
"""What is beyond it is no figure of a run that anybody could draw."""
_MOST = 400  # points of a curve: more cannot be told apart on a page

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curves:
    """How training went.

    Attributes:
        train: Updates and the perplexity of the training text since the point before.
        valid: Updates and the perplexity of the validation text.
        scores: Updates and BLEU or accuracy of the validation text, where it was measured, by its name.
        best: The update of the weights that were kept; none where it is not known.
        broken: How many lines of the record could not be read.
    """

    train: Points = ()
    valid: Points = ()
    scores: tuple[tuple[str, Points], ...] = ()
    best: int | None = None
    broken: int = 0


def read_curves(folder: Path) -> Curves | None:
    """The curves of a model folder; none where it has no record."""
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
    """What is a number."""
    found = ((_number(entry.get("update")), _number(entry.get(name))) for entry in entries)
    return tuple((x, y) for x, y in found if x is not None and y is not None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value)


def _thinned(points: Points) -> Points:
    """At most so many points, the last one among them."""
    step = math.ceil(len(points) / _MOST)
    return points if step <= 1 else points[(len(points) - 1) % step :: step]
