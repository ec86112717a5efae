"""Model 3's compiled loops: climbing to a good alignment, and what lies around it (Brown et al. 1993).

The links of a pair are scored by `link[i, j]`, the logarithm of translation and distortion (row m: the null
word's translation alone), and by `fertile[i, f]`, of source word i (m: null) linked to f words.
"""

import math

import numpy as np
from numba import njit

from regard.alignment.hmm_paths import emissions

__all__ = ["MOST", "REACH", "WIDTH", "best_links", "expect", "gather"]

MOST = 9
"""The most words that a source word may be linked to without a penalty."""
REACH = 30
"""Words farther than this from the diagonal count as this far."""
WIDTH = 2 * REACH + 1
BEYOND = -30.0
"""The logarithm of what each word beyond costs."""
GAIN = 1e-6
"""A step that gains no more is none: rounding must not go round in circles."""


@njit(nogil=True, cache=True)
def centre(i, m, n):
    """The target position on the diagonal from source position i."""
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
    link,
    fertile,
):
    """Fill `link` and `fertile` for one pair."""
    emissions(m, n, cells[row], starts[row], tokens, slots, values, nulls, emitted, null_emitted)
    for i in range(m):
        middle, total = centre(i, m, n), 0.0
        for j in range(n):
            total += distortions[REACH + max(-REACH, min(REACH, j - middle))]
        for j in range(n):
            share = distortions[REACH + max(-REACH, min(REACH, j - middle))] / total if total > 0 else 1 / n
            link[i, j] = math.log(emitted[j, i]) + math.log((1 - smoothing) * share + smoothing / n)
        word = words[source_starts[row] + i]
        own = fertilities[word] if word >= 0 else fertilities[-1]
        factorial = 0.0
        for f in range(n + 2):
            if f > 1:
                factorial += math.log(f)
            fertile[i, f] = math.log(own[min(f, MOST)]) + factorial + BEYOND * max(0, f - MOST)
    choices = 0.0
    for j in range(n):
        link[m, j] = math.log(null_emitted[j])
    for f in range(n + 2):
        if 2 * f > n:
            # Each null word stands beside a word that is none.
            fertile[m, f] = fertile[m, f - 1] + BEYOND if f else 0.0
            continue
        # log binomial(n - f, f) + f log p1 + (n - 2 f) log p0
        choices = math.lgamma(n - f + 1) - math.lgamma(f + 1) - math.lgamma(n - 2 * f + 1)
        fertile[m, f] = choices + f * math.log(null) + (n - 2 * f) * math.log(1 - null)


@njit(nogil=True, cache=True)
def _moved(j, i, heads, counts, link, fertile):
    """What is gained where word j goes over to source word i, another than its own."""
    old = heads[j]
    change = fertile[old, counts[old] - 1] - fertile[old, counts[old]]
    return link[i, j] - link[old, j] + change + fertile[i, counts[i] + 1] - fertile[i, counts[i]]


@njit(nogil=True, cache=True)
def _swapped(j, k, heads, link):
    """What is gained where words j and k change source words."""
    return link[heads[k], j] + link[heads[j], k] - link[heads[j], j] - link[heads[k], k]


@njit(nogil=True, cache=True)
def _climb(m, n, heads, counts, link, fertile):
    """Take the best move or swap until there is none; returns the log-probability of the alignment."""
    counts[: m + 1] = 0
    for j in range(n):
        counts[heads[j]] += 1
    for _ in range(4 * n + 8):
        most, first, second, swap = GAIN, -1, -1, False
        for j in range(n):
            for i in range(m + 1):
                if i != heads[j]:
                    gain = _moved(j, i, heads, counts, link, fertile)
                    if gain > most:
                        most, first, second, swap = gain, j, i, False
            for k in range(j):
                if heads[k] != heads[j]:
                    gain = _swapped(j, k, heads, link)
                    if gain > most:
                        most, first, second, swap = gain, j, k, True
        if first < 0:
            break
        if swap:
            heads[first], heads[second] = heads[second], heads[first]
        else:
            counts[heads[first]] -= 1
            counts[second] += 1
            heads[first] = second
    total = 0.0
    for j in range(n):
        total += link[heads[j], j]
    for i in range(m + 1):
        total += fertile[i, counts[i]]
    return total


