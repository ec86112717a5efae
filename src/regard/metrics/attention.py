"""Statistics of attention under teacher forcing: entropy, accuracy, coverage and word links.

These correspond to Figures 3 and 4 and Table 3 of Shankar & Sarawagi (2019), which does not define them.
Here, with alpha_tj the attention of time step t to source token j:

    entropy   H_t = - sum_j alpha_tj log alpha_tj, in nats: 0 for one token, log S for uniform attention
    support   the number of source tokens with alpha_tj > 0
    accuracy  the share of time steps whose top-scoring token is the reference token
    coverage  of a sentence: mean_j min(1, sum_t alpha_tj), between words
    links     each target word with the source word of the highest attention (Ghader & Monz, 2017)

Entropy and support are computed on tokens for each head and then averaged over heads. They and accuracy
include the time step of the end symbol. Coverage and links are computed on words
(`regard.metrics.alignment.merge_subwords`) from the mean of the heads, without the end symbol's step and the
sink.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from regard.errors import DataError
from regard.metrics.alignment import AlignmentScore, alignment_score, links_from_weights, merge_subwords
from regard.text.links import GoldLinks, Links, format_links

_DECIMALS = 6  # decimals before binning, so that values on a bin edge do not depend on rounding errors
_COVERAGE_BIN = 0.05
_Z_95 = 1.96  # standard errors on either side of a 95 % interval


def entropy(weights: Float[np.ndarray, "*N S"]) -> Float[np.ndarray, "*N"]:
    """Return the entropy of each distribution in nats. A row of zeros has entropy 0.

    Weights that do not sum to 1 (a selection) are normalized first.
    """
    weights = weights.astype(np.float64)
    totals = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    # Rounding could make the entropy of a one-hot distribution slightly negative.
    return np.maximum(-(shares * logs).sum(axis=-1), 0.0)


def coverage(words: Float[np.ndarray, "V W"]) -> float:
    """Return the share of a source sentence that is attended to. Each word counts at most 1.

    Args:
        words: Attention of each target word to each source word.
    """
    if not words.shape[1]:
        raise DataError("the coverage of a sentence without words is not defined")
    return float(np.minimum(words.sum(axis=0, dtype=np.float64), 1.0).mean())


@dataclass(frozen=True)
class SentenceAttention:
    """Attention statistics of one sentence.

    Attributes:
        entropies: Entropy of each time step, in nats.
        support: Number of source tokens with nonzero weight at each time step.
        correct: Whether the top-scoring token of each time step is the reference token.
        coverage: Coverage of the sentence, 0 to 1.
        links: For each target word the source word with the highest attention.
    """

    entropies: Float[np.ndarray, "T"]
    support: Float[np.ndarray, "T"]
    correct: Bool[np.ndarray, "T"]
    coverage: float
    links: Links

    def record(self) -> dict[str, Any]:
        """Return all values as JSON types: one value per time step in order, links counted from 0."""
        return {
            "coverage": round(self.coverage, _DECIMALS),
            "entropy": [round(value, _DECIMALS) for value in self.entropies.tolist()],
            "support": [round(value, _DECIMALS) for value in self.support.tolist()],
            "correct": self.correct.tolist(),
            "links": format_links(self.links),
        }


def attention_statistics(
    weights: Float[np.ndarray, "T H S"],
    correct: Bool[np.ndarray, "T"],
    source_words: Sequence[int],
    target_words: Sequence[int],
    links: Links | None = None,
) -> SentenceAttention:
    """Compute the attention statistics of a sentence under teacher forcing.

    Args:
        weights: Attention of each time step, including that of the end symbol, to each source token.
        correct: Whether the top-scoring token of each time step is the reference token.
        source_words: Word index of each source token, counted from 0; -1 for the sink.
        target_words: Word index of each target token, without the end symbol.
        links: Word links. Default: those of the weights.
    """
    mean_weights = weights[:-1].mean(axis=1)  # (T - 1, S)
    return SentenceAttention(
        entropies=entropy(weights).mean(axis=1),
        support=(weights != 0).sum(axis=-1).astype(np.float64).mean(axis=1),
        correct=correct,
        coverage=coverage(merge_subwords(mean_weights, source_words, target_words)),
        links=links_from_weights(mean_weights, source_words, target_words) if links is None else links,
    )


@dataclass(frozen=True)
class Histogram:
    """A histogram. The last bin includes its upper edge.

    Attributes:
        edges: Bin edges in ascending order, one more than the number of bins.
        counts: Number of values in each bin.
        num_correct: Number of correct predictions in each bin. None if this does not apply.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    num_correct: tuple[int, ...] | None = None

    @property
    def shares(self) -> Float[np.ndarray, "N"]:
        """Return the share of all values in each bin."""
        return np.array(self.counts, dtype=np.float64) / max(sum(self.counts), 1)

    @property
    def accuracy(self) -> Float[np.ndarray, "N"]:
        """Return the share of correct predictions in each bin; NaN for empty bins."""
        counts = np.array(self.counts, dtype=np.float64)
        right = np.array(self.num_correct or np.zeros(len(counts)), dtype=np.float64)
        return np.divide(right, counts, out=np.full_like(counts, np.nan), where=counts > 0)

    @property
    def accuracy_interval(self) -> Float[np.ndarray, "N 2"]:
        """Return the 95 % interval of each bin's accuracy (Wilson, 1927), assuming independent steps."""
        counts = np.array(self.counts, dtype=np.float64)
        n, share = np.where(counts > 0, counts, np.nan), self.accuracy
        # The Wilson interval is also valid for small counts and for shares of 0 or 1.
        middle = share + _Z_95**2 / (2 * n)
        reach = _Z_95 * np.sqrt(share * (1 - share) / n + _Z_95**2 / (4 * n**2))
        return np.stack([middle - reach, middle + reach], axis=1) / (1 + _Z_95**2 / n)[:, None]


