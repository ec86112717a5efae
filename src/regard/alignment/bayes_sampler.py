"""The settings of the Bayesian aligner and its Gibbs sampling: one chain over the text."""

import math
from typing import Literal

import numpy as np

from regard.alignment.bayes_kernels import (
    MAX_JUMP,
    NUM_FERTILITIES,
    SamplerState,
    gibbs_pass,
    sample_initial_links,
)
from regard.alignment.bayes_layout import TextLayout
from regard.alignment.bayes_likelihood import log_likelihood
from regard.config import configclass, option

__all__ = [
    "FERTILITY_ALPHA",
    "JUMP_ALPHA",
    "BayesConfig",
    "Sampler",
    "add_fertility_prior",
    "fertility_ratio_table",
    "normalize_counts",
]

JUMP_ALPHA = 0.5
"""Concentration of the Dirichlet prior on jumps."""
FERTILITY_ALPHA = 1.0
"""Concentration of the Dirichlet prior on fertilities, whose mean is that of the whole text."""


@configclass
class BayesConfig:
    """The Bayesian HMM with fertilities."""

    kind: Literal["bayes"] = option(
        default="bayes", help="A Bayesian HMM with fertilities, trained by Gibbs sampling."
    )
    effort: float = option(
        default=1.0,
        help="Factor of the number of passes, which is 5000 / sqrt(number of pairs) with fertilities, after "
        "a quarter of it with Model 1 and a quarter with the HMM.",
        gt=0,
        le=1e4,
    )
    num_chains: int = option(
        default=4, help="Number of independent samplers, whose distributions are averaged.", ge=1, le=4_096
    )
    num_samples: int = option(
        default=4, help="Number of final passes whose distributions are averaged.", ge=1, le=10_000
    )
    alpha: float = option(
        default=0.0003,
        help="Concentration of the Dirichlet prior on translations of each word, the null word included; "
        "smaller values prefer fewer translations per word.",
        gt=0,
        le=1e6,
    )
    null_probability: float = option(
        default=0.2,
        help="Weight of no link in sampling. A link to a source word has the weight 1, multiplied by the "
        "probabilities of its jumps.",
        gt=0,
        lt=1,
    )

    def passes(self, pairs: int) -> tuple[int, int, int]:
        """Return the numbers of passes with Model 1, with the HMM, and with fertilities.

        Larger texts need fewer passes, as in Östling & Tiedemann (2016).
        """
        most = max(2, round(self.effort * 5000 / math.sqrt(max(1, pairs))))
        return max(2, most // 4), max(1, most // 4), most


class Sampler:
    """A Gibbs sampler of the links of a text.

    Attributes:
        state: The state of the sampler.
    """

    def __init__(
        self,
        layout: TextLayout,
        slots: int,
        sizes: tuple[int, int],
        config: BayesConfig,
        seed: np.random.SeedSequence,
    ) -> None:
        """Initialize the links at random.

        Args:
            layout: The text.
            slots: Number of slots of the layout.
            sizes: Number of source words and of target words.
            config: The configuration.
            seed: Seed of the sampler's random generator.
        """
        words, targets = sizes
        # Jumps range from -(length + 1) to length + 1: the positions before and after the sentence count too.
        # Ones: the first stage (Model 1) ignores jumps and fertilities.
        jumps = np.ones(2 * int(layout.source_lengths.max(initial=0)) + 5, dtype=np.float32)
        self._layout, self._config = layout, config
        self._random = np.random.Generator(np.random.PCG64(seed))
        self.state = SamplerState(
            links=np.empty(int(layout.offsets[-1]), dtype=np.int32),
            counts=np.zeros(slots, dtype=np.float32),
            totals=np.zeros(words, dtype=np.float32),
            nulls=np.zeros(targets + 1, dtype=np.float32),
            jumps=jumps,
            reversed_jumps=jumps.copy(),
            fertility_ratios=np.ones((words, NUM_FERTILITIES), dtype=np.float32),
            jump_counts=np.zeros(2 * MAX_JUMP + 1),
            fertility_counts=np.zeros((words, NUM_FERTILITIES), dtype=np.float32),
            random=self._random.integers(0, 2**64, 1, dtype=np.uint64),
        )
        sample_initial_links(layout, self.state, config.null_probability)

    def step(self, stage: str, with_likelihood: bool = False) -> np.ndarray:
        """Run one pass over the text.

        Returns:
            The number of changed links, of null links and of target words, and the log-likelihood, which is
            NaN unless `with_likelihood`.
        """
        self.update_parameters(stage)
        moved = self._sweep(0, len(self._layout.source_lengths), 1, np.zeros(0, dtype=np.float32))
        value = log_likelihood(self._layout, self.state, self._config.alpha) if with_likelihood else math.nan
        return np.array([moved, self.state.nulls[-1], len(self.state.links), value], dtype=np.float64)

    def update_parameters(self, stage: str) -> None:
        """Set the jumps to their mean and sample the fertilities, given the links of the last pass."""
        chain = self.state
        if stage != "ibm1":
            half = len(chain.jumps) // 2
            distances = np.clip(np.arange(-half, half + 1), -MAX_JUMP, MAX_JUMP)
            chain.jumps[:] = normalize_counts(chain.jump_counts + JUMP_ALPHA)[MAX_JUMP + distances]
            chain.reversed_jumps[:] = chain.jumps[::-1]
        if stage == "fertility":
            counts = add_fertility_prior(chain.fertility_counts, FERTILITY_ALPHA)
            # Normalized gamma variables are a Dirichlet sample; only ratios are needed, so no normalization.
            chain.fertility_ratios[:] = fertility_ratio_table(
                self._random.standard_gamma(counts, dtype=np.float32)
            )
        chain.jump_counts[:] = 0
        chain.fertility_counts[:] = 0

    def marginals(self, first: int, last: int) -> np.ndarray:
        """Return the summed link distributions of sentences `first` to `last` over the final passes."""
        cells = self._layout.cells
        marginals = np.zeros(int(cells[last] - cells[first]), dtype=np.float32)
        self._sweep(first, last, self._config.num_samples, marginals)
        return marginals

    def _sweep(self, first: int, last: int, passes: int, marginals: np.ndarray) -> int:
        config = self._config
        priors = config.alpha, config.null_probability
        return gibbs_pass(first, last, self._layout, self.state, *priors, passes, marginals)


def normalize_counts(counts: np.ndarray) -> np.ndarray:
    """Return counts divided by their sum, float32."""
    return (counts / counts.sum()).astype(np.float32)


def add_fertility_prior(fertilities: np.ndarray, alpha: float) -> np.ndarray:
    """Add `alpha` words with the fertility distribution of the whole text to each row of counts."""
    # Half a word per fertility, so that none has probability 0 in a short text.
    shared = fertilities.sum(axis=0, dtype=np.float64) + 0.5
    return fertilities + (alpha * shared / shared.sum()).astype(np.float32)


def fertility_ratio_table(weights: np.ndarray) -> np.ndarray:
    """Return F(c + 1) / F(c) of the weights F; more than 6 links are practically excluded."""
    floor = np.float32(1e-30)
    ratios = np.full_like(weights, 1e-10)
    ratios[:, :-2] = np.minimum((weights[:, 1:-1] + floor) / (weights[:, :-2] + floor), np.float32(1e6))
    return ratios
