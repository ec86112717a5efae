"""The HMM aligner of Vogel, Ney & Tillmann (1996): each link depends on the position of the previous one.

    p(t, a | s) = prod_j p(a_j | a_{j-1}, m) p(t_j | s_{a_j})

p(i | i', m) depends only on the jump i - i', is normalized over the m source words and interpolated with a
uniform distribution. The first word has a jump distribution of its own. Null words are as in Och & Ney
(2003): each source position has a null state, which is entered with a fixed probability and stores the
position for the next jump. The translation table is initialized with Model 1. The expectation step is the
forward-backward algorithm.
"""

from typing import Literal, Self

import numpy as np

from regard.alignment.base import TrainingSetup, register_aligner
from regard.alignment.corpus import Corpus
from regard.alignment.em import Block, EMAligner, EMTrainer, TranslationTable, alpha_option
from regard.alignment.hmm_kernels import NUM_JUMPS, HMMParameters, expect_paths, viterbi_paths
from regard.alignment.ibm import IBM1Config, IBMAligner
from regard.config import configclass, option
from regard.text.array_files import MAX_COUNT, check_array, check_range

__all__ = ["HMMAligner", "HMMConfig", "check_jumps"]

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
    alpha: float = alpha_option(0.01)
    decoding: Decoding = option(
        default="posterior",
        help="Decoding: the top-scoring link of each word (posterior), or the top-scoring path (viterbi).",
    )


@register_aligner("hmm", HMMConfig)
class HMMAligner(EMAligner):
    """A trained HMM.

    Attributes:
        table: The translation table.
        jumps: float64 [2, 201]: unnormalized probabilities of jumps of -100 to 100 words. Row 0 is for all
            words but the first; row 1 is for the first word, which jumps from the position before the
            sentence.
        config: The configuration.
    """

    def __init__(self, table: TranslationTable, jumps: np.ndarray, config: HMMConfig) -> None:
        """Create the aligner."""
        self.table, self.jumps, self.config = table, jumps, config

    @classmethod
    def train(cls, corpus: Corpus, config: HMMConfig, setup: TrainingSetup) -> Self:
        """Train the HMM, after Model 1."""
        table = TranslationTable.of(corpus)
        IBMAligner.train(corpus, IBM1Config(iterations=IBM1_ITERATIONS, alpha=config.alpha), setup, table)
        model = cls(table, np.ones((2, NUM_JUMPS)), config)
        for _, sums in EMTrainer(corpus, model, setup).passes("hmm", config.iterations, config.alpha):
            # Unnormalized counts: `transitions` normalizes them for each sentence length.
            model.jumps = sums[2:].reshape(2, NUM_JUMPS)
        return model

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Compute the best source words, or the best path; see `EMAligner.best`."""
        if self.config.decoding == "viterbi":
            block.run(viterbi_paths, threads, self._parameters(), links)
        else:
            super().best(block, links, threads)

    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """Run the expectation step; return log-likelihood, number of null words, and jump counts."""
        return block.run(expect_paths, threads, self._parameters(), posteriors, null)

    def _parameters(self) -> HMMParameters:
        table, config = self.table, self.config
        return HMMParameters(table.values, table.nulls, self.jumps, config.null_probability, config.smoothing)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return {**self.table.arrays(), "jumps": self.jumps}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: HMMConfig, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        check_jumps(arrays["jumps"])
        return cls(TranslationTable.load(arrays, sizes), arrays["jumps"], config)


def check_jumps(jumps: np.ndarray) -> None:
    """Check the jump probabilities of a file.

    Raises:
        DataError: if the array does not have the form of an HMM's.
    """
    check_array("jumps", jumps, "float64", 2, NUM_JUMPS)
    check_range("jumps", jumps, 0, MAX_COUNT)
