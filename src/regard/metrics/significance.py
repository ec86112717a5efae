"""Bootstrap resampling: how far a score would move on another test set, and whether a difference would last.

Koehn (2004): a test set drawn with replacement from the sentences of the real one stands for another test
set. Resampling works on counts summed over sentences, so any metric that is a function of such sums can be
tested: give a row of counts for each sentence and the function from summed rows to scores.

A system that was trained several times, from several seeds, is scored by the mean over its runs, and runs are
drawn with replacement beside the sentences, as another seed moves a score too. Of few runs intervals are
somewhat too narrow, as the bootstrap's are of any few things.
"""

from collections.abc import Callable, Iterator, Sequence
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
        value: On the sentences as they are; of several runs their mean.
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
    rows: Float[np.ndarray, "*r n k"], aggregate: Aggregate, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """The score of a corpus with its 95 % percentile interval.

    Args:
        rows: Counts of each of the n sentences; of each of r runs where there are several.
        aggregate: Scores of rows of summed counts.
        resamples: Test sets to draw, each with as many runs as there are.
        seed: Of the draws; the same seed, n and r draw the same test sets and runs.

    Raises:
        DataError: if there is no sentence.
    """
    runs = _runs(rows)
    drawn = [counts @ runs for counts in _draws(runs.shape[1], resamples, seed)]
    shares = _shares(len(runs), resamples, seed)
    return _estimate(_score(runs, aggregate), _means(drawn, shares, aggregate))


def paired_bootstrap(
    first: Float[np.ndarray, "*r n k"],
    other: Float[np.ndarray, "*q m k"],
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
        first: Counts of each of the n sentences of the first system; of each of r runs where there are
            several.
        other: The same of the other system, its runs in the same order (of their seeds).
        aggregate: Scores of rows of summed counts; whether higher or lower is better does not matter.
        resamples: Test sets to draw, each with as many runs as there are, the same ones of both.
        seed: Of the draws; the same seed, n and r draw the same test sets and runs.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences or of runs differ.
    """
    ours, theirs = _runs(first), _runs(other)
    for one, two, what in zip(ours.shape, theirs.shape, ("runs", "sentences"), strict=False):
        if one != two:
            raise DataError(f"paired bootstrap: {one} {what} of one system, {two} of the other")
    # Two products rather than one of the joined columns: equal systems then get equal scores, to the bit.
    drawn = [(counts @ ours, counts @ theirs) for counts in _draws(ours.shape[1], resamples, seed)]
    shares = _shares(len(ours), resamples, seed)
    first_scores = _means([pair[0] for pair in drawn], shares, aggregate)  # (resamples,)
    other_scores = _means([pair[1] for pair in drawn], shares, aggregate)  # (resamples,)
    first_score, other_score = _score(ours, aggregate), _score(theirs, aggregate)
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


def _runs(rows: Float[np.ndarray, "*r n k"]) -> Float[np.ndarray, "r n k"]:
    runs = rows if rows.ndim == 3 else rows[None]
    if runs.shape[1] == 0:
        raise DataError("bootstrap: no sentence to draw from")
    return runs


def _draws(sentences: int, resamples: int, seed: int) -> Iterator[Int[np.ndarray, "n"]]:
    """How often each sentence occurs in each resampled test set."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)


def _shares(runs: int, resamples: int, seed: int) -> Float[np.ndarray, "d r"]:
    """Each run's share in each resample."""
    if runs == 1:
        return np.ones((resamples, 1))
    picked = np.random.default_rng((seed, runs)).integers(runs, size=(resamples, runs))
    return (picked[:, :, None] == np.arange(runs)).mean(axis=1)


def _means(
    drawn: Sequence[Float[np.ndarray, "r k"]], shares: Float[np.ndarray, "d r"], aggregate: Aggregate
) -> Float[np.ndarray, "d"]:
    """The mean score of the runs of each resample."""
    scores = aggregate(np.concatenate(drawn)).reshape(shares.shape)
    return scores[:, 0] if shares.shape[1] == 1 else (scores * shares).sum(axis=1)


def _score(runs: Float[np.ndarray, "r n k"], aggregate: Aggregate) -> float:
    return float(aggregate(runs.sum(axis=1)).mean())


def _estimate(value: float, scores: Float[np.ndarray, "r"]) -> Estimate:
    low, high = np.quantile(scores, _QUANTILES)
    return Estimate(value, float(low), float(high))
