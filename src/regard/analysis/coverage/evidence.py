"""Evidence of a word aligner about one side of a text: the probability that a word is linked to nothing.

Good translations leave many function words unlinked, so the evidence of a word is compared with its own rate
in the training text. Both directions of the aligner are used. For a source word j, the direction that links
each target word t to a source word leaves j unlinked with probability prod_t (1 - p(t -> j)); the direction
that links j itself leaves it unlinked with probability 1 - sum_t p(j -> t).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN, WordList
from regard.analysis.coverage.text import WordPair
from regard.types import Float, Int

__all__ = ["PairLinks", "SideEvidence", "UnlinkedRates", "link_probabilities"]

_SMOOTHING = 5.0  # occurrences that the rate of a frequency class counts for
_CLASSES = 12  # classes of words by the logarithm of their frequency; the first one is that of unknown words
_EPSILON = 1e-3
_MIN_PREFIX = 4  # characters that two similar words share at least


@dataclass(frozen=True)
class PairLinks:
    """Link probabilities of a sentence pair.

    Attributes:
        forward: p(t -> s), for each target word the distribution over source words; its rest is no link.
        backward: p(s -> t), for each source word the distribution over target words.
    """

    forward: Float[np.ndarray, "T S"]
    backward: Float[np.ndarray, "T S"]

    def unlinked_source(self) -> Float[np.ndarray, "3 S"]:
        """Return for each source word the probability of no link: see `SideEvidence`."""
        return _unlinked(self.forward, self.backward)

    def unlinked_target(self) -> Float[np.ndarray, "3 T"]:
        """Return for each target word the probability of no link: see `SideEvidence`."""
        return _unlinked(self.backward.T, self.forward.T)


def _unlinked(other: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the three probabilities of no link for the words of the columns of [rows, columns]."""
    if not len(other):
        return np.ones((3, other.shape[1]))
    # The products of both directions: a link that only one direction finds probable counts little.
    mutual = 1 - np.sqrt((other * own).max(axis=0))
    return np.stack([np.prod(1 - other, axis=0), np.maximum(1 - own.sum(axis=0), 0.0), mutual])


def link_probabilities(
    aligner: WordAligner, pairs: Sequence[WordPair], num_threads: int = 0
) -> list[PairLinks]:
    """Return the link probabilities of pairs, whose words are compared without case."""
    # Empty sides are allowed here, because an empty translation is an error to detect.
    corpus = Corpus.from_tokens((pair.folded for pair in pairs), aligner.words, allow_empty=True)
    forward = aligner.posteriors(corpus, "forward", num_threads)
    backward = aligner.posteriors(corpus, "backward", num_threads)
    return [
        PairLinks(np.clip(one, 0, 1), np.clip(other, 0, 1))
        for one, other in zip(forward, backward, strict=True)
    ]


