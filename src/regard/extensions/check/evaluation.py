"""Comparison of the scores of a detector with labels, of sentences and of words.

A detector ranks sentences, and a reader examines the first ones. Hence the measures of sentences are the
area under the ROC curve (AUROC), average precision, and precision and recall of the first 1, 5 and 10 %
(the budget). Words count as found from a threshold on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.config.results import Result, json_value
from regard.extensions.check.base import SentenceError
from regard.metrics.base import Estimate, bootstrap

__all__ = ["BUDGETS", "CoverageEvaluation", "CoverageScore", "sentence_scores", "word_scores"]

BUDGETS = (0.01, 0.05, 0.1)
"""The shares of the sentences that a reader examines."""

_CHUNK = 1 << 21  # numbers in one block of resampled counts


@dataclass(frozen=True)
class CoverageScore:
    """One measure of the scores for one error.

    Attributes:
        level: Whether sentences or words are compared.
        error: The error.
        metric: Name of the measure, such as `auroc`, `average_precision` or `precision_at_5`.
        estimate: Its value from 0 to 1 with a 95 % bootstrap interval over sentences. NaN if it is undefined,
            as the AUROC of a text without errors.
    """

    level: Literal["sentence", "word"]
    error: SentenceError
    metric: str
    estimate: Estimate


@dataclass(frozen=True)
class CoverageEvaluation(Result):
    """Agreement of a detector with labels.

    Attributes:
        detector: Name of the detector.
        scores: All measures.
        counts: For each level and error, the numbers of labeled sentences or words and of those with the
            error.
        threshold: Score from which a word counts as found.
    """

    schema: ClassVar[str] = "coverage_evaluation"

    detector: str
    scores: tuple[CoverageScore, ...]
    counts: Mapping[tuple[str, SentenceError], tuple[int, int]]
    threshold: float

    def estimate(self, error: SentenceError, metric: str, level: str = "sentence") -> Estimate:
        """Return a measure with its interval.

        Raises:
            KeyError: if there is no such measure, because the error is not labeled or not detected.
        """
        for score in self.scores:
            if (score.error, score.metric, score.level) == (error, metric, level):
                return score.estimate
        raise KeyError((level, error, metric))

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        rows = [json_value(row) for row in self.rows()]
        return {"detector": self.detector, "threshold": self.threshold, "scores": rows}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per measure: level, error, numbers of labels, name, value and interval."""
        return [
            {
                "level": score.level,
                "error": score.error,
                "num_labeled": self.counts[score.level, score.error][0],
                "num_errors": self.counts[score.level, score.error][1],
                "metric": score.metric,
                "value": score.estimate.value,
                "low": score.estimate.low,
                "high": score.estimate.high,
            }
            for score in self.scores
        ]

    def __repr__(self) -> str:
        """Return the AUROC of each error."""
        aurocs = ", ".join(
            f"{score.error} {score.estimate.value:.3f}"
            for score in self.scores
            if score.metric == "auroc" and score.level == "sentence"
        )
        return f"CoverageEvaluation(detector={self.detector!r}, AUROC: {aurocs or 'no labels'})"


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
    ranking = _Ranking.of(labels, scores)
    (values,) = ranking.measure(np.ones((1, len(labels))))
    generator = np.random.default_rng(seed)
    rows, size = [], max(1, _CHUNK // max(len(labels), 1))
    for start in range(0, resamples, size):
        sampled = [
            np.bincount(generator.integers(len(labels), size=len(labels)), minlength=len(labels))
            for _ in range(min(size, resamples - start))
        ]
        rows.append(ranking.measure(np.array(sampled, dtype=np.float64)))
    return dict(zip(_NAMES, map(_estimate, values, np.concatenate(rows).T), strict=True))


_NAMES = (
    "auroc",
    "average_precision",
    *(f"{name}_at_{100 * budget:g}" for budget in BUDGETS for name in ("precision", "recall")),
)


def _estimate(value: float, samples: Float[np.ndarray, "r"]) -> Estimate:
    # A resample without errors has no value, as a text without errors.
    samples = samples[np.isfinite(samples)]
    low, high = np.quantile(samples, (0.025, 0.975)) if len(samples) else (np.nan, np.nan)
    return Estimate(float(value), float(low), float(high))


@dataclass(frozen=True)
class _Ranking:
    """Labeled sentences in descending order of their scores.

    Attributes:
        order: Numbers of the sentences.
        labels: Their labels, in this order.
        ends: The last place of each group of equal scores.
    """

    order: Int[np.ndarray, "N"]
    labels: Bool[np.ndarray, "N"]
    ends: Int[np.ndarray, "G"]

    @classmethod
    def of(cls, labels: np.ndarray, scores: np.ndarray) -> "_Ranking":
        """Sort the sentences."""
        order = np.argsort(-scores, kind="stable")
        ends = np.flatnonzero(np.diff(scores[order], append=np.nan) != 0)
        return cls(order, labels[order], ends)

    def measure(self, counts: Float[np.ndarray, "r N"]) -> Float[np.ndarray, "r 8"]:
        """Return all measures of samples, given how often each sentence occurs in them."""
        counts = counts[:, self.order]
        everything = np.cumsum(counts, axis=1)[:, self.ends]
        true_positives = np.cumsum(counts * self.labels, axis=1)[:, self.ends]
        total, positive = everything[:, -1:], true_positives[:, -1:]
        group, hits = np.diff(everything, axis=1, prepend=0), np.diff(true_positives, axis=1, prepend=0)
        below = total - positive - (everything - true_positives)
        with np.errstate(divide="ignore", invalid="ignore"):
            # A pair of equal scores counts half, as in the Mann-Whitney statistic.
            ordered = (hits * (below + (group - hits) / 2)).sum(axis=1)
            columns = [ordered / (positive * (total - positive))[:, 0]]
            precision = np.where(everything > 0, true_positives / everything, 0.0)
            columns.append((hits / positive * precision).sum(axis=1))
            for budget in BUDGETS:
                size = np.ceil(budget * total[0, 0])
                # The part of each group that the budget covers.
                covered = np.clip(size - (everything - group), 0, group)
                inside = np.where(group > 0, hits * covered / group, 0.0).sum(axis=1)
                columns += [inside / size, inside / positive[:, 0]]
        return np.stack(columns, axis=1)


def word_scores(
    labels: Sequence[Bool[np.ndarray, "_"]],
    scores: Sequence[Float[np.ndarray, "_"]],
    threshold: float,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return precision, recall and F1 of the words whose score reaches a threshold.

    Args:
        labels: For each sentence, whether each of its words is affected.
        scores: The scores of the words.
        threshold: The threshold.
        resamples: Number of bootstrap samples.
        seed: Random seed of the bootstrap.
    """
    rows = np.array(
        [
            [(affected & (score >= threshold)).sum(), (score >= threshold).sum(), affected.sum()]
            for affected, score in zip(labels, scores, strict=True)
        ],
        dtype=np.float64,
    )

    def ratio(above: int, *below: int) -> Any:
        def aggregate(summed: np.ndarray) -> np.ndarray:
            # No word found, or none affected: the share of correct ones is 0 rather than undefined.
            size = summed[:, list(below)].sum(axis=1)
            hits = len(below) * summed[:, above]
            return np.divide(hits, size, out=np.zeros_like(size), where=size > 0)

        return aggregate

    aggregates = {"precision": ratio(0, 1), "recall": ratio(0, 2), "f1": ratio(0, 1, 2)}
    return {name: bootstrap(rows, measure, resamples, seed) for name, measure in aggregates.items()}
