"""The features of the log-linear model, Och & Ney (2002), and the translation options of a sentence.

The score of a translation is the weighted sum of its features. Each feature is a sum over phrase pairs.

A translation option is a source span with a phrase pair of the table, or a single word that is copied because
the table has no translation of it alone. Its estimate is its weighted score plus the language model score of
its words without context. `future[i, j]` is the highest sum of estimates of options that cover the words from
i up to j; the search adds it to a hypothesis for uncovered words, Koehn et al. (2003), Section 3.3.
"""

from typing import NamedTuple

import numpy as np

from regard.extensions.smt.extraction import ORIENTATIONS
from regard.extensions.smt.language_model import UNKNOWN_WORD, LanguageModelArrays, score_word
from regard.extensions.smt.phrase_table import SCORES
from regard.extensions.smt.trie import find_child, stable_argsort
from regard.kernels.compilation import njit

LN10 = np.log(10.0)

LANGUAGE, WORDS, PHRASES, COPIES, DISTORTION, TABLE, BACKWARD, FORWARD = 0, 1, 2, 3, 4, 5, 9, 12
"""The indices of the features: log p of the language model in nats; minus the number of words; minus the
number of phrases; the number of copied unknown words; minus the distance of reordering jumps in source words;
the four scores of the phrase table; log p of the backward orientations; log p of the forward orientations."""
NUM_FEATURES = 15
UNKNOWN_WEIGHT = -10.0
"""The weight of a copied unknown word. It is not tuned: a word is copied only if there is no alternative."""

INITIAL_WEIGHTS = np.array([0.5, -1.0, 0.2, UNKNOWN_WEIGHT, 0.3, 0.2, 0.2, 0.2, 0.2, *[0.3] * 6])
"""The weights before tuning."""


FEATURE_NAMES = (
    *("language model", "words", "phrases", "unknown", "distortion", *SCORES),
    *(f"{kind} back" for kind in ORIENTATIONS),
    *(f"{kind} ahead" for kind in ORIENTATIONS),
)


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


class ScoringArrays(NamedTuple):
    """The tables and weights that score a translation, for compiled functions.

    Attributes:
        phrases: The phrase table.
        language_model: The language model.
        language_ids: int64 [target words], the id of each target word in the language model.
        weights: float64 [NUM_FEATURES], the feature weights.
        lexicalized: Whether orientations are scored.
    """

    phrases: PhraseTableArrays
    language_model: LanguageModelArrays
    language_ids: np.ndarray
    weights: np.ndarray
    lexicalized: bool


@njit(nogil=True, cache=True)
def orientation_score(phrases, entry, column):
    """Return the log-probability of an orientation, which is uniform for a copied word (a negative entry)."""
    return phrases.reordering[entry, column] if entry >= 0 else np.log(1 / 3)


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
    source: np.ndarray, scoring: ScoringArrays, max_length: int, max_options: int
) -> TranslationOptions:
    """Collect the translation options of a sentence.

    Args:
        source: int64 [S], the source word ids; those of unknown words are negative.
        scoring: The tables and weights.
        max_length: The maximum length of a source phrase.
        max_options: The maximum number of options per span.
    """
    phrases, weights = scoring.phrases, scoring.weights
    nodes, spans = _find_spans(source, phrases, max_length, max_options)
    room = np.sum(spans[:, :, 1])
    bounds = np.empty((room, 2), np.int32)
    entries = np.empty(room, np.int64)
    scores, estimates = np.empty(room), np.empty(room)
    back, ahead = np.zeros((room, 3)), np.zeros((room, 3))
    classes = np.zeros(room, np.int32)
    offsets = np.zeros(room + 1, np.int32)
    words = np.empty(room * 16, np.int32)  # enlarged if phrases are longer
    used = 0
    for i in range(len(source)):
        for length in range(1, min(max_length, len(source) - i) + 1):
            count = spans[i, length - 1, 1]
            spans[i, length - 1, 0] = used
            if count == 0:
                continue
            for entry in _rank_entries(nodes[i, length - 1], scoring)[:count]:
                bounds[used, 0], bounds[used, 1] = i, i + length
                entries[used] = entry
                scores[used], guess = _score_entry(entry, scoring)
                # Without context, the language model's score is only a guess of its score in the sentence.
                estimates[used] = scores[used] + guess
                size = offsets[used]
                first, last = _target(phrases, entry) if entry >= 0 else (0, 1)
                if size + last - first > len(words):
                    words = np.concatenate((words, np.empty(len(words) + last - first, np.int32)))
                for k in range(first, last):
                    words[size] = (
                        scoring.language_ids[phrases.target_words[k]] if entry >= 0 else UNKNOWN_WORD
                    )
                    size += 1
                offsets[used + 1] = size
                if scoring.lexicalized:
                    # A copied word keeps class 0, because all copied words have the same orientations.
                    if entry >= 0:
                        classes[used] = phrases.forward_classes[entry] + 1
                    for kind in range(3):
                        backward = orientation_score(phrases, entry, kind)
                        other = orientation_score(phrases, entry, 3 + kind)
                        back[used, kind] = weights[BACKWARD + kind] * backward
                        ahead[used, kind] = weights[FORWARD + kind] * other
                used += 1
    return TranslationOptions(spans, bounds, entries, scores, estimates, back, ahead, classes, offsets, words)


@njit(nogil=True, cache=True)
def _find_spans(source, phrases, max_length, max_options):
    """Return the node of each span with translations, else -1, and the number of its options."""
    n = len(source)
    nodes = np.full((n, max_length), -1, np.int64)
    spans = np.zeros((n, max_length, 2), np.int32)
    for i in range(n):
        node = 0
        for length in range(1, min(max_length, n - i) + 1):
            node = find_child(phrases.first, phrases.words, node, source[i + length - 1])
            if node < 0:
                break
            count = phrases.entries[node + 1] - phrases.entries[node]
            if count:
                nodes[i, length - 1] = node
                spans[i, length - 1, 1] = min(max_options, count)
        # A word without translation of its own gets one option that copies it, so that search never fails.
        spans[i, 0, 1] = max(1, spans[i, 0, 1])
    return nodes, spans


@njit(nogil=True, cache=True)
def _rank_entries(node, scoring):
    """Return the entries of a node by decreasing estimate; [-1] if it has none."""
    if node < 0:
        return np.full(1, -1, np.int64)
    start, end = scoring.phrases.entries[node], scoring.phrases.entries[node + 1]
    keys = np.empty(end - start)
    for entry in range(start, end):
        score, guess = _score_entry(entry, scoring)
        keys[entry - start] = -(score + guess)
    return start + stable_argsort(keys)


@njit(nogil=True, cache=True)
def _target(phrases, entry):
    row = phrases.targets[entry]
    return phrases.target_offsets[row], phrases.target_offsets[row + 1]


@njit(nogil=True, cache=True)
def _score_entry(entry, scoring):
    """Return the weighted score of a phrase pair, and its language model score without context."""
    phrases, weights, model = scoring.phrases, scoring.weights, scoring.language_model
    if entry < 0:
        score = -weights[WORDS] - weights[PHRASES] + weights[COPIES]
        return score, weights[LANGUAGE] * LN10 * model.log_probs[1 + UNKNOWN_WORD]
    first, last = _target(phrases, entry)
    score = -weights[WORDS] * (last - first) - weights[PHRASES]
    for kind in range(4):
        score += weights[TABLE + kind] * phrases.scores[entry, kind]
    guess, state = 0.0, 0
    for k in range(first, last):
        log_prob, state = score_word(model, state, scoring.language_ids[phrases.target_words[k]])
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
