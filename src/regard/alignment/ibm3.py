"""IBM Model 3 (Brown et al., 1993): each source word has a fertility, its number of target words.

    p(t, a | s) = binomial(n - f_0, f_0) p_1^f_0 (1 - p_1)^(n - 2 f_0) prod_i f_i! p(f_i | s_i)
                  prod_j p(t_j | s_{a_j}) prod_{j: a_j > 0} d(j | a_j, m, n)

f_i words are linked to source word i, and f_0 to the null word. The sum over alignments is intractable. As in
Brown et al. (1993), expectations are computed over the alignments one move or swap away from the best one
that hill climbing finds. Hill climbing starts from the Viterbi path of the HMM, which is trained first.

In contrast to the paper, distortion depends only on the distance from the diagonal, is normalized over the n
positions and interpolated with a uniform distribution. The null probability is not learned. A word's
fertility distribution is smoothed with that of the whole text.
"""

from typing import ClassVar, Literal, Self

import numpy as np

from regard.alignment.base import AlignerState, TrainingSetup
from regard.alignment.bayes_sampler import FERTILITY_ALPHA
from regard.alignment.corpus import Corpus
from regard.alignment.em import (
    MAX_STORED_PROBABILITY,
    Block,
    EMAligner,
    EMTrainer,
    TranslationTable,
    alpha_option,
)
from regard.alignment.hmm import HMMAligner, HMMConfig, check_jumps, train_hmm
from regard.alignment.ibm3_kernels import (
    MAX_DISTORTION,
    MAX_FERTILITY,
    NUM_DISTANCES,
    IBM3Parameters,
    climb_links,
    expect_neighborhood,
    sum_fertilities,
)
from regard.config import configclass, option
from regard.text.array_files import MAX_COUNT, check_array, check_range

__all__ = ["IBM3Aligner", "IBM3Config", "count_fertile_links", "smoothed_fertilities", "train_ibm3"]


@configclass
class IBM3Config:
    """IBM Model 3."""

    kind: Literal["ibm3"] = option(default="ibm3", help="IBM Model 3, with fertilities.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    hmm_iterations: int = option(
        default=5, help="Number of passes with the HMM before Model 3.", ge=1, le=10_000
    )
    null_probability: float = option(
        default=0.05,
        help="Probability that a target word is followed by an extra one without a source word (p_1).",
        gt=0,
        lt=1,
    )
    smoothing: float = option(default=0.2, help="Interpolation weight of the uniform distortion.", gt=0, le=1)
    alpha: float = alpha_option(0.01)


