"""Bootstrap resampling: confidence intervals of scores, and significance of differences.

Koehn (2004): test sets sampled with replacement from the sentences of the actual test set stand for other
test sets. Resampling works on counts that are summed over sentences. It therefore applies to any metric that
is a function of such sums, given a row of counts per sentence and the function from summed rows to scores.

The score of a system that was trained several times with different seeds is the mean over its runs. The runs
are then sampled with replacement, in addition to the sentences, because scores vary with the seed. With few
runs, the intervals are somewhat too narrow, as bootstrap intervals of small samples are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from regard.errors import DataError

__all__ = ["Aggregate", "Estimate", "PairedComparison", "bootstrap", "paired_bootstrap"]

Aggregate = Callable[[Float[np.ndarray, "r k"]], Float[np.ndarray, "r"]]

# The 95 % interval lies between these quantiles of the resamples.
_QUANTILES = (0.025, 0.975)


@dataclass(frozen=True)
class Estimate:
    """A score or a difference of scores, with its 95 % interval over resampled test sets.

    Attributes:
        value: Value on the actual test set; the mean over runs if there are several.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedComparison:
    """Comparison of two systems on the same sentences.

    Attributes:
        first: Score of the first system.
        other: Score of the other system.
        difference: Score of the other system minus that of the first.
        p_value: Two-sided p-value. It is below 0.05 if the interval of the difference does not contain zero.
        resamples: Number of resampled test sets.
        seed: Random seed.
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
    """Compute the score of a corpus with its 95 % percentile interval.

    Args:
        rows: Counts of each of the n sentences, for each of r runs if there are several.
        aggregate: Function from rows of summed counts to scores.
        resamples: Number of test sets to sample, each with r sampled runs.
        seed: Random seed. The same seed, n and r give the same samples.

    Raises:
        DataError: if there is no sentence.
    """
    runs = _runs(rows)
    sampled = [counts @ runs for counts in _resample_counts(runs.shape[1], resamples, seed)]
    shares = _run_weights(len(runs), resamples, seed)
    return _estimate(_score(runs, aggregate), _mean_scores(sampled, shares, aggregate))


def paired_bootstrap(
    first: Float[np.ndarray, "*r n k"],
    other: Float[np.ndarray, "*q m k"],
    aggregate: Aggregate,
    resamples: int = 1000,
    seed: int = 0,
) -> PairedComparison:
    """Compare two systems by paired bootstrap resampling, Koehn (2004).

    Koehn counts the resampled test sets on which the system with the better score on the actual test set is
    not better. That share is a one-sided p-value for a direction that is fixed in advance. Here the direction
    depends on the data, so the p-value is twice the share (at most 1). One is added to numerator and
    denominator so that it is never zero.

    Args:
        first: Counts of each of the n sentences of the first system, for each of r runs if there are several.
        other: Counts of the other system, with its runs in the same order of seeds.
        aggregate: Function from rows of summed counts to scores. Higher or lower may be better.
        resamples: Number of test sets to sample, each with r sampled runs, the same for both systems.
        seed: Random seed. The same seed, n and r give the same samples.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences or of runs differ.
    """
    ours, theirs = _runs(first), _runs(other)
    for one, two, what in zip(ours.shape, theirs.shape, ("runs", "sentences"), strict=False):
        if one != two:
            raise DataError(
                f"paired bootstrap: {one} {what} of one system but {two} of the other; expected equal numbers"
            )
    # Two matrix multiplications instead of one of the joined columns give equal systems identical scores.
    sampled = [
        (counts @ ours, counts @ theirs) for counts in _resample_counts(ours.shape[1], resamples, seed)
    ]
    shares = _run_weights(len(ours), resamples, seed)
    first_scores = _mean_scores([pair[0] for pair in sampled], shares, aggregate)  # (resamples,)
    other_scores = _mean_scores([pair[1] for pair in sampled], shares, aggregate)  # (resamples,)
    first_score, other_score = _score(ours, aggregate), _score(theirs, aggregate)
    difference = other_score - first_score
    # Number of resamples in which the sign of the difference is reversed or the difference is zero.
    reversed_ = int(np.sum((other_scores - first_scores) * np.sign(difference) <= 0))
    return PairedComparison(
        first=_estimate(first_score, first_scores),
        other=_estimate(other_score, other_scores),
        difference=_estimate(difference, other_scores - first_scores),
        p_value=min(1.0, 2 * (reversed_ + 1) / (resamples + 1)),
        resamples=resamples,
        seed=seed,
    )


def _runs(rows: Float[np.ndarray, "*r n k"]) -> Float[np.ndarray, "r n k"]:
    """Return the counts with an axis for runs."""
    runs = rows if rows.ndim == 3 else rows[None]
    if runs.shape[1] == 0:
        raise DataError("bootstrap: expected at least one sentence")
    return runs


def _resample_counts(sentences: int, resamples: int, seed: int) -> Iterator[Int[np.ndarray, "n"]]:
    """Yield the number of occurrences of each sentence in each resampled test set."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        yield np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)


def _run_weights(runs: int, resamples: int, seed: int) -> Float[np.ndarray, "d r"]:
    """Return the share of each run in each resample."""
    if runs == 1:
        return np.ones((resamples, 1))
    # A different seed than in `_resample_counts`, so that runs and sentences are sampled independently.
    picked = np.random.default_rng((seed, runs)).integers(runs, size=(resamples, runs))
    return (picked[:, :, None] == np.arange(runs)).mean(axis=1)


def _mean_scores(
    summed: Sequence[Float[np.ndarray, "r k"]], shares: Float[np.ndarray, "d r"], aggregate: Aggregate
) -> Float[np.ndarray, "d"]:
    """Return the mean score of the sampled runs in each resample."""
    scores = aggregate(np.concatenate(summed)).reshape(shares.shape)
    return scores[:, 0] if shares.shape[1] == 1 else (scores * shares).sum(axis=1)


def _score(runs: Float[np.ndarray, "r n k"], aggregate: Aggregate) -> float:
    """Return the mean score of the runs on the actual test set."""
    return float(aggregate(runs.sum(axis=1)).mean())


def _estimate(value: float, scores: Float[np.ndarray, "r"]) -> Estimate:
    low, high = np.quantile(scores, _QUANTILES)
    return Estimate(value, float(low), float(high))
