"""Stack decoding: beam search by number of covered words, Koehn et al. (2003), Section 3; Koehn (2004).

A hypothesis covers a set of source words. Hypotheses that cover the same number of words compete in one
stack, and each is extended by the options of uncovered spans. Two hypotheses are recombined if no extension
can distinguish them: the same words are covered, the language model is in the same state, and their last
phrases have the same effect on the reordering score of the next phrase. Only the better one is extended; the
other is kept for n-best lists.

The covered words are represented by the first gap, which is the first uncovered word, and a bitmap of the
words from there on. No phrase ends more than `distortion_limit` words after the first gap, so that one
integer suffices for sentences of any length. The same rule guarantees that the gap can always be reached
again.
"""

from typing import NamedTuple

import numpy as np

from regard.extensions.smt.language_model import BEGIN, END, score_word
from regard.extensions.smt.translation_options import (
    DISTORTION,
    LANGUAGE,
    LN10,
    ScoringArrays,
    TranslationOptions,
)
from regard.extensions.smt.trie import stable_argsort
from regard.kernels.compilation import njit

MAX_DISTORTION_LIMIT = 60
"""The maximum distortion limit, because the bitmap is one 64-bit integer."""

PREVIOUS, OPTION, GAP, MASK, FIRST, LAST, STATE, CLASS, NEXT_RECOMBINED, NEXT_IN_STACK, IN_STACK = range(11)
"""The columns of `Hypotheses.fields`: the extended hypothesis and the option; the first uncovered word and
the bitmap from there on; the span of the last phrase; the state of the language model; the class of the
option; the next recombined hypothesis; the next hypothesis of the stack; whether the hypothesis is in its
stack."""
HYPOTHESIS_FIELDS = 11


class Hypotheses(NamedTuple):
    """The hypotheses of a search; row 0 is the empty hypothesis.

    Attributes:
        fields: int64 [rows, HYPOTHESIS_FIELDS], the fields of each hypothesis.
        scores: float64 [rows], the weighted score so far.
        final: The row of the best complete hypothesis; the others are linked by `NEXT_RECOMBINED`.
    """

    fields: np.ndarray
    scores: np.ndarray
    final: int


