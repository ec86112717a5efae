"""The compiled loops of Model 3: hill climbing, and the neighborhood of an alignment (Brown et al., 1993).

The score of an alignment is a sum. `link_scores[i, j]` is the log-probability of translation and distortion
of the link between i and j (row m: the translation by the null word). `fertility_scores[i, f]` is the
log-probability that source word i (m: null) has f links.
"""

import math

import numpy as np
from numba import njit

from regard.alignment.hmm_paths import emissions

__all__ = ["MAX_DISTORTION", "MAX_FERTILITY", "NUM_DISTANCES", "best_links", "expect", "sum_fertilities"]

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


@njit(nogil=True, cache=True)
def _score(
    m,
    n,
    row,
    cells,
    starts,
    tokens,
    slots,
    values,
    nulls,
    words,
    source_starts,
    fertilities,
    distortions,
    null,
    smoothing,
    emitted,
    null_emitted,
    link_scores,
    fertility_scores,
):
    """Compute `link_scores` and `fertility_scores` for one pair."""
    emissions(m, n, cells[row], starts[row], tokens, slots, values, nulls, emitted, null_emitted)
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
        word = words[source_starts[row] + i]
        own = fertilities[word] if word >= 0 else fertilities[-1]
        factorial = 0.0
        for f in range(n + 2):
            if f > 1:
                factorial += math.log(f)
            # f! p(f | word): the links of a source word are exchangeable.
            fertility_scores[i, f] = (
                math.log(own[min(f, MAX_FERTILITY)]) + factorial + EXCESS_LOG_PROB * max(0, f - MAX_FERTILITY)
            )
    choices = 0.0
    for j in range(n):
        link_scores[m, j] = math.log(null_emitted[j])
    for f in range(n + 2):
        if 2 * f > n:
            # Each null word needs a word that is not null: 2 f_0 <= n.
            fertility_scores[m, f] = fertility_scores[m, f - 1] + EXCESS_LOG_PROB if f else 0.0
            continue
        # log binomial(n - f, f) + f log p1 + (n - 2 f) log p0
        choices = math.lgamma(n - f + 1) - math.lgamma(f + 1) - math.lgamma(n - 2 * f + 1)
        fertility_scores[m, f] = choices + f * math.log(null) + (n - 2 * f) * math.log(1 - null)


@njit(nogil=True, cache=True)
def _move_gain(j, i, links, counts, link_scores, fertility_scores):
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
def _swap_gain(j, k, links, link_scores):
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
                    gain = _move_gain(j, i, links, counts, link_scores, fertility_scores)
                    if gain > most:
                        most, first, second, swap = gain, j, i, False
            for k in range(j):
                if links[k] != links[j]:
                    gain = _swap_gain(j, k, links, link_scores)
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
def _allocate(first_row, last_row, sources, targets):
    longest, widest = 1, 1
    for row in range(first_row, last_row):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    return (
        np.empty((widest, longest), np.float32),
        np.empty(widest, np.float32),
        np.empty((longest + 1, widest)),
        np.empty((longest + 1, widest + 2)),
        np.empty(widest, np.int64),
        np.empty(longest + 1, np.int64),
    )


@njit(nogil=True, cache=True)
def best_links(
    first_row,
    last_row,
    sources,
    words,
    source_starts,
    tokens,
    starts,
    targets,
    offsets,
    cells,
    slots,
    values,
    nulls,
    fertilities,
    distortions,
    null,
    smoothing,
    links,
):
    """Improve `links` (-1: null) by hill climbing, in place."""
    emitted, null_emitted, link_scores, fertility_scores, own, counts = _allocate(
        first_row, last_row, sources, targets
    )
    for row in range(first_row, last_row):
        m, n = sources[row], targets[row]
        out = links[offsets[row] : offsets[row] + n]
        if m == 0 or n == 0:
            out[:] = -1
            continue
        _score(
            m,
            n,
            row,
            cells,
            starts,
            tokens,
            slots,
            values,
            nulls,
            words,
            source_starts,
            fertilities,
            distortions,
            null,
            smoothing,
            emitted,
            null_emitted,
            link_scores,
            fertility_scores,
        )
        for j in range(n):
            own[j] = out[j] if out[j] >= 0 else m
        _hill_climb(m, n, own, counts, link_scores, fertility_scores)
        for j in range(n):
            out[j] = own[j] if own[j] < m else -1
    return np.zeros(0)