@dataclass(frozen=True)
class AttentionStatistics:
    """Attention statistics of one model over a text.

    Attributes:
        sentences: Number of sentences.
        steps: Number of time steps, including those of end symbols.
        accuracy: Share of the time steps whose top-scoring token is the reference token.
        entropy: Mean over time steps, in nats.
        support: Mean over time steps, in tokens.
        coverage: Mean over sentences, 0 to 1.
        entropies: Histogram of the entropies of time steps, with the number of correct predictions.
        coverages: Histogram of the coverages of sentences.
        alignment: Scores of the links against gold links. None without gold links.
    """

    sentences: int
    steps: int
    accuracy: float
    entropy: float
    support: float
    coverage: float
    entropies: Histogram
    coverages: Histogram
    alignment: AlignmentScore | None = None

    def record(self) -> dict[str, Any]:
        """Return all values as JSON types. An `aer` of 0 is best; Table 3 of the paper has 1 - AER."""
        score = self.alignment
        names = ("sentences", "steps", "accuracy", "entropy", "support", "coverage")
        content: dict[str, Any] = {name: getattr(self, name) for name in names}
        if score is not None:
            content |= {"aer": score.aer, "one_minus_aer": 1 - score.aer}
            content |= {"precision": score.precision, "recall": score.recall}
        content["entropies"] = {name: list(value) for name, value in vars(self.entropies).items()}
        content["coverages"] = {name: list(getattr(self.coverages, name)) for name in ("edges", "counts")}
        return content


def summarize(
    sentences: Sequence[SentenceAttention],
    alignment: AlignmentScore | None = None,
    width: float = 0.2,
) -> AttentionStatistics:
    """Compute the attention statistics of a text from those of its sentences.

    Args:
        sentences: Statistics of its sentences.
        alignment: Scores of the links against gold links.
        width: Bin width of the histogram of entropies, in nats.

    Raises:
        DataError: if there is no sentence.
    """
    if not sentences:
        raise DataError("attention statistics need at least one sentence")
    entropies, supports, right = (
        np.concatenate([getattr(sentence, name) for sentence in sentences])
        for name in ("entropies", "support", "correct")
    )
    coverages = np.array([sentence.coverage for sentence in sentences])
    bins = max(math.ceil(round(float(entropies.max()) / width, _DECIMALS)), 1)
    return AttentionStatistics(
        sentences=len(sentences),
        steps=len(right),
        accuracy=float(right.mean()),
        entropy=float(entropies.mean()),
        support=float(supports.mean()),
        coverage=float(coverages.mean()),
        entropies=_histogram(entropies, width, bins, right),
        coverages=_histogram(coverages, _COVERAGE_BIN, round(1 / _COVERAGE_BIN)),
        alignment=alignment,
    )


def score_links(sentences: Sequence[SentenceAttention | None], gold: Sequence[GoldLinks]) -> AlignmentScore:
    """Score the links of a text. A skipped sentence (None) has none, so its gold links are missed.

    Raises:
        DataError: if the numbers of sentences differ.
    """
    links = [frozenset[tuple[int, int]]() if sentence is None else sentence.links for sentence in sentences]
    return alignment_score(links, gold)


def _histogram(
    values: Float[np.ndarray, "N"], width: float, bins: int, correct: Bool[np.ndarray, "N"] | None = None
) -> Histogram:
    """Count nonnegative values in a number of bins of equal width."""
    edges = np.round(np.arange(bins + 1) * width, 2 * _DECIMALS)
    bin_ids = np.searchsorted(edges, np.round(values, _DECIMALS), side="right") - 1
    bin_ids = bin_ids.clip(0, bins - 1)
    counts = np.bincount(bin_ids, minlength=bins)
    num_correct = None if correct is None else tuple(np.bincount(bin_ids[correct], minlength=bins).tolist())
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), num_correct)
