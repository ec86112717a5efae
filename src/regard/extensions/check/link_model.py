"""A word aligner with the statistics of its links in good translations."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from regard.alignment import Corpus, TrainingSetup, WordAligner, train_both
from regard.alignment.base import default_config
from regard.extensions.check.base import WordPair
from regard.extensions.check.evidence import SideEvidence, WordNorms
from regard.extensions.check.posteriors import LinkCounts, TextPosteriors
from regard.text.words import graphemes, is_alphabetic

__all__ = ["Evidence", "LinkModel"]

_SAMPLE = 20_000  # pairs of the training text from which norms and link counts are estimated


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
    """A word aligner with the statistics of its links in good translations.

    Attributes:
        aligner: The word aligner, of words or stems without case.
        counts: How often words are linked in the training text.
        norms: The statistics of the words of the source and of the target side.
        stem_length: Number of characters of each word that are compared; None compares whole words. Stems
            occur more often than words, so that less text suffices for their links.
    """

    aligner: WordAligner
    counts: LinkCounts
    norms: tuple[WordNorms, WordNorms]
    stem_length: int | None = None

    @classmethod
    def train(
        cls,
        training: Sequence[WordPair],
        held_out: Sequence[WordPair],
        kind: str,
        setup: TrainingSetup,
        stem_length: int | None = None,
    ) -> Self:
        """Train an aligner and estimate the statistics of its links.

        Args:
            training: Good translations.
            held_out: Good translations that the aligner does not see. It links the rare words of its training
                text too confidently, so the norms are estimated from both.
            kind: Kind of the aligner.
            setup: Random seed and number of threads of its training.
            stem_length: Number of characters of each word that are compared; None compares whole words.
        """
        training, held_out = (_stemmed(pairs, stem_length) for pairs in (training, held_out))
        corpus = Corpus.from_tokens(pair.folded for pair in training)
        aligner = train_both(corpus, default_config(kind), setup, lowercase=True)
        # The norms of frequent words converge with a part of the text, which saves most of the time.
        sample = TextPosteriors.of(aligner, training[:: max(1, len(training) // _SAMPLE)], setup.num_threads)
        counts = LinkCounts.estimate(sample, (len(aligner.words[0]), len(aligner.words[1])))
        held_out_sample = TextPosteriors.of(aligner, held_out, setup.num_threads)
        norms = []
        for side in (0, 1):
            tables = (
                posteriors.swapped() if side else posteriors for posteriors in (sample, held_out_sample)
            )
            evidence = [SideEvidence.collect(table, counts, bool(side)) for table in tables]
            norms.append(WordNorms.estimate(evidence, counts.occurrences[side]))
        return cls(aligner, counts, (norms[0], norms[1]), stem_length)

    def posteriors(self, pairs: Sequence[WordPair], num_threads: int = 0) -> TextPosteriors:
        """Return the link probabilities of a text."""
        return TextPosteriors.of(self.aligner, _stemmed(pairs, self.stem_length), num_threads)

    def collect(self, pairs: Sequence[WordPair], num_threads: int = 0) -> Evidence:
        """Return the evidence about a text."""
        table = self.posteriors(pairs, num_threads)
        words = (numbers[index] for numbers, index in zip(table.numbers, table.words, strict=True))
        linked = self.counts.of(*words)
        # `SideEvidence.collect` reads the source side, so the table is swapped for the other side.
        swapped = table.swapped()
        calls = (table, self.counts, False, linked), (swapped, self.counts, True, linked[table.swap_order])
        with ThreadPoolExecutor(1 if num_threads == 1 else 2) as pool:
            source, target = pool.map(lambda call: SideEvidence.collect(*call), calls)
        return Evidence(table, source, target)


def _stemmed(pairs: Sequence[WordPair], length: int | None) -> Sequence[WordPair]:
    """Return the pairs with the stems of their words."""
    if length is None:
        return pairs

    @lru_cache(maxsize=100_000)
    def stem(word: str) -> str:
        # The digits of a number carry its meaning up to the last one.
        return "".join(graphemes(word)[:length]) if is_alphabetic(word) else word

    def stems(words: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(stem, words))

    return [WordPair(stems(pair.folded[0]), stems(pair.folded[1])) for pair in pairs]
