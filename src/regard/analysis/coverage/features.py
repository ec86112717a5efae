"""Features of words and sentences, from which coverage errors are predicted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from regard.analysis.coverage.evidence import PairLinks, SideEvidence
from regard.analysis.coverage.text import WordPair
from regard.types import Float, Int

__all__ = [
    "NUM_REPETITION_FEATURES",
    "LengthModel",
    "repetition_features",
    "repetition_sentence_features",
    "sentence_features",
    "word_features",
]

_MAX_NGRAM = 4
NUM_REPETITION_FEATURES = 10
_CONTEXT = (-2, -1, 1, 2)
_EXCESS_THRESHOLD = 0.1
_LOG_RATIO_THRESHOLD = 0.5


@dataclass(frozen=True)
class LengthModel:
    """The logarithm of the length of a translation, as a linear function of that of its source.

    Attributes:
        slope: The slope.
        intercept: The intercept.
        deviation: Standard deviation of the residuals.
    """

    slope: float
    intercept: float
    deviation: float

    @classmethod
    def fit(cls, pairs: Sequence[WordPair]) -> Self:
        """Fit the function to good translations, by least squares."""
        source, target = _log_lengths(pairs)
        variance = float(source.var())
        covariance = float(((source - source.mean()) * (target - target.mean())).mean())
        slope = covariance / variance if variance > 1e-9 else 1.0
        intercept = float(target.mean() - slope * source.mean())
        return cls(slope, intercept, max(float((target - slope * source - intercept).std()), 0.05))

    def excess(self, pairs: Sequence[WordPair]) -> Float[np.ndarray, "P"]:
        """Return the excess length of each translation over the expected one, in standard deviations."""
        source, target = _log_lengths(pairs)
        return (target - self.slope * source - self.intercept) / self.deviation


def _log_lengths(pairs: Sequence[WordPair]) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of the numbers of characters, which vary less than those of words."""
    sides = [[sum(map(len, words)) + 1 for words in (pair.source, pair.target)] for pair in pairs]
    lengths = np.log(np.array(sides, dtype=np.float64).reshape(-1, 2))
    return lengths[:, 0], lengths[:, 1]


def word_features(evidence: SideEvidence, length_excess: Float[np.ndarray, "P"]) -> Float[np.ndarray, "N F"]:
    """Return the features of each word of one side: its own evidence, its neighbors', the sentence's.

    Args:
        evidence: Evidence about the side.
        length_excess: Length of each translation, see `LengthModel.excess`.
    """
    unlinked, excess, ratio = evidence.unlinked, evidence.excess, evidence.log_ratio
    surprisal = evidence.surprisal
    lengths = np.diff(evidence.offsets)
    own = [
        unlinked,
        evidence.other,
        evidence.own,
        evidence.mutual,
        excess,
        ratio,
        surprisal,
        evidence.rate,
        evidence.known,
        evidence.copied,
        evidence.known * ratio,
    ]
    around = [
        _shifted(values, evidence.offsets, step)
        for step in _CONTEXT
        for values in (excess, ratio, surprisal, evidence.mutual)
    ]
    sums = [_per_sentence(values, evidence.offsets) for values in (unlinked, excess, ratio, surprisal)]
    means = [np.repeat(values / np.maximum(lengths, 1), lengths) for values in sums]
    return np.stack([*own, *around, *means, np.repeat(length_excess, lengths)], axis=1)


def _shifted(values: np.ndarray, offsets: Int[np.ndarray, "P+1"], step: int) -> np.ndarray:
    """Return the value of the word `step` positions to the right, 0 beyond the sentence."""
    # A neighbor in the flat array may belong to another sentence, and counts as absent.
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    index = np.arange(len(values)) + step
    inside = (index >= 0) & (index < len(values))
    index = np.clip(index, 0, max(len(values) - 1, 0))
    if not len(values):
        return values
    return np.where(inside & (sentence[index] == sentence), values[index], 0.0)


