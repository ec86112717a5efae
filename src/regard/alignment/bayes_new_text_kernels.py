"""The compiled loops of the Bayesian aligner on new text, with the fixed statistics of training.

The weight of the links a of a sentence pair is

    prod_j p(f_j | e_{a_j}) prod_k J(a_k - a_before) J(m - a_last) prod_i F(c_i) / F(0)

with the symbols of `regard.alignment.bayes_kernels`, where k ranges over the linked words. If a pair has few
alignments, their weights are summed. Otherwise the link distributions are estimated by Gibbs sampling.
"""

from typing import NamedTuple

import numpy as np

from regard.alignment.bayes_kernels import (
    MAX_JUMP,
    NUM_FERTILITIES,
    link_weights,
    next_linked,
    sample_position,
)
from regard.alignment.em_kernels import longest_lengths
from regard.kernels.compilation import njit

__all__ = ["Effort", "estimate_marginals"]


class Effort(NamedTuple):
    """The effort of computing the link distributions of a sentence pair.

    Attributes:
        max_alignments: Maximum number of alignments of a pair that are enumerated, not sampled.
        restarts: Number of restarts of the sampler.
        burn_in: Number of burn-in passes per restart.
        passes: Number of passes per restart whose distributions are averaged.
    """

    max_alignments: int
    restarts: int
    burn_in: int
    passes: int


