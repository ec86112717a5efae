"""The compiled loops of the Bayesian aligner: Gibbs sampling on a training text.

The link a_j of target word f_j is sampled given all other links, from

    p(a_j = i) ~ (n(e_i, f_j) + alpha) / (n(e_i) + alpha V) J(i - a_before) J(a_after - i) F(c_i + 1) / F(c_i)
    p(a_j = null) ~ null (n(null, f_j) + alpha) / (n(null) + alpha V) J(a_after - a_before)

(Östling & Tiedemann, 2016, Section 3). n counts the other links, with the translation probabilities
integrated out. a_before and a_after are the positions of the nearest linked words, or -1 and the length at
the edges of the sentence. c_i is the number of other words linked to i, and F(c) the probability that e_i has
fertility c. J and F are constant during a pass.
"""

from typing import NamedTuple

import numpy as np

from regard.alignment.em_kernels import longest_lengths
from regard.kernels.compilation import GAMMA, njit, splitmix64

NUM_FERTILITIES = 8
"""Fertilities are 0 to 6; the last column is for all larger ones, which are practically excluded."""
MAX_JUMP = 100
"""Maximum jump distance; longer jumps are clipped to it."""


class SamplerState(NamedTuple):
    """The state of one sampler, which is not shared with others.

    Attributes:
        links: int32, the source position of each target token, -1 for none.
        counts: float32, the number of links of each word pair, by slot.
        totals: float32, the number of links of each source word.
        nulls: float32, the number of null links of each target word; the last entry is their sum.
        jumps: float32, J; the value for a jump of d words is at index `len(jumps) // 2 + d`.
        reversed_jumps: float32, the same, reversed.
        fertility_ratios: float32 [source words, NUM_FERTILITIES]: F(c + 1) / F(c) in column c.
        jump_counts: float64 [2 * MAX_JUMP + 1], the count of each jump.
        fertility_counts: float32 [source words, NUM_FERTILITIES], the count of each fertility of each word.
        random: uint64 [1], the state of the random generator.
    """

    links: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    nulls: np.ndarray
    jumps: np.ndarray
    reversed_jumps: np.ndarray
    fertility_ratios: np.ndarray
    jump_counts: np.ndarray
    fertility_counts: np.ndarray
    random: np.ndarray


@njit(nogil=True, cache=True)
def uniform(random):
    """Return a random number in [0, 1)."""
    random[0] += GAMMA
    return np.float32(np.int64(splitmix64(random[0]) >> np.uint64(40)) * 2.0**-24)


@njit(nogil=True, cache=True)
def link_weights(m, factors, jumps, forth, backs, back, weights):
    """Compute the weights of linking one word to each of `m` source positions, and return their sum.

    The weights of the translation are multiplied in place by the factor of each position, and by the jumps
    from the linked word before and to that after, which start at the indices `forth` and `back`.
    """
    # An unsigned index is not compared with 0 in each step, so the loop is vectorized.
    for i in range(np.uintp(m)):
        weights[i] = weights[i] * factors[i] * (jumps[forth + i] * backs[back + i])
    # Four sums, because each addition waits for the one before. The compiler could choose another order on
    # another processor, and links would differ.
    sum_0, sum_1, sum_2, sum_3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    whole = np.uintp(m & ~3)
    for i in range(np.uintp(0), whole, np.uintp(4)):
        sum_0 += weights[i]
        sum_1 += weights[i + np.uintp(1)]
        sum_2 += weights[i + np.uintp(2)]
        sum_3 += weights[i + np.uintp(3)]
    for i in range(whole, np.uintp(m)):
        sum_0 += weights[i]
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@njit(nogil=True, cache=True)
def sample_position(m, old, total, none, weights, random):
    """Sample a position in proportion to `weights`, whose sum is `total`, or -1 in proportion to `none`."""
    draw = uniform(random) * (total + none)
    if draw >= total:
        return -1
    # The order of the outcomes is arbitrary. Most links do not change, so the old one is tested first.
    if old >= 0:
        draw -= weights[old]
        if draw < 0:
            return old
    for i in range(m):
        if i != old:
            draw -= weights[i]
            if draw < 0:
                return i
    # Reached only through rounding.
    return m - 1


