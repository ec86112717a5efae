"""Extraction of n-best lists of distinct translations from the search graph, with their features.

Recombined hypotheses form a lattice, which is traversed from its end. The best score of each hypothesis is
known exactly, so that A* search with this exact heuristic returns paths in the order of their scores.
"""

import numpy as np
from numba import njit

from regard.smt.features import (
    AHEAD,
    BACK,
    DISTORTION,
    FEATURES,
    LANGUAGE,
    PHRASES,
    TABLE,
    UNKNOWN,
    WORDS,
)
from regard.smt.language_model import END, Tables, score_word
from regard.smt.options import LN10, Options, Phrases
from regard.smt.stacks import OPTION, OTHER, PREVIOUS, Rows

__all__ = ["best_paths", "path_features"]

TRIES = 100
"""The maximum number of paths per requested translation, because different paths can have the same words."""


@njit(nogil=True, cache=True)
def best_paths(
    rows: Rows, options: Options, source: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best translations with distinct words, best first.

    The lists of recombined hypotheses in `rows` are sorted in place.

    Args:
        rows: The hypotheses of the search.
        options: The translation options of the sentence.
        source: int64 [S], the source word ids, which distinguish copied words.
        most: The maximum number of translations.

    Returns:
        int32 [found, S], the options of each path in target order; int32 [found], the number of options of
        each path; float64 [found], the scores.
    """
    n = options.spans.shape[0]
    paths, lengths, scores = np.empty((most, n), np.int32), np.zeros(most, np.int32), np.zeros(most)
    codes = np.zeros(most, np.uint64)
    # An item of the heap is a hypothesis at its position on a path; its parent is the next item of the path.
    keys, places, parents = np.empty(1024), np.empty(1024, np.int64), np.empty(1024, np.int64)
    heap, size, used, found = np.empty(1024, np.int64), 0, 0, 0
    ranked = np.zeros(len(rows.scores), np.bool_)
    tries = TRIES * most
    item = -1
    while found < most and tries:
        # The successors of an item: its best predecessor, and the next best hypothesis at its own position.
        for step in range(2):
            if step == 0:
                row = rows.final if item < 0 else rows.numbers[places[item], PREVIOUS]
                if row <= 0:
                    continue
                if not ranked[row]:
                    _rank(rows, row)
                    ranked[row] = True
                key = rows.scores[row] if item < 0 else keys[item]
                parent = item
            else:
                row = -1 if item < 0 else rows.numbers[places[item], OTHER]
                if row < 0:
                    continue
                key = keys[item] - rows.scores[places[item]] + rows.scores[row]
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
        if rows.numbers[places[item], PREVIOUS] == 0:
            tries -= 1
            length, place = 0, item
            while place >= 0:
                paths[found, length] = rows.numbers[places[place], OPTION]
                length, place = length + 1, parents[place]
            code = _code(options, source, paths[found, :length])
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
    options: Options,
    phrases: Phrases,
    tables: Tables,
    start: int,
    lexicalised: bool,
) -> np.ndarray:
    """Return the features of one path: float64 [FEATURES].

    Args:
        path: The options of the path.
        options: The translation options of the sentence.
        phrases: The phrase table.
        tables: The language model.
        start: The state of the language model at the start of a sentence.
        lexicalised: Whether orientations are scored.
    """
    found = np.zeros(FEATURES)
    state, first, last, previous = start, 0, 0, -2
    n = options.spans.shape[0]
    for option in path:
        entry = options.entries[option]
        begin, end = options.offsets[option], options.offsets[option + 1]
        for k in range(begin, end):
            log_prob, state = score_word(tables, state, options.words[k])
            found[LANGUAGE] += log_prob * LN10
        found[WORDS] -= end - begin
        found[PHRASES] -= 1
        i, j = options.bounds[option, 0], options.bounds[option, 1]
        found[DISTORTION] -= abs(i - last)
        if entry < 0:
            found[UNKNOWN] += 1
        else:
            for kind in range(4):
                found[TABLE + kind] += phrases.scores[entry, kind]
        if lexicalised:
            kind = 0 if i == last else 1 if j == first else 2
            found[BACK + kind] += _orientation(phrases, entry, kind)
            if previous > -2:
                found[AHEAD + kind] += _orientation(phrases, previous, 3 + kind)
        first, last, previous = i, j, entry
    log_prob, state = score_word(tables, state, END)
    found[LANGUAGE] += log_prob * LN10
    if lexicalised:
        kind = 0 if last == n else 2
        found[AHEAD + kind] += _orientation(phrases, previous, 3 + kind)
    return found


@njit(nogil=True, cache=True)
def _rank(rows, first):
    """Sort recombined hypotheses by score; the first of them is already the best."""
    count, row = 0, rows.numbers[first, OTHER]
    while row >= 0:
        count, row = count + 1, rows.numbers[row, OTHER]
    others, keys = np.empty(count, np.int64), np.empty(count)
    row = rows.numbers[first, OTHER]
    for place in range(count):
        others[place], keys[place] = row, -rows.scores[row]
        row = rows.numbers[row, OTHER]
    last = first
    for place in np.argsort(keys, kind="mergesort"):
        rows.numbers[last, OTHER] = others[place]
        last = others[place]
    rows.numbers[last, OTHER] = -1


@njit(nogil=True, cache=True)
def _orientation(phrases, entry, column):
    return phrases.reordering[entry, column] if entry >= 0 else np.log(1 / 3)


@njit(nogil=True, cache=True)
def _code(options, source, path):
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