class IBM3Aligner(EMAligner):
    """A trained Model 3.

    Attributes:
        table: The translation table.
        jumps: The jump probabilities of the HMM, from whose path hill climbing starts.
        fertilities: float32 [source words + 1, 10]: the probability of each fertility. The last row is for
            unknown words, the last column for fertilities of 9 and more.
        distortions: float64 [61]: unnormalized probabilities of distances from the diagonal, from -30 to 30.
        config: The configuration.
    """

    kind: ClassVar[str] = "ibm3"

    def __init__(
        self,
        table: TranslationTable,
        jumps: np.ndarray,
        fertilities: np.ndarray,
        distortions: np.ndarray,
        config: IBM3Config,
    ) -> None:
        """Create the aligner."""
        self.table, self.jumps, self.config = table, jumps, config
        self.fertilities, self.distortions = fertilities, distortions

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the links with hill climbing; see `EMAligner.best`."""
        self._viterbi_links(block, links, threads)
        block.run(climb_links, threads, self._parameters(), links)

    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """Run the expectation step over a block; see `EMAligner.expect` and `expect_fertilities`."""
        return self.expect_fertilities(block, posteriors, null, threads)[0]

    def expect_fertilities(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the expectation step, and return the fertility posteriors too, [source tokens, 10]."""
        links = np.empty(len(null), dtype=np.int32)
        self._viterbi_links(block, links, threads)
        offsets = block.corpus.source.offsets
        counted = np.empty((int(offsets[-1]), MAX_FERTILITY + 1), dtype=np.float32)
        filled = (links, posteriors, null, counted)
        return block.run(expect_neighborhood, threads, self._parameters(), offsets, *filled), counted

    def _viterbi_links(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Write the Viterbi path of the HMM to `links`."""
        HMMAligner(self.table, self.jumps, HMMConfig(decoding="viterbi")).best(block, links, threads)

    def _parameters(self) -> IBM3Parameters:
        table, config = self.table, self.config
        learned = (self.fertilities, self.distortions, config.null_probability, config.smoothing)
        return IBM3Parameters(table.values, table.nulls, *learned)

    def state(self) -> AlignerState:
        """Return the serialized form; see `DirectionAligner.state`."""
        arrays = {name: getattr(self, name) for name in ("jumps", "fertilities", "distortions")}
        settings = {name: getattr(self.config, name) for name in ("null_probability", "smoothing")}
        return AlignerState(settings, self.table.arrays() | arrays)

    @classmethod
    def from_state(cls, state: AlignerState, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.from_state`."""
        table = TranslationTable.load(state.arrays, sizes)
        arrays = {name: state.arrays[name] for name in ("jumps", "fertilities", "distortions")}
        check_jumps(arrays["jumps"])
        check_array("fertilities", arrays["fertilities"], "float32", sizes[0] + 1, MAX_FERTILITY + 1)
        check_range("fertilities", arrays["fertilities"], 0, MAX_STORED_PROBABILITY)
        check_array("distortions", arrays["distortions"], "float64", NUM_DISTANCES)
        check_range("distortions", arrays["distortions"], 0, MAX_COUNT)
        return cls(table, **arrays, config=IBM3Config(**state.settings))


def train_ibm3(corpus: Corpus, config: IBM3Config, setting: TrainingSetup) -> IBM3Aligner:
    """Train Model 3, after the HMM."""
    first = HMMConfig(iterations=config.hmm_iterations, alpha=config.alpha, decoding="viterbi")
    hmm = train_hmm(corpus, first, setting)
    local_corpus = setting.local_part(corpus)
    totals, distances = (
        setting.reduce(counts)
        for counts in count_fertile_links(local_corpus, hmm.align(local_corpus, setting.num_threads))
    )
    fertilities = smoothed_fertilities(totals, FERTILITY_ALPHA)
    model = IBM3Aligner(hmm.table, hmm.jumps, fertilities, distances, config)
    totals = np.zeros((len(corpus.source.words) + 1, MAX_FERTILITY + 1))

    def expect(block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        sums, counted = model.expect_fertilities(block, posteriors, null, threads)
        source = block.corpus.source
        sum_fertilities(source.tokens, source.starts, source.lengths, counted, totals)
        return sums

    passes = EMTrainer(corpus, model, setting).passes("ibm3", config.iterations, config.alpha, expect)
    for _, sums in passes:
        model.fertilities = smoothed_fertilities(setting.reduce(totals), FERTILITY_ALPHA)
        model.distortions = sums[2:]
        totals[:] = 0
    return model


def count_fertile_links(corpus: Corpus, links: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the fertilities of each source word, and the distances from the diagonal, of given links."""
    source, target = corpus.source, corpus.target
    linked = np.zeros(int(source.lengths.sum()), dtype=np.int64)
    rows = np.repeat(np.arange(len(corpus)), target.lengths)
    linked_targets = links >= 0
    places, row = links[linked_targets].astype(np.int64), rows[linked_targets]
    np.add.at(linked, source.offsets[row] + places, 1)
    totals = np.zeros((len(source.words) + 1, MAX_FERTILITY + 1))
    # Rows of the identity matrix are the one-hot fertilities.
    one_hot = np.eye(MAX_FERTILITY + 1)[np.minimum(linked, MAX_FERTILITY)]
    sum_fertilities(source.tokens, source.starts, source.lengths, one_hot, totals)
    here = (np.arange(len(links)) - np.repeat(target.offsets[:-1], target.lengths))[linked_targets]
    # The same as `diagonal_position` in the kernels.
    middle = ((2 * places + 1) * target.lengths[row]) // (2 * source.lengths[row].astype(np.int64))
    distances = np.bincount(
        MAX_DISTORTION + np.clip(here - middle, -MAX_DISTORTION, MAX_DISTORTION), minlength=NUM_DISTANCES
    )
    return totals, distances.astype(np.float64)


def smoothed_fertilities(totals: np.ndarray, alpha: float) -> np.ndarray:
    """Return fertility distributions, with that of the whole text as a prior and as the last row."""
    # A small count for every fertility, so that unseen ones are possible.
    text = totals.sum(0) + 0.1
    text /= text.sum()
    counts = totals + alpha * text
    # The last row is for unknown words.
    counts[-1] = text
    return (counts / counts.sum(1, keepdims=True)).astype(np.float32)