@njit(nogil=True, cache=True)
def next_linked(links, m, n, nexts):
    """Compute the position of the nearest linked word to the right of each word."""
    after = m
    for j in range(n - 1, -1, -1):
        nexts[j] = after
        if links[j] >= 0:
            after = links[j]


@njit(nogil=True, cache=True)
def _change_link(i, change, where, fertility, twin, factors, chain, sums):
    """Add a link to source position `i`, or remove one, and update the factors of its word.

    `where` has the word, and the slot of the pair of words.
    """
    word, slot = where
    fertility[i] += change
    chain.totals[word] += np.float32(change)
    if slot:
        chain.counts[slot] += np.float32(change)
    inverse, at = np.float32(1) / (chain.totals[word] + sums), i
    while True:
        # The count of links of the word changed, so the factors of all its positions do.
        factors[at] = chain.fertility_ratios[word, min(NUM_FERTILITIES - 1, fertility[at])] * inverse
        at = twin[at]
        if at == i:
            break


@njit(nogil=True, cache=True)
def _start_sentence(m, source, links, fertility, twin, seen, factors, chain, sums):
    """Compute the fertilities, twins and factors of the positions of a sentence.

    `twin` becomes a cyclic list of the positions of the same word.
    """
    fertility[:m] = 0
    for link in links:
        if link >= 0:
            fertility[link] += 1
    for i in range(m):
        word = source[i]
        twin[i] = i
        if seen[word] >= 0:
            twin[i], twin[seen[word]] = twin[seen[word]], i
        seen[word] = i
        ratio = chain.fertility_ratios[word, min(NUM_FERTILITIES - 1, fertility[i])]
        factors[i] = ratio / (chain.totals[word] + sums)
    for i in range(m):
        # Reset only the used entries, since `seen` has the size of the vocabulary.
        seen[source[i]] = -1


@njit(nogil=True, cache=True)
def gibbs_pass(first, last, layout, chain, alpha, null, passes, marginals):
    """Resample every link of some sentences, count jumps and fertilities, and return the number of changes.

    The sentences are those from `first` to `last` (exclusive). `chain`, the state of the sampler, is modified
    in place. `alpha` is the concentration of the Dirichlet prior on translations, `null` the weight of null
    links, and `passes` the number of passes over each sentence. The link distributions are added to
    `marginals` (float32, one value per cell of these sentences), unless it is empty.
    """
    longest, widest = longest_lengths(first, last, layout.source_lengths, layout.target_lengths)
    sums = np.float32(alpha * (len(chain.nulls) - 1))
    alpha, null, unit = np.float32(alpha), np.float32(null), np.float32(1)
    factors, weights = np.empty(longest, np.float32), np.empty(longest, np.float32)
    fertility, twin = np.empty(longest, np.int32), np.empty(longest, np.int32)
    nexts, seen = np.empty(widest, np.int32), np.full(len(chain.totals), -1, dtype=np.int32)
    slots, counts, nulls = layout.slots, chain.counts, chain.nulls
    jumps, backs = chain.jumps, chain.reversed_jumps
    middle, gather, moved = len(jumps) // 2, len(marginals) > 0, 0
    for row in range(first, last):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        if m == 0 or n == 0:
            continue
        source = layout.source[layout.source_starts[row] : layout.source_starts[row] + m]
        target = layout.target[layout.target_starts[row] : layout.target_starts[row] + n]
        links = chain.links[layout.offsets[row] : layout.offsets[row] + n]
        _start_sentence(m, source, links, fertility, twin, seen, factors, chain, sums)
        for _ in range(passes):
            next_linked(links, m, n, nexts)
            # `nexts` stays valid during a pass: links to the right of j have not changed yet.
            before, cell = -1, layout.cells[row]
            for j in range(n):
                old, token = links[j], target[j]
                if old >= 0:
                    where = source[old], slots[cell + old]
                    _change_link(old, np.int32(-1), where, fertility, twin, factors, chain, sums)
                else:
                    nulls[token], nulls[-1] = nulls[token] - unit, nulls[-1] - unit
                # A loop of its own for the gather: many reads are in flight at once. There are no views here,
                # because their reference counts take as long as the loops.
                here, forth, back = np.uintp(cell), np.uintp(middle - before), np.uintp(middle - nexts[j])
                for i in range(np.uintp(m)):
                    weights[i] = counts[slots[here + i]] + alpha
                total = link_weights(m, factors, jumps, forth, backs, back, weights)
                none = null * (nulls[token] + alpha) / (nulls[-1] + sums)
                none *= jumps[middle + nexts[j] - before]
                new = np.int32(sample_position(m, old, total, none, weights, chain.random))
                if gather:
                    scale, base = unit / (total + none), cell - layout.cells[first]
                    for i in range(m):
                        marginals[base + i] += weights[i] * scale
                if new >= 0:
                    where = source[new], slots[cell + new]
                    _change_link(new, np.int32(1), where, fertility, twin, factors, chain, sums)
                    before = new
                else:
                    nulls[token], nulls[-1] = nulls[token] + unit, nulls[-1] + unit
                moved += new != old
                links[j] = new
                cell += m
        _count_sentence(m, n, links, source, fertility, chain.jump_counts, chain.fertility_counts)
    return moved