@njit(nogil=True, cache=True)
def _probability(learned, word, token, alpha):
    """Return p(target token | source word) from the learned statistics; either word may be unknown."""
    targets = len(learned.nulls) - 1
    if word < 0:
        # Unknown source words have a uniform distribution.
        return 1 / targets
    # Binary search in the sorted row of the source word.
    low, high = learned.starts[word], learned.starts[word + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if learned.columns[middle] < token:
            low = middle + 1
        else:
            high = middle
    count = learned.values[low] if low < end and learned.columns[low] == token else 0.0
    return (count + alpha) / (learned.totals[word] + alpha * targets)


@njit(nogil=True, cache=True)
def estimate_marginals(first, last, layout, learned, alpha, null, effort, marginals):
    """Compute the link distributions of sentences `first` to `last` of a new text, with fixed statistics.

    A sentence's random seed depends only on its words, so its links do not depend on the other sentences.

    Args:
        first: The first sentence.
        last: The end of the range (exclusive).
        layout: The text; slots are not needed.
        learned: The statistics of training (`regard.alignment.bayes.LinkStatistics`).
        alpha: As in `gibbs_pass`.
        null: As in `gibbs_pass`.
        effort: See `Effort`.
        marginals: float32, one zero per cell of these sentences; filled in place.
    """
    targets, middle = len(learned.nulls) - 1, longest_lengths(first, last, layout)[0] + 1
    random, jumps = np.empty(1, np.uint64), np.empty(2 * middle + 1, np.float32)
    for jump in range(-middle, middle + 1):
        jumps[middle + jump] = learned.jumps[MAX_JUMP + max(-MAX_JUMP, min(MAX_JUMP, jump))]
    for row in range(first, last):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        # Unknown words are -1, which indexes the last row of ratios.
        source = layout.source[layout.source_starts[row] : layout.source_starts[row] + m]
        target = layout.target[layout.target_starts[row] : layout.target_starts[row] + n]
        lexical, nulls = np.empty((n, m), np.float32), np.empty(n, np.float32)
        random[0] = m
        for j in range(n):
            token = target[j]
            count = learned.nulls[token] if token >= 0 else np.float32(0)
            nulls[j] = null * (count + alpha) / (learned.nulls[-1] + alpha * targets)
            # An FNV-style hash of the target tokens is the seed of the sentence.
            random[0] = random[0] * np.uint64(0x100000001B3) + np.uint64(token + 1)
            for i in range(m):
                lexical[j, i] = _probability(learned, source[i], token, alpha)
        cells = marginals[
            layout.cells[row] - layout.cells[first] : layout.cells[row + 1] - layout.cells[first]
        ]
        if n * np.log(m + 1.0) <= np.log(effort.max_alignments):
            _enumerate_links(source, lexical, nulls, jumps, learned.ratios, cells)
        else:
            _sample_links(source, lexical, nulls, jumps, learned.ratios, effort, random, cells)


@njit(nogil=True, cache=True)
def _enumerate_links(source, lexical, nulls, jumps, ratios, marginals):
    """Add the exact link distributions of a sentence pair to `marginals`, by a depth-first search."""
    n, m = lexical.shape
    middle, most = len(jumps) // 2, NUM_FERTILITIES - 1
    fertility, links = np.zeros(m, np.int64), np.full(n, -2)  # -2: no link has been tried
    # The weight and the last linked position of words 0 to j - 1, and the sum over the links of the others.
    weights, before, sums = np.ones(n + 1), np.full(n + 1, -1), np.zeros(n + 1)
    totals, scales = np.zeros((n, m)), np.empty(n)
    for j in range(n):
        # Products of the divided rows do not underflow.
        scales[j] = 1 / (lexical[j].sum() + nulls[j])
    j = 0
    while j >= 0:
        if j == n:
            sums[n] = weights[n] * jumps[middle + m - before[n]]
            j -= 1
            continue
        old = links[j]
        if old > -2:
            sums[j] += sums[j + 1]
        if old >= 0:
            totals[j, old] += sums[j + 1]
            fertility[old] -= 1
        links[j] = new = old + 1
        if new == m:
            links[j] = -2
            j -= 1
            continue
        scale = weights[j] * scales[j]
        if new < 0:
            weights[j + 1], before[j + 1] = scale * nulls[j], before[j]
        else:
            ratio = ratios[source[new], min(most, fertility[new])]
            weights[j + 1] = scale * lexical[j, new] * jumps[middle + new - before[j]] * ratio
            before[j + 1] = new
            fertility[new] += 1
        j += 1
        sums[j] = 0
    for j in range(n):
        for i in range(m):
            marginals[j * m + i] = totals[j, i] / sums[0]


@njit(nogil=True, cache=True)
def _sample_links(source, lexical, nulls, jumps, ratios, effort, random, marginals):
    """Add the link distributions of a sentence pair to `marginals`, estimated by Gibbs sampling."""
    n, m = lexical.shape
    middle, most, backs = len(jumps) // 2, NUM_FERTILITIES - 1, jumps[::-1].copy()
    links, nexts, fertility = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(m, np.int32)
    weights, factors = np.empty(m, np.float32), np.empty(m, np.float32)
    share = np.float32(1 / (effort.restarts * effort.passes))
    for _ in range(effort.restarts):
        fertility[:] = 0
        for j in range(n):
            links[j] = sample_position(m, -1, lexical[j].sum(), nulls[j], lexical[j], random)
            if links[j] >= 0:
                fertility[links[j]] += 1
        for i in range(m):
            factors[i] = ratios[source[i], min(most, fertility[i])]
        for number in range(effort.burn_in + effort.passes):
            next_linked(links, m, n, nexts)
            before = -1
            for j in range(n):
                old, after = links[j], nexts[j]
                if old >= 0:
                    fertility[old] -= 1
                    factors[old] = ratios[source[old], min(most, fertility[old])]
                forth, back = np.uintp(middle - before), np.uintp(middle - after)
                for i in range(np.uintp(m)):
                    weights[i] = lexical[j, i]
                total = link_weights(m, factors, jumps, forth, backs, back, weights)
                none = nulls[j] * jumps[middle + after - before]
                links[j] = sample_position(m, old, total, none, weights, random)
                if number >= effort.burn_in:
                    at, scale = np.uintp(j * m), share / (total + none)
                    for i in range(np.uintp(m)):
                        marginals[at + i] += weights[i] * scale
                if links[j] >= 0:
                    before = links[j]
                    fertility[before] += 1
                    factors[before] = ratios[source[before], min(most, fertility[before])]