@njit(nogil=True, cache=True)
def _open(first_row, last_row, sources, targets):
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
    heads,
):
    """From the links in `heads` (-1: null) to the best that climbing finds, in place."""
    emitted, null_emitted, link, fertile, own, counts = _open(first_row, last_row, sources, targets)
    for row in range(first_row, last_row):
        m, n = sources[row], targets[row]
        out = heads[offsets[row] : offsets[row] + n]
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
            link,
            fertile,
        )
        for j in range(n):
            own[j] = out[j] if out[j] >= 0 else m
        _climb(m, n, own, counts, link, fertile)
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
    heads,
    posteriors,
    null_posteriors,
    counted,
):
    """The expectation over the best alignment and those one move or swap away from it.

    `heads` holds where climbing starts, then the best links. Filled are the probability of each cell's link,
    of the null word, and in `counted`, float32 [source tokens, MOST + 1], of each fertility. Returns the
    logarithm of these alignments' probability, the null words, and the distortions.
    """
    emitted, null_emitted, link, fertile, own, counts = _open(first_row, last_row, sources, targets)
    sums = np.zeros(2 + WIDTH)
    for row in range(first_row, last_row):
        m, n = sources[row], targets[row]
        out, none = heads[offsets[row] : offsets[row] + n], null_posteriors[offsets[row] : offsets[row] + n]
        many = counted[source_offsets[row] : source_offsets[row] + m]
        many[:] = 0
        if m == 0 or n == 0:
            out[:], none[:] = -1, 1
            for i in range(m):
                many[i, 0] = 1
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
            link,
            fertile,
        )
        for j in range(n):
            own[j] = out[j] if out[j] >= 0 else m
        top = _climb(m, n, own, counts, link, fertile)
        # All weights are relative to the best alignment's, which is 1.
        total = 1.0
        for j in range(n):
            for i in range(m + 1):
                if i != own[j]:
                    total += math.exp(_moved(j, i, own, counts, link, fertile))
            for k in range(j):
                if own[k] != own[j]:
                    total += math.exp(_swapped(j, k, own, link))
        sums[0] += top + math.log(total)
        cell = cells[row]
        for i in range(m):
            for j in range(n):
                posteriors[cell + i * n + j] = 0
            many[i, min(counts[i], MOST)] = 1
        none[:] = 0
        for j in range(n):
            _add(own[j], j, 1.0, m, n, cell, posteriors, none)
        for j in range(n):
            for i in range(m + 1):
                if i == own[j]:
                    continue
                share = math.exp(_moved(j, i, own, counts, link, fertile)) / total
                _add(own[j], j, -share, m, n, cell, posteriors, none)
                _add(i, j, share, m, n, cell, posteriors, none)
                for place, step in ((own[j], -1), (i, 1)):
                    if place < m:
                        many[place, min(counts[place], MOST)] -= share
                        many[place, min(counts[place] + step, MOST)] += share
            for k in range(j):
                if own[k] == own[j]:
                    continue
                share = math.exp(_swapped(j, k, own, link)) / total
                for here, there in ((j, k), (k, j)):
                    _add(own[here], here, -share, m, n, cell, posteriors, none)
                    _add(own[there], here, share, m, n, cell, posteriors, none)
        for j in range(n):
            out[j] = own[j] if own[j] < m else -1
            # Differences may leave a hair below zero.
            none[j] = max(np.float32(0), none[j])
            sums[1] += none[j]
            for i in range(m):
                at = cell + i * n + j
                posteriors[at] = max(np.float32(0), posteriors[at])
                sums[2 + REACH + max(-REACH, min(REACH, j - centre(i, m, n)))] += posteriors[at]
        for i in range(m):
            for f in range(MOST + 1):
                many[i, f] = max(np.float32(0), many[i, f])
    return sums


@njit(nogil=True, cache=True)
def _add(i, j, share, m, n, cell, posteriors, none):
    if i < m:
        posteriors[cell + i * n + j] += share
    else:
        none[j] += share


@njit(nogil=True, cache=True)
def gather(tokens, starts, lengths, counted, totals):
    """Add up the fertilities of each source word over its tokens, into `totals` [words + 1, MOST + 1]."""
    at = 0
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            for f in range(MOST + 1):
                totals[token, f] += counted[at, f]
            at += 1
