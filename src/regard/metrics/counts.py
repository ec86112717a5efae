"""Scores as functions of counts that are summed over sentences, so that resampling needs only the counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.metrics.significance import Aggregate

__all__ = ["CorpusScore", "SentenceCounts", "check_references"]


@dataclass(frozen=True)
class CorpusScore:
    """Score of a corpus.

    Attributes:
        name: Label of the metric, such as `chrF2`.
        score: Value from 0 to 100. Lower is better for TER, REP and DROP, and TER and REP may exceed 100. For
            edits, the mean number of characters per output, lower is better.
        signature: Settings and version that make the score comparable.
    """

    name: str
    score: float
    signature: str


@dataclass(frozen=True)
class SentenceCounts:
    """Counts of a metric for each sentence, and the function that computes scores from their sums.

    Attributes:
        name: Label of the metric.
        signature: Settings and version of the metric.
        rows: One row of counts per sentence.
        aggregate: Function from rows of summed counts to scores.
    """

    name: str
    signature: str
    rows: Float[np.ndarray, "n k"]
    aggregate: Aggregate

    @classmethod
    def ratio(
        cls,
        name: str,
        rows: Sequence[tuple[float | int, float | int]],
        scale: float = 1.0,
        signature: str = "",
    ) -> "SentenceCounts":
        """Return the counts of a metric that is `scale` * sum of a / sum of b.

        Args:
            name: Label of the metric.
            rows: (a, b) of each sentence. With b = 1, the score is the mean of a.
            scale: Factor of the score, such as 100 for percentages.
            signature: Settings and version of the metric.
        """
        counts = np.array(rows, dtype=np.float64).reshape(-1, 2)

        def aggregate(summed: Float[np.ndarray, "r 2"]) -> Float[np.ndarray, "r"]:
            # The score of sentences without any b is a, as if b were 1.
            return scale * summed[:, 0] / np.where(summed[:, 1] == 0, 1, summed[:, 1])

        return cls(name, signature, counts, aggregate)

    def corpus_score(self) -> CorpusScore:
        """Return the score of the whole corpus."""
        summed = self.rows.sum(axis=0, keepdims=True)
        return CorpusScore(self.name, float(self.aggregate(summed)[0]), self.signature)

    def sentence_scores(self) -> Float[np.ndarray, "n"]:
        """Return the score of each sentence, computed as if it were the whole corpus."""
        return self.aggregate(self.rows)


def check_references(hypotheses: Sequence[Any], references: Sequence[Sequence[Any]]) -> None:
    """Check that there is at least one output and that all sets of references have the same length.

    Args:
        hypotheses: One output per sentence.
        references: One or more sets of references.

    Raises:
        DataError: if the check fails.
    """
    if not hypotheses:
        raise DataError("hypotheses: expected at least one sentence")
    if not references:
        raise DataError("references: expected at least one set")
    for number, reference in enumerate(references, 1):
        if len(reference) != len(hypotheses):
            raise DataError(
                f"reference {number} has {len(reference)} sentences but the hypotheses have "
                f"{len(hypotheses)}: both must have the same number"
            )
