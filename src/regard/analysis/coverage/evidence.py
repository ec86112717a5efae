"""Evidence of a word aligner about the words of a text: is a word linked to a word of the other side?

Good translations leave many function words unlinked and link others weakly, so each statistic of a word is
compared with the mean and the deviation of the same word in good translations. Both directions of the
aligner are used. For a source word j, the direction that links each target word t to a source word leaves j
unlinked with probability prod_t (1 - p(t -> j)); the direction that links j itself leaves it unlinked with
probability 1 - sum_t p(j -> t). An aligner links a word whose translation is missing to some other word, so
the strength of links in the training text is a statistic as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN
from regard.analysis.coverage.text import WordPair
from regard.data.links import Links
from regard.types import Float, Int

__all__ = ["NUM_CLASSES", "STATISTICS", "LinkCounts", "SideEvidence", "TextPosteriors", "WordNorms"]

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
words are linked to.
"""
NUM_CLASSES = 14
"""Classes of words by the logarithm of their frequency. The first one is that of unknown words."""

_MIN_LINK = 0.05
_LINK_THRESHOLD = 0.3
_SMOOTHING = 8.0  # occurrences that the class of a word counts for
_CLASS_SMOOTHING = 10.0
_MIN_PROBABILITY = 1e-4
_MIN_PREFIX = 4  # characters that two similar words share at least


@dataclass(frozen=True)
class TextPosteriors:
    """Link probabilities of all pairs of a text. A cell is a source word and a target word of the same pair.

    Attributes:
        pairs: The words.
        offsets: For each side, the start of each sentence among all words, and the end of the last one.
        numbers: For each side, the numbers of all words in the vocabulary of the aligner.
        words: For each side, the word of each cell, counted over the text. The source word varies slowest.
        forward: p(t -> s) of each cell: the target word is linked to the source word.
        backward: p(s -> t) of each cell: the source word is linked to the target word.
    """

    pairs: Sequence[WordPair]
    offsets: tuple[Int[np.ndarray, "P+1"], Int[np.ndarray, "P+1"]]
    numbers: tuple[Int[np.ndarray, "N"], Int[np.ndarray, "M"]]
    words: tuple[Int[np.ndarray, "K"], Int[np.ndarray, "K"]]
    forward: Float[np.ndarray, "K"]
    backward: Float[np.ndarray, "K"]

    @classmethod
    def of(cls, aligner: WordAligner, pairs: Sequence[WordPair], num_threads: int = 0) -> Self:
        """Return the link probabilities of pairs, whose words are compared without case.

        Args:
            aligner: The aligner, with both directions.
            pairs: The pairs. Empty sides are allowed, because an empty translation is an error to detect.
            num_threads: Number of threads; 0 uses all processors.
        """
        corpus = Corpus.from_tokens((pair.folded for pair in pairs), aligner.words, allow_empty=True)
        forward = _flat(aligner.posteriors(corpus, "forward", num_threads))
        backward = _flat(aligner.posteriors(corpus, "backward", num_threads))
        source, target = (
            np.array([len(side) for side in sides], dtype=np.int64)
            for sides in ([pair.source for pair in pairs], [pair.target for pair in pairs])
        )
        offsets = _starts(source), _starts(target)
        cells = source * target
        pair = np.repeat(np.arange(len(pairs)), cells)
        within = np.arange(len(pair)) - _starts(cells)[pair]
        # Pairs with an empty side have no cells, so the length is never 0 here.
        words = offsets[0][pair] + within // target[pair], offsets[1][pair] + within % target[pair]
        numbers = tuple(text.tokens.astype(np.int64) for text in (corpus.source, corpus.target))
        return cls(pairs, offsets, (numbers[0], numbers[1]), words, forward, backward)

    @cached_property
    def mutual(self) -> Float[np.ndarray, "K"]:
        """The geometric mean of both directions: a link that only one finds probable counts little."""
        return np.sqrt(self.forward * self.backward)

    @cached_property
    def swap_order(self) -> Int[np.ndarray, "K"]:
        """The cells in the order of the swapped table, in which the target word varies slowest."""
        return np.argsort(self.words[1], kind="stable")

    def swapped(self) -> "TextPosteriors":
        """Return the table in the other direction."""
        order = self.swap_order
        return TextPosteriors(
            [pair.swapped() for pair in self.pairs],
            (self.offsets[1], self.offsets[0]),
            (self.numbers[1], self.numbers[0]),
            (self.words[1][order], self.words[0][order]),
            self.backward[order],
            self.forward[order],
        )

    @cached_property
    def cell_offsets(self) -> Int[np.ndarray, "P+1"]:
        """Start of the cells of each pair, and the end of the last one."""
        return _starts(np.diff(self.offsets[0]) * np.diff(self.offsets[1]))

    def best_links(self) -> list[Links]:
        """Return for each pair the links that both directions find probable (geometric mean at least 0.3)."""
        source, target = self.words
        found: list[set[tuple[int, int]]] = [set() for _ in self.pairs]
        chosen = np.flatnonzero(self.mutual >= _LINK_THRESHOLD)
        pair = np.searchsorted(self.offsets[0], source[chosen], side="right") - 1
        first, second = source[chosen] - self.offsets[0][pair], target[chosen] - self.offsets[1][pair]
        for row, i, j in zip(pair.tolist(), first.tolist(), second.tolist(), strict=True):
            found[row].add((i, j))
        return [frozenset(links) for links in found]


