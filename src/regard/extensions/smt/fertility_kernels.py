"""The compiled loops of Models 3 and 4: hill climbing, and the neighborhood of an alignment.

The log-probability of an alignment (Brown et al., 1993) is a sum. `link_scores[i, j]` is that of translation,
and in Model 3 of distortion, of the link between i and j (row m: the translation by the null word).
`fertility_scores[i, f]` is the log-probability that source word i (m: null) has f links. In Model 4, the
distortion of the cepts, the sets of target words of each source word, is added. It depends on the whole
alignment, and is computed for each neighbor in time O(m + n). `learned` is a `FertilityParameters`.
"""

import math
from typing import NamedTuple

import numpy as np

from regard.alignment.em_kernels import longest_lengths
from regard.alignment.hmm import emissions
from regard.kernels.compilation import njit

MAX_FERTILITY = 9
"""Maximum number of links of a source word without a penalty."""
MAX_DISTORTION = 30
"""Maximum distance or displacement; larger ones are clipped to it."""
NUM_DISTANCES = 2 * MAX_DISTORTION + 1
EXCESS_LOG_PROB = -30.0
"""Log-probability of each link beyond `MAX_FERTILITY`."""
MIN_GAIN = 1e-6
"""Minimum gain of a step; smaller ones are ignored, so that rounding cannot cause cycles."""


class _Buffers(NamedTuple):
    """Arrays for the largest pair of a range, which all its pairs share.

    `links` contains the source position of each target word, m for null. The rows of `cepts` are the number
    of links of each source position, the first and the last of them, and the sum of their positions. `moved`
    [n, m + 1] and `swapped` [n, n] are the gains, then the probabilities of the neighbors, and `shares`
    [m + 1, n] the link posteriors. For the other arrays, see `emissions` and the docstring of this module.
    """

    emitted: np.ndarray
    null_emitted: np.ndarray
    link_scores: np.ndarray
    fertility_scores: np.ndarray
    links: np.ndarray
    cepts: np.ndarray
    moved: np.ndarray
    swapped: np.ndarray
    shares: np.ndarray


@njit(nogil=True, cache=True)
def _allocate(first_row, last_row, sources, targets):
    longest, widest = longest_lengths(first_row, last_row, sources, targets)
    return _Buffers(
        np.empty((widest, longest), np.float32),
        np.empty(widest, np.float32),
        np.empty((longest + 1, widest)),
        np.empty((longest + 1, widest + 2)),
        np.empty(widest, np.int64),
        np.empty((4, longest + 1), np.int64),
        np.empty((widest, longest + 1)),
        np.empty((widest, widest)),
        np.empty((longest + 1, widest), np.float32),
    )


@njit(nogil=True, cache=True)
def _clipped(distance):
    """Return the index of a distance or displacement in an array of `NUM_DISTANCES`."""
    return MAX_DISTORTION + max(-MAX_DISTORTION, min(MAX_DISTORTION, distance))


@njit(nogil=True, cache=True)
def _diagonal_position(i, m, n):
    """Return the target position on the diagonal that corresponds to source position i."""
    return ((2 * i + 1) * n) // (2 * m)


@njit(nogil=True, cache=True)
def _score(m, n, row, layout, learned, buffers):
    """Compute `link_scores` and `fertility_scores` for one pair."""
    emitted, null_emitted, link_scores = buffers.emitted, buffers.null_emitted, buffers.link_scores
    distances, smoothing = learned.distances, learned.smoothing
    emissions(row, layout, learned.values, learned.nulls, emitted, null_emitted)
    for i in range(m):
        middle, total = _diagonal_position(i, m, n), 0.0
        for j in range(n):
            link_scores[i, j] = math.log(emitted[j, i])
            total += distances[_clipped(j - middle)]
        if learned.cepts:
            continue
        for j in range(n):
            share = distances[_clipped(j - middle)] / total if total > 0 else 1 / n
            link_scores[i, j] += math.log((1 - smoothing) * share + smoothing / n)
    for j in range(n):
        link_scores[m, j] = math.log(null_emitted[j])
    _score_fertilities(m, n, row, layout, learned, buffers.fertility_scores)


@njit(nogil=True, cache=True)
def _score_fertilities(m, n, row, layout, learned, fertility_scores):
    """Compute the log-probability of each number of links of each source word and of the null word."""
    for i in range(m):
        word = layout.source[layout.source_starts[row] + i]
        word_fertilities = learned.fertilities[word] if word >= 0 else learned.fertilities[-1]
        for f in range(n + 2):
            excess = max(0, f - MAX_FERTILITY)
            fertility_scores[i, f] = (
                math.log(word_fertilities[min(f, MAX_FERTILITY)]) + EXCESS_LOG_PROB * excess
            )
            if not learned.cepts:
                # Model 3: f! p(f | word), because the words of a source word are placed in any order.
                fertility_scores[i, f] += math.lgamma(f + 1)
    null = learned.null
    for f in range(n + 2):
        if 2 * f > n:
            # Each null word needs a word that is not null: 2 f_0 <= n.
            fertility_scores[m, f] = fertility_scores[m, f - 1] + EXCESS_LOG_PROB if f else 0.0
            continue
        # log binomial(n - f, f) + f log p1 + (n - 2 f) log p0
        choices = math.lgamma(n - f + 1) - math.lgamma(f + 1) - math.lgamma(n - 2 * f + 1)
        fertility_scores[m, f] = choices + f * math.log(null) + (n - 2 * f) * math.log(1 - null)


