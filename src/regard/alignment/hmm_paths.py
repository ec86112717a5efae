"""The HMM aligner's transition and emission probabilities for one sentence pair, and its Viterbi path."""

import math

import numpy as np
from numba import njit

from regard.alignment.table import MIN_PROBABILITY

__all__ = ["MAX_HMM_JUMP", "NUM_JUMPS", "emissions", "transitions", "viterbi"]

MAX_HMM_JUMP = 100
"""Maximum jump distance; longer jumps are clipped to it."""
NUM_JUMPS = 2 * MAX_HMM_JUMP + 1


@njit(nogil=True, cache=True)
def transitions(m, jumps, null, smoothing, moves, first):
    """Write p(i | i', m), times 1 - null, to `moves[i', i]`, and that of the first word to `first`."""
    for origin in range(-1, m):
        total = 0.0
        row = jumps[1 if origin < 0 else 0]
        for i in range(m):
            total += row[MAX_HMM_JUMP + max(-MAX_HMM_JUMP, min(MAX_HMM_JUMP, i - origin))]
        for i in range(m):
            jump = row[MAX_HMM_JUMP + max(-MAX_HMM_JUMP, min(MAX_HMM_JUMP, i - origin))]
            # Without counts for any possible jump the distribution is uniform.
            share = (1 - smoothing) * jump / total + smoothing / m if total > 0 else 1 / m
            if origin < 0:
                first[i] = (1 - null) * share
            else:
                moves[origin, i] = (1 - null) * share


@njit(nogil=True, cache=True)
def emissions(m, n, cell, start, tokens, slots, values, nulls, emitted, null_emitted):
    """Write p(t_j | s_i) to `emitted[j, i]`, and that of the null word to `null_emitted`."""
    floor = np.float32(MIN_PROBABILITY)
    for j in range(n):
        token = tokens[start + j]
        null_emitted[j] = max(nulls[token], floor) if token >= 0 else floor
    for i in range(m):
        for j in range(n):
            slot = slots[cell + i * n + j]
            emitted[j, i] = max(values[slot], floor) if slot >= 0 else floor


@njit(nogil=True, cache=True)
def viterbi(
    first_row,
    last_row,
    sources,
    tokens,
    starts,
    targets,
    offsets,
    cells,
    slots,
    values,
    nulls,
    jumps,
    null_probability,
    smoothing,
    links,
):
    """Write each pair's Viterbi path to `links`: the source position of each target word, -1 for null."""
    longest, widest = 1, 1
    for row in range(first_row, last_row):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    all_moves, first = np.empty((longest, longest), np.float32), np.empty(longest, np.float32)
    emitted, null_emitted = np.empty((widest, longest), np.float32), np.empty(widest, np.float32)
    # `best` and `last`: log-probability of the best path by position (column m: none yet), after this word
    # and after the previous one. `came`: the previous position of that path.
    best, last = np.empty(longest + 1), np.empty(longest + 1)
    came = np.empty((widest, longest + 1), np.int32)
    for row in range(first_row, last_row):
        m, n = sources[row], targets[row]
        out = links[offsets[row] : offsets[row] + n]
        out[:] = -1
        if m == 0:
            continue
        moves = all_moves[:m, :m]
        transitions(m, jumps, null_probability, smoothing, moves, first)
        for origin in range(m):
            first[origin] = math.log(first[origin])
            for i in range(m):
                moves[origin, i] = math.log(moves[origin, i])
        emissions(m, n, cells[row], starts[row], tokens, slots, values, nulls, emitted, null_emitted)
        last[:m] = -np.inf
        last[m] = 0
        for j in range(n):
            # -1: the word is null and the position is kept; otherwise the previous position.
            for i in range(m + 1):
                best[i] = last[i] + math.log(null_probability * null_emitted[j])
                came[j, i] = -1
            for i in range(m):
                most, origin = last[m] + first[i], m
                for before in range(m):
                    if last[before] + moves[before, i] > most:
                        most, origin = last[before] + moves[before, i], before
                most += math.log(emitted[j, i])
                if most > best[i]:
                    best[i], came[j, i] = most, origin
            for i in range(m + 1):
                last[i] = best[i]
        # Backtrace from the best final position.
        at = np.argmax(last[: m + 1])
        for j in range(n - 1, -1, -1):
            if came[j, at] >= 0:
                out[j] = at
                at = came[j, at]
    return np.zeros(0)
