"""The HMM aligner of Vogel, Ney & Tillmann (1996): each link depends on the position of the previous one.

    p(t, a | s) = prod_j p(a_j | a_{j-1}, m) p(t_j | s_{a_j})

p(i | i', m) depends only on the jump i - i', is normalized over the m source words and interpolated with a
uniform distribution. The first word has a jump distribution of its own. Null words are as in Och & Ney
(2003): each source position has a null state, which is entered with a fixed probability and stores the
position for the next jump. The translation table is initialized with Model 1. The expectation step is the
forward-backward algorithm.

The arrays of a pair have one row per target word. In those of states, column m stands for no position yet.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np

from regard.alignment.base import TrainingSetup, register_aligner
from regard.alignment.corpus import Corpus
from regard.alignment.em import Block, EMAligner, TranslationTable, alpha_option, train_passes
from regard.alignment.em_kernels import longest_lengths, translation_probability
from regard.alignment.ibm import IBM1Config, IBMAligner
from regard.config import configclass, option
from regard.kernels.compilation import njit
from regard.text.array_files import MAX_COUNT, check_arrays

IBM1_ITERATIONS = 5
"""Number of passes with Model 1 before the HMM."""
MAX_HMM_JUMP = 100
"""Maximum jump distance; longer jumps are clipped to it."""
NUM_JUMPS = 2 * MAX_HMM_JUMP + 1
JUMPS_FORM = ("float64", 0, MAX_COUNT, 2, NUM_JUMPS)
"""The form of the jumps in a file; see `check_arrays`."""


@configclass
class HMMConfig:
    """The HMM aligner."""

    kind: Literal["hmm"] = option(default="hmm", help="A hidden Markov model.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    null_probability: float = option(
        default=0.2, help="Probability that a target word has no source word.", gt=0, lt=1
    )
    smoothing: float = option(
        default=0.2, help="Interpolation weight of the uniform jump distribution.", gt=0, le=1
    )
    alpha: float = alpha_option(0.01)
    decoding: Literal["posterior", "viterbi"] = option(
        default="posterior",
        help="Decoding: the top-scoring link of each word (posterior), or the top-scoring path (viterbi).",
    )


class _Parameters(NamedTuple):
    """The parameters of an HMM.

    Attributes:
        values: float32, the probability of each entry of the translation table.
        nulls: float32, its row of the null word.
        jumps: float64 [2, NUM_JUMPS]; see `HMMAligner`.
        null: Probability of a null state.
        smoothing: Interpolation weight of the uniform jump distribution.
    """

    values: np.ndarray
    nulls: np.ndarray
    jumps: np.ndarray
    null: float
    smoothing: float


@register_aligner("hmm", HMMConfig)
@dataclass(eq=False)
class HMMAligner(EMAligner):
    """A trained HMM.

    Attributes:
        table: The translation table.
        jumps: float64 [2, 201]: unnormalized probabilities of jumps of -100 to 100 words. Row 0 is for all
            words but the first; row 1 is for the first word, which jumps from the position before the
            sentence.
        config: The configuration.
    """

    table: TranslationTable
    jumps: np.ndarray
    config: HMMConfig

    @classmethod
    def train(cls, corpus: Corpus, config: HMMConfig, setup: TrainingSetup) -> Self:
        """Train the HMM, after Model 1."""
        table = TranslationTable.of(corpus)
        IBMAligner.train(corpus, IBM1Config(iterations=IBM1_ITERATIONS, alpha=config.alpha), setup, table)
        model = cls(table, np.ones((2, NUM_JUMPS)), config)
        for _, sums in train_passes(corpus, model, setup, "hmm"):
            # Unnormalized counts: `transitions` normalizes them for each sentence length.
            model.jumps = sums[2:].reshape(2, NUM_JUMPS)
        return model

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the best source words, or the best path; see `EMAligner.best`."""
        if self.config.decoding == "viterbi":
            block.run(viterbi_paths, threads, self._parameters(), links)
        else:
            super().best(block, links, threads)

    def expect(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int, with_sums: bool = True
    ) -> np.ndarray:
        """Run the expectation step; return log-likelihood, number of null words, and jump counts."""
        return block.run(expect_paths, threads, self._parameters(), posteriors, null, with_sums)

    def _parameters(self) -> _Parameters:
        table, config = self.table, self.config
        return _Parameters(table.values, table.nulls, self.jumps, config.null_probability, config.smoothing)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return {**self.table.arrays(), "jumps": self.jumps}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: HMMConfig, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        check_arrays({"jumps": arrays["jumps"]}, {"jumps": JUMPS_FORM})
        return cls(TranslationTable.load(arrays, sizes), arrays["jumps"], config)


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
def emissions(row, layout, values, nulls, emitted, null_emitted):
    """Write p(t_j | s_i) of a pair to `emitted[j, i]`, and that of the null word to `null_emitted`."""
    m, n, start = layout.source_lengths[row], layout.target_lengths[row], layout.target_starts[row]
    slots = layout.slots
    for j in range(n):
        null_emitted[j] = translation_probability(nulls, layout.target[start + j])
    for i in range(m):
        cell = layout.cells[row] + i * n
        for j in range(n):
            emitted[j, i] = translation_probability(values, slots[cell + j])


