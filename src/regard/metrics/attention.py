"""Attention under teacher forcing: how spread out it is, whether its words come right, what it covers.

Figures 3 and 4 and Table 3 of Shankar & Sarawagi (2019), which defines none of these; here, with alpha_tj the
attention of step t to source token j,

    entropy   H_t = - sum_j alpha_tj log alpha_tj, in nats: 0 for one token, log S for all S alike
    support   the number of source tokens with alpha_tj > 0
    accuracy  the share of steps whose likeliest token is the reference's
    coverage  of a sentence: mean_j min(1, sum_t alpha_tj), words attending to words
    links     each target word with the source word it attends to most (Ghader & Monz 2017)
    selected  of hard attention, each target word with every source word that was selected for it: alignment
              error, precision and recall of the selected sets as they stand

Entropy and support are those of tokens, of each head, and then the heads' mean; the end symbol's step counts,
as it does in accuracy. Coverage and links are those of words (`regard.metrics.alignment.join_words`) under
the heads' mean, the end symbol's step and the sink left out.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from regard.data.links import GoldLinks, Links, format_links
from regard.errors import DataError
from regard.metrics.alignment import AlignmentScore, alignment_score, join_words, links_from_weights

__all__ = [
    "AttentionFigures",
    "Bins",
    "SentenceAttention",
    "coverage",
    "entropy",
    "look",
    "score_sentences",
    "summarise",
    "support",
]

_DIGITS = 6  # kept where values are put into bins: what lies on an edge must not hang on rounding
_COVERAGE_BIN = 0.05
_NORMAL = 1.96  # standard errors to either side hold 95 %


def entropy(weights: Float[np.ndarray, "*N S"]) -> Float[np.ndarray, "*N"]:
    """Entropy of each distribution in nats; weights that do not sum to 1 (a selection) are scaled to.

    A row of zeros has entropy 0.
    """
    weights = weights.astype(np.float64)
    totals = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    # Rounding must make nothing negative of a certain look.
    return np.maximum(-(shares * logs).sum(axis=-1), 0.0)


def support(weights: Float[np.ndarray, "*N S"]) -> Float[np.ndarray, "*N"]:
    """How many weights of each row are not exactly zero."""
    return (weights != 0).sum(axis=-1).astype(np.float64)


def coverage(words: Float[np.ndarray, "V W"]) -> float:
    """The share of a source sentence that was looked at, each word counting up to 1.

    Args:
        words: Attention of each target word to each source word.
    """
    if not words.shape[1]:
        raise DataError("coverage of a sentence without words")
    return float(np.minimum(words.sum(axis=0, dtype=np.float64), 1.0).mean())


@dataclass(frozen=True)
class SentenceAttention:
    """What there is to say of one sentence.

    Attributes:
        entropies: Of each step, in nats.
        support: Of each step, in tokens.
        right: Whether the likeliest token of each step was the reference's.
        coverage: Of the sentence, 0 to 1.
        links: The most attended source word of each target word.
        selected: All selected source words of each target word; none where attention is no selection.
    """

    entropies: Float[np.ndarray, "T"]
    support: Float[np.ndarray, "T"]
    right: Bool[np.ndarray, "T"]
    coverage: float
    links: Links
    selected: Links | None = None

    def record(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; time steps in their order, links counted from 0."""
        selected = {} if self.selected is None else {"selected": format_links(self.selected)}
        return selected | {
            "coverage": round(self.coverage, _DIGITS),
            "entropy": [round(value, _DIGITS) for value in self.entropies.tolist()],
            "support": [round(value, _DIGITS) for value in self.support.tolist()],
            "right": self.right.tolist(),
            "links": format_links(self.links),
        }


def look(
    weights: Float[np.ndarray, "T H S"],
    right: Bool[np.ndarray, "T"],
    source_words: Sequence[int],
    target_words: Sequence[int],
    links: Links | None = None,
    selected: Links | None = None,
) -> SentenceAttention:
    """Examine the attention of a sentence under teacher forcing.

    Args:
        weights: Attention of each step, the end symbol's last, to each source token.
        right: Whether the likeliest token of each step was the reference's.
        source_words: The word that each source token is part of, counted from 0; -1 for the sink.
        target_words: The same of the target tokens, without the end symbol.
        links: The links of the words. Default: those of the weights.
        selected: The links of the selected sets, of a selection.
    """
    own = weights[:-1].mean(axis=1)  # (T - 1, S)
    return SentenceAttention(
        entropies=entropy(weights).mean(axis=1),
        support=support(weights).mean(axis=1),
        right=right,
        coverage=coverage(join_words(own, source_words, target_words)),
        links=links_from_weights(own, source_words, target_words) if links is None else links,
        selected=selected,
    )


@dataclass(frozen=True)
class Bins:
    """A histogram, the upper edge of the last bin included.

    Attributes:
        edges: One more than bins, rising.
        counts: What fell into each bin.
        right: How many of them were right; none where nothing can be.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    right: tuple[int, ...] | None = None

    @property
    def shares(self) -> Float[np.ndarray, "N"]:
        """The share of everything that fell into each bin."""
        return np.array(self.counts, dtype=np.float64) / max(sum(self.counts), 1)

    @property
    def accuracy(self) -> Float[np.ndarray, "N"]:
        """The share of each bin that was right; not a number for empty bins."""
        counts = np.array(self.counts, dtype=np.float64)
        right = np.array(self.right or np.zeros(len(counts)), dtype=np.float64)
        return np.divide(right, counts, out=np.full_like(counts, np.nan), where=counts > 0)

    @property
    def interval(self) -> Float[np.ndarray, "N 2"]:
        """The 95 % interval of each bin's accuracy (Wilson 1927), as if steps were independent."""
        counts = np.array(self.counts, dtype=np.float64)
        n, share = np.where(counts > 0, counts, np.nan), self.accuracy
        middle = share + _NORMAL**2 / (2 * n)
        reach = _NORMAL * np.sqrt(share * (1 - share) / n + _NORMAL**2 / (4 * n**2))
        return np.stack([middle - reach, middle + reach], axis=1) / (1 + _NORMAL**2 / n)[:, None]


