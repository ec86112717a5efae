"""Features of words and sentences, from which coverage errors are predicted."""

from collections.abc import Sequence, Set
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from regard.extensions.check.evidence import STATISTICS, SideEvidence, WordNorms
from regard.extensions.check.posteriors import LINK_THRESHOLD, TextPosteriors
from regard.extensions.check.surface import MAX_NGRAM, longest_repetitions
from regard.text.words import is_alphabetic, is_reduplication

NUM_REPETITION_FEATURES = 10
"""Number of features of a word for repetitions, and of a sentence."""
NUM_ROOM_FEATURES = 3
NUM_SENTENCE_FEATURES = 16
_CONTEXT = (-3, -2, -1, 1, 2, 3)
_NEIGHBOR_STATISTICS = ("mutual", "mutual_known", "translation", "linked_dice")
_MAX_SCORE = 6.0
_MAX_GAP = 5.0
_LARGEST = 3  # values of a sentence that are averaged
NUM_WORD_FEATURES = 3 * len(STATISTICS) + (2 + len(_CONTEXT) + 1) * len(_NEIGHBOR_STATISTICS) + 4 + 6 + 7 + 5


def word_features(
    evidence: SideEvidence, norms: WordNorms, length_excess: Float[np.ndarray, "P"]
) -> Float[np.ndarray, "N F"]:
    """Return the features of each word of one side: its own evidence, its neighbors', the sentence's.

    Args:
        evidence: Evidence about the side.
        norms: The statistics of the words in good translations.
        length_excess: Length of each translation, see `LengthModel.excess`.
    """
    if not len(evidence.numbers):
        return np.empty((0, NUM_WORD_FEATURES))
    mean, deviation = norms.of(evidence.numbers)
    difference = (evidence.statistics - mean).astype(np.float32)
    mean, deviation = mean.astype(np.float32), deviation.astype(np.float32)
    # Rare words have small deviations by chance, so the scores are bounded.
    scores = np.clip(difference / (deviation + np.float32(0.05)), -_MAX_SCORE, _MAX_SCORE)
    sentence, offsets = evidence.sentence, evidence.offsets
    lengths = np.maximum(np.diff(offsets), 1)
    place = np.arange(len(sentence)) - offsets[:-1][sentence]
    around = [STATISTICS.index(name) for name in _NEIGHBOR_STATISTICS]
    tables = [evidence.statistics, difference, scores, mean[:, around], deviation[:, around]]
    tables.append(np.stack([evidence.known, evidence.copied, evidence.word, evidence.frequency], axis=1))
    context = np.concatenate([scores[:, around], evidence.column("mutual")[:, None]], axis=1)
    tables.append(_neighbors(context, sentence))
    tables.append(_order_features(evidence))
    total = np.cumsum(scores[:, around], axis=0, dtype=np.float64)
    total = np.concatenate([np.zeros((1, len(around))), total])
    means = (total[offsets[1:]] - total[offsets[:-1]]) / lengths[:, None]
    tables.append(means[sentence])
    relative = place / lengths[sentence]
    ends = (place == 0).astype(np.float64), (place == lengths[sentence] - 1).astype(np.float64)
    tables.append(np.stack([length_excess[sentence], np.log(lengths)[sentence], relative, *ends], axis=1))
    return np.concatenate(tables, axis=1, dtype=np.float32)