@njit(nogil=True, cache=True)
def stack_search(
    options: TranslationOptions,
    future: np.ndarray,
    scoring: ScoringArrays,
    distortion_limit: int,
    stack_size: int,
    max_score_difference: float,
) -> Hypotheses:
    """Run the search and return all hypotheses.

    Args:
        options: The translation options of a sentence with at least one word.
        future: The future costs; see `future_costs`.
        scoring: The tables and weights.
        distortion_limit: The maximum distance of a reordering jump in source words, at most
            `MAX_DISTORTION_LIMIT`.
        stack_size: The maximum number of hypotheses that are extended per stack.
        max_score_difference: The maximum difference of scores between the best hypothesis of a stack and one
            that is kept.
    """
    n, longest = options.spans.shape[0], options.spans.shape[1]
    lexicalized = np.any(options.backward != 0) or np.any(options.forward != 0)
    # Compiled code counts references whenever it takes a table out of `scoring`, so not within the loops.
    model, language, distortion = (
        scoring.language_model,
        scoring.weights[LANGUAGE] * LN10,
        scoring.weights[DISTORTION],
    )
    numbers = np.zeros((1024, HYPOTHESIS_FIELDS), np.int64)
    scores, totals = np.zeros(1024), np.zeros(1024)
    table = np.full(4096, -1, np.int64)
    heads, counts = np.full(n + 1, -1, np.int64), np.zeros(n + 1, np.int64)
    best, bounds = np.full(n + 1, -np.inf), np.full(n + 1, -np.inf)
    numbers[0, PREVIOUS], numbers[0, OPTION], numbers[0, STATE] = -1, -1, model.states[1 + BEGIN]
    numbers[0, NEXT_RECOMBINED] = numbers[0, NEXT_IN_STACK] = -1
    extensions = np.empty((min(n, 2 * distortion_limit + 1) * longest, 4), np.int64)
    used, final, heads[0], counts[0] = 1, -1, 0, 1
    for covered in range(n):
        floor = best[covered] - max_score_difference
        rows = _stack_rows(covered, heads, counts, numbers)
        rows = rows[stable_argsort(-totals[rows])[:stack_size]]
        for row in rows[totals[rows] >= floor]:
            first, last, option = numbers[row, FIRST], numbers[row, LAST], numbers[row, OPTION]
            state, score = numbers[row, STATE], scores[row]
            for number in range(_find_extensions(numbers[row], options, distortion_limit, extensions)):
                i, j = extensions[number, 0], extensions[number, 1]
                gap, mask = extensions[number, 2], extensions[number, 3]
                stack = covered + j - i
                rest = _future_cost(future, n, gap, mask)
                kind = 0 if i == last else 1 if j == first else 2
                jump = -distortion * abs(i - last)
                if option >= 0:
                    jump += options.forward[option, kind]
                begin, count = options.spans[i, j - i - 1, 0], options.spans[i, j - i - 1, 1]
                for place in range(begin, begin + count):
                    value = score + jump + options.backward[place, kind] + options.scores[place]
                    after = state
                    for k in range(options.offsets[place], options.offsets[place + 1]):
                        log_prob, after = score_word(model, after, np.int64(options.words[k]))
                        value += language * log_prob
                    if stack == n:
                        log_prob, after = score_word(model, after, np.int64(END))
                        value += language * log_prob + options.forward[place, 0 if j == n else 2]
                    total = value + rest
                    # A hypothesis that would not be extended is not created.
                    if total < max(bounds[stack], best[stack] - max_score_difference):
                        continue
                    if used == len(scores):
                        numbers = np.concatenate((numbers, np.zeros((used, HYPOTHESIS_FIELDS), np.int64)))
                        scores = np.concatenate((scores, np.zeros(used)))
                        totals = np.concatenate((totals, np.zeros(used)))
                        table = _rehash(numbers, used, 8 * used)
                    new = numbers[used]
                    new[PREVIOUS], new[OPTION] = row, place
                    new[NEXT_RECOMBINED] = new[NEXT_IN_STACK] = -1
                    new[GAP], new[MASK] = gap, mask
                    # Complete hypotheses have no extensions: their other fields stay 0, so that all of them
                    # are recombined.
                    if stack < n:
                        new[FIRST], new[LAST] = i if lexicalized else 0, j
                        new[STATE], new[CLASS] = after, options.classes[place]
                    scores[used], totals[used] = value, total
                    best[stack] = max(best[stack], total)
                    here = _recombine(numbers, scores, totals, table, used)
                    used += 1
                    if stack == n:
                        final = here
                    elif not numbers[here, IN_STACK]:
                        numbers[here, IN_STACK] = 1
                        numbers[here, NEXT_IN_STACK], heads[stack] = heads[stack], here
                        counts[stack] += 1
                        # Pruning only at four times the size takes constant time per hypothesis.
                        if counts[stack] >= 4 * stack_size:
                            bounds[stack] = _prune_stack(stack, heads, counts, numbers, totals, stack_size)
    return Hypotheses(numbers[:used], scores[:used], final)


