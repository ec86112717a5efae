"""The compiled loops of Model 4: distortion of cepts, hill climbing, and the neighborhood of an alignment.

The cept of a source word is the set of its target words. The score of an alignment is the sum of the link and
fertility scores of `regard.alignment.ibm3_kernels`, without the distortion of links and the factor f!, and of
the distortion of its cepts, which depends on the whole alignment and is computed for each neighbor in time
O(m + n).
"""

import math
from typing import NamedTuple

import numpy as np

from regard.alignment.em_kernels import longest_lengths
from regard.alignment.hmm_kernels import emissions
from regard.alignment.ibm3_kernels import (
    MAX_DISTORTION,
    MAX_FERTILITY,
    MIN_GAIN,
    NUM_DISTANCES,
    add_share,
    move_gain,
    score_fertilities,
    swap_gain,
)
from regard.kernels.compilation import njit

__all__ = ["IBM4Parameters", "climb_cepts", "count_cepts", "expect_cepts"]


class IBM4Parameters(NamedTuple):
    """The parameters of Model 4; see `regard.alignment.ibm4.IBM4Aligner`.

    Attributes:
        values: float32, the probability of each entry of the translation table.
        nulls: float32, its row of the null word.
        fertilities: float32 [source words + 1, MAX_FERTILITY + 1].
        heads: float64 [NUM_DISTANCES], the log-probability of each displacement of a head.
        others: float64 [MAX_DISTORTION], the log-probability of each displacement of another word, from 1.
        null: p_1.
    """

    values: np.ndarray
    nulls: np.ndarray
    fertilities: np.ndarray
    heads: np.ndarray
    others: np.ndarray
    null: float


class _Buffers(NamedTuple):
    """Arrays for the largest pair of a range; see `regard.alignment.ibm3_kernels`.

    For each source position, `first`, `last` and `total` are the first and the last position of its cept and
    the sum of its positions.
    """

    emitted: np.ndarray
    null_emitted: np.ndarray
    link_scores: np.ndarray
    fertility_scores: np.ndarray
    links: np.ndarray
    counts: np.ndarray
    first: np.ndarray
    last: np.ndarray
    total: np.ndarray


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
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
    )