def room_features(evidence: SideEvidence, ratio: Float[np.ndarray, "P"]) -> Float[np.ndarray, "N 3"]:
    """Return whether the other sentence has characters for each word and its unlinked neighbors.

    These are the words between the nearest linked words to the left and to the right, and the words of the
    other sentence between those that they are linked to.

    Args:
        evidence: Evidence about the side.
        ratio: Number of characters of the other side that a character is expected to become.
    """
    if not len(evidence.numbers):
        return np.empty((0, NUM_ROOM_FEATURES))
    sentence, offsets, others = evidence.sentence, evidence.offsets, evidence.other_offsets
    start, end = others[:-1][sentence], others[1:][sentence]
    left, left_position = _nearest(evidence.position, offsets)
    right, right_position = _nearest(evidence.position[::-1], len(evidence.position) - offsets[::-1])
    right, right_position = len(evidence.position) - 1 - right[::-1], right_position[::-1]
    length = (end - start).astype(np.float32)
    right_position = np.where(right_position < 0, length, right_position)
    characters, other_characters = (
        np.concatenate([[0.0], np.cumsum(sizes)])
        for sizes in (evidence.characters, evidence.other_characters)
    )
    first = start + np.minimum(left_position, right_position).astype(np.int64) + 1
    last = np.maximum(start + np.maximum(left_position, right_position).astype(np.int64), first)
    room = other_characters[np.minimum(last, end)] - other_characters[np.minimum(first, end)]
    needed = (characters[right] - characters[left + 1]) * ratio[sentence]
    return np.stack(
        [
            np.clip((needed - room) / 10, -_MAX_SCORE, _MAX_SCORE),
            np.log((room + 1) / (needed + 1)),
            np.log1p(needed),
        ],
        axis=1,
    )


def _order_features(evidence: SideEvidence) -> Float[np.ndarray, "N 7"]:
    """Return the room that the other sentence has for a translation between those of the neighbors.

    If the nearest linked words to the left and to the right are linked to adjacent words, then nothing
    between them can be the translation. An unlinked word in the gap may be a free translation.
    """
    sentence = evidence.sentence
    length = np.diff(evidence.other_offsets)[sentence].astype(np.float64)
    _, left = _nearest(evidence.position, evidence.offsets)
    reversed_offsets = len(evidence.numbers) - evidence.offsets[::-1]
    right = _nearest(evidence.position[::-1], reversed_offsets)[1][::-1]
    right = np.where(right < 0, length, right)
    gap = right - left - 1
    total = np.concatenate([[0.0], np.cumsum(evidence.other_unlinked, dtype=np.float64)])
    start = evidence.other_offsets[:-1][sentence]
    first = (start + np.minimum(left, right) + 1).astype(np.int64)
    last = np.maximum((start + np.maximum(left, right)).astype(np.int64), first)
    unlinked = total[np.minimum(last, len(total) - 1)] - total[np.minimum(first, len(total) - 1)]
    everywhere = (total[evidence.other_offsets[1:]] - total[evidence.other_offsets[:-1]])[sentence]
    return np.stack(
        [
            np.clip(gap, -_MAX_GAP, _MAX_GAP),
            (gap == 0).astype(np.float64),
            (gap < 0).astype(np.float64),
            (gap == 1).astype(np.float64),
            unlinked,
            everywhere,
            everywhere / np.maximum(length, 1),
        ],
        axis=1,
    )


