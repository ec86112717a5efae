"""The HMM aligner of Vogel, Ney & Tillmann (1996): each link depends on the position of the previous one.

    p(t, a | s) = prod_j p(a_j | a_{j-1}, m) p(t_j | s_{a_j})

p(i | i', m) depends only on the jump i - i', is normalized over the m source words and interpolated with a
uniform distribution. The first word has a jump distribution of its own. Null words are as in Och & Ney
(2003): each source position has a null state, which is entered with a fixed probability and stores the
position for the next jump. The translation table is initialized with Model 1. The expectation step is the
forward-backward algorithm.
"""

import math
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numba import njit

from regard.alignment.base import AlignerState, IterationStats, TrainingSetup
from regard.alignment.blocks import Block
from regard.alignment.corpus import Corpus
from regard.alignment.em import EMAligner, EMTrainer, run_over_sentences
from regard.alignment.hmm_paths import MAX_HMM_JUMP, NUM_JUMPS, emissions, transitions, viterbi
from regard.alignment.ibm import IBM1Config, train_ibm1
from regard.alignment.table import TranslationTable
from regard.config import configclass, option
from regard.data.checks import MAX_COUNT, check_array, check_range

__all__ = ["HMMAligner", "HMMConfig", "check_jumps", "train_hmm"]

Decoding = Literal["posterior", "viterbi"]

IBM1_ITERATIONS = 5
"""Number of passes with Model 1 before the HMM."""


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
    alpha: float = option(
        default=0.01,
        help="Concentration of the Dirichlet prior on translations; smaller values prefer fewer translations "
        "per word. 0 disables the prior.",
        ge=0,
        le=1e6,
    )
    decoding: Decoding = option(
        default="posterior",
        help="Decoding: the top-scoring link of each word (posterior), or the top-scoring path (viterbi).",
    )
    threshold: float = option(default=0.0, help="Minimum link probability in posterior decoding.", ge=0, le=1)


class HMMAligner(EMAligner):
    """A trained HMM.

    Attributes:
        table: The translation table.
        jumps: float64 [2, 201]: unnormalized probabilities of jumps of -100 to 100 words. Row 0 is for all
            words but the first; row 1 is for the first word, which jumps from the position before the
            sentence.
        config: The configuration.
    """

    kind: ClassVar[str] = "hmm"

    def __init__(self, table: TranslationTable, jumps: np.ndarray, config: HMMConfig) -> None:
        """Create the aligner."""
        self.table, self.jumps, self.config = table, jumps, config

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the best source words, or the best path; see `EMAligner.best`."""
        if self.config.decoding == "viterbi":
            run_over_sentences(viterbi, block, threads, *self._arguments(block), links)
            return
        posteriors, null = np.empty(len(block.slots), np.float32), np.empty(len(links), np.float32)
        self.expect(block, posteriors, null, threads)
        target = block.corpus.target
        shapes = block.corpus.source.lengths, target.lengths, target.offsets, block.cells
        run_over_sentences(_pick, block, threads, *shapes, posteriors, null, self.config.threshold, links)

    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """Run the expectation step; return log-likelihood, number of null words, and jump counts."""
        return run_over_sentences(_expect, block, threads, *self._arguments(block), posteriors, null)

    def _arguments(self, block: Block) -> tuple[Any, ...]:
        target, table = block.corpus.target, self.table
        text = (block.corpus.source.lengths, target.tokens, target.starts, target.lengths, target.offsets)
        values = (block.cells, block.slots, table.values, table.values[table.starts[-2] :])
        return (*text, *values, self.jumps, self.config.null_probability, self.config.smoothing)

    def state(self) -> AlignerState:
        """Return the serialized form; see `DirectionAligner.state`."""
        table = self.table.pruned()
        arrays = {
            "starts": table.starts,
            "columns": table.columns,
            "values": table.values,
            "jumps": self.jumps,
        }
        names = ("null_probability", "smoothing", "decoding", "threshold")
        return AlignerState({name: getattr(self.config, name) for name in names}, arrays)

    @classmethod
    def from_state(cls, state: AlignerState, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.from_state`."""
        table = TranslationTable(*(state.arrays[name] for name in ("starts", "columns", "values")))
        table.check(*sizes)
        check_jumps(state.arrays["jumps"])
        return cls(table, state.arrays["jumps"], HMMConfig(**state.settings))