def _flat(matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Return the cells of [T, S] matrices, with the source word varying slowest."""
    flat = [np.ascontiguousarray(one.T).ravel() for one in matrices]
    return np.clip(np.concatenate(flat).astype(np.float64), 0, 1) if flat else np.empty(0)


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True)
class LinkCounts:
    """How often words are linked in the training text.

    Attributes:
        keys: The linked word pairs in ascending order, as source number * size of the target vocabulary
            + target number.
        counts: Expected number of links of each of them.
        occurrences: For each side, the number of occurrences of each word.
    """

    keys: Int[np.ndarray, "L"]
    counts: Float[np.ndarray, "L"]
    occurrences: tuple[Float[np.ndarray, "V"], Float[np.ndarray, "W"]]

    @classmethod
    def estimate(cls, table: TextPosteriors, sizes: tuple[int, int]) -> Self:
        """Count the links of good translations.

        Args:
            table: Their link probabilities.
            sizes: Sizes of the vocabularies.
        """
        source, target = (own[index] for own, index in zip(table.numbers, table.words, strict=True))
        kept = (table.mutual > _MIN_LINK) & (source != UNKNOWN) & (target != UNKNOWN)
        keys, inverse = np.unique(source[kept] * sizes[1] + target[kept], return_inverse=True)
        counts = np.bincount(inverse, weights=table.mutual[kept], minlength=len(keys))
        occurrences = tuple(
            np.bincount(numbers[numbers != UNKNOWN], minlength=size).astype(np.float64)
            for numbers, size in zip(table.numbers, sizes, strict=True)
        )
        return cls(keys, counts, (occurrences[0], occurrences[1]))

    def of_cells(self, table: TextPosteriors) -> Float[np.ndarray, "K"]:
        """Return the number of links of the words of each cell of a table that is not swapped."""
        return self.of(*(own[index] for own, index in zip(table.numbers, table.words, strict=True)))

    def of(self, source: np.ndarray, target: np.ndarray) -> Float[np.ndarray, "K"]:
        """Return the number of links of each pair of words, by their numbers."""
        if not len(self.keys):
            return np.zeros(len(source))
        keys = source * len(self.occurrences[1]) + target
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = (self.keys[place] == keys) & (source != UNKNOWN) & (target != UNKNOWN)
        return np.where(found, self.counts[place], 0.0)


@dataclass(frozen=True)
class SideEvidence:
    """Evidence about all words of the source side of a text, one after the other.

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
        other_offsets: Start of each sentence of the other side, and the end of the last one.
        other_unlinked: Probability that each word of the other side has no link.
    """

    offsets: Int[np.ndarray, "P+1"]
    numbers: Int[np.ndarray, "N"]
    statistics: Float[np.ndarray, "N 12"]
    frequency: Float[np.ndarray, "N"]
    known: Float[np.ndarray, "N"]
    word: Float[np.ndarray, "N"]
    copied: Float[np.ndarray, "N"]
    position: Float[np.ndarray, "N"]
    other_offsets: Int[np.ndarray, "P+1"]
    other_unlinked: Float[np.ndarray, "M"]

    @classmethod
    def collect(
        cls,
        table: TextPosteriors,
        counts: LinkCounts,
        swapped: bool = False,
        linked: np.ndarray | None = None,
    ) -> Self:
        """Collect the evidence about the source side of a table.

        Args:
            table: The link probabilities, swapped to collect the evidence about the translations.
            counts: Link counts of the training text.
            swapped: Whether the table is swapped.
            linked: [K], the link counts of the cells. They are found by default, but are the same in both
                directions.
        """
        numbers, offsets = table.numbers[0], table.offsets[0]
        words = [word for pair in table.pairs for word in pair.source]
        copied = [
            value
            for pair, first, last in zip(table.pairs, offsets[:-1], offsets[1:], strict=True)
            for value in _copied(*pair.folded, numbers[first:last].tolist())
        ]
        occurrences = counts.occurrences[1 if swapped else 0]
        if linked is None:
            own, other = (side[index] for side, index in zip(table.numbers, table.words, strict=True))
            linked = counts.of(other, own) if swapped else counts.of(own, other)
        statistics = _statistics(table, linked, counts.occurrences[::-1] if swapped else counts.occurrences)
        statistics[:, 0] *= 1 - np.array(copied)
        return cls(
            offsets,
            numbers,
            statistics,
            np.log1p(_lookup(occurrences, numbers)),
            (numbers != UNKNOWN).astype(np.float64),
            np.array([word.isalnum() for word in words], dtype=np.float64),
            np.array(copied, dtype=np.float64),
            _positions(table),
            table.offsets[1],
            _no_link(table.backward, table.words[1], len(table.numbers[1])),
        )

    def column(self, name: str) -> Float[np.ndarray, "N"]:
        """Return a statistic of all words."""
        return self.statistics[:, STATISTICS.index(name)]

    @property
    def sentence(self) -> Int[np.ndarray, "N"]:
        """The number of the sentence of each word."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def _statistics(
    table: TextPosteriors, linked: Float[np.ndarray, "K"], occurrences: tuple[np.ndarray, ...]
) -> Float[np.ndarray, "N 12"]:
    """Return the statistics of the source words of a table, given link counts of cells and of words."""
    index, other_index = table.words
    own, other = table.numbers[0][index], table.numbers[1][other_index]
    own_count, other_count = _lookup(occurrences[0], own), _lookup(occurrences[1], other)
    # Constants keep the estimates of rare words low.
    translation, reverse = linked / (own_count + 2), linked / (other_count + 2)
    dice = 2 * linked / (own_count + other_count + 4)
    size = len(table.numbers[0])
    claimed = np.bincount(other_index, weights=table.backward, minlength=len(table.numbers[1]))

    # All cells of a source word are neighbors, so a reduction over ranges suffices.
    starts = np.flatnonzero(np.diff(index, prepend=-1))

    def total(values: np.ndarray, reduction: np.ufunc = np.add) -> np.ndarray:
        found = np.zeros(size)
        if len(starts):
            found[index[starts]] = reduction.reduceat(values, starts)
        return found

    def largest(values: np.ndarray) -> np.ndarray:
        return total(values, np.maximum)

    def log(values: np.ndarray, floor: float = _MIN_PROBABILITY) -> np.ndarray:
        return np.log(values + floor)

    no_other = _no_link(table.forward, index, size)
    no_own = np.maximum(1 - total(table.backward), 0.0)
    return np.stack(
        [
            np.sqrt(no_other * no_own),
            no_other,
            no_own,
            1 - largest(table.mutual),
            1 - largest(table.mutual * linked / (linked + 0.5)),
            log(largest(translation)),
            log(largest(reverse)),
            log(largest(dice)),
            log(largest(table.mutual * np.sqrt(dice)), 1e-3),
            log(total(table.backward * translation)),
            log(total(table.backward * reverse)),
            total(table.backward * (claimed[other_index] - table.backward)),
        ],
        axis=1,
    )


