"""The phrase-based decoder: from source word ids to the best translations, with features and word links.

Recombined hypotheses form a lattice, which is traversed from its end. The best score of each hypothesis is
known exactly, so that A* search with this exact heuristic returns paths in the order of their scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from regard.alignment.base import run_parallel
from regard.extensions.smt.extraction import MAX_PHRASE_LENGTH
from regard.extensions.smt.language_model import BEGIN, END, NgramLanguageModel, score_word
from regard.extensions.smt.phrase_table import PhraseTable
from regard.extensions.smt.search_kernels import NEXT_RECOMBINED, OPTION, PREVIOUS, Hypotheses, stack_search
from regard.extensions.smt.translation_options import (
    BACKWARD,
    COPIES,
    DISTORTION,
    FORWARD,
    LANGUAGE,
    LN10,
    NUM_FEATURES,
    PHRASES,
    TABLE,
    WORDS,
    PhraseTableArrays,
    ScoringArrays,
    TranslationOptions,
    collect_options,
    future_costs,
    orientation_score,
)
from regard.extensions.smt.trie import read_only, stable_argsort
from regard.kernels.compilation import njit

COPIED = -1
"""The target word id that stands for a copied source word."""
MAX_PATHS_PER_TRANSLATION = 100
"""The maximum number of paths per requested translation, because different paths can have the same words."""


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
        words: The target words.
        score: The weighted sum of the features.
        features: float64 [NUM_FEATURES], the features.
    """

    phrases: tuple[PhrasePair, ...]
    words: tuple[int, ...]
    score: float
    features: np.ndarray


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
    def scoring(self) -> ScoringArrays:
        """The tables and weights for compiled functions."""
        table, model = self.table, self.language_model
        parts = (getattr(table, name) for name in PhraseTableArrays._fields[2:])
        arrays = (table.trie.first_children, table.trie.words, *parts)
        phrases, ids, weights = map(read_only, arrays), read_only(self.language_ids), read_only(self.weights)
        return ScoringArrays(PhraseTableArrays(*phrases), model.arrays, ids, weights, self.lexicalized)

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
        limits, scoring = self.limits, self.scoring
        options = collect_options(source, scoring, self.table.trie.order, limits.max_options)
        max_score_difference = -np.log(limits.threshold) if limits.threshold else np.inf
        hypotheses = stack_search(
            options,
            future_costs(options),
            scoring,
            limits.distortion_limit,
            limits.stack_size,
            float(max_score_difference),
        )
        paths, lengths, scores = _best_paths(hypotheses, options, source, num_return)
        translations = []
        for path, length, score in zip(paths, lengths.tolist(), scores.tolist(), strict=True):
            chosen = path[:length]
            features = _path_features(chosen, options, scoring)
            bounds, entries = options.bounds[chosen].tolist(), options.entries[chosen].tolist()
            spans = zip(bounds, entries, strict=True)
            phrases = tuple(self._phrase_pair(start, end, entry) for (start, end), entry in spans)
            words = tuple(word for phrase in phrases for word in phrase.words)
            translations.append(PhraseTranslation(phrases, words, score, features))
        return translations

    def _phrase_pair(self, start: int, end: int, entry: int) -> PhrasePair:
        if entry < 0:
            return PhrasePair(start, end, (COPIED,), ((start, 0),))
        words, mask = tuple(self.table.target(entry).tolist()), int(self.table.links[entry])
        # See `PhraseOccurrences.links` for the bit mask.
        positions = ((i, j) for i in range(end - start) for j in range(len(words)))
        links = ((start + i, j) for i, j in positions if mask >> (MAX_PHRASE_LENGTH * i + j) & 1)
        return PhrasePair(start, end, words, tuple(links))