@dataclass(frozen=True)
class UnlinkedRates:
    """How often each word of one side is unlinked in good translations.

    Attributes:
        words: The words of the aligner.
        rates: Rate of each word, smoothed by the rate of the words of similar frequency.
        class_rates: Rate by frequency class. The first class is that of unknown words.
    """

    words: WordList
    rates: Float[np.ndarray, "V"]
    class_rates: Float[np.ndarray, "C"]

    @classmethod
    def estimate(
        cls,
        words: WordList,
        training: tuple[Int[np.ndarray, "N"], Float[np.ndarray, "N"]],
        held_out: tuple[Int[np.ndarray, "M"], Float[np.ndarray, "M"]],
    ) -> Self:
        """Estimate the rates from the numbers of words and their probabilities of no link.

        Args:
            words: The words of the aligner.
            training: Words of the text that the aligner was trained on. An aligner links rare words of this
                text too confidently, so the rates of classes are estimated from the other text.
            held_out: Words of other text.
        """
        numbers, unlinked = training
        counts = np.bincount(numbers, minlength=len(words)).astype(np.float64)
        sums = np.bincount(numbers, weights=unlinked, minlength=len(words))
        others, other_unlinked = held_out
        # Classes depend on the frequency in the text of the aligner, where words got their links.
        classes = np.where(others == UNKNOWN, 0, _frequency_class(counts)[others])
        overall = other_unlinked.mean() if len(other_unlinked) else 0.1
        class_counts = np.bincount(classes, minlength=_CLASSES)
        class_sums = np.bincount(classes, weights=other_unlinked, minlength=_CLASSES)
        class_rates = (class_sums + _SMOOTHING * overall) / (class_counts + _SMOOTHING)
        known = others != UNKNOWN
        counts_all = counts + np.bincount(others[known], minlength=len(words))
        sums_all = sums + np.bincount(others[known], weights=other_unlinked[known], minlength=len(words))
        # A rare word keeps nearly the rate of its class, because its own counts are unreliable.
        prior = class_rates[_frequency_class(counts)]
        return cls(words, (sums_all + _SMOOTHING * prior) / (counts_all + _SMOOTHING), class_rates)

    def of(self, numbers: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """Return the rate of each word, by its number."""
        # `np.where` evaluates both branches, and an empty vocabulary cannot be indexed.
        if not len(self.rates):
            return np.full(len(numbers), self.class_rates[0])
        return np.where(numbers == UNKNOWN, self.class_rates[0], self.rates[numbers])


def _frequency_class(counts: np.ndarray) -> np.ndarray:
    return np.minimum(1 + np.log2(np.maximum(counts, 1)), _CLASSES - 1).astype(np.int64)


@dataclass(frozen=True)
class SideEvidence:
    """Evidence about all words of one side of a text, one after the other.

    Attributes:
        offsets: Start of each sentence, and the end of the last one.
        other: Probability of no link if the words of the other side choose their links.
        own: Probability of no link if the words of this side choose their links.
        mutual: 1 minus the geometric mean of both directions for the best link of the word.
        rate: Rate at which the word is unlinked in good translations.
        known: Whether the word is in the vocabulary of the aligner.
        copied: Similarity of the word to a word of the other side: 1 for the same word, such as a name or a
            number, and the share of a common beginning for a word that is not in the vocabulary.
    """

    offsets: Int[np.ndarray, "P+1"]
    other: Float[np.ndarray, "N"]
    own: Float[np.ndarray, "N"]
    mutual: Float[np.ndarray, "N"]
    rate: Float[np.ndarray, "N"]
    known: Float[np.ndarray, "N"]
    copied: Float[np.ndarray, "N"]

    @classmethod
    def collect(
        cls,
        pairs: Sequence[WordPair],
        unlinked: Iterable[Float[np.ndarray, "3 _"]],
        rates: UnlinkedRates,
    ) -> Self:
        """Collect the evidence about the source side of pairs.

        Args:
            pairs: The pairs, swapped to collect the evidence about their translations.
            unlinked: For each pair, the three probabilities of no link.
            rates: The rates of the side.
        """
        numbers = [rates.words.numbers(pair.folded[0]) for pair in pairs]
        lengths = np.array([len(own) for own in numbers], dtype=np.int64)
        flat = np.fromiter((number for own in numbers for number in own), np.int64, int(lengths.sum()))
        # The empty array lets the concatenation succeed on a text without sentences.
        columns = [np.empty((3, 0)), *unlinked]
        other, own, mutual = np.concatenate(columns, axis=1).astype(np.float64)
        copied = [_copied(*pair.folded, own) for pair, own in zip(pairs, numbers, strict=True)]
        return cls(
            np.concatenate([[0], np.cumsum(lengths)]),
            other,
            own,
            mutual,
            rates.of(flat),
            (flat != UNKNOWN).astype(np.float64),
            np.array([value for values in copied for value in values], dtype=np.float64),
        )

    @property
    def unlinked(self) -> Float[np.ndarray, "N"]:
        """The probability that the word has no link, as the geometric mean of both directions."""
        return np.sqrt(self.other * self.own) * (1 - self.copied)

    @property
    def excess(self) -> Float[np.ndarray, "N"]:
        """The probability of no link, minus the rate of the word."""
        return self.unlinked - self.rate

    @property
    def log_ratio(self) -> Float[np.ndarray, "N"]:
        """The logarithm of the probability of no link, relative to the rate of the word."""
        return np.log((self.unlinked + _EPSILON) / (self.rate + _EPSILON))

    @property
    def surprisal(self) -> Float[np.ndarray, "N"]:
        """The probability of no link, weighted by the information in nats that the word is unlinked."""
        return -np.log(self.rate + 0.02) * self.unlinked


def _copied(words: Sequence[str], others: Sequence[str], numbers: Sequence[int]) -> list[float]:
    """Return for each word its similarity to a word of the other side, from 0 to 1."""
    # Only unknown words are compared by their beginning: for the others, the aligner has evidence.
    there = set(others)
    return [
        (1.0 if word in there else _similarity(word, there) if number == UNKNOWN else 0.0)
        if word.isalnum()
        else 0.0
        for word, number in zip(words, numbers, strict=True)
    ]


def _similarity(word: str, others: Iterable[str]) -> float:
    """Return the largest share of a common beginning of a word and others, 0 below four characters."""
    best = 0.0
    for other in others:
        if other[:_MIN_PREFIX] != word[:_MIN_PREFIX] or min(len(word), len(other)) < _MIN_PREFIX:
            continue
        shared = next(
            (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b),
            min(len(word), len(other)),
        )
        best = max(best, shared / max(len(word), len(other)))
    return best
