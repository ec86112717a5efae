"""Scores as functions of counts summed over sentences: resampling needs no second look at the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import DataError
from regard.metrics.significance import Aggregate

__all__ = ["Score", "SentenceCounts", "check_lengths"]


@dataclass(frozen=True)
class Score:
    """The score of a corpus.

    Attributes:
        name: As it is printed, such as `chrF2`.
        score: Out of 100; lower is better for TER, REP and DROP, and TER and REP may exceed 100. Edits are
            characters an output, and lower is better.
        signature: The line of settings and version that makes the score comparable.
    """

    name: str
    score: float
    signature: str


@dataclass(frozen=True)
class SentenceCounts:
    """What a metric counts in each sentence, and how a score comes of their sum.

    Attributes:
        name: As it is printed.
        signature: The line of settings and version.
        rows: One row of counts a sentence.
        aggregate: The scores of rows of summed counts.
    """

    name: str
    signature: str
    rows: Float[np.ndarray, "n k"]
    aggregate: Aggregate

    def total(self) -> Score:
        """The score of the whole corpus."""
        summed = self.rows.sum(axis=0, keepdims=True)
        return Score(self.name, float(self.aggregate(summed)[0]), self.signature)

    def each(self) -> Float[np.ndarray, "n"]:
        """The score of each sentence, as that of a corpus with no other."""
        return self.aggregate(self.rows)


def check_lengths(hypotheses: Sequence[Any], references: Sequence[Sequence[Any]]) -> None:
    """See that there is something to score and that every set of references is as long.

    Args:
        hypotheses: One output a sentence.
        references: One or more sets of references.

    Raises:
        DataError: if not.
    """
    if not hypotheses:
        raise DataError("hypotheses: no sentence to score")
    if not references:
        raise DataError("references: expected at least one set")
    for number, reference in enumerate(references, 1):
        if len(reference) != len(hypotheses):
            raise DataError(
                f"reference {number} has {len(reference)} sentences, the hypotheses {len(hypotheses)}"
            )