@njit(nogil=True, cache=True)
def _walk(m, n, buffers, heads, others, share, head_counts, other_counts):
    """Return the log-probability of the distortion of `buffers.links`, and add `share` to its counts.

    A head is displaced from the center of the cept before, the mean of its positions rounded up, or from the
    position before the sentence; every other word is displaced from the word before it in its cept.
    """
    links, counts, first, last, total = (
        buffers.links,
        buffers.counts,
        buffers.first,
        buffers.last,
        buffers.total,
    )
    score = 0.0
    first[:m] = -1
    for j in range(n):
        i = links[j]
        if i == m:
            continue
        if first[i] < 0:
            first[i], total[i] = j, j
        else:
            step = min(MAX_DISTORTION, j - last[i]) - 1
            score += others[step]
            other_counts[step] += share
            total[i] += j
        last[i] = j
    center = -1
    for i in range(m):
        if first[i] >= 0:
            step = MAX_DISTORTION + max(-MAX_DISTORTION, min(MAX_DISTORTION, first[i] - center))
            score += heads[step]
            head_counts[step] += share
            center = -(-total[i] // counts[i])
    return score


@njit(nogil=True, cache=True)
def _move(j, i, links, counts):
    """Link word j to source word i."""
    counts[links[j]] -= 1
    counts[i] += 1
    links[j] = i


@njit(nogil=True, cache=True)
def _neighbor_scores(m, n, buffers, learned, base, found, swapped, head_counts, other_counts, share_total):
    """Compute the gain of each move, `found` [n, m + 1], and of each swap, `swapped` [n, n], over `base`.

    If `share_total` is positive, the counts receive exp(gain) / `share_total` of each neighbor.
    """
    links, counts = buffers.links, buffers.counts
    link_scores, fertility_scores = buffers.link_scores, buffers.fertility_scores
    counted = share_total > 0
    for j in range(n):
        old = links[j]
        for i in range(m + 1):
            if i == old:
                continue
            gain = found[j, i]
            if not counted:
                gain = move_gain(j, i, links, counts, link_scores, fertility_scores) - base
            share = math.exp(gain) / share_total if counted else 0.0
            _move(j, i, links, counts)
            score = _walk(m, n, buffers, learned.heads, learned.others, share, head_counts, other_counts)
            _move(j, old, links, counts)
            if not counted:
                found[j, i] = gain + score
        for k in range(j):
            other = links[k]
            if other == old:
                continue
            gain = swapped[j, k]
            if not counted:
                gain = swap_gain(j, k, links, link_scores) - base
            share = math.exp(gain) / share_total if counted else 0.0
            links[j], links[k] = other, old
            score = _walk(m, n, buffers, learned.heads, learned.others, share, head_counts, other_counts)
            links[j], links[k] = old, other
            if not counted:
                swapped[j, k] = gain + score


@njit(nogil=True, cache=True)
def _climb(m, n, row, layout, learned, out, buffers, found, swapped, head_counts, other_counts):
    """Climb from the links `out` (-1: null); return the log-probability of the best alignment.

    `found` and `swapped` contain the gains of its neighbors afterward.
    """
    emissions(row, layout, learned.values, learned.nulls, buffers.emitted, buffers.null_emitted)
    links, counts, link_scores = buffers.links, buffers.counts, buffers.link_scores
    for j in range(n):
        for i in range(m):
            link_scores[i, j] = math.log(buffers.emitted[j, i])
        link_scores[m, j] = math.log(buffers.null_emitted[j])
    fertility_scores = buffers.fertility_scores
    score_fertilities(m, n, row, layout, learned.fertilities, learned.null, fertility_scores)
    counts[: m + 1] = 0
    for j in range(n):
        links[j] = out[j] if out[j] >= 0 else m
        counts[links[j]] += 1
    base = _walk(m, n, buffers, learned.heads, learned.others, 0.0, head_counts, other_counts)
    # As in Model 3, the bound on the number of steps is a safeguard.
    for _ in range(4 * n + 8):
        _neighbor_scores(m, n, buffers, learned, base, found, swapped, head_counts, other_counts, 0.0)
        most, first, second, swap = MIN_GAIN, -1, -1, False
        for j in range(n):
            for i in range(m + 1):
                if i != links[j] and found[j, i] > most:
                    most, first, second, swap = found[j, i], j, i, False
            for k in range(j):
                if links[k] != links[j] and swapped[j, k] > most:
                    most, first, second, swap = swapped[j, k], j, k, True
        if first < 0:
            break
        if swap:
            links[first], links[second] = links[second], links[first]
        else:
            _move(first, second, links, counts)
        base = _walk(m, n, buffers, learned.heads, learned.others, 0.0, head_counts, other_counts)
    top = base
    for j in range(n):
        top += link_scores[links[j], j]
    for i in range(m + 1):
        top += fertility_scores[i, counts[i]]
    return top


@njit(nogil=True, cache=True)
def climb_cepts(first_row, last_row, layout, learned, links):
    """Improve `links` (-1: null) by hill climbing, in place."""
    buffers = _allocate(first_row, last_row, layout)
    longest, widest = longest_lengths(first_row, last_row, layout)
    move_gains, swapped = np.empty((widest, longest + 1)), np.empty((widest, widest))
    ignored = np.zeros(NUM_DISTANCES)
    for row in range(first_row, last_row):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        out = links[layout.offsets[row] : layout.offsets[row] + n]
        if m == 0 or n == 0:
            out[:] = -1
            continue
        _climb(m, n, row, layout, learned, out, buffers, move_gains, swapped, ignored, ignored)
        for j in range(n):
            out[j] = buffers.links[j] if buffers.links[j] < m else -1
    return np.zeros(0)


@njit(nogil=True, cache=True)
def count_cepts(first_row, last_row, layout, links):
    """Return the displacements of heads, then of other words, of the links (-1: null) of a text."""
    buffers = _allocate(first_row, last_row, layout)
    sums, zeros = np.zeros(NUM_DISTANCES + MAX_DISTORTION), np.zeros(NUM_DISTANCES)
    for row in range(first_row, last_row):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        out = links[layout.offsets[row] : layout.offsets[row] + n]
        buffers.counts[: m + 1] = 0
        for j in range(n):
            buffers.links[j] = out[j] if out[j] >= 0 else m
            buffers.counts[buffers.links[j]] += 1
        _walk(m, n, buffers, zeros, zeros, 1.0, sums[:NUM_DISTANCES], sums[NUM_DISTANCES:])
    return sums


@njit(nogil=True, cache=True)
def expect_cepts(
    first_row, last_row, layout, learned, source_offsets, links, posteriors, null_posteriors, counted
):
    """Compute expectations over the best alignment and those one move or swap away from it.

    The arguments are those of `regard.alignment.ibm3_kernels.expect_neighborhood`.

    Returns:
        The log-probability of these alignments, the number of null words, and the displacements of heads and
        of other words.
    """
    buffers = _allocate(first_row, last_row, layout)
    longest, widest = longest_lengths(first_row, last_row, layout)
    move_gains, swapped = np.empty((widest, longest + 1)), np.empty((widest, widest))
    best_links, counts = buffers.links, buffers.counts
    sums = np.zeros(2 + NUM_DISTANCES + MAX_DISTORTION)
    heads, others = sums[2 : 2 + NUM_DISTANCES], sums[2 + NUM_DISTANCES :]
    for row in range(first_row, last_row):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        out, none = links[at : at + n], null_posteriors[at : at + n]
        fertile = counted[source_offsets[row] : source_offsets[row] + m]
        fertile[:] = 0
        if m == 0 or n == 0:
            out[:], none[:] = -1, 1
            for i in range(m):
                fertile[i, 0] = 1
            continue
        top = _climb(m, n, row, layout, learned, out, buffers, move_gains, swapped, heads, others)
        total = 1.0
        for j in range(n):
            for i in range(m + 1):
                total += math.exp(move_gains[j, i]) if i != best_links[j] else 0.0
            for k in range(j):
                total += math.exp(swapped[j, k]) if best_links[k] != best_links[j] else 0.0
        sums[0] += top + math.log(total)
        _walk(m, n, buffers, learned.heads, learned.others, 1 / total, heads, others)
        _neighbor_scores(m, n, buffers, learned, 0.0, move_gains, swapped, heads, others, total)
        cell = layout.cells[row]
        posteriors[cell : cell + m * n] = 0
        none[:] = 0
        _add_shares(m, n, cell, best_links, counts, move_gains, swapped, total, posteriors, none, fertile)
        for j in range(n):
            out[j] = best_links[j] if best_links[j] < m else -1
            # The differences may be slightly negative due to rounding.
            none[j] = max(np.float32(0), none[j])
            sums[1] += none[j]
        for place in range(cell, cell + m * n):
            posteriors[place] = max(np.float32(0), posteriors[place])
        for i in range(m):
            for f in range(MAX_FERTILITY + 1):
                fertile[i, f] = max(np.float32(0), fertile[i, f])
    return sums


@njit(nogil=True, cache=True)
def _add_shares(m, n, cell, own, counts, found, swapped, total, posteriors, none, fertile):
    """Add the links and the fertilities of an alignment and of its neighbors, by their probabilities."""
    for j in range(n):
        add_share(own[j], j, 1.0, m, n, cell, posteriors, none)
    for i in range(m):
        fertile[i, min(counts[i], MAX_FERTILITY)] = 1
    for j in range(n):
        for i in range(m + 1):
            if i == own[j]:
                continue
            share = math.exp(found[j, i]) / total
            add_share(own[j], j, -share, m, n, cell, posteriors, none)
            add_share(i, j, share, m, n, cell, posteriors, none)
            for place, step in ((own[j], -1), (i, 1)):
                if place < m:
                    fertile[place, min(counts[place], MAX_FERTILITY)] -= share
                    fertile[place, min(counts[place] + step, MAX_FERTILITY)] += share
        for k in range(j):
            if own[k] == own[j]:
                continue
            share = math.exp(swapped[j, k]) / total
            for here, there in ((j, k), (k, j)):
                add_share(own[here], here, -share, m, n, cell, posteriors, none)
                add_share(own[there], here, share, m, n, cell, posteriors, none)
