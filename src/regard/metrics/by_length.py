"""Scores by source length.

Indurthi et al. (2019), Table 2 and Figure 2, give BLEU and the number of sentences for lengths of 1 to 10, 11
to 20, ..., 51 to 60, and at least 61. The paper does not state whether the length is that of the source or
the target, in words or in subwords. Here it is the number of source words. The score of a bucket is the
corpus score of its sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.metrics.base import Estimate, SentenceCounts, bootstrap, paired_bootstrap
from regard.metrics.translation import split_words


@dataclass(frozen=True)
class Bucket:
    """Sentences within a range of lengths.

    Attributes:
        low: Minimum number of words.
        high: Maximum number of words. None for no limit.
        sentence_ids: Indices of the sentences, counted from 0, in order.
    """

    low: int
    high: int | None
    sentence_ids: Int[np.ndarray, "n"]

    def record(self) -> dict[str, Any]:
        """Return the values for JSON, with the number of sentences."""
        return {"low": self.low, "high": self.high, "sentences": len(self.sentence_ids)}

    @property
    def label(self) -> str:
        """Return a label such as `11-20` or `61+`."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class SystemScore:
    """Score of a system on a text, compared with the first system.

    Attributes:
        value: The score.
        interval: Ends of its 95 % interval. None for a single sentence, which cannot be resampled.
        difference: Score of this system minus that of the first. None for the first system.
        p_value: Two-sided p-value of the difference. None for the first system.
    """

    value: float
    interval: tuple[float, float] | None = None
    difference: Estimate | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class LengthScores:
    """Scores of one system by one metric.

    Attributes:
        name: Label of the metric.
        signature: Settings and version of the metric.
        buckets: Score of each bucket. None for an empty bucket.
        total: Score of all sentences.
    """

    name: str
    signature: str
    buckets: tuple[SystemScore | None, ...]
    total: SystemScore

    def record(self) -> dict[str, Any]:
        """Return the values for JSON. Empty buckets are null."""
        return {"signature": self.signature, "buckets": self.buckets, "all": self.total}


def count_lengths(lines: Sequence[str], tokenize: str = "13a") -> list[int]:
    """Return the number of words of each line as BLEU counts them, independently of subword tokens."""
    return [len(words) for words in split_words(lines, tokenize)]


def bucket_by_length(lengths: Sequence[int], width: int = 10, num_bounded: int = 6) -> list[Bucket]:
    """Assign each sentence to the bucket of its length.

    Args:
        lengths: Number of words of each sentence. Empty sentences belong to the first bucket.
        width: Number of lengths per bucket.
        num_bounded: Number of buckets before the last one, which has no upper limit.
    """
    places = ((np.asarray(lengths) - 1) // width).clip(0, num_bounded)  # (n,)
    # The label of the first bucket includes 0 only if there is an empty sentence.
    shortest = min(1, min(lengths))
    return [
        Bucket(
            low=b * width + 1 if b else shortest,
            high=(b + 1) * width if b < num_bounded else None,
            sentence_ids=np.flatnonzero(places == b),
        )
        for b in range(num_bounded + 1)
    ]


def score_system(
    counts: SentenceCounts, baseline: SentenceCounts | None = None, resamples: int = 1000, seed: int = 0
) -> SystemScore:
    """Compute the score of a system, and its difference from the first system if that is given.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences differ.
    """
    if baseline is None:
        estimate = bootstrap(counts.rows, counts.aggregate, resamples, seed)
        return SystemScore(estimate.value, (estimate.low, estimate.high))
    pair = paired_bootstrap(baseline.rows, counts.rows, counts.aggregate, resamples, seed)
    return SystemScore(pair.other.value, (pair.other.low, pair.other.high), pair.difference, pair.p_value)


def score_by_length(
    counts: SentenceCounts,
    buckets: Sequence[Bucket],
    baseline: SentenceCounts | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> LengthScores:
    """Score each bucket and all sentences, with 95 % intervals by (paired) bootstrap resampling."""

    def score(rows: Int[np.ndarray, "n"]) -> SystemScore:
        part = replace(counts, rows=counts.rows[rows])
        # Every resample of one sentence is the same, so an interval would have no width.
        if len(rows) == 1:
            return SystemScore(part.corpus_score())
        other = None if baseline is None else replace(baseline, rows=baseline.rows[rows])
        return score_system(part, other, resamples, seed)

    return LengthScores(
        name=counts.name,
        signature=counts.signature,
        buckets=tuple(score(bucket.sentence_ids) if len(bucket.sentence_ids) else None for bucket in buckets),
        total=score(np.arange(len(counts.rows))),
    )
