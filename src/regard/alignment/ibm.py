"""IBM Models 1 and 2: each target word is the translation of one source word, or of the null word.

    p(t, a | s) = prod_j p(a_j | j, m, n) p(t_j | s_{a_j})

In Model 1 (Brown et al., 1993) all m + 1 source words have the same prior probability. Model 2 is that of
Dyer, Chahuneau & Smith (2013), as in fast_align: the null word has a fixed probability, the others follow the
diagonal prior of `em_kernels`, whose tension is learned, and the translation table has a sparse Dirichlet
prior, with variational Bayes.
"""

from typing import Literal, Self

import numpy as np

from regard.alignment.base import TrainingSetup, register_aligner
from regard.alignment.corpus import Corpus
from regard.alignment.em import Block, EMAligner, TranslationTable, alpha_option, train_passes
from regard.alignment.em_kernels import expect_links, expected_distance
from regard.config import configclass, option
from regard.text.array_files import check_arrays

UNIFORM = -1.0
"""A value of `IBMAligner.null` that gives the null word the same probability as each source word."""
MIN_TENSION, MAX_TENSION = 0.1, 14.0
"""Bounds of the tension, as in fast_align."""
TENSION_STEPS, TENSION_STEP_SIZE = 4, 20.0
"""Number of gradient steps after each pass, and their step size.

fast_align uses 8 steps. However, it counts target positions from 0 in the observed distance and from 1 in the
expected distance, so observed links seem farther from the diagonal, which reduces the tension. With the exact
gradient, 8 steps increase the tension so fast that the alignment error rate rises too.
"""


@configclass
class IBM1Config:
    """IBM Model 1."""

    kind: Literal["ibm1"] = option(default="ibm1", help="IBM Model 1.")
    iterations: int = option(default=5, help="Number of passes over the text.", ge=1, le=10_000)
    null_word: bool = option(default=True, help="Allow target words without a source word.")
    alpha: float = alpha_option(0.0)


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
    alpha: float = alpha_option(0.01)


@register_aligner("ibm2", IBM2Config)
@register_aligner("ibm1", IBM1Config)
class IBMAligner(EMAligner):
    """A trained Model 1 or 2.

    Attributes:
        table: The translation table.
        config: The configuration.
        null: Probability of the null word, or `UNIFORM`. 0 disables the null word.
        tension: Tension of the diagonal prior. 0 makes all source words equally probable.
    """

    def __init__(
        self, table: TranslationTable, config: IBM1Config | IBM2Config, tension: float | None = None
    ) -> None:
        """Create the aligner. The tension of Model 2 is that of the configuration by default."""
        self.table, self.config = table, config
        if isinstance(config, IBM1Config):
            self.null, self.tension = UNIFORM if config.null_word else 0.0, 0.0
        else:
            self.null = config.null_probability
            self.tension = config.tension if tension is None else tension

    @classmethod
    def train(
        cls,
        corpus: Corpus,
        config: IBM1Config | IBM2Config,
        setup: TrainingSetup,
        table: TranslationTable | None = None,
    ) -> Self:
        """Train the model.

        Args:
            corpus: The pairs.
            config: The configuration.
            setup: Threads, seed and processes.
            table: The initial table, updated in place. Default: a uniform table of co-occurring words.
        """
        model = cls(TranslationTable.of(corpus) if table is None else table, config)
        # The distinct pairs of lengths, m and n, in one integer, so that `unique` sorts scalars.
        lengths = corpus.source.lengths.astype(np.int64) << 32 | corpus.target.lengths
        pairs, counts = np.unique(lengths, return_counts=True)
        sizes = pairs >> 32, pairs & 0xFFFFFFFF, counts
        for number, sums in train_passes(corpus, model, setup, config.kind):
            # In the first pass translations are uniform, so its links contain no information on the diagonal.
            if isinstance(config, IBM2Config) and config.fit_tension and number > 1:
                model.tension = fit_tension(model.tension, float(sums[2]), float(sums[1]), sizes)
        return model

    def expect(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int, with_sums: bool = True
    ) -> np.ndarray:
        """Run the expectation step; return log-likelihood, null words, and minus the diagonal distance."""
        parameters = self.table.values, self.table.nulls, self.null, self.tension
        return block.run(expect_links, threads, *parameters, posteriors, null)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return {**self.table.arrays(), "tension": np.array([self.tension])}

    @classmethod
    def load(
        cls, arrays: dict[str, np.ndarray], config: IBM1Config | IBM2Config, sizes: tuple[int, int]
    ) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        tension = arrays["tension"]
        check_arrays({"tension": tension}, {"tension": ("float64", 0, MAX_TENSION, 1)})
        return cls(TranslationTable.load(arrays, sizes), config, float(tension[0]))


def fit_tension(
    tension: float, feature: float, null: float, sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> float:
    """Return the tension after a few steps of gradient ascent on the expected log-likelihood.

    The gradient is the expected distance from the diagonal under the prior minus that of the links.

    Args:
        tension: The current tension.
        feature: Minus the distance of the links from the diagonal, weighted by their posteriors and summed.
        null: The sum of the posteriors of the null word; these words have no distance.
        sizes: The distinct pairs of sentence lengths, m and n, and the number of sentence pairs with each.
    """
    # A text of empty pairs has no words.
    words = max(1.0, float((sizes[1] * sizes[2]).sum()))
    linked = 1 - null / words
    for _ in range(TENSION_STEPS):
        gradient = feature / words - linked * expected_distance(*sizes, tension) / words
        tension = min(MAX_TENSION, max(MIN_TENSION, tension + TENSION_STEP_SIZE * gradient))
    return tension
