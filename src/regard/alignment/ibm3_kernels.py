"""The compiled loops of Model 3: hill climbing, and the neighborhood of an alignment (Brown et al., 1993).

The score of an alignment is a sum. `link_scores[i, j]` is the log-probability of translation and distortion
of the link between i and j (row m: the translation by the null word). `fertility_scores[i, f]` is the
log-probability that source word i (m: null) has f links.
"""

import math
from typing import NamedTuple

import numpy as np

from regard.alignment.em_kernels import longest_lengths
from regard.alignment.hmm_kernels import emissions
from regard.kernels.compilation import njit

__all__ = [
    "MAX_DISTORTION",
    "MAX_FERTILITY",
    "MIN_GAIN",
    "NUM_DISTANCES",
    "IBM3Parameters",
    "add_share",
    "climb_links",
    "expect_neighborhood",
    "move_gain",
    "score_fertilities",
    "sum_fertilities",
    "swap_gain",
]

MAX_FERTILITY = 9
"""Maximum number of links of a source word without a penalty."""
MAX_DISTORTION = 30
"""Maximum distance from the diagonal; larger distances are clipped to it."""
NUM_DISTANCES = 2 * MAX_DISTORTION + 1
EXCESS_LOG_PROB = -30.0
"""Log-probability of each link beyond `MAX_FERTILITY`."""
MIN_GAIN = 1e-6
"""Minimum gain of a step; smaller ones are ignored, so that rounding cannot cause cycles."""


@njit(nogil=True, cache=True)
def diagonal_position(i, m, n):
    """Return the target position on the diagonal that corresponds to source position i."""
    return ((2 * i + 1) * n) // (2 * m)


class IBM3Parameters(NamedTuple):
    """The parameters of Model 3; see `regard.alignment.ibm3.IBM3Aligner`.

    Attributes:
        values: float32, the probability of each entry of the translation table.
        nulls: float32, its row of the null word.
        fertilities: float32 [source words + 1, MAX_FERTILITY + 1].
        distortions: float64 [NUM_DISTANCES].
        null: p_1.
        smoothing: Interpolation weight of the uniform distortion.
    """

    values: np.ndarray
    nulls: np.ndarray
    fertilities: np.ndarray
    distortions: np.ndarray
    null: float
    smoothing: float


class _Buffers(NamedTuple):
    """Arrays for the largest pair of a range, which all its pairs share.

    `links` contains the source position of each target word, m for null, and `counts` the number of links of
    each source position; for the other arrays, see `emissions` and the docstring of this module.
    """

    emitted: np.ndarray
    null_emitted: np.ndarray
    link_scores: np.ndarray
    fertility_scores: np.ndarray
    links: np.ndarray
    counts: np.ndarray


@njit(nogil=True, cache=True)
def _allocate(first_row, last_row, layout):
    longest, widest = longest_lengths(first_row, last_row, layout)
    return _Buffers(
        np.empty((widest, longest), np.float32),
        np.empty(widest, np.float32),
        np.empty((longest + 1, widest)),
        np.empty((longest + 1, widest + 2)),
        np.empty(widest, np.int64),
        np.empty(longest + 1, np.int64),
    )


@njit(nogil=True, cache=True)
def _score(m, n, row, layout, learned, buffers):
    """Compute `link_scores` and `fertility_scores` for one pair."""
    emitted, null_emitted = buffers.emitted, buffers.null_emitted
    link_scores, fertility_scores = buffers.link_scores, buffers.fertility_scores
    fertilities, distortions = learned.fertilities, learned.distortions
    null, smoothing = learned.null, learned.smoothing
    emissions(row, layout, learned.values, learned.nulls, emitted, null_emitted)
    for i in range(m):
        middle, total = diagonal_position(i, m, n), 0.0
        for j in range(n):
            total += distortions[MAX_DISTORTION + max(-MAX_DISTORTION, min(MAX_DISTORTION, j - middle))]
        for j in range(n):
            share = (
                distortions[MAX_DISTORTION + max(-MAX_DISTORTION, min(MAX_DISTORTION, j - middle))] / total
                if total > 0
                else 1 / n
            )
            link_scores[i, j] = math.log(emitted[j, i]) + math.log((1 - smoothing) * share + smoothing / n)
    for j in range(n):
        link_scores[m, j] = math.log(null_emitted[j])
    score_fertilities(m, n, row, layout, fertilities, null, fertility_scores)
    for i in range(m):
        for f in range(n + 2):
            # f! p(f | word): the words of a source word are placed in any order.
            fertility_scores[i, f] += math.lgamma(f + 1)


