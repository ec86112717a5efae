"""The phrase-based decoder: from source word ids to translations with features and word links."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.alignment.base import run_parallel
from regard.smt.language_model import NgramLanguageModel
from regard.smt.nbest import best_paths, path_features
from regard.smt.phrase_table import PhraseTable
from regard.smt.stack_search import stack_search
from regard.smt.translation_options import PhraseTableArrays, collect_options, future_costs

__all__ = ["COPIED", "PhraseDecoder", "PhrasePair", "PhraseTranslation", "SearchLimits"]

COPIED = -1
"""The target word id that stands for a copied source word."""


@dataclass(frozen=True)
class SearchLimits:
    """The limits of the search.

    Attributes:
        stack_size: The maximum number of hypotheses that are extended per stack.
        threshold: The minimum probability of a hypothesis relative to the best one of its stack, in [0, 1].
            0 disables threshold pruning.
        distortion_limit: The maximum distance of a reordering jump in source words.
        max_options: The maximum number of translations that are tried per source phrase.
    """

    stack_size: int = 100
    threshold: float = 1e-5
    distortion_limit: int = 6
    max_options: int = 20


@dataclass(frozen=True)
class PhrasePair:
    """One phrase pair of a translation.

    Attributes:
        start: The position of the first source word.
        end: The position after the last source word.
        words: The target word ids; a single `COPIED` if the phrase table has no translation.
        links: Word links as pairs of a source position in the sentence and a target position in the phrase.
    """

    start: int
    end: int
    words: tuple[int, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PhraseTranslation:
    """One translation.

    Attributes:
        phrases: The phrase pairs in target order.
        score: The weighted sum of the features.
        features: float64 [NUM_FEATURES], the features.
    """

    phrases: tuple[PhrasePair, ...]
    score: float
    features: np.ndarray

    @property
    def words(self) -> tuple[int, ...]:
        """The target words."""
        return tuple(word for phrase in self.phrases for word in phrase.words)


@dataclass(frozen=True, eq=False)
class PhraseDecoder:
    """A phrase-based decoder.

    Attributes:
        table: The phrase table.
        language_model: The language model.
        language_ids: int64 [target words], the id of each target word in the language model.
        weights: float64 [NUM_FEATURES], the feature weights.
        lexicalized: Whether orientations are scored.
        limits: The limits of the search.
    """

    table: PhraseTable
    language_model: NgramLanguageModel
    language_ids: np.ndarray
    weights: np.ndarray
    lexicalized: bool
    limits: SearchLimits

    @cached_property
    def _phrases(self) -> PhraseTableArrays:
        table = self.table
        parts = (getattr(table, name) for name in PhraseTableArrays._fields[2:])
        return PhraseTableArrays(table.trie.first_children, table.trie.words, *parts)

    def translate(
        self, sources: Sequence[Sequence[int]], num_return: int = 1, num_threads: int = 1
    ) -> list[list[PhraseTranslation]]:
        """Return the best translations of each sentence, best first; an empty sentence has none.

        Args:
            sources: The word ids of each sentence. Unknown words have negative ids, equal for equal words.
            num_return: The maximum number of translations; all have different words.
            num_threads: The number of sentences that are translated in parallel; it does not affect the
                result.
        """
        calls = [(np.array(source, dtype=np.int64), num_return) for source in sources]
        return run_parallel(self._translate_one, calls, num_threads)

    def _translate_one(self, source: np.ndarray, num_return: int) -> list[PhraseTranslation]:
        if not len(source):
            return []
        limits, tables, phrases = self.limits, self.language_model.arrays, self._phrases
        longest = self.table.trie.order
        settings = longest, limits.max_options, self.lexicalized
        options = collect_options(source, phrases, tables, self.language_ids, self.weights, *settings)
        max_score_difference = -np.log(limits.threshold) if limits.threshold else np.inf
        start_state = self.language_model.start_state
        hypotheses = stack_search(
            options,
            future_costs(options),
            tables,
            start_state,
            self.weights,
            limits.distortion_limit,
            limits.stack_size,
            float(max_score_difference),
        )
        paths, lengths, scores = best_paths(hypotheses, options, source, num_return)
        translations = []
        for path, length, score in zip(paths, lengths.tolist(), scores.tolist(), strict=True):
            chosen = path[:length]
            features = path_features(chosen, options, phrases, tables, start_state, self.lexicalized)
            bounds, entries = options.bounds[chosen].tolist(), options.entries[chosen].tolist()
            spans = zip(bounds, entries, strict=True)
            applied = (self._phrase_pair(start, end, entry) for (start, end), entry in spans)
            translations.append(PhraseTranslation(tuple(applied), score, features))
        return translations

    def _phrase_pair(self, start: int, end: int, entry: int) -> PhrasePair:
        if entry < 0:
            return PhrasePair(start, end, (COPIED,), ((start, 0),))
        words, mask = tuple(self.table.target(entry).tolist()), int(self.table.links[entry])
        # See `PhraseOccurrences.links` for the bit mask.
        links = (
            (start + i, j) for i in range(end - start) for j in range(len(words)) if mask >> (7 * i + j) & 1
        )
        return PhrasePair(start, end, words, tuple(links))