@njit(nogil=True, cache=True)
def _find_extensions(hypothesis, options, distortion_limit, extensions):
    """Write the spans that can extend a hypothesis, with the gap and bitmap after it; return the number."""
    gap, mask, last = hypothesis[GAP], hypothesis[MASK], hypothesis[LAST]
    n, longest = options.spans.shape[0], options.spans.shape[1]
    count = 0
    for i in range(max(gap, last - distortion_limit), min(n, last + distortion_limit + 1)):
        # The bitmap has no bit beyond 63, and no such word is covered.
        if i - gap < 63 and mask >> (i - gap) & 1:
            continue
        for length in range(1, min(longest, n - i) + 1):
            j = i + length
            if i != gap and j - gap > distortion_limit:
                break
            if j - 1 - gap < 63 and mask >> (j - 1 - gap) & 1:
                break
            if options.spans[i, length - 1, 1]:
                new_gap, new_mask = gap, mask | ((1 << length) - 1) << (i - gap)
                while new_mask & 1:
                    new_gap += 1
                    new_mask >>= 1
                extensions[count, 0], extensions[count, 1] = i, j
                extensions[count, 2], extensions[count, 3] = new_gap, new_mask
                count += 1
    return count


@njit(nogil=True, cache=True)
def _future_cost(future, n, gap, mask):
    """Return the future cost of the uncovered words from the first gap on."""
    total, start, place = 0.0, gap, gap
    while mask:
        if mask & 1:
            if place > start:
                total += future[start, place]
            start = place + 1
        mask >>= 1
        place += 1
    return total + future[start, n] if start < n else total


@njit(nogil=True, cache=True)
def _stack_rows(stack, heads, counts, numbers):
    rows, row = np.empty(counts[stack], np.int64), heads[stack]
    for place in range(len(rows)):
        rows[place] = row
        row = numbers[row, NEXT_IN_STACK]
    return rows


@njit(nogil=True, cache=True)
def _prune_stack(stack, heads, counts, numbers, totals, size):
    """Prune a stack to its best hypotheses and return the score of the worst one that is kept."""
    rows = _stack_rows(stack, heads, counts, numbers)
    keys = totals[rows]
    # `np.partition` would do, but takes Numba 4 seconds to compile; this sort is compiled already.
    bound = keys[stable_argsort(keys)[len(keys) - size]]
    heads[stack], counts[stack] = -1, 0
    for row in rows:
        if totals[row] >= bound and counts[stack] < size:
            numbers[row, NEXT_IN_STACK], heads[stack] = heads[stack], row
            counts[stack] += 1
        else:
            numbers[row, IN_STACK] = 0
    return bound


@njit(nogil=True, cache=True)
def _hash(row, size):
    value = np.uint64(row[GAP])
    for column in (MASK, FIRST, LAST, STATE, CLASS):
        value = (value ^ np.uint64(row[column])) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
    return np.int64(value & np.uint64(size - 1))


@njit(nogil=True, cache=True)
def _same(one, other):
    for column in (GAP, MASK, FIRST, LAST, STATE, CLASS):
        if one[column] != other[column]:
            return False
    return True


@njit(nogil=True, cache=True)
def _rehash(numbers, used, size):
    """Return a larger hash table of hypotheses, without those that were recombined into others."""
    table = np.full(size, -1, np.int64)
    for row in range(1, used):
        place = _hash(numbers[row], size)
        # The first of several recombined hypotheses represents all of them.
        while table[place] >= 0 and not _same(numbers[table[place]], numbers[row]):
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = row
    return table


@njit(nogil=True, cache=True)
def _recombine(numbers, scores, totals, table, new):
    """Recombine a new hypothesis and return the row that represents it, which holds the better of the two."""
    place = _hash(numbers[new], len(table))
    while table[place] >= 0:
        old = table[place]
        if _same(numbers[old], numbers[new]):
            if scores[new] > scores[old]:
                # The contents are swapped, because other hypotheses refer to the old row.
                for column in (PREVIOUS, OPTION):
                    numbers[old, column], numbers[new, column] = numbers[new, column], numbers[old, column]
                scores[old], scores[new] = scores[new], scores[old]
                totals[old], totals[new] = totals[new], totals[old]
            numbers[new, NEXT_RECOMBINED], numbers[old, NEXT_RECOMBINED] = numbers[old, NEXT_RECOMBINED], new
            return old
        place = (place + 1) & (len(table) - 1)
    table[place] = new
    return new
