"""Extraction of n-best lists of distinct translations from the search graph, with their features.

Recombined hypotheses form a lattice, which is traversed from its end. The best score of each hypothesis is
known exactly, so that A* search with this exact heuristic returns paths in the order of their scores.
"""

import numpy as np
from numba import njit

from regard.smt.features import (
    BACKWARD,
    DISTORTION,
    FORWARD,
    LANGUAGE,
    NUM_FEATURES,
    PHRASES,
    TABLE,
    UNKNOWN,
    WORDS,
)
from regard.smt.language_model import END, LanguageModelArrays, score_word
from regard.smt.stack_search import NEXT_RECOMBINED, OPTION, PREVIOUS, Hypotheses
from regard.smt.translation_options import LN10, PhraseTableArrays, TranslationOptions

__all__ = ["best_paths", "path_features"]

MAX_PATHS_PER_TRANSLATION = 100
"""The maximum number of paths per requested translation, because different paths can have the same words."""


@njit(nogil=True, cache=True)
def best_paths(
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
    n = options.spans.shape[0]
    paths, lengths, scores = (
        np.empty((num_return, n), np.int32),
        np.zeros(num_return, np.int32),
        np.zeros(num_return),
    )
    codes = np.zeros(num_return, np.uint64)
    # An item of the heap is a hypothesis at its position on a path; its parent is the next item of the path.
    keys, places, parents = np.empty(1024), np.empty(1024, np.int64), np.empty(1024, np.int64)
    heap, size, used, found = np.empty(1024, np.int64), 0, 0, 0
    ranked = np.zeros(len(hypotheses.scores), np.bool_)
    tries = MAX_PATHS_PER_TRANSLATION * num_return
    item = -1
    while found < num_return and tries:
        # The successors of an item: its best predecessor, and the next best hypothesis at its own position.
        for step in range(2):
            if step == 0:
                row = hypotheses.final if item < 0 else hypotheses.fields[places[item], PREVIOUS]
                if row <= 0:
                    continue
                if not ranked[row]:
                    _rank(hypotheses, row)
                    ranked[row] = True
                key = hypotheses.scores[row] if item < 0 else keys[item]
                parent = item
            else:
                row = -1 if item < 0 else hypotheses.fields[places[item], NEXT_RECOMBINED]
                if row < 0:
                    continue
                key = keys[item] - hypotheses.scores[places[item]] + hypotheses.scores[row]
                parent = parents[item]
            if used == len(keys):
                keys, places, parents, heap = _double(keys), _double(places), _double(parents), _double(heap)
            keys[used], places[used], parents[used] = key, row, parent
            size = _push(heap, size, keys, used)
            used += 1
        if size == 0:
            break
        item = heap[0]
        size = _pop(heap, size, keys)
        if hypotheses.fields[places[item], PREVIOUS] == 0:
            tries -= 1
            length, place = 0, item
            while place >= 0:
                paths[found, length] = hypotheses.fields[places[place], OPTION]
                length, place = length + 1, parents[place]
            code = _hash_words(options, source, paths[found, :length])
            fresh = True
            for other in range(found):
                fresh &= codes[other] != code
            if fresh:
                lengths[found], scores[found], codes[found] = length, keys[item], code
                found += 1
    return paths[:found], lengths[:found], scores[:found]


@njit(nogil=True, cache=True)
def path_features(
    path: np.ndarray,
    options: TranslationOptions,
    phrases: PhraseTableArrays,
    language_model: LanguageModelArrays,
    start: int,
    lexicalized: bool,
) -> np.ndarray:
    """Return the features of one path: float64 [NUM_FEATURES].

    Args:
        path: The options of the path.
        options: The translation options of the sentence.
        phrases: The phrase table.
        language_model: The language model.
        start: The state of the language model at the start of a sentence.
        lexicalized: Whether orientations are scored.
    """
    features = np.zeros(NUM_FEATURES)
    state, first, last, previous = start, 0, 0, -2
    n = options.spans.shape[0]
    for option in path:
        entry = options.entries[option]
        begin, end = options.offsets[option], options.offsets[option + 1]
        for k in range(begin, end):
            log_prob, state = score_word(language_model, state, options.words[k])
            features[LANGUAGE] += log_prob * LN10
        features[WORDS] -= end - begin
        features[PHRASES] -= 1
        i, j = options.bounds[option, 0], options.bounds[option, 1]
        features[DISTORTION] -= abs(i - last)
        if entry < 0:
            features[UNKNOWN] += 1
        else:
            for kind in range(4):
                features[TABLE + kind] += phrases.scores[entry, kind]
        if lexicalized:
            kind = 0 if i == last else 1 if j == first else 2
            features[BACKWARD + kind] += _orientation(phrases, entry, kind)
            if previous > -2:
                features[FORWARD + kind] += _orientation(phrases, previous, 3 + kind)
        first, last, previous = i, j, entry
    log_prob, state = score_word(language_model, state, END)
    features[LANGUAGE] += log_prob * LN10
    if lexicalized:
        kind = 0 if last == n else 2
        features[FORWARD + kind] += _orientation(phrases, previous, 3 + kind)
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
    for place in np.argsort(keys, kind="mergesort"):
        rows.fields[last, NEXT_RECOMBINED] = others[place]
        last = others[place]
    rows.fields[last, NEXT_RECOMBINED] = -1


@njit(nogil=True, cache=True)
def _orientation(phrases, entry, column):
    return phrases.reordering[entry, column] if entry >= 0 else np.log(1 / 3)


@njit(nogil=True, cache=True)
def _hash_words(options, source, path):
    """Return a hash of the words of a path; the ids of copied words differ from those of target words."""
    code = np.uint64(1469598103934665603)
    for option in path:
        copied = options.entries[option] < 0
        for k in range(options.offsets[option], options.offsets[option + 1]):
            word = -(1 << 31) + source[options.bounds[option, 0]] if copied else np.int64(options.words[k])
            code = (code ^ np.uint64(word + (1 << 32))) * np.uint64(0x9E3779B97F4A7C15)
            code ^= code >> np.uint64(31)
    return code


@njit(nogil=True, cache=True)
def _double(array):
    return np.concatenate((array, np.empty_like(array)))


@njit(nogil=True, cache=True)
def _push(heap, size, keys, item):
    place = size
    while place and keys[heap[(place - 1) >> 1]] < keys[item]:
        heap[place] = heap[(place - 1) >> 1]
        place = (place - 1) >> 1
    heap[place] = item
    return size + 1


@njit(nogil=True, cache=True)
def _pop(heap, size, keys):
    size -= 1
    item, place = heap[size], 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and keys[heap[below + 1]] > keys[heap[below]]:
            below += 1
        if keys[heap[below]] <= keys[item]:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = item
    return size
