"""Bootstrap resampling: how far a score would move on another test set, and whether a difference would last.

Koehn (2004): a test set drawn with replacement from the sentences of the real one stands for another test
set. Resampling works on counts summed over sentences, so any metric that is a function of such sums can be
tested: give a row of counts for each sentence and the function from summed rows to scores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from regard.errors import DataError

__all__ = ["Aggregate", "Comparison", "Estimate", "bootstrap", "paired_bootstrap"]

Aggregate = Callable[[Float[np.ndarray, "r k"]], Float[np.ndarray, "r"]]

# The 95 % interval: what lies between these quantiles of the resamples.
_QUANTILES = (0.025, 0.975)


@dataclass(frozen=True)
class Estimate:
    """A score or a difference of scores, and the 95 % interval of it over resampled test sets.

    Attributes:
        value: On the sentences as they are.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sentences.

    Attributes:
        first: Score of the first system.
        other: Score of the other system.
        difference: Other minus first.
        p_value: Two-sided; below 0.05 when the interval of the difference leaves out zero.
        resamples: How many test sets were drawn.
        seed: Of the draws.
    """

    first: Estimate
    other: Estimate
    difference: Estimate
    p_value: float
    resamples: int
    seed: int


def bootstrap(
    rows: Float[np.ndarray, "n k"], aggregate: Aggregate, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """The score of a corpus with its 95 % percentile interval.

    Args:
        rows: Counts of each of the n sentences.
        aggregate: Scores of rows of summed counts.
        resamples: Test sets to draw.
        seed: Of the draws; the same seed and n draw the same test sets.

    Raises:
        DataError: if there is no sentence.
    """
    _check(rows)
    drawn = [counts @ rows for counts in _draws(len(rows), resamples, seed)]
    return _estimate(_score(rows, aggregate), aggregate(np.stack(drawn)))


def paired_bootstrap(
    first: Float[np.ndarray, "n k"],
    other: Float[np.ndarray, "m k"],
    aggregate: Aggregate,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Compare two systems by paired bootstrap resampling, Koehn (2004).

    Koehn counts the resampled test sets on which the system that is ahead on the real one is not ahead. That
    share is a one-sided p-value for a direction fixed beforehand; as the direction is read from the data
    here, the p-value returned is twice it (at most 1), with one added above and below
    so that it is never zero.

    Args:
        first: Counts of each of the n sentences of the first system.
        other: The same of the other system.
        aggregate: Scores of rows of summed counts; whether higher or lower is better does not matter.
        resamples: Test sets to draw.
        seed: Of the draws; the same seed and n draw the same test sets.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences differ.
    """
    _check(first)
    if len(first) != len(other):
        raise DataError(f"paired bootstrap: {len(first)} sentences of one system, {len(other)} of the other")
    # Two products rather than one of the joined columns: equal systems then get equal scores, to the bit.
    drawn = [(counts @ first, counts @ other) for counts in _draws(len(first), resamples, seed)]
    first_scores = aggregate(np.stack([pair[0] for pair in drawn]))  # (resamples,)
    other_scores = aggregate(np.stack([pair[1] for pair in drawn]))  # (resamples,)
    first_score, other_score = _score(first, aggregate), _score(other, aggregate)
    difference = other_score - first_score
    reversed_ = int(np.sum((other_scores - first_scores) * np.sign(difference) <= 0))
    return Comparison(
        first=_estimate(first_score, first_scores),
        other=_estimate(other_score, other_scores),
        difference=_estimate(difference, other_scores - first_scores),
        p_value=min(1.0, 2 * (reversed_ + 1) / (resamples + 1)),
        resamples=resamples,
        seed=seed,
    )


def _check(rows: Float[np.ndarray, "n k"]) -> None:
    if len(rows) == 0:
        raise DataError("bootstrap: no sentence to draw from")


def _draws(sentences: int, resamples: int, seed: int) -> Iterator[Int[np.ndarray, "n"]]:
    """How often each sentence occurs in each resampled test set."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)


def _score(rows: Float[np.ndarray, "n k"], aggregate: Aggregate) -> float:
    return float(aggregate(rows.sum(axis=0, keepdims=True))[0])


def _estimate(value: float, scores: Float[np.ndarray, "r"]) -> Estimate:
    low, high = np.quantile(scores, _QUANTILES)
    return Estimate(value, float(low), float(high))
