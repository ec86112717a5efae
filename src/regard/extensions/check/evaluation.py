"""Labels of coverage errors and their files, and comparison of the scores of a detector with them.

A file of labels has JSON lines: one object per labeled sentence, in which every key but `line` is optional.
The spans are the first character of the affected text and the one after its last, counted from 0:

    {"line": 3, "omission": true, "omitted": [[4, 11]], "addition": false, "added": []}

An error without a label in a line is unknown there, and the line does not count for it.

A detector ranks sentences, and a reader examines the first ones. Hence the measures of sentences are the
area under the ROC curve (AUROC), average precision, and precision and recall of the first 1, 5 and 10 %
(the budget).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import numpy as np
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict, Field

from regard.config.results import Result, json_value
from regard.errors import DataError
from regard.extensions.check.base import CoverageError, SentenceError
from regard.metrics.base import Estimate
from regard.text.corpus import read_lines
from regard.text.reading import InvalidJsonError, parse_json

Span = tuple[int, int]

WORD_KEYS: Mapping[CoverageError, str] = {
    "omission": "omitted",
    "addition": "added",
    "repetition": "repeated",
}
"""The key of the affected words of each error. Omitted words are in the source, the others in the
translation."""
_SENTENCE_ERRORS: tuple[SentenceError, ...] = get_args(SentenceError)

_BUDGETS = (0.01, 0.05, 0.1)
"""The shares of the sentences that a reader examines."""

_CHUNK = 1 << 21  # numbers in one block of resampled counts


@dataclass(frozen=True)
class LineLabels:
    """The labels of one sentence.

    Attributes:
        line: Number of the line, from 1.
        errors: For each labeled error, whether the sentence has it.
        spans: For each error with labeled words, the affected text: spans of characters in the source for
            omissions, in the translation for additions and repetitions.
    """

    line: int
    errors: Mapping[SentenceError, bool] = field(default_factory=dict)
    spans: Mapping[CoverageError, tuple[Span, ...]] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """Return the labels as JSON values, as in a file."""
        spans = {
            WORD_KEYS[error]: [list(span) for span in error_spans]
            for error, error_spans in self.spans.items()
        }
        return {"line": self.line, **self.errors, **spans}


class _Line(BaseModel):
    """One line of a file of labels. The affected words are not compared with a check."""

    model_config = ConfigDict(strict=True, extra="forbid")

    line: Annotated[int, Field(ge=1)]
    omission: bool | None = None
    addition: bool | None = None
    repetition: bool | None = None
    unrelated: bool | None = None
    number: bool | None = None
    name: bool | None = None
    negation: bool | None = None
    markup: bool | None = None
    omitted: Any = None
    added: Any = None
    repeated: Any = None

    def labels(self) -> LineLabels:
        """Return the labels of the sentence."""
        errors: dict[SentenceError, bool | None] = {error: getattr(self, error) for error in _SENTENCE_ERRORS}
        return LineLabels(self.line, {error: value for error, value in errors.items() if value is not None})


def read_labels(path: Path | str) -> list[LineLabels]:
    """Read a file of labels: JSON lines.

    Raises:
        DataError: if the file cannot be read or a line has another form; names the line.
    """
    labels = []
    for number, line in enumerate(read_lines(Path(path)), 1):
        if not line.strip():
            continue
        try:
            labels.append(parse_json(line, _Line).labels())
        except InvalidJsonError as error:
            raise DataError(f"{path}:{number}: not the labels of a line: {error}") from None
    if not labels:
        raise DataError(f"{path}: the file contains no labels")
    return labels


def check_labels(labels: Sequence[LineLabels], num_lines: int, name: str) -> None:
    """Check that labels are those of a text.

    Raises:
        DataError: if a line is out of range or labeled twice; names the line.
    """
    seen: set[int] = set()
    for label in labels:
        if not 1 <= label.line <= num_lines:
            raise DataError(f"{name}: line {label.line} is labeled, but the text has {num_lines} lines")
        if label.line in seen:
            raise DataError(f"{name}: line {label.line} is labeled twice")
        seen.add(label.line)


@dataclass(frozen=True)
class CoverageEvaluation(Result):
    """Agreement of a detector with labels.

    Attributes:
        detector: Name of the detector.
        counts: For each error, the numbers of labeled sentences and of those with the error.
        scores: For each error, measures from 0 to 1 by name, such as `auroc`, `average_precision` and
            `precision_at_5`, with 95 % bootstrap intervals over sentences. NaN if undefined, as the AUROC of
            a text without errors.
    """

    schema: ClassVar[str] = "coverage_evaluation"

    detector: str
    counts: Mapping[SentenceError, tuple[int, int]]
    scores: Mapping[SentenceError, Mapping[str, Estimate]]

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"detector": self.detector, "scores": [json_value(row) for row in self.rows()]}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per measure: error, numbers of labels, name, value and interval."""
        return [
            {
                "error": error,
                "num_labeled": self.counts[error][0],
                "num_errors": self.counts[error][1],
                "metric": metric,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
            }
            for error, estimates in self.scores.items()
            for metric, estimate in estimates.items()
        ]

    def __repr__(self) -> str:
        """Return the AUROC of each error."""
        aurocs = ", ".join(f"{error} {scores['auroc'].value:.3f}" for error, scores in self.scores.items())
        return f"CoverageEvaluation(detector={self.detector!r}, AUROC: {aurocs})"


