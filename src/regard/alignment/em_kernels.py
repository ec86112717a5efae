"""The compiled loops of the translation table, its cells, and Models 1 and 2.

Indices are not checked at run time: `TranslationTable.load` validates arrays from files.

The prior of Model 2 is that of Dyer, Chahuneau & Smith (2013). For target position j of n and source position
i of m, both counted from 1, and tension l:

    p(i | j, m, n) = exp(-l |i / m - j / n|) / Z,  where Z is the sum over i.

Z is the sum of two geometric series, one on each side of the diagonal, and its derivative the sum of two
arithmetico-geometric series, so both are computed without a loop over source words.
"""

import math
from typing import NamedTuple

import numpy as np

from regard.kernels.compilation import njit

MIN_PROBABILITY = 1e-9
"""Minimum probability of a translation."""


class Occurrences(NamedTuple):
    """The occurrences of each source word in a text, sorted by word.

    Attributes:
        firsts: int64 [words + 1], the start of each word's occurrences.
        rows: int32, the sentence of each occurrence.
        places: int32, its position in the sentence.
    """

    firsts: np.ndarray
    rows: np.ndarray
    places: np.ndarray


@njit(nogil=True, cache=True)
def occurrences(tokens, starts, lengths, words):
    """Return the occurrences of each word (a counting sort); unknown words are skipped."""
    firsts = np.zeros(words + 1, dtype=np.int64)
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            if token >= 0:
                firsts[token + 1] += 1
    for word in range(words):
        firsts[word + 1] += firsts[word]
    rows, places = np.empty(firsts[words], dtype=np.int32), np.empty(firsts[words], dtype=np.int32)
    free = firsts[:words].copy()
    for row in range(len(starts)):
        for place in range(lengths[row]):
            token = tokens[starts[row] + place]
            if token >= 0:
                rows[free[token]], places[free[token]] = row, place
                free[token] += 1
    return Occurrences(firsts, rows, places)


@njit(nogil=True, cache=True)
def cooccurring_words(found, layout, targets):
    """Return the starts and the columns of a table: the distinct target words that co-occur with each word.

    The last row is that of the null word, with all target words.
    """
    tokens, starts, lengths = layout.target, layout.target_starts, layout.target_lengths
    firsts, rows, words = found.firsts, found.rows, len(found.firsts) - 1
    row_starts, columns = np.zeros(words + 2, dtype=np.int64), np.empty(0, dtype=np.int32)
    # Only the sizes of the rows are computed first.
    for fill in (False, True):
        seen, size = np.full(targets, -1, dtype=np.int32), 0
        for word in range(words):
            before = -1
            for row in rows[firsts[word] : firsts[word + 1]]:
                if row == before:
                    continue
                before = row
                for token in tokens[starts[row] : starts[row] + lengths[row]]:
                    # Marking entries of `seen` with the word itself makes resetting it unnecessary.
                    if seen[token] != word:
                        seen[token] = word
                        if fill:
                            columns[size] = token
                        size += 1
            row_starts[word + 1] = size
        row_starts[words + 1] = size + targets
        if not fill:
            columns = np.empty(size + targets, dtype=np.int32)
    # Numba would compile the assignment of an array for seconds, for the message of an error of its shape.
    for token in range(targets):
        columns[row_starts[words] + token] = token
    return row_starts, columns


@njit(nogil=True, cache=True)
def digamma(x):
    """Return psi(x) for x > 0: psi(x) = psi(x + 1) - 1 / x up to 7, then the asymptotic series."""
    result = 0.0
    while x < 7:
        result -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = inverse * (
        1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132)))
    )
    return result + math.log(x) - 0.5 / x - series


@njit(nogil=True, cache=True)
def normalize_rows(first, last, starts, counts, values, alpha):
    """Compute the values of table rows from expected counts; see `TranslationTable.update`."""
    for row in range(first, last):
        total = alpha * (starts[row + 1] - starts[row])
        for entry in range(starts[row], starts[row + 1]):
            total += counts[entry]
        # No expected counts, e.g. in the row of a disabled null word.
        if total <= 0:
            continue
        if alpha > 0:
            level = digamma(total)
            least = level + math.log(MIN_PROBABILITY)
            for entry in range(starts[row], starts[row + 1]):
                x = counts[entry] + alpha
                # psi(x) < log(x) - 1 / (2 x) <= x - 1 - 1 / (2 x): true for most entries, and avoids digamma.
                small = x - 1 - 0.5 / x < least
                values[entry] = (
                    MIN_PROBABILITY if small else max(MIN_PROBABILITY, math.exp(digamma(x) - level))
                )
        else:
            for entry in range(starts[row], starts[row + 1]):
                values[entry] = counts[entry] / total
        counts[starts[row] : starts[row + 1]] = 0


