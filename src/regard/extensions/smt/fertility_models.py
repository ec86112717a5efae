"""IBM Models 3 and 4 (Brown et al., 1993): each source word has a fertility, its number of target words.

    p(t, a | s) = binomial(n - f_0, f_0) p_1^f_0 (1 - p_1)^(n - 2 f_0) prod_i p(f_i | s_i)
                  prod_j p(t_j | s_{a_j}) D
    Model 3: D = prod_i f_i! prod_{j: a_j > 0} d(j | a_j, m, n)
    Model 4: D = prod_i d_1(j_1 - center_i') d_>1(j_2 - j_1) d_>1(j_3 - j_2) ...

f_i words are linked to source word i, and f_0 to the null word. In Model 4, j_1, j_2, ... are the positions
of the cept of source word i, its target words in order; therefore there is no factor f_i!. The first word of
a cept, the head, is displaced from the center of the cept i' before it, the mean of its positions rounded up.
Every other word is displaced from the word before it in the cept. Displacements beyond the sentence have a
probability too, so Model 4 is deficient, as in the paper.

The sum over alignments is intractable. As in Brown et al. (1993), expectations are computed over the
alignments one move or swap away from the best one that hill climbing finds. Hill climbing starts from the
Viterbi path of the HMM, which is trained first.

In contrast to the paper, the distortion of Model 3 depends only on the distance from the diagonal and is
normalized over the n positions. Displacements of Model 4 do not depend on classes of words, and hill
climbing compares neighbors by Model 4 itself, instead of by Model 3. Distortions are interpolated with a
uniform distribution, and a word's fertility distribution is smoothed with that of the whole text. The null
probability is not learned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from regard.alignment.base import TrainingSetup, register_aligner
from regard.alignment.bayes_sampler import FERTILITY_ALPHA
from regard.alignment.corpus import Corpus
from regard.alignment.em import (
    MAX_STORED_PROBABILITY,
    Block,
    EMAligner,
    TranslationTable,
    alpha_option,
    train_passes,
)
from regard.alignment.hmm import JUMPS_FORM, HMMAligner, HMMConfig
from regard.alignment.word_aligner import count_fertilities
from regard.config import configclass, option
from regard.extensions.smt.fertility_kernels import (
    MAX_DISTORTION,
    MAX_FERTILITY,
    NUM_DISTANCES,
    climb_links,
    count_distortions,
    expect_neighborhood,
)
from regard.text.array_files import MAX_COUNT, ArrayForm, check_arrays


@configclass
class _FertilityConfig:
    """The options of Models 3 and 4."""

    kind: str = option(default="", help="Model.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    hmm_iterations: int = option(
        default=5, help="Number of passes with the HMM before this model.", ge=1, le=10_000
    )
    null_probability: float = option(
        default=0.05,
        help="Probability that a target word is followed by an extra one without a source word (p_1).",
        gt=0,
        lt=1,
    )
    smoothing: float = option(default=0.2, help="Interpolation weight of the uniform distortion.", gt=0, le=1)
    alpha: float = alpha_option(0.01)


@configclass
class IBM3Config(_FertilityConfig):
    """IBM Model 3."""

    kind: Literal["ibm3"] = option(default="ibm3", help="IBM Model 3, with fertilities.")


@configclass
class IBM4Config(_FertilityConfig):
    """IBM Model 4."""

    kind: Literal["ibm4"] = option(
        default="ibm4", help="IBM Model 4, with fertilities and the distortion of cepts."
    )


class FertilityParameters(NamedTuple):
    """The parameters of Model 3 or 4; see `FertilityAligner`.

    Attributes:
        values: float32, the probability of each entry of the translation table.
        nulls: float32, its row of the null word.
        fertilities: float32 [source words + 1, MAX_FERTILITY + 1].
        distances: float64 [NUM_DISTANCES]. Model 3: the unnormalized probability of each distance from the
            diagonal. Model 4: the log-probability of each displacement of a head.
        others: Model 4: float64 [MAX_DISTORTION], the log-probability of each displacement, from 1, of a word
            that is not a head. Model 3: empty.
        null: p_1.
        smoothing: Interpolation weight of the uniform distortion.
        cepts: Whether this is Model 4.
    """

    values: np.ndarray
    nulls: np.ndarray
    fertilities: np.ndarray
    distances: np.ndarray
    others: np.ndarray
    null: float
    smoothing: float
    cepts: bool


@dataclass(eq=False, repr=False)
class FertilityAligner(EMAligner):
    """A trained Model 3 or 4.

    Attributes:
        table: The translation table.
        jumps: The jump probabilities of the HMM, from whose path hill climbing starts.
        fertilities: float32 [source words + 1, 10]: the probability of each fertility. The last row is for
            unknown words, the last column for fertilities of 9 and more.
        distortions: Unnormalized probabilities, float64, by the names and sizes of `distortion_sizes`.
        cepts: Whether this is Model 4.
        config: The configuration.
    """

    distortion_sizes: ClassVar[Mapping[str, int]]
    cepts: ClassVar[bool]

    table: TranslationTable
    jumps: np.ndarray
    fertilities: np.ndarray
    distortions: Mapping[str, np.ndarray]
    config: IBM3Config | IBM4Config

    def _parameters(self) -> FertilityParameters:
        """Return the parameters for the compiled loops; those of Model 4 have log-probabilities."""
        smoothing, arrays = self.config.smoothing, []
        for name in self.distortion_sizes:
            counts = self.distortions[name]
            if self.cepts:
                # The probabilities of displacements are interpolated with the uniform distribution.
                total, uniform = counts.sum(), 1 / len(counts)
                shares = counts / total if total > 0 else np.full(len(counts), uniform)
                counts = np.log((1 - smoothing) * shares + smoothing * uniform)
            arrays.append(counts)
        if not self.cepts:
            arrays.append(np.zeros(0))
        learned = self.table.values, self.table.nulls, self.fertilities, arrays[0], arrays[1]
        return FertilityParameters(*learned, self.config.null_probability, smoothing, self.cepts)

    @classmethod
    def _split(cls, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return the distortions by name from their counts, one array after the other."""
        ends = np.cumsum(list(cls.distortion_sizes.values()))
        return dict(zip(cls.distortion_sizes, np.split(counts, ends[:-1]), strict=True))

    @classmethod
    def train(cls, corpus: Corpus, config: Any, setup: TrainingSetup) -> Self:
        """Train the model, after the HMM."""
        first = HMMConfig(iterations=config.hmm_iterations, alpha=config.alpha, decoding="viterbi")
        hmm = HMMAligner.train(corpus, first, setup)
        links = hmm.align(corpus, setup.num_threads)
        totals = np.zeros((len(corpus.source.words) + 1, MAX_FERTILITY + 1))
        # Rows of the identity matrix are the one-hot fertilities.
        one_hot = np.eye(MAX_FERTILITY + 1)[np.minimum(count_fertilities(corpus, links), MAX_FERTILITY)]
        np.add.at(totals, corpus.source.sentence_tokens, one_hot)
        fertilities = smoothed_fertilities(totals, FERTILITY_ALPHA)
        uniform = {name: np.ones(size) for name, size in cls.distortion_sizes.items()}
        model = cls(hmm.table, hmm.jumps, fertilities, uniform, config)
        text = corpus.layout()
        counts = count_distortions(0, len(corpus), text, model._parameters(), links)
        model.distortions = cls._split(counts)
        totals[:] = 0

        def expect(block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
            sums, counted = model.expect_fertilities(block, posteriors, null, threads)
            np.add.at(totals, block.corpus.source.sentence_tokens, counted)
            return sums

        for _, sums in train_passes(corpus, model, setup, config.kind, expect):
            model.fertilities = smoothed_fertilities(totals, FERTILITY_ALPHA)
            model.distortions = cls._split(sums[2:])
            totals[:] = 0
        return model

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the links with hill climbing; see `EMAligner.best`."""
        HMMAligner(self.table, self.jumps, HMMConfig(decoding="viterbi")).best(block, links, threads)
        block.run(climb_links, threads, self._parameters(), links)

    def expect(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int, with_sums: bool = True
    ) -> np.ndarray:
        """Run the expectation step over a block; see `EMAligner.expect` and `expect_fertilities`."""
        return self.expect_fertilities(block, posteriors, null, threads)[0]

    def expect_fertilities(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the expectation step, and return the fertility posteriors too, [source tokens, 10]."""
        links = np.empty(len(null), dtype=np.int32)
        HMMAligner(self.table, self.jumps, HMMConfig(decoding="viterbi")).best(block, links, threads)
        offsets = block.corpus.source.offsets
        counted = np.empty((int(offsets[-1]), MAX_FERTILITY + 1), dtype=np.float32)
        filled = (links, posteriors, null, counted)
        return block.run(expect_neighborhood, threads, self._parameters(), offsets, *filled), counted

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return {
            **self.table.arrays(),
            "jumps": self.jumps,
            "fertilities": self.fertilities,
            **self.distortions,
        }

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: Any, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        table = TranslationTable.load(arrays, sizes)
        forms: dict[str, ArrayForm] = {
            "jumps": JUMPS_FORM,
            "fertilities": ("float32", 0, MAX_STORED_PROBABILITY, sizes[0] + 1, MAX_FERTILITY + 1),
        }
        for name, size in cls.distortion_sizes.items():
            forms[name] = ("float64", 0, MAX_COUNT, size)
        check_arrays({name: arrays[name] for name in forms}, forms)
        distortions = {name: arrays[name] for name in cls.distortion_sizes}
        return cls(table, arrays["jumps"], arrays["fertilities"], distortions, config)


@register_aligner("ibm3", IBM3Config)
class IBM3Aligner(FertilityAligner):
    """A trained Model 3. Its distortions are the distances from the diagonal, from -30 to 30."""

    # In each step, hill climbing compares O(n^2) alignments.
    max_length = 500
    distortion_sizes: ClassVar[Mapping[str, int]] = {"distortions": NUM_DISTANCES}
    cepts = False


@register_aligner("ibm4", IBM4Config)
class IBM4Aligner(FertilityAligner):
    """A trained Model 4.

    Its distortions are the displacements of heads, from -30 to 30, and of other words, from 1 to 30.
    """

    # Model 4 compares O(n^2) alignments in each step, each in time O(n).
    max_length = 200
    distortion_sizes: ClassVar[Mapping[str, int]] = {"heads": NUM_DISTANCES, "others": MAX_DISTORTION}
    cepts = True


def smoothed_fertilities(totals: np.ndarray, alpha: float) -> np.ndarray:
    """Return fertility distributions, with that of the whole text as a prior and as the last row."""
    # A small count for every fertility, so that unseen ones are possible.
    text = totals.sum(0) + 0.1
    text /= text.sum()
    counts = totals + alpha * text
    # The last row is for unknown words.
    counts[-1] = text
    return (counts / counts.sum(1, keepdims=True)).astype(np.float32)