def sentence_scores(
    labels: Bool[np.ndarray, "N"], scores: Float[np.ndarray, "N"], resamples: int = 1000, seed: int = 0
) -> dict[str, Estimate]:
    """Return all measures of sentences.

    Equal scores are in random order: measures are their expectations over it.

    Args:
        labels: Whether each sentence has the error.
        scores: Score of each sentence; the higher, the more probable is the error.
        resamples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
    """
    (values,) = _measures(labels, scores, np.ones((1, len(labels))))
    generator = np.random.default_rng(seed)
    rows, size = [], max(1, _CHUNK // max(len(labels), 1))
    for start in range(0, resamples, size):
        sampled = [
            np.bincount(generator.integers(len(labels), size=len(labels)), minlength=len(labels))
            for _ in range(min(size, resamples - start))
        ]
        rows.append(_measures(labels, scores, np.array(sampled, dtype=np.float64)))
    estimates = {}
    for name, value, samples in zip(_NAMES, values, np.concatenate(rows).T, strict=True):
        # A resample without errors has no value, as a text without errors.
        samples = samples[np.isfinite(samples)]
        low, high = np.quantile(samples, (0.025, 0.975)) if len(samples) else (np.nan, np.nan)
        estimates[name] = Estimate(float(value), float(low), float(high))
    return estimates


_NAMES = (
    "auroc",
    "average_precision",
    *(f"{name}_at_{100 * budget:g}" for budget in _BUDGETS for name in ("precision", "recall")),
)


def _measures(labels: np.ndarray, scores: np.ndarray, counts: Float[np.ndarray, "r N"]) -> np.ndarray:
    """Return all measures of samples, [r, 8], given how often each sentence occurs in them."""
    order = np.argsort(-scores, kind="stable")
    # The last place of each group of equal scores.
    ends = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)
    counts = counts[:, order]
    everything = np.cumsum(counts, axis=1)[:, ends]
    true_positives = np.cumsum(counts * labels[order], axis=1)[:, ends]
    total, positive = everything[:, -1:], true_positives[:, -1:]
    group, hits = np.diff(everything, axis=1, prepend=0), np.diff(true_positives, axis=1, prepend=0)
    below = total - positive - (everything - true_positives)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A pair of equal scores counts half, as in the Mann-Whitney statistic.
        ordered = (hits * (below + (group - hits) / 2)).sum(axis=1)
        columns = [ordered / (positive * (total - positive))[:, 0]]
        precision = np.where(everything > 0, true_positives / everything, 0.0)
        columns.append((hits / positive * precision).sum(axis=1))
        for budget in _BUDGETS:
            size = np.ceil(budget * total[0, 0])
            # The part of each group that the budget covers.
            covered = np.clip(size - (everything - group), 0, group)
            inside = np.where(group > 0, hits * covered / group, 0.0).sum(axis=1)
            columns += [inside / size, inside / positive[:, 0]]
    return np.stack(columns, axis=1)