@njit(nogil=True, cache=True)
def viterbi_paths(first_row, last_row, layout, learned, links):
    """Write each pair's Viterbi path to `links`: the source position of each target word, -1 for null."""
    longest, widest = longest_lengths(first_row, last_row, layout.source_lengths, layout.target_lengths)
    null = learned.null
    all_moves, first = np.empty((longest, longest), np.float32), np.empty(longest, np.float32)
    emitted, null_emitted = np.empty((widest, longest), np.float32), np.empty(widest, np.float32)
    # `best` and `last`: log-probability of the best path by position (column m: none yet), after this word
    # and after the previous one. `came`: the previous position of that path.
    best, last = np.empty(longest + 1), np.empty(longest + 1)
    came = np.empty((widest, longest + 1), np.int32)
    for row in range(first_row, last_row):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        out = links[layout.offsets[row] : layout.offsets[row] + n]
        out[:] = -1
        if m == 0:
            continue
        moves = all_moves[:m, :m]
        transitions(m, learned.jumps, null, learned.smoothing, moves, first)
        for origin in range(m):
            first[origin] = math.log(first[origin])
            for i in range(m):
                moves[origin, i] = math.log(moves[origin, i])
        emissions(row, layout, learned.values, learned.nulls, emitted, null_emitted)
        last[:m] = -np.inf
        last[m] = 0
        for j in range(n):
            # -1: the word is null and the position is kept; otherwise the previous position.
            for i in range(m + 1):
                best[i] = last[i] + math.log(null * null_emitted[j])
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


@njit(nogil=True, cache=True)
def _forward(m, n, moves, first, null, emitted, null_emitted, linked, after, scales):
    """Compute forward probabilities, normalized at each word; return the log-likelihood.

    `linked[j, i]` is the probability that word j is linked to i. `after[j, i]` is that of position i after
    word j, whether j is linked or null; column m stands for no position yet.
    """
    log_likelihood = 0.0
    for j in range(n):
        now, then = linked[j, :m], after[j, : m + 1]
        if j == 0:
            for i in range(m):
                now[i] = first[i]
                then[i] = 0
            then[m] = null * null_emitted[0]
        else:
            before = after[j - 1, : m + 1]
            for i in range(m):
                now[i] = before[m] * first[i]
            for origin in range(m):
                weight = before[origin]
                for i in range(m):
                    now[i] += weight * moves[origin, i]
            for i in range(m + 1):
                # A null word keeps the position.
                then[i] = before[i] * null * null_emitted[j]
        total = np.float32(0)
        for i in range(m):
            now[i] *= emitted[j, i]
            then[i] += now[i]
        for i in range(m + 1):
            total += then[i]
        for i in range(m):
            now[i] /= total
        for i in range(m + 1):
            then[i] /= total
        scales[j] = total
        log_likelihood += math.log(total)
    return log_likelihood


@njit(nogil=True, cache=True)
def _link_posteriors(j, m, n, linked, after, emitted, scale, ahead, posteriors, wanted):
    """Write the posteriors of the links of word j, and the factors of its backward step to `wanted`.

    Returns:
        The posterior of the null word.
    """
    none = np.float32(0)
    for i in range(m):
        posteriors[i * n + j] = linked[j, i] * ahead[i]
        none += (after[j, i] - linked[j, i]) * ahead[i]
        wanted[i] = emitted[j, i] * ahead[i] / scale
    none += after[j, m] * ahead[m]
    # The difference of two forward values may be slightly negative due to rounding.
    return max(np.float32(0), none)


