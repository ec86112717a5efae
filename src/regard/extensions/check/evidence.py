"""Evidence of a word aligner about the words of a text: is a word linked to a word of the other side?

Good translations leave many function words unlinked and link others weakly, so each statistic of a word is
compared with the mean and the deviation of the same word in good translations. Both directions of the
aligner are used. For a source word j, the direction that links each target word t to a source word leaves j
unlinked with probability prod_t (1 - p(t -> j)); the direction that links j itself leaves it unlinked with
probability 1 - sum_t p(j -> t). An aligner links a word whose translation is missing to some other word, so
the strength of links in the training text is a statistic as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from regard.alignment import Corpus, TrainingSetup, train_both
from regard.alignment.corpus import UNKNOWN
from regard.alignment.em import EMAligner
from regard.alignment.hmm import HMMConfig
from regard.extensions.check.base import WordPair, blocks
from regard.extensions.check.evidence_kernels import NUM_LINK_STATISTICS, collect_statistics
from regard.extensions.check.posteriors import (
    LINK_THRESHOLD,
    LinkCounts,
    TextAligner,
    TextLinker,
    TextPosteriors,
    TextWords,
    stem,
)
from regard.extensions.check.surface import prefix_similarity

STATISTICS = (
    "unlinked",
    "other",
    "own",
    "mutual",
    "mutual_known",
    "translation",
    "reverse",
    "dice",
    "linked_dice",
    "linked_translation",
    "linked_reverse",
    "shared",
)
"""The statistics of each word.

`other` and `own` are the probabilities of no link in each direction, `unlinked` is their geometric mean.
`mutual` is 1 minus the geometric mean of both directions for the best link, `mutual_known` the same with
links weighted by whether the training text has them. `translation`, `reverse` and `dice` are logarithms of
the largest p(t | s), p(s | t) and Dice coefficient of the word with any word of the other side, wherever it
stands, and `linked_...` of those with the linked words. `shared` is the part of the linked words that other
words are linked to. An encoder has no counts: its `translation` is the largest cosine.
"""
_NUM_CLASSES = 14
"""Classes of words by the logarithm of their frequency. The first one is that of unknown words."""

_SAMPLE = 20_000  # pairs of the training text from which link counts are estimated
_NORM_SAMPLE = 8_000  # pairs of them from which norms are estimated
_SMOOTHING = 8.0  # occurrences that the class of a word counts for
_CLASS_SMOOTHING = 10.0


@dataclass(frozen=True)
class SideEvidence:
    """Evidence about all words of one side of a text, one after the other.

    Attributes:
        offsets: Start of each sentence, and the end of the last one.
        numbers: The numbers of the words.
        statistics: [N, 12], the columns are `STATISTICS`.
        frequency: Logarithm of the number of occurrences in the training text plus 1.
        known: Whether the word is in the vocabulary of the aligner.
        word: Whether it is a word rather than a punctuation mark.
        copied: Similarity of the word to a word of the other side: 1 for the same word, such as a name or a
            number, and the share of a common beginning for a word that is not in the vocabulary.
        position: Position of the best linked word in the other sentence, -1 without a probable link.
        characters: Number of characters.
        other_offsets: Start of each sentence of the other side, and the end of the last one.
        other_unlinked: Probability that each word of the other side has no link.
        other_characters: Number of characters of each word of the other side.
    """

    offsets: Int[np.ndarray, "P+1"]
    numbers: Int[np.ndarray, "N"]
    statistics: Float[np.ndarray, "N 12"]
    frequency: Float[np.ndarray, "N"]
    known: Float[np.ndarray, "N"]
    word: Float[np.ndarray, "N"]
    copied: Float[np.ndarray, "N"]
    position: Float[np.ndarray, "N"]
    characters: Float[np.ndarray, "N"]
    other_offsets: Int[np.ndarray, "P+1"]
    other_unlinked: Float[np.ndarray, "M"]
    other_characters: Float[np.ndarray, "M"]

    def column(self, name: str) -> Float[np.ndarray, "N"]:
        """Return a statistic of all words."""
        return self.statistics[:, STATISTICS.index(name)]

    @property
    def sentence(self) -> Int[np.ndarray, "N"]:
        """The number of the sentence of each word."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def _lookup(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the value of each word, 0 for unknown words."""
    if not len(values):
        return np.zeros(len(numbers))
    return np.where(numbers == UNKNOWN, 0.0, values[numbers])