@njit(nogil=True, cache=True)
def _walk(m, n, buffers, learned, share, head_counts, other_counts):
    """Return the log-probability of the distortion of cepts, and add `share` to the counts of displacements.

    A head is displaced from the center of the cept before, the mean of its positions rounded up, or from the
    position before the sentence; every other word is displaced from the word before it in its cept. Model 3
    has no such term.
    """
    score = 0.0
    if not learned.cepts:
        return score
    links = buffers.links
    counts, first, last, total = buffers.cepts
    first[:m] = -1
    for j in range(n):
        i = links[j]
        if i == m:
            continue
        if first[i] < 0:
            first[i], total[i] = j, j
        else:
            step = min(MAX_DISTORTION, j - last[i]) - 1
            score += learned.others[step]
            other_counts[step] += share
            total[i] += j
        last[i] = j
    center = -1
    for i in range(m):
        if first[i] >= 0:
            step = _clipped(first[i] - center)
            score += learned.distances[step]
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
def _visit_neighbors(m, n, buffers, learned, base, counting, head_counts, other_counts):
    """Visit each alignment one move or swap away from the current one.

    Compute the gains over it, whose distortion of cepts is `base`, in `moved` and `swapped`. With `counting`,
    these are the probabilities of the neighbors instead, and are added to the counts of displacements.
    """
    links, counts, moved, swapped = buffers.links, buffers.cepts[0], buffers.moved, buffers.swapped
    scores, fertility_scores = buffers.link_scores, buffers.fertility_scores
    for j in range(n):
        old = links[j]
        for i in range(m + 1):
            if i == old:
                continue
            share = moved[j, i]
            if not counting:
                change = fertility_scores[old, counts[old] - 1] - fertility_scores[old, counts[old]]
                gain = scores[i, j] - scores[old, j] + change + fertility_scores[i, counts[i] + 1]
                moved[j, i] = gain - fertility_scores[i, counts[i]] - base
            if learned.cepts:
                _move(j, i, links, counts)
                score = _walk(m, n, buffers, learned, share, head_counts, other_counts)
                _move(j, old, links, counts)
                if not counting:
                    moved[j, i] += score
        for k in range(j):
            other = links[k]
            if other == old:
                continue
            share = swapped[j, k]
            if not counting:
                swapped[j, k] = scores[other, j] + scores[old, k] - scores[old, j] - scores[other, k] - base
            if learned.cepts:
                links[j], links[k] = other, old
                score = _walk(m, n, buffers, learned, share, head_counts, other_counts)
                links[j], links[k] = old, other
                if not counting:
                    swapped[j, k] += score


@njit(nogil=True, cache=True)
def _climb(m, n, row, layout, learned, out, buffers):
    """Apply the best move or swap to the links `out` (-1: null) until none has a gain.

    Returns:
        The log-probability of the result, in `buffers.links`. `moved` and `swapped` are its neighbors' gains.
    """
    _score(m, n, row, layout, learned, buffers)
    links, counts, moved, swapped = buffers.links, buffers.cepts[0], buffers.moved, buffers.swapped
    unused = np.zeros(NUM_DISTANCES)
    _read_links(m, n, out, buffers)
    base = _walk(m, n, buffers, learned, 0.0, unused, unused)
    # The bound on the number of steps is a safeguard; climbing usually stops much earlier.
    for _ in range(4 * n + 8):
        _visit_neighbors(m, n, buffers, learned, base, False, unused, unused)
        most, first, second, swap = MIN_GAIN, -1, -1, False
        for j in range(n):
            for i in range(m + 1):
                if i != links[j] and moved[j, i] > most:
                    most, first, second, swap = moved[j, i], j, i, False
            for k in range(j):
                if links[k] != links[j] and swapped[j, k] > most:
                    most, first, second, swap = swapped[j, k], j, k, True
        if first < 0:
            break
        if swap:
            links[first], links[second] = links[second], links[first]
        else:
            _move(first, second, links, counts)
        base = _walk(m, n, buffers, learned, 0.0, unused, unused)
    top = base
    for j in range(n):
        top += buffers.link_scores[links[j], j]
    for i in range(m + 1):
        top += buffers.fertility_scores[i, counts[i]]
    return top


@njit(nogil=True, cache=True)
def _read_links(m, n, out, buffers):
    """Set `buffers.links` and `buffers.cepts[0]` to the links `out` (-1: null)."""
    buffers.cepts[0][: m + 1] = 0
    for j in range(n):
        buffers.links[j] = out[j] if out[j] >= 0 else m
        buffers.cepts[0][buffers.links[j]] += 1


