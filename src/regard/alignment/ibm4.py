"""IBM Model 4 (Brown et al., 1993): the target words of a source word, its cept, are placed together.

    p(t, a | s) = binomial(n - f_0, f_0) p_1^f_0 (1 - p_1)^(n - 2 f_0) prod_i p(f_i | s_i)
                  prod_j p(t_j | s_{a_j}) prod_i d_1(j_1 - center_i') d_>1(j_2 - j_1) d_>1(j_3 - j_2) ...

The words of a cept are placed in order, so there is no factor f_i!, in contrast to Model 3
(`regard.alignment.ibm3`). The term of null words is that of Model 3. j_1, j_2, ... are the positions of the
cept of source word i, if it has any. Its first word, the head, is displaced from the center of the cept i'
before it, the mean of its positions rounded up. Every other word is displaced from the word before it in the
cept. Displacements beyond the sentence have a probability too, so the model is deficient, as in the paper.

Expectations are computed over the alignments one move or swap away from the best one that hill climbing
finds. Climbing starts from the Viterbi path of the HMM, which is trained first.

In contrast to the paper, the distributions of displacements do not depend on classes of words, are
interpolated with the uniform distribution, and the null probability is not learned. Hill climbing compares
neighbors by Model 4 itself, instead of by Model 3.
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
from regard.alignment.ibm3 import count_fertile_links, smoothed_fertilities
from regard.alignment.ibm3_kernels import MAX_DISTORTION, MAX_FERTILITY, NUM_DISTANCES, sum_fertilities
from regard.alignment.ibm4_kernels import IBM4Parameters, climb_cepts, count_cepts, expect_cepts
from regard.config import configclass, option
from regard.text.array_files import MAX_COUNT, check_array, check_range

__all__ = ["IBM4Aligner", "IBM4Config", "train_ibm4"]


@configclass
class IBM4Config:
    """IBM Model 4."""

    kind: Literal["ibm4"] = option(
        default="ibm4", help="IBM Model 4, with fertilities and the distortion of cepts."
    )
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    hmm_iterations: int = option(
        default=5, help="Number of passes with the HMM before Model 4.", ge=1, le=10_000
    )
    null_probability: float = option(
        default=0.05,
        help="Probability that a target word is followed by an extra one without a source word (p_1).",
        gt=0,
        lt=1,
    )
    smoothing: float = option(default=0.2, help="Interpolation weight of the uniform distortion.", gt=0, le=1)
    alpha: float = alpha_option(0.01)


class IBM4Aligner(EMAligner):
    """A trained Model 4.

    Attributes:
        table: The translation table.
        jumps: The jump probabilities of the HMM, from whose path hill climbing starts.
        fertilities: float32 [source words + 1, 10]: the probability of each fertility; see `IBM3Aligner`.
        heads: float64 [61]: unnormalized probabilities of the displacements of heads, from -30 to 30.
        others: float64 [30]: unnormalized probabilities of the displacements of other words, from 1 to 30.
        config: The configuration.
    """

    kind: ClassVar[str] = "ibm4"

    def __init__(
        self,
        table: TranslationTable,
        jumps: np.ndarray,
        fertilities: np.ndarray,
        heads: np.ndarray,
        others: np.ndarray,
        config: IBM4Config,
    ) -> None:
        """Create the aligner."""
        self.table, self.jumps, self.config = table, jumps, config
        self.fertilities, self.heads, self.others = fertilities, heads, others

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the links with hill climbing; see `EMAligner.best`."""
        self._viterbi_links(block, links, threads)
        block.run(climb_cepts, threads, self._parameters(), links)

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
        return block.run(expect_cepts, threads, self._parameters(), offsets, *filled), counted

    def _viterbi_links(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Write the Viterbi path of the HMM to `links`."""
        HMMAligner(self.table, self.jumps, HMMConfig(decoding="viterbi")).best(block, links, threads)

    def _parameters(self) -> IBM4Parameters:
        heads, others = self._log_distribution(self.heads), self._log_distribution(self.others)
        learned = self.fertilities, heads, others, self.config.null_probability
        return IBM4Parameters(self.table.values, self.table.nulls, *learned)

    def _log_distribution(self, counts: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of displacements, interpolated with the uniform distribution."""
        total, uniform = counts.sum(), 1 / len(counts)
        shares = counts / total if total > 0 else np.full(len(counts), uniform)
        return np.log((1 - self.config.smoothing) * shares + self.config.smoothing * uniform)

    def state(self) -> AlignerState:
        """Return the serialized form; see `DirectionAligner.state`."""
        arrays = {name: getattr(self, name) for name in ("jumps", "fertilities", "heads", "others")}
        settings = {name: getattr(self.config, name) for name in ("null_probability", "smoothing")}
        return AlignerState(settings, self.table.arrays() | arrays)

    @classmethod
    def from_state(cls, state: AlignerState, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.from_state`."""
        table = TranslationTable.load(state.arrays, sizes)
        arrays = {name: state.arrays[name] for name in ("jumps", "fertilities", "heads", "others")}
        check_jumps(arrays["jumps"])
        check_array("fertilities", arrays["fertilities"], "float32", sizes[0] + 1, MAX_FERTILITY + 1)
        check_range("fertilities", arrays["fertilities"], 0, MAX_STORED_PROBABILITY)
        for name, size in (("heads", NUM_DISTANCES), ("others", MAX_DISTORTION)):
            check_array(name, arrays[name], "float64", size)
            check_range(name, arrays[name], 0, MAX_COUNT)
        return cls(table, **arrays, config=IBM4Config(**state.settings))


def train_ibm4(corpus: Corpus, config: IBM4Config, setting: TrainingSetup) -> IBM4Aligner:
    """Train Model 4, after the HMM."""
    first = HMMConfig(iterations=config.hmm_iterations, alpha=config.alpha, decoding="viterbi")
    hmm = train_hmm(corpus, first, setting)
    local_corpus = setting.local_part(corpus)
    links = hmm.align(local_corpus, setting.num_threads)
    counted, displacements = (
        count_fertile_links(local_corpus, links)[0],
        count_cepts(0, len(local_corpus), local_corpus.layout(), links),
    )
    totals, displacements = setting.reduce(counted), setting.reduce(displacements)
    fertilities = smoothed_fertilities(totals, FERTILITY_ALPHA)
    heads, others = np.split(displacements, [NUM_DISTANCES])
    model = IBM4Aligner(hmm.table, hmm.jumps, fertilities, heads, others, config)
    totals = np.zeros((len(corpus.source.words) + 1, MAX_FERTILITY + 1))

    def expect(block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        sums, counted = model.expect_fertilities(block, posteriors, null, threads)
        source = block.corpus.source
        sum_fertilities(source.tokens, source.starts, source.lengths, counted, totals)
        return sums

    passes = EMTrainer(corpus, model, setting).passes("ibm4", config.iterations, config.alpha, expect)
    for _, sums in passes:
        model.fertilities = smoothed_fertilities(setting.reduce(totals), FERTILITY_ALPHA)
        model.heads, model.others = np.split(sums[2:], [NUM_DISTANCES])
        totals[:] = 0
    return model
