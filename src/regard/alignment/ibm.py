"""IBM Models 1 and 2: each target word is the translation of one source word, or of the null word.

    p(t, a | s) = prod_j p(a_j | j, m, n) p(t_j | s_{a_j})

In Model 1 (Brown et al., 1993) all m + 1 source words have the same prior probability. Model 2 is that of
Dyer, Chahuneau & Smith (2013), as in fast_align: the null word has a fixed probability, the others follow the
diagonal prior of `diagonal`, whose tension is learned, and the translation table has a sparse Dirichlet
prior, with variational Bayes.
"""

import math
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numba import njit

from regard.alignment.base import AlignerState, IterationStats, TrainingSetup
from regard.alignment.blocks import Block
from regard.alignment.corpus import Corpus
from regard.alignment.diagonal import fit_tension, length_counts, normalizer
from regard.alignment.em import EMAligner, EMTrainer, run_over_sentences
from regard.alignment.table import MIN_PROBABILITY, TranslationTable
from regard.config import configclass, option

__all__ = ["IBM1Config", "IBM2Config", "IBMAligner", "train_ibm1", "train_ibm2"]

UNIFORM = -1.0
"""A value of `IBMAligner.null` that gives the null word the same probability as each source word."""


@configclass
class IBM1Config:
    """IBM Model 1."""

    kind: Literal["ibm1"] = option(default="ibm1", help="IBM Model 1.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    null_word: bool = option(default=True, help="Allow target words without a source word.")
    alpha: float = option(
        default=0.0,
        help="Concentration of the Dirichlet prior on translations; smaller values prefer fewer translations "
        "per word. 0 disables the prior.",
        ge=0,
        le=1e6,
    )


@configclass
class IBM2Config:
    """IBM Model 2 with a diagonal prior, as in fast_align."""

    kind: Literal["ibm2"] = option(default="ibm2", help="IBM Model 2 with a diagonal prior.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    null_probability: float = option(
        default=0.08, help="Probability that a target word has no source word.", ge=0, lt=1
    )
    tension: float = option(
        default=4.0,
        help="Initial tension of the diagonal prior; larger values favor links near the diagonal.",
        gt=0,
        le=14,
    )
    fit_tension: bool = option(default=True, help="Learn the tension.")
    alpha: float = option(
        default=0.01,
        help="Concentration of the Dirichlet prior on translations; smaller values prefer fewer translations "
        "per word. 0 disables the prior.",
        ge=0,
        le=1e6,
    )


class IBMAligner(EMAligner):
    """A trained Model 1 or 2.

    Attributes:
        table: The translation table.
        null: Probability of the null word, or `UNIFORM`. 0 disables the null word.
        tension: Tension of the diagonal prior. 0 makes all source words equally probable.
    """

    kind: ClassVar[str] = "ibm"

    def __init__(self, table: TranslationTable, null: float, tension: float) -> None:
        """Create the aligner."""
        self.table, self.null, self.tension = table, null, tension

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the best source words; see `EMAligner.best`."""
        run_over_sentences(_best, block, threads, *_arguments(self, block), links)

    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """Run the expectation step; return log-likelihood, null words, and minus the diagonal distance."""
        return run_over_sentences(_expect, block, threads, *_arguments(self, block), posteriors, null)

    def state(self) -> AlignerState:
        """Return the serialized form; see `DirectionAligner.state`."""
        table = self.table.pruned()
        arrays = {"starts": table.starts, "columns": table.columns, "values": table.values}
        return AlignerState({"null": self.null, "tension": self.tension}, arrays)

    @classmethod
    def from_state(cls, state: AlignerState, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.from_state`."""
        table, settings = TranslationTable(**state.arrays), _Settings(**state.settings)
        table.check(*sizes)
        return cls(table, settings.null, settings.tension)


@configclass
class _Settings:
    """The settings of an aligner in a file."""

    null: float = option(help="Probability of the null word; see `IBMAligner`.", ge=UNIFORM, lt=1)
    tension: float = option(help="Tension of the diagonal prior.", ge=0, le=14)


def train_ibm1(
    corpus: Corpus, config: IBM1Config, setting: TrainingSetup, table: TranslationTable | None = None
) -> IBMAligner:
    """Train Model 1.

    Args:
        corpus: The pairs.
        config: The configuration.
        setting: Threads, seed and processes.
        table: The initial table, updated in place. Default: None, a uniform table of co-occurring words.
    """
    table = TranslationTable.of(corpus, setting.num_threads) if table is None else table
    model = IBMAligner(table, UNIFORM if config.null_word else 0.0, 0.0)
    trainer = EMTrainer(corpus, table, setting)
    words = int(corpus.target.lengths.sum())

    def expect(block: Block, posteriors: np.ndarray, null: np.ndarray) -> np.ndarray:
        return model.expect(block, posteriors, null, setting.num_threads)

    for number in range(1, config.iterations + 1):
        sums = trainer.step(expect, config.alpha)
        metrics = {"null": sums[1] / words}
        setting.report(IterationStats("ibm1", number, config.iterations, float(sums[0]), words, metrics))
    return model


def train_ibm2(corpus: Corpus, config: IBM2Config, setting: TrainingSetup) -> IBMAligner:
    """Train Model 2."""
    table = TranslationTable.of(corpus, setting.num_threads)
    model = IBMAligner(table, config.null_probability, config.tension)
    trainer = EMTrainer(corpus, table, setting)
    words = int(corpus.target.lengths.sum())

    def expect(block: Block, posteriors: np.ndarray, null: np.ndarray) -> np.ndarray:
        return model.expect(block, posteriors, null, setting.num_threads)

    sizes = length_counts(corpus.source.lengths, corpus.target.lengths)
    for number in range(1, config.iterations + 1):
        sums = trainer.step(expect, config.alpha)
        metrics: dict[str, Any] = {"null": sums[1] / words, "tension": model.tension}
        setting.report(IterationStats("ibm2", number, config.iterations, float(sums[0]), words, metrics))
        # In the first pass translations are uniform, so its links contain no information on the diagonal.
        if config.fit_tension and number > 1:
            model.tension = fit_tension(model.tension, float(sums[2]), float(sums[1]), sizes)
    return model


def _arguments(model: IBMAligner, block: Block) -> tuple[Any, ...]:
    target, table = block.corpus.target, model.table
    text = (block.corpus.source.lengths, target.tokens, target.starts, target.lengths, target.offsets)
    values = (block.cells, block.slots, table.values, table.values[table.starts[-2] :])
    return (*text, *values, model.null, model.tension)


@njit(nogil=True, cache=True)
def _null_share(null, m):
    # `UNIFORM` is negative.
    return 1 / (m + 1) if null < 0 else null


@njit(nogil=True, cache=True)
def _weights(m, n, tension, share, rise, fall, up, down):
    """Compute factors such that the prior of source i for target j is min(rise_i up_j, fall_i down_j)."""
    for i in range(m):
        # exp(-l |x - y|) = min(exp(l (x - y)), exp(l (y - x))): m + n exponentials instead of m n.
        rise[i] = math.exp(tension * (i + 1) / m)
        fall[i] = 1 / rise[i]
    for j in range(n):
        scale = share / (normalizer(j + 1, n, m, tension) if tension > 0 else m)
        distance = math.exp(tension * (j + 1) / n)
        up[j] = scale / distance
        down[j] = scale * distance


@njit(nogil=True, cache=True)
def _value(values, slot):
    return max(values[slot], np.float32(MIN_PROBABILITY)) if slot >= 0 else np.float32(MIN_PROBABILITY)


@njit(nogil=True, cache=True)
def _expect(
    first,
    last,
    sources,
    tokens,
    starts,
    targets,
    offsets,
    cells,
    slots,
    values,
    nulls,
    null,
    tension,
    posteriors,
    null_posteriors,
):
    longest, widest = 1, 1
    for row in range(first, last):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    rise, fall = np.empty(longest, np.float32), np.empty(longest, np.float32)
    up, down, total = np.empty(widest, np.float32), np.empty(widest, np.float32), np.empty(widest, np.float32)
    sums = np.zeros(3)
    for row in range(first, last):
        m, n = sources[row], targets[row]
        share = _null_share(null, m)
        if m:
            _weights(m, n, tension, 1 - share, rise, fall, up, down)
        out = null_posteriors[offsets[row] : offsets[row] + n]
        for j in range(n):
            token = tokens[starts[row] + j]
            out[j] = total[j] = share * _value(nulls, token)
        for i in range(m):
            cell = cells[row] + i * n
            for j in range(n):
                joint = _value(values, slots[cell + j]) * min(rise[i] * up[j], fall[i] * down[j])
                posteriors[cell + j] = joint
                total[j] += joint
        for j in range(n):
            if total[j] == 0:
                # There is neither a source word nor a null word.
                continue
            sums[0] += math.log(total[j])
            total[j] = 1 / total[j]
            out[j] *= total[j]
            sums[1] += out[j]
        for i in range(m):
            cell = cells[row] + i * n
            distance = np.float32(0)
            for j in range(n):
                posteriors[cell + j] *= total[j]
                distance += posteriors[cell + j] * abs(np.float32(i + 1) / m - np.float32(j + 1) / n)
            sums[2] -= distance
    return sums


@njit(nogil=True, cache=True)
def _best(
    first, last, sources, tokens, starts, targets, offsets, cells, slots, values, nulls, null, tension, links
):
    longest, widest = 1, 1
    for row in range(first, last):
        longest, widest = max(longest, sources[row]), max(widest, targets[row])
    rise, fall = np.empty(longest, np.float32), np.empty(longest, np.float32)
    up, down, most = np.empty(widest, np.float32), np.empty(widest, np.float32), np.empty(widest, np.float32)
    for row in range(first, last):
        m, n = sources[row], targets[row]
        share = _null_share(null, m)
        if m:
            _weights(m, n, tension, 1 - share, rise, fall, up, down)
        out = links[offsets[row] : offsets[row] + n]
        for j in range(n):
            most[j] = share * _value(nulls, tokens[starts[row] + j])
            out[j] = -1
        for i in range(m):
            cell = cells[row] + i * n
            for j in range(n):
                joint = _value(values, slots[cell + j]) * min(rise[i] * up[j], fall[i] * down[j])
                if joint > most[j]:
                    most[j] = joint
                    out[j] = i
    return np.zeros(0)