def _no_link(probabilities: np.ndarray, index: np.ndarray, size: int) -> np.ndarray:
    """Return for each word the probability that no word of the other side is linked to it."""
    missing = np.log(np.maximum(1 - probabilities, 1e-6))
    return np.exp(np.bincount(index, weights=missing, minlength=size))


def _positions(table: TextPosteriors) -> Float[np.ndarray, "N"]:
    """Return the position of the best link of each source word, -1 without a probable link."""
    found = np.full(len(table.numbers[0]), -1.0)
    probable = np.flatnonzero(table.mutual > _LINK_THRESHOLD)
    # The top-scoring link of a word is assigned last.
    probable = probable[np.argsort(table.mutual[probable], kind="stable")]
    source, target = table.words[0][probable], table.words[1][probable]
    pair = np.searchsorted(table.offsets[1], target, side="right") - 1
    found[source] = target - table.offsets[1][pair]
    return found


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
        classes = np.where(numbers == UNKNOWN, 0, _lookup(_classes(occurrences), numbers).astype(np.int64))
        means, variances = _moments(classes, values, NUM_CLASSES, overall, _CLASS_SMOOTHING)
        prior = _classes(occurrences)
        known = numbers != UNKNOWN
        of_words = _moments(
            numbers[known], values[known], len(occurrences), (means[prior], variances[prior]), _SMOOTHING
        )
        unknown = np.stack([means[0], np.sqrt(variances[0])])
        return cls(occurrences, of_words[0], np.sqrt(of_words[1]), unknown)

    def of(self, numbers: Int[np.ndarray, "N"]) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the statistics of each word, both [N, 12]."""
        if not len(self.means):
            return tuple(np.tile(row, (len(numbers), 1)) for row in self.unknown)  # type: ignore[return-value]
        missing = (numbers == UNKNOWN)[:, None]
        mean = np.where(missing, self.unknown[0], self.means[numbers])
        return mean, np.where(missing, self.unknown[1], self.deviations[numbers])

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the arrays to save."""
        return {"means": self.means, "deviations": self.deviations, "unknown": self.unknown}