@njit(nogil=True, cache=True)
def score_fertilities(m, n, row, layout, fertilities, null, fertility_scores):
    """Compute the log-probability of each number of links of each source word and of the null word."""
    for i in range(m):
        word = layout.source[layout.source_starts[row] + i]
        word_fertilities = fertilities[word] if word >= 0 else fertilities[-1]
        for f in range(n + 2):
            excess = max(0, f - MAX_FERTILITY)
            fertility_scores[i, f] = (
                math.log(word_fertilities[min(f, MAX_FERTILITY)]) + EXCESS_LOG_PROB * excess
            )
    for f in range(n + 2):
        if 2 * f > n:
            # Each null word needs a word that is not null: 2 f_0 <= n.
            fertility_scores[m, f] = fertility_scores[m, f - 1] + EXCESS_LOG_PROB if f else 0.0
            continue
        # log binomial(n - f, f) + f log p1 + (n - 2 f) log p0
        choices = math.lgamma(n - f + 1) - math.lgamma(f + 1) - math.lgamma(n - 2 * f + 1)
        fertility_scores[m, f] = choices + f * math.log(null) + (n - 2 * f) * math.log(1 - null)


@njit(nogil=True, cache=True)
def move_gain(j, i, links, counts, link_scores, fertility_scores):
    """Return the gain in log-probability if word j is moved to another source word i."""
    old = links[j]
    change = fertility_scores[old, counts[old] - 1] - fertility_scores[old, counts[old]]
    return (
        link_scores[i, j]
        - link_scores[old, j]
        + change
        + fertility_scores[i, counts[i] + 1]
        - fertility_scores[i, counts[i]]
    )


@njit(nogil=True, cache=True)
def swap_gain(j, k, links, link_scores):
    """Return the gain in log-probability if words j and k swap their source words."""
    return (
        link_scores[links[k], j]
        + link_scores[links[j], k]
        - link_scores[links[j], j]
        - link_scores[links[k], k]
    )


@njit(nogil=True, cache=True)
def _hill_climb(m, n, links, counts, link_scores, fertility_scores):
    """Apply the best move or swap until none has a gain; return the log-probability of the alignment."""
    counts[: m + 1] = 0
    for j in range(n):
        counts[links[j]] += 1
    # The bound on the number of steps is a safeguard; climbing usually stops much earlier.
    for _ in range(4 * n + 8):
        most, first, second, swap = MIN_GAIN, -1, -1, False
        for j in range(n):
            for i in range(m + 1):
                if i != links[j]:
                    gain = move_gain(j, i, links, counts, link_scores, fertility_scores)
                    if gain > most:
                        most, first, second, swap = gain, j, i, False
            for k in range(j):
                if links[k] != links[j]:
                    gain = swap_gain(j, k, links, link_scores)
                    if gain > most:
                        most, first, second, swap = gain, j, k, True
        if first < 0:
            break
        if swap:
            links[first], links[second] = links[second], links[first]
        else:
            counts[links[first]] -= 1
            counts[second] += 1
            links[first] = second
    total = 0.0
    for j in range(n):
        total += link_scores[links[j], j]
    for i in range(m + 1):
        total += fertility_scores[i, counts[i]]
    return total


@njit(nogil=True, cache=True)
def _climb(m, n, row, layout, learned, out, buffers):
    """Score a pair and climb from the links `out` (-1: null); return the log-probability of the result."""
    _score(m, n, row, layout, learned, buffers)
    links = buffers.links
    for j in range(n):
        links[j] = out[j] if out[j] >= 0 else m
    return _hill_climb(m, n, links, buffers.counts, buffers.link_scores, buffers.fertility_scores)


@njit(nogil=True, cache=True)
def climb_links(first_row, last_row, layout, learned, links):
    """Improve `links` (-1: null) by hill climbing, in place."""
    buffers = _allocate(first_row, last_row, layout)
    for row in range(first_row, last_row):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        out = links[layout.offsets[row] : layout.offsets[row] + n]
        if m == 0 or n == 0:
            out[:] = -1
            continue
        _climb(m, n, row, layout, learned, out, buffers)
        for j in range(n):
            out[j] = buffers.links[j] if buffers.links[j] < m else -1
    return np.zeros(0)