def _per_sentence(values: np.ndarray, offsets: Int[np.ndarray, "P+1"]) -> np.ndarray:
    """Return the sum over each sentence."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return total[offsets[1:]] - total[offsets[:-1]]


def sentence_features(
    evidence: SideEvidence,
    words: Float[np.ndarray, "N"],
    length_excess: Float[np.ndarray, "P"],
) -> Float[np.ndarray, "P F"]:
    """Return the features of each sentence for omissions in the source, or additions in the translation.

    Args:
        evidence: Evidence about the side.
        words: Log-odds of an error of each word.
        length_excess: Length of each translation.
    """
    offsets = evidence.offsets
    columns = (
        evidence.unlinked,
        evidence.excess,
        evidence.log_ratio,
        evidence.surprisal,
        words,
        evidence.mutual,
    )
    values = np.stack([*columns, evidence.known, evidence.copied])
    rows = [_sentence(values[:, first:last]) for first, last in pairwise(offsets.tolist())]
    # An empty list would give one dimension, so the shape is explicit.
    table = np.array(rows, dtype=np.float64).reshape(len(rows), _NUM_SENTENCE_FEATURES)
    z = length_excess[:, None]
    return np.concatenate([table, z, np.maximum(z, 0), np.maximum(-z, 0)], axis=1)


_NUM_SENTENCE_FEATURES = 20


def _sentence(values: Float[np.ndarray, "8 n"]) -> list[float]:
    """Return the features of one sentence: means, maxima and the best runs of neighboring words."""
    unlinked, excess, ratio, surprisal, words, mutual, known, copied = values
    if not len(unlinked):
        return [0.0] * _NUM_SENTENCE_FEATURES
    probability = 1 / (1 + np.exp(-words))
    top = np.sort(words)[-3:]
    return [
        unlinked.mean(),
        unlinked.max(),
        excess.mean(),
        excess.max(),
        best_run(excess - _EXCESS_THRESHOLD),
        ratio.max(),
        float(np.maximum(ratio, 0).sum()),
        best_run(ratio - _LOG_RATIO_THRESHOLD),
        surprisal.sum(),
        surprisal.max(),
        best_run(surprisal - _LOG_RATIO_THRESHOLD),
        words.max(),
        top.mean(),
        float(np.log1p(-np.minimum(probability, 1 - 1e-9)).sum()),
        probability.sum(),
        best_run(words),
        mutual.mean(),
        mutual.max(),
        1 - known.mean(),
        copied.mean(),
    ]


def best_run(values: Float[np.ndarray, "N"]) -> float:
    """Return the largest sum of neighboring values, at least 0."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return float((total - np.minimum.accumulate(total)).max())


def repetition_features(pair: WordPair, links: PairLinks) -> Float[np.ndarray, "T F"]:
    """Return the features of each target word for repetitions.

    A repetition that the source has as well is linked to two source words; one that it has not is linked to
    the same source word twice, or to nothing.
    """
    words = pair.folded[1]
    table = np.zeros((len(words), NUM_REPETITION_FEATURES))
    table[:, 7:] = links.unlinked_target().T
    places: dict[str, list[int]] = {}
    repeated = _repeated_ngrams(words)
    source_counts = Counter(pair.folded[0])
    for t, word in enumerate(words):
        earlier = places.setdefault(word, [])
        table[t, 0] = repeated[t] / _MAX_NGRAM
        if earlier and word.isalnum():
            # The overlap is large if both occurrences are linked to the same source word.
            overlap = (links.forward[earlier] @ links.forward[t]).max()
            table[t, 1:7] = (
                1.0,
                float(t - earlier[-1] == 1),
                overlap,
                overlap * repeated[t] / _MAX_NGRAM,
                float(source_counts[word] > len(earlier)),
                1.0 / (t - earlier[-1]),
            )
        earlier.append(t)
    return table


def _repeated_ngrams(words: Sequence[str]) -> list[int]:
    """Return for each word the size of the longest n-gram around it that occurs before, without overlap."""
    longest = [0] * len(words)
    for size in range(1, _MAX_NGRAM + 1):
        first: dict[tuple[str, ...], int] = {}
        for start in range(len(words) - size + 1):
            ngram = tuple(words[start : start + size])
            seen = first.setdefault(ngram, start)
            # Overlap is excluded, because "a a a" does not repeat the bigram "a a".
            if seen + size <= start and any(word.isalnum() for word in ngram):
                for t in range(start, start + size):
                    longest[t] = size
    return longest


def repetition_sentence_features(
    pair: WordPair, table: Float[np.ndarray, "T F"], words: Float[np.ndarray, "T"], length_excess: float
) -> list[float]:
    """Return the features of a sentence for repetitions.

    Args:
        pair: The words.
        table: The features of the target words.
        words: Log-odds of a repetition of each target word.
        length_excess: Length of the translation.
    """
    if not len(words):
        return [0.0] * 10
    source, target = pair.folded
    probability = 1 / (1 + np.exp(-words))
    # A repetition that the source has as well is no error, so its count is subtracted.
    doubles = _doubles(target) - _doubles(source)
    bigrams = _repeats(target) - _repeats(source)
    return [
        words.max(),
        float(np.log1p(-np.minimum(probability, 1 - 1e-9)).sum()),
        probability.sum(),
        best_run(words),
        float(doubles),
        float(bigrams),
        table[:, 0].max(),
        table[:, 4].max(),
        1 - len(set(target)) / len(target),
        length_excess,
    ]


def _doubles(words: Sequence[str]) -> int:
    return sum(a == b and a.isalnum() for a, b in pairwise(words))


def _repeats(words: Sequence[str]) -> int:
    counts = Counter(pairwise(words))
    return sum(count - 1 for count in counts.values())