@njit(nogil=True, cache=True)
def sort_cells(layout, firsts, order, widths):
    """Write the first cell of each source token and its number of cells, sorted by word."""
    free = firsts[:-1].copy()
    for row in range(len(layout.source_starts)):
        width = layout.target_lengths[row]
        for at in range(layout.source_lengths[row]):
            token = layout.source[layout.source_starts[row] + at]
            if token >= 0:
                order[free[token]] = layout.cells[row] + at * width
                widths[free[token]] = width
                free[token] += 1


@njit(nogil=True, cache=True)
def find_slots(first, last, found, order, layout, table, slots):
    """Write the table entry of each cell of source words `first` to `last` to `slots`."""
    # Arrays are bound to names outside the loops: numba loads the fields of a named tuple at each access.
    firsts, rows = found.firsts, found.rows
    tokens, starts, lengths = layout.target, layout.target_starts, layout.target_lengths
    row_starts, columns = table
    # A dense index of one table row at a time, reset after each word.
    where = np.full(row_starts[-1] - row_starts[-2], -1, dtype=np.int64)
    for word in range(first, last):
        if firsts[word] == firsts[word + 1]:
            continue
        for entry in range(row_starts[word], row_starts[word + 1]):
            where[columns[entry]] = entry
        for place in range(firsts[word], firsts[word + 1]):
            cell, start = order[place], starts[rows[place]]
            for at in range(lengths[rows[place]]):
                token = tokens[start + at]
                if token >= 0:
                    slots[cell + at] = where[token]
        for entry in range(row_starts[word], row_starts[word + 1]):
            where[columns[entry]] = -1


@njit(nogil=True, cache=True)
def accumulate(first, last, firsts, order, widths, slots, posteriors, counts):
    """Add the posteriors of the cells of source words `first` to `last` to the counts of their entries."""
    for word in range(first, last):
        for place in range(firsts[word], firsts[word + 1]):
            for cell in range(order[place], order[place] + widths[place]):
                counts[slots[cell]] += posteriors[cell]


@njit(nogil=True, cache=True)
def accumulate_null(null, tokens, starts, lengths, counts):
    """Add the posteriors of the null word to the counts of its row."""
    at = 0
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            counts[token] += null[at]
            at += 1


@njit(nogil=True, cache=True)
def longest_lengths(first, last, sources, targets):
    """Return the largest source and target length of pairs `first` to `last`, at least 1: buffer sizes.

    The arguments are the lengths and not the layout, which is of another type for each type of slots.
    """
    longest, widest = 1, 1
    for row in range(first, last):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    return longest, widest


@njit(nogil=True, cache=True)
def normalizer(j, n, m, tension):
    """Return Z for target position j (counted from 1) of n, and m source words."""
    below = j * m // n
    ratio = math.exp(-tension / m)
    total = 0.0
    if below < m:
        nearest = math.exp(-tension * ((below + 1) / m - j / n))
        total += nearest * (1 - ratio ** (m - below)) / (1 - ratio)
    if below > 0:
        nearest = math.exp(-tension * (j / n - below / m))
        total += nearest * (1 - ratio**below) / (1 - ratio)
    return total


@njit(nogil=True, cache=True)
def _series(value, weight, ratio, step, terms):
    """Return the sum of (value + k step) weight ratio^k for k < terms."""
    end = weight * ratio**terms
    last = value + step * (terms - 1)
    return (last * end - value * weight) / (ratio - 1) - step * (end - weight * ratio) / (ratio - 1) ** 2


@njit(nogil=True, cache=True)
def log_normalizer_gradient(j, n, m, tension):
    """Return the derivative of log Z with respect to the tension: minus the expected diagonal distance."""
    below = j * m // n
    ratio = math.exp(-tension / m)
    total = 0.0
    if below < m:
        distance = (below + 1) / m - j / n
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, m - below)
    if below > 0:
        distance = j / n - below / m
        total -= _series(distance, math.exp(-tension * distance), ratio, 1 / m, below)
    return total / normalizer(j, n, m, tension)