@njit(nogil=True, cache=True)
def expect(
    first_row,
    last_row,
    sources,
    words,
    source_starts,
    source_offsets,
    tokens,
    starts,
    targets,
    offsets,
    cells,
    slots,
    values,
    nulls,
    fertilities,
    distortions,
    null,
    smoothing,
    links,
    posteriors,
    null_posteriors,
    counted,
):
    """Compute expectations over the best alignment and those one move or swap away from it.

    `links` contains the initial links, and is overwritten with the best ones. The posteriors of each cell's
    link, of the null word, and of each fertility (`counted`, float32 [source tokens, MAX_FERTILITY + 1]) are
    filled in place. Returns the log-probability of these alignments, the number of null words, and the
    distortion counts.
    """
    emitted, null_emitted, link_scores, fertility_scores, own, counts = _allocate(
        first_row, last_row, sources, targets
    )
    sums = np.zeros(2 + NUM_DISTANCES)
    for row in range(first_row, last_row):
        m, n = sources[row], targets[row]
        out, none = links[offsets[row] : offsets[row] + n], null_posteriors[offsets[row] : offsets[row] + n]
        fertility_posteriors = counted[source_offsets[row] : source_offsets[row] + m]
        fertility_posteriors[:] = 0
        if m == 0 or n == 0:
            # All target words are null, all fertilities 0.
            out[:], none[:] = -1, 1
            for i in range(m):
                fertility_posteriors[i, 0] = 1
            continue
        _score(
            m,
            n,
            row,
            cells,
            starts,
            tokens,
            slots,
            values,
            nulls,
            words,
            source_starts,
            fertilities,
            distortions,
            null,
            smoothing,
            emitted,
            null_emitted,
            link_scores,
            fertility_scores,
        )
        for j in range(n):
            own[j] = out[j] if out[j] >= 0 else m
        top = _hill_climb(m, n, own, counts, link_scores, fertility_scores)
        # All weights are relative to that of the best alignment, which is 1.
        total = 1.0
        for j in range(n):
            for i in range(m + 1):
                if i != own[j]:
                    total += math.exp(_move_gain(j, i, own, counts, link_scores, fertility_scores))
            for k in range(j):
                if own[k] != own[j]:
                    total += math.exp(_swap_gain(j, k, own, link_scores))
        sums[0] += top + math.log(total)
        cell = cells[row]
        for i in range(m):
            for j in range(n):
                posteriors[cell + i * n + j] = 0
            fertility_posteriors[i, min(counts[i], MAX_FERTILITY)] = 1
        none[:] = 0
        for j in range(n):
            # Start from the best alignment, then subtract its link and add the new one for each neighbor.
            _add(own[j], j, 1.0, m, n, cell, posteriors, none)
        for j in range(n):
            for i in range(m + 1):
                if i == own[j]:
                    continue
                share = math.exp(_move_gain(j, i, own, counts, link_scores, fertility_scores)) / total
                _add(own[j], j, -share, m, n, cell, posteriors, none)
                _add(i, j, share, m, n, cell, posteriors, none)
                for place, step in ((own[j], -1), (i, 1)):
                    if place < m:
                        fertility_posteriors[place, min(counts[place], MAX_FERTILITY)] -= share
                        fertility_posteriors[place, min(counts[place] + step, MAX_FERTILITY)] += share
            for k in range(j):
                if own[k] == own[j]:
                    continue
                share = math.exp(_swap_gain(j, k, own, link_scores)) / total
                # A swap changes no fertility.
                for here, there in ((j, k), (k, j)):
                    _add(own[here], here, -share, m, n, cell, posteriors, none)
                    _add(own[there], here, share, m, n, cell, posteriors, none)
        for j in range(n):
            out[j] = own[j] if own[j] < m else -1
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
def _add(i, j, share, m, n, cell, posteriors, none):
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
