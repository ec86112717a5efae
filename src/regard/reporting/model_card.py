"""The model card of a system in the report, with its properties, and its training curves."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.analysis.inputs import System
from regard.data.training_text import read_training_text
from regard.errors import CheckpointError, DataError
from regard.text.reading import checked_file
from regard.training.metrics_logger import METRICS_FILE, read_metrics
from regard.version import __version__


@dataclass(frozen=True)
class ModelCard:
    """The properties of a system that a reader compares; None for one that is unknown.

    Attributes:
        kind: Kind of the model, such as `transformer`; `file` for a file of translations.
        paths: Its directories, or the file.
        attention: Attention mechanism, transformation of scores, score function, and fertilities.
        num_parameters: Number of parameters, or of entries of its table.
        num_pairs: Number of sentence pairs of its training text.
        num_tokens: Number of source and target tokens of its training text.
        tokenizers: Source and target tokenizer with the sizes of their vocabularies.
        software: The software that computed the translations, with versions.
    """

    kind: str
    paths: tuple[str, ...]
    attention: str | None = None
    num_parameters: int | None = None
    num_pairs: int | None = None
    num_tokens: tuple[int, int] | None = None
    tokenizers: str | None = None
    software: str | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the name, the value and the explanation of each known property."""
        pairs = None if self.num_pairs is None else f"{self.num_pairs:,} sentence pairs"
        if pairs is not None and self.num_tokens is not None:
            pairs += " ({:,} source and {:,} target tokens)".format(*self.num_tokens)
        parameters = None if self.num_parameters is None else f"{self.num_parameters:,}"
        properties = [
            ("kind", self.kind, "Kind of the model: model.kind in its configuration."),
            ("attention", self.attention, "Attention mechanism, normalizer, score function and fertilities."),
            ("parameters", parameters, "Number of parameters, or of entries of a phrase table."),
            ("training text", pairs, "Size of the training text after preprocessing."),
            ("tokenizer", self.tokenizers, "Tokenizers of source and target, with vocabulary sizes."),
            ("location", ", ".join(self.paths), "The model directory, or the file of translations."),
            ("software", self.software, "The software that computed the translations."),
        ]
        return [(name, value, tip) for name, value, tip in properties if value]


def model_card(system: System) -> ModelCard:
    """Return the model card of a system.

    Raises:
        DataError: if the description of the training text in its directory is damaged.
    """
    translator, description = system.translator, system.translator.describe()
    if description.kind == "file":
        return ModelCard(description.kind, system.paths)
    parts = description.attention, description.normalizer, description.score_function
    attention = [part for part in parts if part is not None]
    if translator.text.budget is not None:
        attention.append(f"fertility: {translator.text.budget.config.kind}")
    sides: list[str] = []
    for side in (translator.text.source, translator.text.target):
        kind = getattr(getattr(side.tokenizer, "config", None), "kind", "tokenizer")
        sides.append(f"{kind} ({len(side.vocabulary):,})")
    text = read_training_text(Path(system.paths[0]))
    return ModelCard(
        description.kind,
        system.paths,
        ", ".join(attention),
        description.num_parameters,
        None if text is None else text.num_pairs,
        None if text is None else text.num_tokens,
        tokenizers=" → ".join(sides),
        software=f"regard {__version__}, PyTorch {version('torch')}",
    )


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