@njit(nogil=True, cache=True)
def _best_paths(
    hypotheses: Hypotheses, options: TranslationOptions, source: np.ndarray, num_return: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best translations with distinct words, best first.

    The lists of recombined hypotheses in `hypotheses` are sorted in place.

    Args:
        hypotheses: The hypotheses of the search.
        options: The translation options of the sentence.
        source: int64 [S], the source word ids, which distinguish copied words.
        num_return: The maximum number of translations.

    Returns:
        int32 [found, S], the options of each path in target order; int32 [found], the number of options of
        each path; float64 [found], the scores.
    """
    n, final = options.spans.shape[0], hypotheses.final
    paths, lengths = np.empty((num_return, n), np.int32), np.zeros(num_return, np.int32)
    scores, codes = np.zeros(num_return), np.zeros(num_return, np.uint64)
    # Most lists of recombined hypotheses are never reached, so that they are sorted only on demand.
    ranked = np.zeros(len(hypotheses.scores), np.bool_)
    _rank(hypotheses, final)
    # A hypothesis on a path: minus the score of the path, the row, and the next one of the path in `visited`.
    heap = [(-hypotheses.scores[final], final, -1)]
    visited = heap[:0]
    count, tries = 0, MAX_PATHS_PER_TRANSLATION * num_return
    while len(heap) and count < num_return and tries:
        visited.append(heappop(heap))
        cost, row, after = visited[-1]
        # Scores are sums, so that the rest of the path changes by the difference of the two hypotheses.
        other, previous = hypotheses.fields[row, NEXT_RECOMBINED], hypotheses.fields[row, PREVIOUS]
        if other >= 0:
            difference = hypotheses.scores[row] - hypotheses.scores[other]
            heappush(heap, (cost + difference, other, after))
        if previous:
            if not ranked[previous]:
                _rank(hypotheses, previous)
                ranked[previous] = True
            heappush(heap, (cost, previous, len(visited) - 1))
            continue
        # The path is complete at the empty hypothesis, row 0. From there, its options are in target order.
        tries -= 1
        length, place = 0, len(visited) - 1
        while place >= 0:
            paths[count, length] = hypotheses.fields[visited[place][1], OPTION]
            length, place = length + 1, visited[place][2]
        code = _hash_words(options, source, paths[count, :length])
        # Equal hashes of different translations are possible in theory; one of them would be omitted.
        if not np.any(codes[:count] == code):
            lengths[count], scores[count], codes[count] = length, -cost, code
            count += 1
    return paths[:count], lengths[:count], scores[:count]


@njit(nogil=True, cache=True)
def _path_features(path: np.ndarray, options: TranslationOptions, scoring: ScoringArrays) -> np.ndarray:
    """Return the features of one path, given by its options: float64 [NUM_FEATURES]."""
    phrases, model, lexicalized = scoring.phrases, scoring.language_model, scoring.lexicalized
    features = np.zeros(NUM_FEATURES)
    state, first, last, previous = model.states[1 + BEGIN], 0, 0, -2
    n = options.spans.shape[0]
    for option in path:
        entry = options.entries[option]
        begin, end = options.offsets[option], options.offsets[option + 1]
        for k in range(begin, end):
            log_prob, state = score_word(model, state, np.int64(options.words[k]))
            features[LANGUAGE] += log_prob * LN10  # the model has logarithms to the base 10
        features[WORDS] -= end - begin
        features[PHRASES] -= 1
        i, j = options.bounds[option, 0], options.bounds[option, 1]
        features[DISTORTION] -= abs(i - last)
        if entry < 0:
            features[COPIES] += 1
        else:
            for kind in range(4):
                features[TABLE + kind] += phrases.scores[entry, kind]
        if lexicalized:
            kind = 0 if i == last else 1 if j == first else 2
            features[BACKWARD + kind] += orientation_score(phrases, entry, kind)
            # The forward orientation of a phrase is known when the next one is chosen; -2 is no phrase.
            if previous > -2:
                features[FORWARD + kind] += orientation_score(phrases, previous, 3 + kind)
        first, last, previous = i, j, entry
    log_prob, state = score_word(model, state, np.int64(END))
    features[LANGUAGE] += log_prob * LN10
    if lexicalized:
        # As in extraction, the end of the sentence counts as a word that follows the last source word.
        kind = 0 if last == n else 2
        features[FORWARD + kind] += orientation_score(phrases, previous, 3 + kind)
    return features


@njit(nogil=True, cache=True)
def _rank(rows, first):
    """Sort recombined hypotheses by score; the first of them is already the best."""
    count, row = 0, rows.fields[first, NEXT_RECOMBINED]
    while row >= 0:
        count, row = count + 1, rows.fields[row, NEXT_RECOMBINED]
    others, keys = np.empty(count, np.int64), np.empty(count)
    row = rows.fields[first, NEXT_RECOMBINED]
    for place in range(count):
        others[place], keys[place] = row, -rows.scores[row]
        row = rows.fields[row, NEXT_RECOMBINED]
    last = first
    for place in stable_argsort(keys):
        rows.fields[last, NEXT_RECOMBINED] = others[place]
        last = others[place]
    rows.fields[last, NEXT_RECOMBINED] = -1


@njit(nogil=True, cache=True)
def _hash_words(options, source, path):
    """Return a hash of the words of a path; the ids of copied words differ from those of target words."""
    code = np.uint64(1469598103934665603)
    for option in path:
        copied = options.entries[option] < 0
        for k in range(options.offsets[option], options.offsets[option + 1]):
            # Both kinds of ids are shifted to different ranges of positive numbers.
            word = -(1 << 31) + source[options.bounds[option, 0]] if copied else np.int64(options.words[k])
            code = (code ^ np.uint64(word + (1 << 32))) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(31)
    return code