@njit(nogil=True, cache=True)
def expect_neighborhood(
    first_row, last_row, layout, learned, source_offsets, links, posteriors, null_posteriors, counted
):
    """Compute expectations over the best alignment and those one move or swap away from it.

    Args:
        first_row: The first pair.
        last_row: The end of the range (exclusive).
        layout: The text, with the table entry of each cell, in rows of source tokens.
        learned: The parameters.
        source_offsets: int64 [pairs + 1], the start of each pair in `counted`.
        links: The initial links, -1 for null; overwritten with the best ones.
        posteriors: float32, one value per cell; filled in place.
        null_posteriors: float32, one value per target token; filled in place.
        counted: float32 [source tokens, MAX_FERTILITY + 1], the fertility posteriors; filled in place.

    Returns:
        The log-probability of these alignments, the number of null words, and the distortion counts.
    """
    buffers = _allocate(first_row, last_row, layout)
    link_scores, fertility_scores = buffers.link_scores, buffers.fertility_scores
    best_links, counts = buffers.links, buffers.counts
    sums = np.zeros(2 + NUM_DISTANCES)
    for row in range(first_row, last_row):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        out, none = links[at : at + n], null_posteriors[at : at + n]
        fertility_posteriors = counted[source_offsets[row] : source_offsets[row] + m]
        fertility_posteriors[:] = 0
        if m == 0 or n == 0:
            # All target words are null, all fertilities 0.
            out[:], none[:] = -1, 1
            for i in range(m):
                fertility_posteriors[i, 0] = 1
            continue
        top = _climb(m, n, row, layout, learned, out, buffers)
        # All weights are relative to that of the best alignment, which is 1.
        total = 1.0
        for j in range(n):
            for i in range(m + 1):
                if i != best_links[j]:
                    total += math.exp(move_gain(j, i, best_links, counts, link_scores, fertility_scores))
            for k in range(j):
                if best_links[k] != best_links[j]:
                    total += math.exp(swap_gain(j, k, best_links, link_scores))
        sums[0] += top + math.log(total)
        cell = layout.cells[row]
        for i in range(m):
            for j in range(n):
                posteriors[cell + i * n + j] = 0
            fertility_posteriors[i, min(counts[i], MAX_FERTILITY)] = 1
        none[:] = 0
        for j in range(n):
            # Start from the best alignment, then subtract its link and add the new one for each neighbor.
            add_share(best_links[j], j, 1.0, m, n, cell, posteriors, none)
        for j in range(n):
            for i in range(m + 1):
                if i == best_links[j]:
                    continue
                share = math.exp(move_gain(j, i, best_links, counts, link_scores, fertility_scores)) / total
                add_share(best_links[j], j, -share, m, n, cell, posteriors, none)
                add_share(i, j, share, m, n, cell, posteriors, none)
                for place, step in ((best_links[j], -1), (i, 1)):
                    if place < m:
                        fertility_posteriors[place, min(counts[place], MAX_FERTILITY)] -= share
                        fertility_posteriors[place, min(counts[place] + step, MAX_FERTILITY)] += share
            for k in range(j):
                if best_links[k] == best_links[j]:
                    continue
                share = math.exp(swap_gain(j, k, best_links, link_scores)) / total
                # A swap changes no fertility.
                for here, there in ((j, k), (k, j)):
                    add_share(best_links[here], here, -share, m, n, cell, posteriors, none)
                    add_share(best_links[there], here, share, m, n, cell, posteriors, none)
        for j in range(n):
            out[j] = best_links[j] if best_links[j] < m else -1
            # The differences may be slightly negative due to rounding.
            none[j] = max(np.float32(0), none[j])
            sums[1] += none[j]
            for i in range(m):
                at = cell + i * n + j
                posteriors[at] = max(np.float32(0), posteriors[at])
                sums[
                    2
                    + MAX_DISTORTION
                    + max(-MAX_DISTORTION, min(MAX_DISTORTION, j - diagonal_position(i, m, n)))
                ] += posteriors[at]
        for i in range(m):
            for f in range(MAX_FERTILITY + 1):
                fertility_posteriors[i, f] = max(np.float32(0), fertility_posteriors[i, f])
    return sums


@njit(nogil=True, cache=True)
def add_share(i, j, share, m, n, cell, posteriors, none):
    """Add a probability to the link between i and j, where m is the null word."""
    if i < m:
        posteriors[cell + i * n + j] += share
    else:
        none[j] += share


@njit(nogil=True, cache=True)
def sum_fertilities(tokens, starts, lengths, counted, totals):
    """Add up the fertilities of each source word, to `totals` [words + 1, MAX_FERTILITY + 1]."""
    at = 0
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            for f in range(MAX_FERTILITY + 1):
                totals[token, f] += counted[at, f]
            at += 1