def check_jumps(jumps: np.ndarray) -> None:
    """Check the jump probabilities of a file.

    Raises:
        DataError: if the array does not have the form of an HMM's.
    """
    check_array("jumps", jumps, "float64", 2, NUM_JUMPS)
    check_range("jumps", jumps, 0, MAX_COUNT)


def train_hmm(corpus: Corpus, config: HMMConfig, setting: TrainingSetup) -> HMMAligner:
    """Train the HMM, after Model 1."""
    table = TranslationTable.of(corpus, setting.num_threads)
    train_ibm1(corpus, IBM1Config(iterations=IBM1_ITERATIONS, alpha=config.alpha), setting, table)
    model = HMMAligner(table, np.ones((2, NUM_JUMPS)), config)
    trainer = EMTrainer(corpus, table, setting)
    words = int(corpus.target.lengths.sum())

    def expect(block: Block, posteriors: np.ndarray, null: np.ndarray) -> np.ndarray:
        return model.expect(block, posteriors, null, setting.num_threads)

    for number in range(1, config.iterations + 1):
        sums = trainer.step(expect, config.alpha)
        # Unnormalized counts: `transitions` normalizes them for each sentence length.
        model.jumps = sums[2:].reshape(2, NUM_JUMPS)
        metrics = {"null": sums[1] / words}
        setting.report(IterationStats("hmm", number, config.iterations, float(sums[0]), words, metrics))
    return model


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
def _expect(
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
    posteriors,
    null_posteriors,
):
    longest, widest = 1, 1
    for row in range(first_row, last_row):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    null = np.float32(null_probability)
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
        m, n = sources[row], targets[row]
        out = null_posteriors[offsets[row] : offsets[row] + n]
        if m == 0:
            out[:] = 1
            continue
        moves, back, pairs = all_moves[:m, :m], all_back[:m, :m], all_pairs[:m, :m]
        if m != size:
            transitions(m, jumps, null, smoothing, moves, first)
            for i in range(m):
                for origin in range(m):
                    back[i, origin] = moves[origin, i]
            size = m
        emissions(m, n, cells[row], starts[row], tokens, slots, values, nulls, emitted, null_emitted)
        sums[0] += _forward(m, n, moves, first, null, emitted, null_emitted, linked, after, scales)
        # `pairs` sums over j; the factor `moves` is common to all j and applied once per sentence.
        pairs[:] = 0
        ahead[: m + 1] = 1
        for j in range(n - 1, -1, -1):
            none = np.float32(0)
            for i in range(m):
                posteriors[cells[row] + i * n + j] = linked[j, i] * ahead[i]
                none += (after[j, i] - linked[j, i]) * ahead[i]
                wanted[i] = emitted[j, i] * ahead[i] / scales[j]
            none += after[j, m] * ahead[m]
            # The difference of two forward values may be slightly negative due to rounding.
            out[j] = max(np.float32(0), none)
            sums[1] += out[j]
            # Backward values and jumps of the position before the sentence, column m.
            stay = null * null_emitted[j] / scales[j]
            from_none = np.float32(1) if j == 0 else after[j - 1, m]
            expected = np.float32(0)
            for i in range(m):
                share = first[i] * wanted[i]
                expected += share
                sums[2 + NUM_JUMPS + MAX_HMM_JUMP + min(MAX_HMM_JUMP, i + 1)] += from_none * share
            store[m] = expected + stay * ahead[m]
            for origin in range(m):
                store[origin] = stay * ahead[origin]
            # `back` is `moves` transposed, so that the inner loop reads contiguous memory.
            for i in range(m):
                weight = wanted[i]
                for origin in range(m):
                    store[origin] += weight * back[i, origin]
            if j > 0:
                for origin in range(m):
                    weight = after[j - 1, origin]
                    for i in range(m):
                        pairs[origin, i] += weight * wanted[i]
            for i in range(m + 1):
                ahead[i] = store[i]
        for origin in range(m):
            for i in range(m):
                jump = max(-MAX_HMM_JUMP, min(MAX_HMM_JUMP, i - origin))
                sums[2 + MAX_HMM_JUMP + jump] += pairs[origin, i] * moves[origin, i]
    return sums


@njit(nogil=True, cache=True)
def _pick(first, last, sources, targets, offsets, cells, posteriors, null, threshold, links):
    for row in range(first, last):
        m, n = sources[row], targets[row]
        for j in range(n):
            at = offsets[row] + j
            most, links[at] = null[at], -1
            for i in range(m):
                value = posteriors[cells[row] + i * n + j]
                if value > most and value >= threshold:
                    most, links[at] = value, i
    return np.zeros(0)