@njit(nogil=True, cache=True)
def _step_back(m, stay, first, wanted, back, ahead, store):
    """Replace the backward values `ahead` by those of the word before. Column m: no position yet."""
    expected = np.float32(0)
    for i in range(m):
        expected += first[i] * wanted[i]
    store[m] = expected + stay * ahead[m]
    for origin in range(m):
        store[origin] = stay * ahead[origin]
    # `back` is `moves` transposed, so that the inner loop reads contiguous memory.
    for i in range(m):
        weight = wanted[i]
        for origin in range(m):
            store[origin] += weight * back[i, origin]
    for i in range(m + 1):
        ahead[i] = store[i]


@njit(nogil=True, cache=True)
def expect_paths(first_row, last_row, layout, learned, posteriors, null_posteriors, with_sums):
    """Compute the posteriors of links of pairs `first_row` to `last_row` with the forward-backward algorithm.

    The arguments are those of `em_kernels.expect_links`, with the parameters of the HMM, and whether jumps
    are counted.

    Returns:
        The log-likelihood, the number of null words, and the expected counts of the jumps, or zeros.
    """
    longest, widest = longest_lengths(first_row, last_row, layout.source_lengths, layout.target_lengths)
    # float32 throughout: a vector register holds twice the number of values.
    null = np.float32(learned.null)
    all_moves, all_back = np.empty((longest, longest), np.float32), np.empty((longest, longest), np.float32)
    all_pairs = np.empty((longest, longest), np.float32)
    first, wanted = np.empty(longest, np.float32), np.empty(longest, np.float32)
    emitted, linked = np.empty((widest, longest), np.float32), np.empty((widest, longest), np.float32)
    after = np.empty((widest, longest + 1), np.float32)
    null_emitted, scales = np.empty(widest, np.float32), np.empty(widest, np.float32)
    ahead, store = np.empty(longest + 1, np.float32), np.empty(longest + 1, np.float32)
    sums = np.zeros(2 + 2 * NUM_JUMPS)
    size = -1
    # The transitions depend only on the source length, and are computed again only if it changes.
    for row in range(first_row, last_row):
        m, n, cell = layout.source_lengths[row], layout.target_lengths[row], layout.cells[row]
        out = null_posteriors[layout.offsets[row] : layout.offsets[row] + n]
        if m == 0:
            out[:] = 1
            continue
        moves, back, pairs = all_moves[:m, :m], all_back[:m, :m], all_pairs[:m, :m]
        if m != size:
            transitions(m, learned.jumps, null, learned.smoothing, moves, first)
            back[:, :] = moves.T
            size = m
        emissions(row, layout, learned.values, learned.nulls, emitted, null_emitted)
        sums[0] += _forward(m, n, moves, first, null, emitted, null_emitted, linked, after, scales)
        # `pairs` sums over j; the factor `moves` is common to all j and applied once per sentence.
        pairs[:] = 0
        ahead[: m + 1] = 1
        for j in range(n - 1, -1, -1):
            out[j] = _link_posteriors(
                j, m, n, linked, after, emitted, scales[j], ahead, posteriors[cell:], wanted
            )
            sums[1] += out[j]
            # The jumps from the position before the sentence, column m.
            from_none = np.float32(1) if j == 0 else after[j - 1, m]
            for i in range(m if with_sums else 0):
                at = 2 + NUM_JUMPS + MAX_HMM_JUMP + min(MAX_HMM_JUMP, i + 1)
                sums[at] += from_none * (first[i] * wanted[i])
            if j > 0 and with_sums:
                for origin in range(m):
                    weight = after[j - 1, origin]
                    for i in range(m):
                        pairs[origin, i] += weight * wanted[i]
            _step_back(m, null * null_emitted[j] / scales[j], first, wanted, back, ahead, store)
        for origin in range(m if with_sums else 0):
            for i in range(m):
                jump = max(-MAX_HMM_JUMP, min(MAX_HMM_JUMP, i - origin))
                sums[2 + MAX_HMM_JUMP + jump] += pairs[origin, i] * moves[origin, i]
    return sums
