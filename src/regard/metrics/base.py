"""The contract of metrics: counts of each sentence, scores with bootstrap intervals, and the registry.

A metric is a function of a `MetricInput` that returns `SentenceCounts`: counts of each sentence, and the
function from summed counts to the score. Bootstrap intervals, comparisons and sentence scores need no more:

    @register_metric("length_ratio", label="length ratio")
    def count_length_ratio(data: MetricInput) -> SentenceCounts:
        rows = [(len(a.split()), len(b.split())) for a, b in zip(data.outputs, data.references[0])]
        return SentenceCounts.ratio("length ratio", rows)

Koehn (2004): test sets sampled with replacement from the sentences of the actual test set stand for other
test sets. Resampling works on counts that are summed over sentences. It therefore applies to any metric that
is a function of such sums, given a row of counts per sentence and the function from summed rows to scores.

The score of a system that was trained several times with different seeds is the mean over its runs. The runs
are then sampled with replacement, in addition to the sentences, because scores vary with the seed. With few
runs, the intervals are somewhat too narrow, as bootstrap intervals of small samples are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.config.registry import NamedRegistry
from regard.errors import DataError
from regard.text.links import Links

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
    """

    first: Estimate
    other: Estimate
    difference: Estimate
    p_value: float


def bootstrap(
    rows: Float[np.ndarray, "*r n k"], aggregate: Aggregate, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """Compute the score of a corpus with its 95 % percentile interval.

    Args:
        rows: Counts of each of the n sentences, for each of r runs if there are several.
        aggregate: Function from rows of summed counts to scores.
        resamples: Number of test sets to sample, each with r sampled runs.
        seed: Random seed.

    Raises:
        DataError: if there is no sentence.
    """
    runs = _runs(rows)
    value = float(aggregate(runs.sum(axis=1)).mean())
    low, high = np.quantile(_sampled_scores(runs, aggregate, resamples, seed), _QUANTILES)
    return Estimate(value, float(low), float(high))


def paired_bootstrap(
    first: Float[np.ndarray, "*r n k"],
    other: Float[np.ndarray, "*q m k"],
    aggregate: Aggregate,
    resamples: int = 1000,
    seed: int = 0,
) -> PairedComparison:
    """Compare two systems by paired bootstrap resampling, Koehn (2004).

    Koehn counts the resampled test sets on which the better system is not better: a one-sided p-value for a
    direction that is fixed in advance. Here the direction depends on the data, so the p-value is twice the
    share (at most 1). One is added to numerator and denominator so that it is never zero.

    Args:
        first: Counts of each sentence of the first system, for each of its runs if there are several.
        other: Counts of the other system, with its runs in the same order of seeds.
        aggregate: Function from rows of summed counts to scores. Higher or lower may be better.
        resamples: Number of test sets to sample, each with r sampled runs, the same for both systems.
        seed: Random seed.

    Raises:
        DataError: if there is no sentence, or the numbers of sentences or of runs differ.
    """
    ours, theirs = _runs(first), _runs(other)
    for first_size, two, what in zip(ours.shape, theirs.shape, ("runs", "sentences"), strict=False):
        if first_size != two:
            raise DataError(
                f"paired bootstrap: {first_size} {what} of one system but {two} of the other; "
                "expected equal numbers"
            )
    # The same test sets and runs are sampled for both systems.
    first_scores, other_scores = (
        _sampled_scores(runs, aggregate, resamples, seed) for runs in (ours, theirs)
    )
    first_score, other_score = (float(aggregate(runs.sum(axis=1)).mean()) for runs in (ours, theirs))
    difference = other_score - first_score
    # Number of resamples in which the sign of the difference is reversed or the difference is zero.
    reversed_ = int(np.sum((other_scores - first_scores) * np.sign(difference) <= 0))
    samples = np.stack([first_scores, other_scores, other_scores - first_scores])
    low, high = np.quantile(samples, _QUANTILES, axis=1).tolist()
    return PairedComparison(
        first=Estimate(first_score, low[0], high[0]),
        other=Estimate(other_score, low[1], high[1]),
        difference=Estimate(difference, low[2], high[2]),
        p_value=min(1.0, 2 * (reversed_ + 1) / (resamples + 1)),
    )


def _runs(rows: Float[np.ndarray, "*r n k"]) -> Float[np.ndarray, "r n k"]:
    """Return the counts with an axis for runs."""
    runs = rows if rows.ndim == 3 else rows[None]
    if runs.shape[1] == 0:
        raise DataError("bootstrap: expected at least one sentence")
    return runs


def _sampled_scores(
    runs: Float[np.ndarray, "r n k"], aggregate: Aggregate, resamples: int, seed: int
) -> Float[np.ndarray, "d"]:
    """Return the mean score of the sampled runs on each of `resamples` sampled test sets."""
    generator, (num_runs, sentences, _) = np.random.default_rng(seed), runs.shape
    summed = []
    for _ in range(resamples):
        counts = np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)
        summed.append(counts @ runs)
    scores = aggregate(np.concatenate(summed)).reshape(resamples, num_runs)
    if num_runs == 1:
        return scores[:, 0]
    # Another seed than that of the sentences, so that runs and sentences are sampled independently.
    picked = np.random.default_rng((seed, num_runs)).integers(num_runs, size=(resamples, num_runs))
    return (scores * (picked[:, :, None] == np.arange(num_runs)).mean(axis=1)).sum(axis=1)


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
        """Return the counts (a, b) of a metric that is `scale` * sum of a / sum of b; b = 1 gives a mean."""
        return cls(name, signature, np.array(rows, dtype=np.float64).reshape(-1, 2), ratio(scale))

    def corpus_score(self) -> float:
        """Return the score of the whole corpus."""
        return float(self.aggregate(self.rows.sum(axis=0, keepdims=True))[0])

    def sentence_scores(self) -> Float[np.ndarray, "n"]:
        """Return the score of each sentence, computed as if it were the whole corpus."""
        return self.aggregate(self.rows)