def _nearest(
    positions: Float[np.ndarray, "N"], offsets: Int[np.ndarray, "P+1"]
) -> tuple[Int[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """Return for each word the nearest linked word before it in its sentence, and its position, or -1.

    Without a linked word, it is the word before the sentence.
    """
    index = np.arange(len(positions))
    linked = np.maximum.accumulate(np.where(positions >= 0, index, -1))
    before = np.concatenate([[-1], linked[:-1]])
    start = np.repeat(offsets[:-1], np.diff(offsets))
    inside = before >= start
    return np.where(inside, before, start - 1), np.where(inside, positions[np.maximum(before, 0)], -1.0)


def _neighbors(
    values: Float[np.ndarray, "N F"], sentence: Int[np.ndarray, "N"]
) -> Float[np.ndarray, "N 6*F"]:
    """Return the values of the words at the distances `_CONTEXT` of each word, 0 beyond its sentence."""
    index = np.clip(np.arange(len(values))[:, None] + _CONTEXT, -1, len(values))
    # A neighbor in the flat array may belong to another sentence, and counts as absent, as the last row.
    index[np.append(sentence, -1)[index] != sentence[:, None]] = -1
    return np.append(values, np.zeros_like(values[:1]), axis=0)[index].reshape(len(values), -1)


def sentence_features(
    evidence: SideEvidence, words: Float[np.ndarray, "N"], length_excess: Float[np.ndarray, "P"]
) -> Float[np.ndarray, "P F"]:
    """Return the features of one side of each sentence, from which unrelated translations are found.

    Args:
        evidence: Evidence about the side.
        words: Log-odds of an error of each word.
        length_excess: Length of each translation.
    """
    offsets = evidence.offsets
    lengths = np.diff(offsets)
    table = np.zeros((len(lengths), NUM_SENTENCE_FEATURES))
    filled = np.flatnonzero(lengths)
    if len(filled):
        starts, size = offsets[:-1][filled], lengths[filled]

        def mean(values: np.ndarray) -> np.ndarray:
            return np.add.reduceat(values, starts) / size

        descending = words[np.lexsort((-words, evidence.sentence))]
        place = np.arange(len(words)) - np.repeat(starts, size)
        top = np.where(place < _LARGEST, descending, 0.0)
        probability = 1 / (1 + np.exp(-words))
        mutual = evidence.column("mutual")
        columns = [
            np.maximum.reduceat(words, starts),
            np.add.reduceat(top, starts) / np.minimum(size, _LARGEST),
            mean(words),
            np.add.reduceat(np.log1p(-np.minimum(probability, 1 - 1e-9)), starts),
            np.add.reduceat(probability, starts),
            best_runs(words, offsets)[filled],
            mean(evidence.column("unlinked")),
            mean(mutual),
            np.maximum.reduceat(mutual, starts),
            mean(evidence.column("mutual_known")),
            mean(evidence.column("linked_dice")),
            mean(evidence.copied),
            np.log(size),
        ]
        table[filled, :-3] = np.stack(columns, axis=1)
    # The positive and the negative part let the effects of long and of short translations differ.
    positive = np.maximum(length_excess, 0), np.maximum(-length_excess, 0)
    table[:, -3:] = np.stack([length_excess, *positive], axis=1)
    return table


def best_runs(values: Float[np.ndarray, "N"], offsets: Int[np.ndarray, "P+1"]) -> Float[np.ndarray, "P"]:
    """Return for each sentence the largest sum of neighboring values, at least 0."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    runs, run = np.zeros(len(starts)), np.zeros(len(starts))
    # The run that ends at a word, for the words at the same place of all sentences (Kadane's algorithm).
    for place in range(lengths.max(initial=0)):
        rows = np.flatnonzero(lengths > place)
        run[rows] = np.maximum(run[rows] + values[starts[rows] + place], 0)
        runs[rows] = np.maximum(runs[rows], run[rows])
    return runs


def repetition_features(
    table: TextPosteriors, target: SideEvidence, doubled: Set[str] = frozenset()
) -> Float[np.ndarray, "M F"]:
    """Return the features of each target word of a text for repetitions.

    A repetition that the source has as well is linked to two source words; one that it has not is linked to
    the same source word twice, or to nothing.

    Args:
        table: The link probabilities.
        target: Evidence about the translations.
        doubled: Words that good translations double.
    """
    features = np.zeros((len(table.numbers[1]), NUM_REPETITION_FEATURES))
    features[:, 7:] = target.statistics[:, 1:4]
    offsets = table.words.offsets[1]
    # Only these sentences need further features.
    for row in np.flatnonzero(table.words.num_repeated * np.diff(table.words.offsets[0])).tolist():
        source, words = table.words.folded[row]
        forward = table.forward[table.cells[row] : table.cells[row + 1]].reshape(len(source), len(words))
        features[offsets[row] : offsets[row + 1], :7] = _repetitions(source, words, forward, doubled)
    return features


def _repetitions(
    source: Sequence[str], words: tuple[str, ...], forward: Float[np.ndarray, "S T"], doubled: Set[str]
) -> Float[np.ndarray, "T 7"]:
    """Return the features of the target words of one sentence without those of links to nothing."""
    table = np.zeros((len(words), 7))
    sizes: list[tuple[float, int]] = []
    before: set[str] = set()
    echoes = _echoes(words)
    # A translation may repeat a word at once where the source does, linked or not.
    correct = echoes if len(_echoes(source)) >= len(echoes) else set()
    for t, word in enumerate(words):
        if word not in before:
            before.add(word)
            continue
        if t in correct:
            continue
        # A translation may repeat what translates a word that the source repeats, but not directly after it.
        if word not in words[t - 1 : t] + words[t + 1 : t + 2]:
            linked = int(forward[:, t].argmax())
            if forward[linked, t] > LINK_THRESHOLD and source.count(source[linked]) > 1:
                continue
        sizes = sizes or longest_repetitions(words, doubled)
        table[t, 0] = sizes[t][0] / MAX_NGRAM
    for word in {words[t] for t in np.flatnonzero(table[:, 0]).tolist()} if sizes else ():
        if not is_alphabetic(word):
            continue
        positions = [t for t, other in enumerate(words) if other == word]
        source_count = source.count(word)
        # The overlap is large if both occurrences are linked to the same source word.
        columns = forward[:, positions]
        overlaps = columns.T @ columns
        for number, (last, t) in enumerate(pairwise(positions), 1):
            overlap = overlaps[number, :number].max()
            table[t, 1:] = (
                1.0,
                float(t - last == 1),
                overlap,
                overlap * table[t, 0],
                float(source_count > number),
                1.0 / (t - last),
            )
    return table


def _echoes(words: Sequence[str]) -> set[int]:
    """Return the positions of words that follow themselves, punctuation marks apart: `stop, stop`."""
    positions = [t for t, word in enumerate(words) if is_alphabetic(word)]
    return {t for last, t in pairwise(positions) if words[last] == words[t]}


def repetition_sentence_features(
    table: TextPosteriors,
    features: Float[np.ndarray, "M F"],
    words: Float[np.ndarray, "M"],
    length_excess: Float[np.ndarray, "P"],
    doubled: Set[str] = frozenset(),
) -> Float[np.ndarray, "P 10"]:
    """Return the features of each sentence for repetitions.

    Args:
        table: The link probabilities.
        features: The features of the target words, see `repetition_features`.
        words: Log-odds of a repetition of each target word.
        length_excess: Length of each translation.
        doubled: Words that good translations double.
    """
    text, offsets = table.words, table.words.offsets[1]
    pair_features = np.zeros((len(text.pairs), NUM_REPETITION_FEATURES))
    lengths = np.diff(offsets)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return pair_features
    starts = offsets[:-1][filled]
    probability = 1 / (1 + np.exp(-words))
    repeated = text.num_repeated
    counts = np.zeros((len(lengths), 2))
    for row in np.flatnonzero(repeated).tolist():
        source, target = text.folded[row]
        counts[row] = _num_repeated(target, doubled)
        if counts[row].any():
            # A repetition that the source has as well is no error, so its count is subtracted.
            counts[row] = np.maximum(counts[row] - _num_repeated(source, doubled), 0)
    pair_features[filled] = np.stack(
        [
            np.maximum.reduceat(words, starts),
            np.add.reduceat(np.log1p(-np.minimum(probability, 1 - 1e-9)), starts),
            np.add.reduceat(probability, starts),
            best_runs(words, offsets)[filled],
            *counts[filled].T,
            np.maximum.reduceat(features[:, 0], starts),
            np.maximum.reduceat(features[:, 4], starts),
            repeated[filled] / lengths[filled],
            length_excess[filled],
        ],
        axis=1,
    )
    return pair_features


def _num_repeated(words: Sequence[str], doubled: Set[str]) -> tuple[int, int]:
    """Return the number of doubled words, and of bigrams that occur before, of letters alone."""
    doubles, num_repeated, seen = 0, 0, set()
    for bigram in pairwise(words):
        first, second = bigram
        if first == second and is_alphabetic(first) and first not in doubled:
            doubles += not is_reduplication((first,))
        if bigram in seen:
            num_repeated += is_alphabetic(first) and is_alphabetic(second)
        seen.add(bigram)
    return doubles, num_repeated