def _classes(occurrences: np.ndarray) -> np.ndarray:
    return np.minimum(1 + np.log2(np.maximum(occurrences, 1)), NUM_CLASSES - 1).astype(np.int64)


def _moments(
    groups: np.ndarray, values: np.ndarray, size: int, prior: tuple[np.ndarray, np.ndarray], weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each group, smoothed by `weight` observations of the prior."""
    count = np.bincount(groups, minlength=size)[:, None] + weight

    def summed(columns: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(groups, weights=one, minlength=size) for one in columns.T], axis=1)

    mean = (summed(values) + weight * prior[0]) / count
    return mean, (summed((values - mean[groups]) ** 2) + weight * prior[1]) / count


def _copied(words: Sequence[str], others: Sequence[str], numbers: Sequence[int]) -> list[float]:
    """Return for each word its similarity to a word of the other side, from 0 to 1."""
    # Only unknown words are compared by their beginning: for the others, the aligner has evidence.
    there = set(others)
    shared = {word for word in there.intersection(words) if word.isalnum()}
    found = [1.0 if word in shared else 0.0 for word in words]
    for place, number in enumerate(numbers):
        if number == UNKNOWN and not found[place] and words[place].isalnum():
            found[place] = _similarity(words[place], there)
    return found


def _similarity(word: str, others: Iterable[str]) -> float:
    """Return the largest share of a common beginning of a word and others, 0 below four characters."""
    best, start = 0.0, word[:_MIN_PREFIX]
    if len(word) < _MIN_PREFIX:
        return best
    for other in others:
        if not other.startswith(start):
            continue
        shared = next(
            (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b),
            min(len(word), len(other)),
        )
        best = max(best, shared / max(len(word), len(other)))
    return best