@njit(nogil=True, cache=True)
def expected_distance(sources, targets, counts, tension):
    """Return minus the expected distance from the diagonal under the prior, summed over all target words."""
    total = 0.0
    for k in range(len(counts)):
        part = 0.0
        for j in range(1, targets[k] + 1):
            part += log_normalizer_gradient(j, targets[k], sources[k], tension)
        total += part * counts[k]
    return total


@njit(nogil=True, cache=True)
def _prior_factors(m, n, tension, share, rise, fall, up, down):
    """Compute factors such that the prior of source i for target j is min(rise_i up_j, fall_i down_j)."""
    for i in range(m):
        # exp(-l |x - y|) = min(exp(l (x - y)), exp(l (y - x))): m + n exponentials instead of m n.
        rise[i] = math.exp(tension * (i + 1) / m)
        fall[i] = 1 / rise[i]
    for j in range(n):
        scale = share / (normalizer(j + 1, n, m, tension) if tension > 0 else m)
        distance = math.exp(tension * (j + 1) / n)
        up[j] = scale / distance
        down[j] = scale * distance


@njit(nogil=True, cache=True)
def translation_probability(values, slot):
    """Return the value of a table entry, at least `MIN_PROBABILITY`, which is also that of no entry (-1)."""
    return max(values[slot], np.float32(MIN_PROBABILITY)) if slot >= 0 else np.float32(MIN_PROBABILITY)


@njit(nogil=True, cache=True)
def expect_links(first, last, layout, values, nulls, null, tension, posteriors, null_posteriors):
    """Compute the posteriors of Models 1 and 2 for pairs `first` to `last`.

    Args:
        first: The first pair.
        last: The end of the range (exclusive).
        layout: The text, with the table entry of each cell, in rows of source tokens.
        values: float32, the probability of each table entry.
        nulls: float32, the row of the null word.
        null: See `IBMAligner`.
        tension: See `IBMAligner`.
        posteriors: float32, one value per cell; filled in place.
        null_posteriors: float32, one value per target token; filled in place.

    Returns:
        The log-likelihood, the number of null words, and minus the distance of the links from the diagonal.
    """
    longest, widest = longest_lengths(first, last, layout.source_lengths, layout.target_lengths)
    rise, fall = np.empty(longest, np.float32), np.empty(longest, np.float32)
    up, down, total = np.empty(widest, np.float32), np.empty(widest, np.float32), np.empty(widest, np.float32)
    tokens, starts, offsets = layout.target, layout.target_starts, layout.offsets
    sources, targets, cells, slots = layout.source_lengths, layout.target_lengths, layout.cells, layout.slots
    sums = np.zeros(3)
    for row in range(first, last):
        m, n = sources[row], targets[row]
        # `IBMAligner.null` is negative (`UNIFORM`) if the null word counts as one more source word.
        share = 1 / (m + 1) if null < 0 else null
        if m:
            _prior_factors(m, n, tension, 1 - share, rise, fall, up, down)
        out = null_posteriors[offsets[row] : offsets[row] + n]
        for j in range(n):
            token = tokens[starts[row] + j]
            out[j] = total[j] = share * translation_probability(nulls, token)
        for i in range(m):
            cell = cells[row] + i * n
            for j in range(n):
                prior = min(rise[i] * up[j], fall[i] * down[j])
                joint = translation_probability(values, slots[cell + j]) * prior
                posteriors[cell + j] = joint
                total[j] += joint
        for j in range(n):
            if total[j] == 0:
                # There is neither a source word nor a null word.
                continue
            sums[0] += math.log(total[j])
            total[j] = 1 / total[j]
            out[j] *= total[j]
            sums[1] += out[j]
        for i in range(m):
            cell = cells[row] + i * n
            distance = np.float32(0)
            for j in range(n):
                posteriors[cell + j] *= total[j]
                distance += posteriors[cell + j] * abs(np.float32(i + 1) / m - np.float32(j + 1) / n)
            sums[2] -= distance
    return sums


@njit(nogil=True, cache=True)
def pick_links(first, last, layout, posteriors, null, links):
    """Write the source position with the highest posterior to `links`; -1 if no link is more probable."""
    for row in range(first, last):
        m, n, cell = layout.source_lengths[row], layout.target_lengths[row], layout.cells[row]
        for j in range(n):
            at = layout.offsets[row] + j
            # Strictly greater: a tie goes to the null word, then to the first source word.
            most, links[at] = null[at], -1
            for i in range(m):
                if posteriors[cell + i * n + j] > most:
                    most, links[at] = posteriors[cell + i * n + j], i
    return np.zeros(0)