@dataclass(frozen=True)
class WordNorms:
    """Mean and standard deviation of the statistics of each word of one side in good translations.

    Attributes:
        occurrences: Number of occurrences of each word in the training text, which gives its class.
        means: Mean of each word, smoothed by that of its class.
        deviations: Standard deviation of each word, smoothed by that of its class.
        unknown: [2, 12], mean and standard deviation of unknown words.
    """

    occurrences: Float[np.ndarray, "V"]
    means: Float[np.ndarray, "V 12"]
    deviations: Float[np.ndarray, "V 12"]
    unknown: Float[np.ndarray, "2 12"]

    @classmethod
    def estimate(cls, evidence: Sequence[SideEvidence], occurrences: np.ndarray) -> Self:
        """Estimate the norms.

        Args:
            evidence: Evidence of the training text and of other text. An aligner links rare words of its
                training text too confidently, so both are needed.
            occurrences: Number of occurrences of each word in the training text.
        """
        numbers = np.concatenate([side.numbers for side in evidence])
        values = np.concatenate([side.statistics for side in evidence])
        overall = values.mean(axis=0), values.var(axis=0)
        prior = np.minimum(1 + np.log2(np.maximum(occurrences, 1)), _NUM_CLASSES - 1).astype(np.int64)
        classes = np.where(numbers == UNKNOWN, 0, _lookup(prior, numbers).astype(np.int64))
        means, variances = _moments(classes, values, _NUM_CLASSES, overall, _CLASS_SMOOTHING)
        known = numbers != UNKNOWN
        of_words = _moments(
            numbers[known], values[known], len(occurrences), (means[prior], variances[prior]), _SMOOTHING
        )
        unknown = np.stack([means[0], np.sqrt(variances[0])])
        return cls(occurrences, of_words[0], np.sqrt(of_words[1]), unknown)

    def of(self, numbers: Int[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the statistics of each word, both [N, 12]."""
        if not len(self.means):
            return np.tile(self.unknown[0], (len(numbers), 1)), np.tile(self.unknown[1], (len(numbers), 1))
        missing, mean, deviation = numbers == UNKNOWN, self.means[numbers], self.deviations[numbers]
        mean[missing], deviation[missing] = self.unknown
        return mean, deviation


def _moments(
    groups: np.ndarray, values: np.ndarray, size: int, prior: tuple[np.ndarray, np.ndarray], weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each group, smoothed by `weight` observations of the prior."""
    count = np.bincount(groups, minlength=size)[:, None] + weight

    def summed(columns: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(groups, weights=column, minlength=size) for column in columns.T], axis=1)

    mean = (summed(values) + weight * prior[0]) / count
    return mean, (summed((values - mean[groups]) ** 2) + weight * prior[1]) / count


def _copied(
    table: TextPosteriors, side: int, statistics: Float[np.ndarray, "N 15"]
) -> Float[np.ndarray, "N"]:
    """Return for each word of a side its similarity to a word of the other side, from 0 to 1."""
    words = table.words
    own, other = words.numbers[side], words.numbers[1 - side]
    copied = statistics[:, NUM_LINK_STATISTICS + 1] * words.is_word[own]
    # Only unknown words are compared by their beginning: for the others, the aligner has evidence.
    is_compared = (table.numbers[side] == UNKNOWN) & (copied == 0) & words.is_word[own]
    places = np.flatnonzero(is_compared & (statistics[:, NUM_LINK_STATISTICS + 2] > 0))
    rows = np.searchsorted(words.offsets[side], places, side="right") - 1
    for place, row in zip(places.tolist(), rows.tolist(), strict=True):
        others = other[words.offsets[1 - side][row] : words.offsets[1 - side][row + 1]]
        copied[place] = prefix_similarity(words.forms[own[place]], {words.forms[n] for n in others.tolist()})
    return copied


@dataclass(frozen=True)
class Evidence:
    """The evidence of an aligner about a text.

    Attributes:
        table: The words and their link probabilities.
        source: Evidence about the source words.
        target: Evidence about the target words.
    """

    table: TextPosteriors
    source: SideEvidence
    target: SideEvidence


@dataclass(frozen=True)
class LinkModel:
    """A word aligner or encoder with the statistics of its links in good translations.

    Attributes:
        aligner: The word aligner or encoder.
        counts: How often words are linked in the training text.
        norms: The statistics of the words of the source and of the target side.
    """

    aligner: TextLinker
    counts: LinkCounts
    norms: tuple[WordNorms, WordNorms]

    @classmethod
    def train(
        cls,
        training: Sequence[WordPair],
        held_out: Sequence[WordPair],
        setup: TrainingSetup,
        stem_length: int | None = None,
    ) -> Self:
        """Train an aligner and estimate the statistics of its links.

        Args:
            training: Good translations.
            held_out: Good translations that the aligner does not see. It links the rare words of its training
                text too confidently, so the norms are estimated from both.
            setup: Random seed and number of threads of its training.
            stem_length: Number of characters of each word that are compared; None compares whole words.
        """

        def tokens(pair: WordPair) -> Sequence[Sequence[str]]:
            if stem_length is None:
                return pair.folded
            return [[stem(word, stem_length) for word in side] for side in pair.folded]

        # The HMM takes a quarter of the time of the Bayesian aligner.
        aligner = train_both(Corpus.from_tokens(map(tokens, training)), HMMConfig(), setup, lowercase=True)
        for direction in (aligner.forward, aligner.backward):
            if isinstance(direction, EMAligner):
                direction.compact()
        return cls.estimate(TextAligner(aligner, stem_length), training, held_out, setup.num_threads)

    @classmethod
    def estimate(
        cls, aligner: TextLinker, training: Sequence[WordPair], held_out: Sequence[WordPair], num_threads: int
    ) -> Self:
        """Estimate the statistics of the links of a trained aligner or encoder; see `train`."""

        def tables(pairs: Sequence[WordPair]) -> Iterator[TextPosteriors]:
            return (aligner.posteriors(TextWords.of(block), num_threads) for block in blocks(pairs))

        # The counts and norms of frequent words converge with a part of the text, which saves time.
        sample = training[:: max(1, len(training) // _SAMPLE)]
        source_words, target_words = aligner.vocabularies
        counts = LinkCounts.estimate(tables(sample), (len(source_words), len(target_words)))
        sample = [*sample[:: max(1, len(sample) // _NORM_SAMPLE)], *held_out]
        collected = (_collect(table, counts) for table in tables(sample))
        # Without the table of each block, which is large.
        sides = zip(*((each.source, each.target) for each in collected), strict=True)
        source, target = map(WordNorms.estimate, sides, counts.occurrences)
        return cls(aligner, counts, (source, target))

    def collect(self, words: TextWords, num_threads: int = 0) -> Evidence:
        """Return the evidence about a text."""
        return _collect(self.aligner.posteriors(words, num_threads), self.counts)


def _collect(table: TextPosteriors, counts: LinkCounts) -> Evidence:
    words, numbers = table.words, table.numbers
    statistics = [np.zeros((len(side), NUM_LINK_STATISTICS + 3), np.float32) for side in numbers]
    arrays = *words.offsets, *numbers, table.cells, table.forward, table.backward
    beginnings = words.beginnings[words.numbers[0]], words.beginnings[words.numbers[1]]
    link_counts = counts.rows, counts.keys, counts.counts, *counts.occurrences
    collect_statistics(arrays, (words.numbers, beginnings), link_counts, LINK_THRESHOLD, *statistics)
    unlinked = [side[:, STATISTICS.index("other")].copy() for side in statistics]
    sides = []
    for side, other in ((0, 1), (1, 0)):
        copied = _copied(table, side, statistics[side])
        statistics[side][:, 0] *= 1 - copied
        if table.word_similarity is not None:
            statistics[side][:, STATISTICS.index("translation")] = table.word_similarity[side]
        sides.append(
            SideEvidence(
                words.offsets[side],
                numbers[side],
                statistics[side][:, :NUM_LINK_STATISTICS],
                np.log1p(_lookup(counts.occurrences[side], numbers[side])).astype(np.float32),
                (numbers[side] != UNKNOWN).astype(np.float32),
                words.is_word[words.numbers[side]].astype(np.float32),
                copied,
                statistics[side][:, NUM_LINK_STATISTICS],
                words.characters[words.numbers[side]],
                words.offsets[other],
                unlinked[other],
                words.characters[words.numbers[other]],
            )
        )
    return Evidence(table, *sides)
