"""Gibbs sampling of the Bayesian aligner: its settings, the numbering of word pairs, and one chain.

The slot of a cell is the number of its word pair, so that link counts are in an array. Word pairs that
co-occur only once share slot 0: a sampler excludes the current link from its counts, so such a pair always
has count 0.
"""

import math
from typing import Literal

import numpy as np

from regard.alignment.bayes_kernels import MAX_JUMP, NUM_FERTILITIES, SamplerState, gibbs_pass, uniform
from regard.alignment.corpus import Corpus, TextLayout
from regard.alignment.em_kernels import occurrences
from regard.config import configclass, option
from regard.kernels.compilation import njit

JUMP_ALPHA = 0.5
"""Concentration of the Dirichlet prior on jumps."""
FERTILITY_ALPHA = 1.0
"""Concentration of the Dirichlet prior on fertilities, whose mean is that of the whole text."""
_MIN_RATIO, _MAX_RATIO = np.float32(1e-10), np.float32(1e6)
"""Limits of F(c + 1) / F(c). A fertility below the minimum is practically excluded."""
_FEW_PAIRS = 100  # smaller texts have no more passes


@configclass
class BayesConfig:
    """The Bayesian HMM with fertilities."""

    kind: Literal["bayes"] = option(
        default="bayes", help="A Bayesian HMM with fertilities, trained by Gibbs sampling."
    )
    effort: float = option(
        default=1.0,
        help="Factor of the number of passes, which is 5000 / sqrt(number of pairs), at most 500, with "
        "fertilities, after a quarter of it with Model 1 and a quarter with the HMM.",
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

        Larger texts need fewer passes, as in Östling & Tiedemann (2016). In contrast to the paper, texts of
        fewer than 100 pairs have no more passes than one of 100.
        """
        most = max(2, round(self.effort * 5000 / math.sqrt(max(_FEW_PAIRS, pairs))))
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

        The layout has `slots` slots, and `sizes` are the numbers of source words and of target words.
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
        _sample_initial_links(layout, self.state, config.null_probability)

    def step(self, stage: str) -> tuple[float, float]:
        """Run one pass over the text; return the number of changed links and of null links."""
        self.update_parameters(stage)
        moved = self._sweep(0, len(self._layout.source_lengths), 1, np.zeros(0, dtype=np.float32))
        return float(moved), float(self.state.nulls[-1])

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

    def marginals(self, span: tuple[int, int]) -> np.ndarray:
        """Return the summed link distributions of a range of sentences over the final passes."""
        cells = self._layout.cells
        marginals = np.zeros(int(cells[span[1]] - cells[span[0]]), dtype=np.float32)
        self._sweep(*span, self._config.num_samples, marginals)
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
    # A sampled F can be as small as 1e-30. Without the minimum, products with other small factors would be
    # subnormal numbers, with which processors compute many times slower.
    floor = np.float32(1e-30)
    ratios = np.full_like(weights, _MIN_RATIO)
    quotients = (weights[:, 1:-1] + floor) / (weights[:, :-2] + floor)
    ratios[:, :-2] = np.clip(quotients, _MIN_RATIO, _MAX_RATIO)
    return ratios


def build_layout(corpus: Corpus) -> tuple[TextLayout, int]:
    """Number the word pairs of a corpus, using 4 bytes per cell.

    Returns:
        The layout, whose cells are in rows of source positions, one row per target position, and the number
        of slots.
    """
    source, layout = corpus.source, corpus.layout()
    layout = layout._replace(slots=np.empty(layout.cells[-1], dtype=np.uint32))
    positions = occurrences(source.tokens, source.starts, source.lengths, len(source.words))
    return layout, _number_pairs(positions, layout, len(corpus.target.words))


@njit(nogil=True, cache=True)
def _sample_initial_links(layout, chain, null):
    """Sample initial links: null with probability `null`, else any source word; count the links."""
    for row in range(len(layout.source_lengths)):
        m = layout.source_lengths[row]
        for j in range(layout.target_lengths[row]):
            at = layout.offsets[row] + j
            if m == 0 or uniform(chain.random) < null:
                chain.links[at] = -1
                chain.nulls[layout.target[layout.target_starts[row] + j]] += 1
                chain.nulls[-1] += 1
            else:
                i = min(m - 1, int(uniform(chain.random) * m))
                chain.links[at] = i
                chain.counts[layout.slots[layout.cells[row] + j * m + i]] += 1
                chain.totals[layout.source[layout.source_starts[row] + i]] += 1
    # Slot 0 is shared by all word pairs that co-occur only once, so it must not collect counts.
    chain.counts[0] = 0


@njit(nogil=True, cache=True)
def _number_pairs(found, layout, targets):
    """Fill the slots of all cells; return their number. Slot 0 is that of pairs that co-occur only once."""
    tokens, starts, lengths = layout.target, layout.target_starts, layout.target_lengths
    firsts, rows = found.firsts, found.rows
    met, number, size = np.zeros(targets, dtype=np.int32), np.zeros(targets, dtype=np.uint32), 1
    for word in range(len(firsts) - 1):
        for row in rows[firsts[word] : firsts[word + 1]]:
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                met[token] += 1
                if met[token] == 2:
                    number[token] = size
                    size += 1
        for at in range(firsts[word], firsts[word + 1]):
            row, m = rows[at], layout.source_lengths[rows[at]]
            cell = layout.cells[row] + found.places[at]
            for j in range(lengths[row]):
                layout.slots[cell + j * m] = number[tokens[starts[row] + j]]
        for row in rows[firsts[word] : firsts[word + 1]]:
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                met[token] = number[token] = 0
    return size
