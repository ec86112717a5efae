"""Translation options of a sentence and estimates of the future cost (Koehn et al., 2003, Section 3.3).

A translation option is a source span with a phrase pair of the table, or a single word that is copied because
the table has no translation of it alone. Its estimate is its weighted score plus the language model score of
its words without context. `future[i, j]` is the highest sum of estimates of options that cover the words from
i up to j; the search adds it to a hypothesis for uncovered words.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from regard.smt.features import BACKWARD, FORWARD, LANGUAGE, PHRASES, TABLE, UNKNOWN, WORDS
from regard.smt.language_model import UNKNOWN as STRANGE
from regard.smt.language_model import LanguageModelArrays, score_word
from regard.smt.trie import find_child

__all__ = ["LN10", "PhraseTableArrays", "TranslationOptions", "collect_options", "future_costs"]

LN10 = np.log(10.0)
LOG_THIRD = np.log(1 / 3)


class PhraseTableArrays(NamedTuple):
    """The arrays of a phrase table, for compiled functions; see `PhraseTable` and `Trie`."""

    first: np.ndarray
    words: np.ndarray
    entries: np.ndarray
    targets: np.ndarray
    scores: np.ndarray
    reordering: np.ndarray
    forward_classes: np.ndarray
    target_words: np.ndarray
    target_offsets: np.ndarray


class TranslationOptions(NamedTuple):
    """The translation options of a sentence, grouped by span, with the best estimate first.

    Attributes:
        spans: int32 [S, longest, 2], by the first word of a span and its length minus 1: the index of the
            span's first option and the number of options.
        bounds: int32 [options, 2], the first source position of each option and the position after the last.
        entries: int64 [options], the entry in the phrase table, -1 for a copied word.
        scores: float64 [options], the weighted score without language model, distortion and orientations.
        estimates: float64 [options], the score plus the language model score of the words without context.
        backward: float64 [options, 3], the weighted score of each backward orientation.
        forward: float64 [options, 3], the weighted score of each forward orientation.
        classes: int32 [options], equal for options with equal `forward`.
        offsets: int32 [options + 1], the index of the first word of each option in `words`.
        words: int32 [words], the target words with their ids in the language model.
    """

    spans: np.ndarray
    bounds: np.ndarray
    entries: np.ndarray
    scores: np.ndarray
    estimates: np.ndarray
    backward: np.ndarray
    forward: np.ndarray
    classes: np.ndarray
    offsets: np.ndarray
    words: np.ndarray


@njit(nogil=True, cache=True)
def collect_options(
    source: np.ndarray,
    phrases: PhraseTableArrays,
    tables: LanguageModelArrays,
    language_ids: np.ndarray,
    weights: np.ndarray,
    max_length: int,
    max_options: int,
    lexicalized: bool,
) -> TranslationOptions:
    """Collect the translation options of a sentence.

    Args:
        source: int64 [S], the source word ids; those of unknown words are negative.
        phrases: The phrase table.
        tables: The language model.
        language_ids: The id of each target word in the language model.
        weights: float64 [NUM_FEATURES], the feature weights.
        max_length: The maximum length of a source phrase.
        max_options: The maximum number of options per span.
        lexicalized: Whether orientations are scored.
    """
    n = len(source)
    spans = np.zeros((n, max_length, 2), np.int32)
    nodes = np.full((n, max_length), -1, np.int64)
    room = 0
    for i in range(n):
        node = 0
        for length in range(1, min(max_length, n - i) + 1):
            node = find_child(phrases.first, phrases.words, node, source[i + length - 1])
            if node < 0:
                break
            nodes[i, length - 1] = node
            count = phrases.entries[node + 1] - phrases.entries[node]
            spans[i, length - 1, 1] = min(max_options, count)
            room += min(max_options, count)
        # A word without translation of its own gets one option that copies it, so that search never fails.
        if spans[i, 0, 1] == 0:
            spans[i, 0, 1] = 1
            room += 1
    bounds = np.empty((room, 2), np.int32)
    entries = np.full(room, -1, np.int64)
    scores, estimates = np.empty(room), np.empty(room)
    back, ahead = np.zeros((room, 3)), np.zeros((room, 3))
    classes = np.zeros(room, np.int32)
    offsets = np.zeros(room + 1, np.int32)
    words = np.empty(room * 16, np.int32)
    used = 0
    for i in range(n):
        for length in range(1, min(max_length, n - i) + 1):
            count = spans[i, length - 1, 1]
            spans[i, length - 1, 0] = used
            if count == 0:
                continue
            start, end, entry, order = 0, 1, 0, np.zeros(1, np.int64)
            node = nodes[i, length - 1]
            known = node >= 0 and phrases.entries[node + 1] > phrases.entries[node]
            if known:
                start, end = phrases.entries[node], phrases.entries[node + 1]
                found = np.empty(end - start)
                for entry in range(start, end):
                    score, guess = _score_entry(entry, phrases, tables, language_ids, weights)
                    found[entry - start] = -(score + guess)
                order = np.argsort(found, kind="mergesort")
            for place in range(count):
                bounds[used, 0], bounds[used, 1] = i, i + length
                size = offsets[used]
                if known:
                    entry = start + order[place]
                    entries[used] = entry
                    score, guess = _score_entry(entry, phrases, tables, language_ids, weights)
                    first, last = _target(phrases, entry)
                    if size + last - first > len(words):
                        words = np.concatenate((words, np.empty(len(words) + last - first, np.int32)))
                    for k in range(first, last):
                        words[size] = language_ids[phrases.target_words[k]]
                        size += 1
                    classes[used] = phrases.forward_classes[entry] + 1
                else:
                    score = -weights[WORDS] - weights[PHRASES] + weights[UNKNOWN]
                    guess = weights[LANGUAGE] * LN10 * tables.log_probs[1 + STRANGE]
                    words[size] = STRANGE
                    size += 1
                if lexicalized:
                    for kind in range(3):
                        one = phrases.reordering[entry, kind] if known else LOG_THIRD
                        other = phrases.reordering[entry, 3 + kind] if known else LOG_THIRD
                        back[used, kind] = weights[BACKWARD + kind] * one
                        ahead[used, kind] = weights[FORWARD + kind] * other
                else:
                    classes[used] = 0
                scores[used], estimates[used] = score, score + guess
                offsets[used + 1] = size
                used += 1
    return TranslationOptions(spans, bounds, entries, scores, estimates, back, ahead, classes, offsets, words)


@njit(nogil=True, cache=True)
def _target(phrases, entry):
    row = phrases.targets[entry]
    return phrases.target_offsets[row], phrases.target_offsets[row + 1]


@njit(nogil=True, cache=True)
def _score_entry(entry, phrases, tables, language_ids, weights):
    """Return the weighted score of a phrase pair, and its language model score without context."""
    first, last = _target(phrases, entry)
    score = -weights[WORDS] * (last - first) - weights[PHRASES]
    for kind in range(4):
        score += weights[TABLE + kind] * phrases.scores[entry, kind]
    guess, state = 0.0, 0
    for k in range(first, last):
        log_prob, state = score_word(tables, state, language_ids[phrases.target_words[k]])
        guess += log_prob
    return score, weights[LANGUAGE] * LN10 * guess


@njit(nogil=True, cache=True)
def future_costs(options: TranslationOptions) -> np.ndarray:
    """Return float64 [S, S + 1]: the highest sum of estimates for the words from i up to, excluding, j."""
    n, longest = options.spans.shape[0], options.spans.shape[1]
    future = np.full((n, n + 1), -np.inf)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            if length <= longest:
                if options.spans[i, length - 1, 1]:
                    future[i, j] = options.estimates[options.spans[i, length - 1, 0]]
            for middle in range(i + 1, j):
                future[i, j] = max(future[i, j], future[i, middle] + future[middle, j])
    return future
