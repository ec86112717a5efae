"""The statistics of the links of all words of a text, in one compiled loop over its sentence pairs."""

import math

import numpy as np

from regard.alignment.corpus import UNKNOWN
from regard.kernels.compilation import njit, search_key

NUM_LINK_STATISTICS = 12
_MIN_PROBABILITY = 1e-4
"""Added to probabilities before their logarithm is taken."""
_MIN_UNLINKED = 1e-6
"""Minimum probability that two words are not linked."""


@njit(nogil=True, cache=True)
def collect_statistics(table, forms, counts, minimum, source, target):
    """Write the statistics of all words of a text, see `regard.extensions.check.evidence.STATISTICS`.

    Args:
        table: Arrays of the text: its offsets and numbers of both sides, `cells`, `forward` and `backward`,
            see `TextPosteriors`.
        forms: The numbers of the forms of the words of both sides, and those of their beginnings, which are
            alike on both sides.
        counts: Arrays of the training text: `rows`, `keys`, `counts` and the occurrences of both sides, see
            `LinkCounts`.
        minimum: Minimum geometric mean of both directions of a probable link.
        source: The statistics of the source words, float32 [N, 15]. The last columns are the position of the
            best link of a word in the other sentence, or -1, and whether the other sentence has the same word
            and one with the same beginning.
        target: Those of the target words, [M, 15].
    """
    source_offsets, target_offsets, source_numbers, target_numbers, cells, forward, backward = table
    (source_forms, target_forms), (source_beginnings, target_beginnings) = forms
    rows, keys, link_counts, source_counts, target_counts = counts
    size = len(target_counts)
    for pair in range(len(cells) - 1):
        start, end = source_offsets[pair], source_offsets[pair + 1]
        first, last = target_offsets[pair], target_offsets[pair + 1]
        linked = np.zeros(cells[pair + 1] - cells[pair], dtype=np.float32)
        place = 0
        for i in range(start, end):
            word = source_numbers[i]
            for j in range(first, last):
                other = target_numbers[j]
                if word != UNKNOWN and other != UNKNOWN:
                    entry = search_key(keys, word * size + other, rows[word], rows[word + 1])
                    if entry >= 0:
                        linked[place] = link_counts[entry]
                place += 1
                if source_forms[i] == target_forms[j]:
                    source[i, 13] = target[j, 13] = 1
                if source_beginnings[i] == target_beginnings[j]:
                    source[i, 14] = target[j, 14] = 1
        links = forward[cells[pair] : cells[pair + 1]], backward[cells[pair] : cells[pair + 1]]
        columns = last - first
        sides = source_numbers[start:end], target_numbers[first:last]
        side_statistics(
            *links, linked, sides, (source_counts, target_counts), (columns, 1), minimum, source[start:end]
        )
        side_statistics(
            links[1],
            links[0],
            linked,
            sides[::-1],
            (target_counts, source_counts),
            (1, columns),
            minimum,
            target[first:last],
        )


@njit(nogil=True, cache=True)
def side_statistics(toward, away, linked, numbers, occurrences, strides, minimum, statistics):
    """Write the statistics of the words of one side of a pair.

    Args:
        toward: Probabilities of the links from the other side to this one, one value per cell.
        away: Those of the links from this side to the other one.
        linked: How often the words of each cell are linked in the training text.
        numbers: The numbers of the words of this side and of the other one.
        occurrences: How often each word of this side and of the other one occurs in the training text.
        strides: Distance of two words of this side, and of the other one, among the cells.
        minimum: As in `collect_statistics`.
        statistics: The statistics, [N, 15].
    """
    step, other_step = strides
    size = len(numbers[1])
    claimed = np.zeros(size, dtype=np.float32)
    for t in range(size):
        for s in range(len(numbers[0])):
            claimed[t] += away[s * step + t * other_step]
    for s in range(len(numbers[0])):
        count = occurrences[0][numbers[0][s]] if numbers[0][s] != UNKNOWN else 0.0
        no_other, linked_away, shared = 1.0, 0.0, 0.0
        translation, reverse, dice, mutual, mutual_known, linked_dice = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        linked_translation, linked_reverse, best = 0.0, 0.0, -1
        for t in range(size):
            cell = s * step + t * other_step
            probability, links = away[cell], linked[cell]
            no_other *= max(1 - toward[cell], _MIN_UNLINKED)
            linked_away += probability
            shared += probability * (claimed[t] - probability)
            both = math.sqrt(toward[cell] * probability)
            if both > mutual:
                mutual = both
                if both > minimum:
                    best = t
            if links > 0:
                other_count = occurrences[1][numbers[1][t]]
                # Constants keep the estimates of rare words low.
                to_other, from_other = links / (count + 2), links / (other_count + 2)
                coefficient = 2 * links / (count + other_count + 4)
                translation, reverse = max(translation, to_other), max(reverse, from_other)
                dice = max(dice, coefficient)
                mutual_known = max(mutual_known, both * links / (links + 0.5))
                linked_dice = max(linked_dice, both * math.sqrt(coefficient))
                linked_translation += probability * to_other
                linked_reverse += probability * from_other
        no_own = max(1 - linked_away, 0.0)
        row = statistics[s]
        row[0], row[1], row[2] = math.sqrt(no_other * no_own), no_other, no_own
        row[3], row[4] = 1 - mutual, 1 - mutual_known
        row[5], row[6] = math.log(translation + _MIN_PROBABILITY), math.log(reverse + _MIN_PROBABILITY)
        row[7], row[8] = math.log(dice + _MIN_PROBABILITY), math.log(linked_dice + 1e-3)
        row[9] = math.log(linked_translation + _MIN_PROBABILITY)
        row[10] = math.log(linked_reverse + _MIN_PROBABILITY)
        row[11], row[12] = shared, best