@dataclass(frozen=True)
class AttentionFigures:
    """One model's attention over a text.

    Attributes:
        sentences: How many.
        steps: How many, end symbols included.
        accuracy: Share of the steps whose likeliest token was the reference's.
        entropy: Mean of the steps, in nats.
        support: Mean of the steps, in tokens.
        coverage: Mean of the sentences, 0 to 1.
        entropies: Steps by their entropy, and how many of them were right.
        coverages: Sentences by their coverage.
        alignment: Of the links against gold links; none without any.
        selection: Of the selected sets against gold links; none where attention is no selection.
    """

    sentences: int
    steps: int
    accuracy: float
    entropy: float
    support: float
    coverage: float
    entropies: Bins
    coverages: Bins
    alignment: AlignmentScore | None = None
    selection: AlignmentScore | None = None

    def record(self) -> dict[str, Any]:
        """Everything, as JSON can hold it; `aer` is 0 for the best, the paper's Table 3 has 1 - AER."""
        score = self.alignment
        single = ("sentences", "steps", "accuracy", "entropy", "support", "coverage")
        figures: dict[str, Any] = {name: getattr(self, name) for name in single}
        if score is not None:
            figures |= {"aer": score.aer, "one_minus_aer": 1 - score.aer}
            figures |= {"precision": score.precision, "recall": score.recall}
        if self.selection is not None:
            figures["selection"] = asdict(self.selection)
        figures["entropies"] = {name: list(value) for name, value in vars(self.entropies).items()}
        figures["coverages"] = {name: list(getattr(self.coverages, name)) for name in ("edges", "counts")}
        return figures

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "AttentionFigures":
        """Read what `record` gave.

        Raises:
            DataError: if it is not one.
        """
        try:
            entropies, coverages = (
                Bins(**{name: tuple(values) for name, values in record[key].items()})
                for key in ("entropies", "coverages")
            )
            single = ("sentences", "steps", "accuracy", "entropy", "support", "coverage")
            score = None
            if "aer" in record:
                score = AlignmentScore(record["precision"], record["recall"], record["aer"])
            figures = {name: record[name] for name in single}
            selection = AlignmentScore(**record["selection"]) if "selection" in record else None
            return cls(
                **figures, entropies=entropies, coverages=coverages, alignment=score, selection=selection
            )
        except (KeyError, TypeError, AttributeError):
            raise DataError("not the figures of a model's attention") from None


def summarise(
    sentences: Sequence[SentenceAttention],
    alignment: AlignmentScore | None = None,
    width: float = 0.2,
    selection: AlignmentScore | None = None,
) -> AttentionFigures:
    """The figures of a text.

    Args:
        sentences: Its sentences.
        alignment: What their links score against gold links.
        width: Of a bin of entropies, in nats.
        selection: What their selected sets score against gold links.

    Raises:
        DataError: if there is no sentence.
    """
    if not sentences:
        raise DataError("attention: no sentence to look at")
    entropies, supports, right = (
        np.concatenate([getattr(one, name) for one in sentences])
        for name in ("entropies", "support", "right")
    )
    covered = np.array([one.coverage for one in sentences])
    bins = max(math.ceil(round(float(entropies.max()) / width, _DIGITS)), 1)
    return AttentionFigures(
        sentences=len(sentences),
        steps=len(right),
        accuracy=float(right.mean()),
        entropy=float(entropies.mean()),
        support=float(supports.mean()),
        coverage=float(covered.mean()),
        entropies=_histogram(entropies, width, bins, right),
        coverages=_histogram(covered, _COVERAGE_BIN, round(1 / _COVERAGE_BIN)),
        alignment=alignment,
        selection=selection,
    )


def score_sentences(
    sentences: Sequence[SentenceAttention | None], gold: Sequence[GoldLinks]
) -> tuple[AlignmentScore, AlignmentScore | None]:
    """Score the links of a text, and its selected sets where all its attention is a selection.

    Args:
        sentences: None for a sentence that was left out: it has no links, and what its gold links ask for is
            missed.
        gold: Gold links of the same sentences.

    Raises:
        DataError: if the numbers of sentences differ.
    """
    links = [frozenset[tuple[int, int]]() if one is None else one.links for one in sentences]
    selected = [frozenset[tuple[int, int]]() if one is None else one.selected for one in sentences]
    whole = [one for one in selected if one is not None]
    sets = alignment_score(whole, gold) if len(whole) == len(selected) else None
    return alignment_score(links, gold), sets


def _histogram(
    values: Float[np.ndarray, "N"], width: float, bins: int, right: Bool[np.ndarray, "N"] | None = None
) -> Bins:
    """Values from 0 on in so many bins of a width."""
    edges = np.round(np.arange(bins + 1) * width, 2 * _DIGITS)
    place = np.searchsorted(edges, np.round(values, _DIGITS), side="right") - 1
    place = place.clip(0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    found = None if right is None else tuple(np.bincount(place[right], minlength=bins).tolist())
    return Bins(tuple(edges.tolist()), tuple(counts.tolist()), found)