def ratio(scale: float = 1.0) -> Aggregate:
    """Return the function from rows of summed counts (a, b) to `scale` * a / b."""

    def scores(summed: Float[np.ndarray, "r 2"]) -> Float[np.ndarray, "r"]:
        # The score of sentences without any b is a, as if b were 1.
        return scale * summed[:, 0] / np.where(summed[:, 1] == 0, 1, summed[:, 1])

    return scores


def check_references(hypotheses: Sequence[Any], references: Sequence[Sequence[Any]]) -> None:
    """Check that there is at least one output, and that all sets of references have the same length.

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


@dataclass(frozen=True)
class MetricInput:
    """The text that a metric scores, and the options of `regard evaluate`.

    Attributes:
        outputs: One output per sentence.
        references: One or more sets of references, each as long as `outputs`.
        tokenize: Tokenizer of words: a `regard.metrics.translation.BleuTokenizer`.
        lowercase: Whether to ignore case.
        links: For DROP: the word links of the source with each reference, and with each output.
    """

    outputs: Sequence[str]
    references: Sequence[Sequence[str]]
    tokenize: str = "13a"
    lowercase: bool = False
    links: tuple[Sequence[Links], Sequence[Links]] | None = None


MetricFunction = Callable[[MetricInput], SentenceCounts]


@dataclass(frozen=True)
class Metric:
    """A registered metric.

    Attributes:
        label: Label in tables.
        count: Returns the counts of each sentence.
        higher_is_better: Whether a higher score is better.
        needs_links: Whether the metric needs `MetricInput.links`. Such a metric cannot select the best model.
    """

    label: str
    count: MetricFunction
    higher_is_better: bool = True
    needs_links: bool = False


METRICS: NamedRegistry[Metric] = NamedRegistry(
    "metric",
    packages=["regard.metrics"],
    contract=lambda part: None if callable(part) else "is not a function of a MetricInput",
    field_names=("perplexity",),
)


def register_metric(
    name: str, *, label: str | None = None, higher_is_better: bool = True, needs_links: bool = False
) -> Callable[[MetricFunction], MetricFunction]:
    """Return a decorator that registers a function from `MetricInput` to `SentenceCounts` as a metric.

    Args:
        name: The name, as in `regard evaluate --metrics NAME` and `training.validation.metric`.
        label: Label in tables. Default: the name.
        higher_is_better: Whether a higher score is better.
        needs_links: Whether the metric needs word links.

    Raises:
        PluginError: if another metric has this name.
    """

    def decorate(function: MetricFunction) -> MetricFunction:
        METRICS.add(name, Metric(label or name, function, higher_is_better, needs_links), source=function)
        return function

    return decorate