@njit(nogil=True, cache=True)
def climb_links(first_row, last_row, layout, learned, links):
    """Improve `links` (-1: null) by hill climbing, in place."""
    buffers = _allocate(first_row, last_row, layout.source_lengths, layout.target_lengths)
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
def count_distortions(first_row, last_row, layout, learned, links):
    """Count the distortions of the links (-1: null) of a text.

    Returns:
        Model 3: the number of links at each distance from the diagonal. Model 4: the displacements of heads,
        then of other words.
    """
    buffers = _allocate(first_row, last_row, layout.source_lengths, layout.target_lengths)
    sums = np.zeros(NUM_DISTANCES + len(learned.others))
    heads, others = sums[:NUM_DISTANCES], sums[NUM_DISTANCES:]
    for row in range(first_row, last_row):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        _read_links(m, n, links[layout.offsets[row] : layout.offsets[row] + n], buffers)
        _walk(m, n, buffers, learned, 1.0, heads, others)
        for j in range(n):
            if not learned.cepts and buffers.links[j] < m:
                heads[_clipped(j - _diagonal_position(buffers.links[j], m, n))] += 1
    return sums


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
        The log-probability of these alignments, the number of null words, and the counts of the distances, or
        of the displacements of heads and of other words.
    """
    buffers = _allocate(first_row, last_row, layout.source_lengths, layout.target_lengths)
    best_links, moved, swapped = buffers.links, buffers.moved, buffers.swapped
    sums = np.zeros(2 + NUM_DISTANCES + len(learned.others))
    distances, others = sums[2 : 2 + NUM_DISTANCES], sums[2 + NUM_DISTANCES :]
    for row in range(first_row, last_row):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        out, none = links[at : at + n], null_posteriors[at : at + n]
        fertile = counted[source_offsets[row] : source_offsets[row] + m]
        fertile[:] = 0
        if m == 0 or n == 0:
            # All target words are null, all fertilities 0.
            out[:], none[:] = -1, 1
            fertile[:, 0] = 1
            continue
        top = _climb(m, n, row, layout, learned, out, buffers)
        # All weights are relative to that of the best alignment, which is 1.
        total = 1.0
        for j in range(n):
            for i in range(m + 1):
                moved[j, i] = math.exp(moved[j, i]) if i != best_links[j] else 0.0
                total += moved[j, i]
            for k in range(j):
                swapped[j, k] = math.exp(swapped[j, k]) if best_links[k] != best_links[j] else 0.0
                total += swapped[j, k]
        # Numba would compile the division of a slice for seconds, for the message of an error of its shape.
        for j in range(n):
            for i in range(m + 1):
                moved[j, i] /= total
            for k in range(j):
                swapped[j, k] /= total
        sums[0] += top + math.log(total)
        if learned.cepts:
            _walk(m, n, buffers, learned, 1 / total, distances, others)
            _visit_neighbors(m, n, buffers, learned, 0.0, True, distances, others)
        cells = posteriors[layout.cells[row] : layout.cells[row + 1]].reshape(m, n)
        _add_neighborhood(m, n, buffers, fertile)
        for j in range(n):
            out[j] = best_links[j] if best_links[j] < m else -1
            # The differences may be slightly negative due to rounding.
            none[j] = max(np.float32(0), buffers.shares[m, j])
            sums[1] += none[j]
            for i in range(m):
                cells[i, j] = max(np.float32(0), buffers.shares[i, j])
                if not learned.cepts:
                    distances[_clipped(j - _diagonal_position(i, m, n))] += cells[i, j]
        for i in range(m):
            for f in range(MAX_FERTILITY + 1):
                fertile[i, f] = max(np.float32(0), fertile[i, f])
    return sums


@njit(nogil=True, cache=True)
def _add_neighborhood(m, n, buffers, fertile):
    """Add the links and the fertilities of an alignment and of its neighbors, by their probabilities."""
    links, counts, moved, swapped = buffers.links, buffers.cepts[0], buffers.moved, buffers.swapped
    shares = buffers.shares
    shares[: m + 1, :n] = 0
    # Start from the best alignment, then subtract its link and add the new one for each neighbor.
    for j in range(n):
        shares[links[j], j] = 1
    for i in range(m):
        fertile[i, min(counts[i], MAX_FERTILITY)] = 1
    for j in range(n):
        for i in range(m + 1):
            share = moved[j, i]
            shares[links[j], j] -= share
            shares[i, j] += share
            for place, step in ((links[j], -1), (i, 1)):
                if place < m:
                    fertile[place, min(counts[place], MAX_FERTILITY)] -= share
                    fertile[place, min(counts[place] + step, MAX_FERTILITY)] += share
        for k in range(j):
            # A swap changes no fertility.
            for here, there in ((j, k), (k, j)):
                shares[links[here], here] -= swapped[j, k]
                shares[links[there], here] += swapped[j, k]
