"""Scores in groups of source length: does a system fall behind where sentences are long?

Indurthi et al. (2019), Table 2 and Figure 2: BLEU of the sentences of 1 to 10, 11 to 20, ..., 51 to 60, and
61 or more, and how many there are. The paper does not say whether length is the source's or the target's, in
words or in subwords; here it is the number of words of the source. A bucket scores what a corpus of its
sentences alone would.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.data.links import Links
from regard.errors import DataError, UsageError
from regard.metrics.counts import SentenceCounts
from regard.metrics.coverage import count_drops, count_text_repetitions
from regard.metrics.significance import Estimate, bootstrap, paired_bootstrap
from regard.metrics.translation import count, split_words

__all__ = [
    "Bucket",
    "BucketScore",
    "LengthScores",
    "count_lengths",
    "count_system",
    "cut_by_length",
    "score_by_length",
]


@dataclass(frozen=True)
class Bucket:
    """The sentences of some lengths.

    Attributes:
        low: Words of the shortest it may hold.
        high: Words of the longest it may hold; none: no limit.
        rows: Which sentences it holds, from 0, in order.
    """

    low: int
    high: int | None
    rows: Int[np.ndarray, "n"]

    @property
    def label(self) -> str:
        """As in `11-20` or `61+`."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class BucketScore:
    """What a system scores on some sentences, and how far it is from the first system.

    A single sentence cannot be resampled: it has a score and nothing else.

    Attributes:
        value: The score.
        interval: The ends of its 95 % interval.
        difference: This system's score minus the first's; none of the first.
        p_value: Two-sided, of the difference.
    """

    value: float
    interval: tuple[float, float] | None = None
    difference: Estimate | None = None
    p_value: float | None = None

    def record(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class LengthScores:
    """One metric of one system.

    Attributes:
        name: The metric's, as it is printed.
        signature: The line of settings and version.
        buckets: Of each bucket; none of an empty one.
        total: Of all sentences.
    """

    name: str
    signature: str
    buckets: tuple[BucketScore | None, ...]
    total: BucketScore

    def record(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; null for an empty bucket."""
        buckets = [None if one is None else one.record() for one in self.buckets]
        return {"signature": self.signature, "buckets": buckets, "all": self.total.record()}


def count_lengths(lines: Sequence[str], tokenize: str = "13a") -> list[int]:
    """The words of each line as BLEU counts them: the same for all systems, whatever their subwords.

    Args:
        lines: Sentences.
        tokenize: A `regard.metrics.translation.Tokenizer`.
    """
    return [len(words) for words in split_words(lines, tokenize)]


def cut_by_length(lengths: Sequence[int], width: int = 10, closed: int = 6) -> list[Bucket]:
    """Put each sentence into the bucket of its length.

    Args:
        lengths: Words of each sentence; one of no words goes into the first bucket.
        width: Lengths in a bucket.
        closed: How many buckets there are before the last one, which has no upper end.

    Raises:
        UsageError: if the width is below 1 or the number of buckets below 0.
        DataError: if there is no sentence.
    """
    if width < 1 or closed < 0:
        raise UsageError(f"{closed} buckets of width {width}; expected at least 0, at least 1 wide")
    if not lengths:
        raise DataError("lengths: no sentence to put into a bucket")
    places = ((np.asarray(lengths) - 1) // width).clip(0, closed)  # (n,)
    shortest = min(1, min(lengths))
    return [
        Bucket(
            low=b * width + 1 if b else shortest,
            high=(b + 1) * width if b < closed else None,
            rows=np.flatnonzero(places == b),
        )
        for b in range(closed + 1)
    ]


def count_system(
    outputs: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
    links: tuple[Sequence[Links], Sequence[Links]] | None = None,
) -> dict[str, SentenceCounts]:
    """What BLEU, REP and, where there are links, DROP count of a system's translations.

    Args:
        outputs: The translations.
        references: The reference of each.
        tokenize: A `regard.metrics.translation.Tokenizer`, for BLEU and REP.
        lowercase: Whether these two ignore case.
        links: The links of each source sentence with its reference, and with its translation.

    Raises:
        DataError: if the lengths differ or there is no sentence.
        UsageError: if the tokenizer is unknown or needs a package that is not installed.
    """
    counts = {
        "bleu": count("bleu", outputs, [references], tokenize, lowercase),
        "rep": count_text_repetitions(outputs, references, tokenize, lowercase),
    }
    return counts if links is None else counts | {"drop": count_drops(*links)}


def score_by_length(
    counts: SentenceCounts,
    buckets: Sequence[Bucket],
    first: SentenceCounts | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> LengthScores:
    """Score each bucket, and all sentences, with 95 % intervals from (paired) bootstrap resampling.

    Args:
        counts: Of a system's sentences.
        buckets: From `cut_by_length`.
        first: Of the system to compare with.
        resamples: Test sets to draw in each bucket.
        seed: Of the draws.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences differ.
    """
    sentences = sum(len(bucket.rows) for bucket in buckets)
    for each in (counts, *(() if first is None else (first,))):
        if len(each.rows) != sentences:
            raise DataError(f"counts of {len(each.rows)} sentences, lengths of {sentences}")

    def score(rows: Int[np.ndarray, "n"]) -> BucketScore:
        own = counts.rows[rows]
        if len(rows) == 1:
            return BucketScore(float(counts.aggregate(own)[0]))
        if first is None:
            found = bootstrap(own, counts.aggregate, resamples, seed)
            return BucketScore(found.value, (found.low, found.high))
        pair = paired_bootstrap(first.rows[rows], own, counts.aggregate, resamples, seed)
        interval = (pair.other.low, pair.other.high)
        return BucketScore(pair.other.value, interval, pair.difference, pair.p_value)

    return LengthScores(
        name=counts.name,
        signature=counts.signature,
        buckets=tuple(score(bucket.rows) if len(bucket.rows) else None for bucket in buckets),
        total=score(np.arange(sentences)),
    )