@njit(nogil=True, cache=True)
def _count_sentence(m, n, links, source, fertility, steps, fertilities):
    """Count the jumps and the fertilities of a sentence."""
    before = -1
    for j in range(n):
        if links[j] >= 0:
            steps[MAX_JUMP + max(-MAX_JUMP, min(MAX_JUMP, links[j] - before))] += 1
            before = links[j]
    steps[MAX_JUMP + max(-MAX_JUMP, min(MAX_JUMP, m - before))] += 1
    for i in range(m):
        fertilities[source[i], min(NUM_FERTILITIES - 1, fertility[i])] += 1


@njit(nogil=True, cache=True)
def recount_links(layout, links, steps, fertilities):
    """Count the jumps and fertilities of the links of a text.

    Returns:
        int32, the linked source word of each target token, -1 for none; and int32, the target tokens in
        order.
    """
    words, tokens = np.full(len(links), -1, dtype=np.int32), np.empty(len(links), np.int32)
    for row in range(len(layout.source_lengths)):
        m, n, at = layout.source_lengths[row], layout.target_lengths[row], layout.offsets[row]
        source = layout.source[layout.source_starts[row] : layout.source_starts[row] + m]
        fertility = np.zeros(m, np.int32)
        for j in range(n):
            tokens[at + j] = layout.target[layout.target_starts[row] + j]
            if links[at + j] >= 0:
                words[at + j] = source[links[at + j]]
                fertility[links[at + j]] += 1
        if m and n:
            _count_sentence(m, n, links[at : at + n], source, fertility, steps, fertilities)
    return words, tokens


@njit(nogil=True, cache=True)
def best_links_of_marginals(first, last, layout, marginals, links):
    """Write the top-scoring link (or no link) of every word of sentences `first` to `last` to `links`, int32.

    `marginals`, float32, are the probabilities of the cells of these sentences. No slots are needed.
    """
    cell = 0
    for row in range(first, last):
        m = layout.source_lengths[row]
        for at in range(layout.offsets[row], layout.offsets[row + 1]):
            links[at] = -1
            most, none = np.float32(0), np.float32(1)
            for i in range(m):
                none -= marginals[cell + i]
                if marginals[cell + i] > most:
                    most, links[at] = marginals[cell + i], i
            # The probability of no link is the rest of the distribution.
            if none >= most:
                links[at] = -1
            cell += m
