"""The default aligner: a Bayesian HMM with fertilities and Gibbs sampling (Östling & Tiedemann, 2016).

Translations, jumps and fertilities have Dirichlet priors, which prevent rare words from attracting unrelated
words. Links are sampled by collapsed Gibbs sampling, first with Model 1, then with the HMM, then with
fertilities. There are several independent samplers. Each word receives its top-scoring link under the mean of
all samplers' conditional distributions in the last passes. Every sampler has its own random generator, so the
result depends on the seed, but not on the number of threads.

In contrast to the paper, there is a single jump distribution. Fertility parameters are sampled once per pass
from their posterior. Their prior is the fertility distribution of the whole text instead of a uniform one, so
that rare words behave like the others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from regard.alignment.base import (
    DirectionAligner,
    IterationStats,
    TrainingSetup,
    register_aligner,
    run_parallel,
    split_evenly,
)
from regard.alignment.bayes_kernels import (
    MAX_JUMP,
    NUM_FERTILITIES,
    best_links_of_marginals,
    recount_links,
)
from regard.alignment.bayes_new_text_kernels import Effort, estimate_marginals
from regard.alignment.bayes_sampler import (
    FERTILITY_ALPHA,
    JUMP_ALPHA,
    BayesConfig,
    Sampler,
    add_fertility_prior,
    build_layout,
    fertility_ratio_table,
    normalize_counts,
)
from regard.alignment.corpus import Corpus, TextLayout
from regard.config.cpu_threads import num_available_cpus
from regard.text.array_files import MAX_COUNT, check_arrays, check_offsets

__all__ = ["BayesAligner", "LinkStatistics"]

MAX_MARGINAL_CELLS = 1 << 22
"""Maximum number of cells whose marginals are in memory at once, unless one pair has more."""
MAX_ENUMERATED_ALIGNMENTS = 1 << 15
"""Maximum number of alignments of a new sentence pair whose distributions are exact."""
BURN_IN_PASSES, SAMPLE_PASSES = 8, 8
"""Number of passes over a longer one before its distributions are averaged, and while they are."""
STAGES = ("ibm1", "hmm", "fertility")


class LinkStatistics(NamedTuple):
    """The statistics of the links of a training text, used to align new text.

    Attributes:
        starts: int64 [source words + 1]: where each source word's entries start in `columns`.
        columns: int32: the target word of each entry, ascending in each row.
        values: float32: the number of links between the two words.
        totals: float32 [source words]: the number of links of each source word.
        nulls: float32 [target words + 1]: the number of null links of each target word, and their sum.
        jumps: float32 [2 * MAX_JUMP + 1]: the probability of each jump.
        ratios: float32 [source words + 1, NUM_FERTILITIES]: F(c + 1) / F(c) in column c; the last row is for
            unknown words.
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    totals: np.ndarray
    nulls: np.ndarray
    jumps: np.ndarray
    ratios: np.ndarray

    def check(self, words: int, targets: int) -> None:
        """Check arrays from a file, because compiled loops do not check their indices.

        Raises:
            DataError: if an array does not fit these numbers. The message names it.
        """
        size, counts = self.columns.size, ("float32", 0, MAX_COUNT)
        forms = {
            "starts": ("int64", 0, size, words + 1),
            "columns": ("int32", 0, targets - 1, None),
            "values": (*counts, size),
            "totals": (*counts, words),
            "nulls": (*counts, targets + 1),
            "jumps": (*counts, 2 * MAX_JUMP + 1),
            "ratios": (*counts, words + 1, NUM_FERTILITIES),
        }
        check_arrays(self._asdict(), forms)
        check_offsets("starts", self.starts, words, size)

    @classmethod
    def of(
        cls, layout: TextLayout, links: np.ndarray, sizes: tuple[int, int], config: BayesConfig
    ) -> "LinkStatistics":
        """Count the links of a text whose sides have `sizes` distinct words."""
        words, targets = sizes
        steps = np.zeros(2 * MAX_JUMP + 1)
        fertilities = np.zeros((words, NUM_FERTILITIES), dtype=np.float32)
        source, target = recount_links(layout, links, steps, fertilities)
        linked = source >= 0
        # One integer per (source word, target word) pair, sorted by source word.
        keys, values = np.unique(
            source[linked].astype(np.int64) * targets + target[linked], return_counts=True
        )
        rows = keys // max(1, targets)
        nulls = np.bincount(target[~linked], minlength=targets)
        unknown = np.zeros((1, NUM_FERTILITIES), dtype=np.float32)
        # The row of zeros receives the prior only: the fertilities of an unknown word.
        fertilities = add_fertility_prior(np.vstack([fertilities, unknown]), FERTILITY_ALPHA)
        return cls(
            starts=np.searchsorted(rows, np.arange(words + 1)),
            columns=(keys - rows * targets).astype(np.int32),
            values=values.astype(np.float32),
            totals=np.bincount(source[linked], minlength=words).astype(np.float32),
            nulls=np.append(nulls, nulls.sum()).astype(np.float32),
            jumps=normalize_counts(steps + JUMP_ALPHA),
            ratios=fertility_ratio_table(fertilities),
        )


@register_aligner("bayes", BayesConfig)
class BayesAligner(DirectionAligner):
    """A trained Bayesian aligner.

    Attributes:
        statistics: The statistics of the training text.
        config: The configuration.
    """

    def __init__(
        self, learned: LinkStatistics, config: BayesConfig, trained: tuple[Corpus, np.ndarray] | None = None
    ) -> None:
        """Create the aligner.

        Args:
            learned: The statistics of the links.
            config: The configuration.
            trained: The training text and its links.
        """
        self.statistics, self.config, self._trained = learned, config, trained

    @classmethod
    def train(cls, corpus: Corpus, config: BayesConfig, setup: TrainingSetup) -> Self:
        """Train the aligner by sampling the links of a text.

        Uses 4 bytes of memory per pair of a source and a target token of the same sentence pair, in addition
        to the text.
        """
        # One layout for all samplers, which only read it.
        layout, slots = build_layout(corpus)
        sizes = len(corpus.source.words), len(corpus.target.words)
        tokens = corpus.num_target_tokens
        seeds = np.random.SeedSequence(setup.seed).spawn(config.num_chains)
        samplers = [Sampler(layout, slots, sizes, config, seed) for seed in seeds]
        with ThreadPoolExecutor(max(1, min(setup.num_threads, len(samplers)))) as pool:
            for stage, num_passes in zip(STAGES, config.passes(len(corpus)), strict=True):
                for number in range(1, num_passes + 1):
                    # The samplers release the interpreter lock, so plain threads run them in parallel.
                    results = list(pool.map(lambda sampler, at=stage: sampler.step(at), samplers))
                    shares = np.mean(results, axis=0) / max(1, tokens)
                    metrics = {"moved": shares[0], "null": shares[1]}
                    setup.report(
                        IterationStats(f"bayes {stage}", number, num_passes, math.nan, tokens, metrics)
                    )
            links = _best_links(layout, samplers, config, pool.map)
        return cls(LinkStatistics.of(layout, links, sizes, config), config, (corpus, links))

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the best source word of each target word; see `DirectionAligner.align`.

        For the training text itself, the links are those of training. The links of other texts are sampled
        with fixed statistics.
        """
        if self._trained is not None:
            text, links = self._trained
            # By identity: comparing large texts would be slow.
            if corpus.source is text.source and corpus.target is text.target:
                return links
        links, first = np.empty(corpus.num_target_tokens, dtype=np.int32), 0
        for layout, marginals in self._estimate(corpus, threads):
            best_links_of_marginals(0, len(layout.source_lengths), layout, marginals, links[first:])
            first += int(layout.offsets[-1])
        return links

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """Compute the probability of every link. Every text is treated as new; see `DirectionAligner`."""
        for layout, marginals in self._estimate(corpus, threads):
            for row, (first, last) in enumerate(pairwise(layout.cells.tolist())):
                shape = int(layout.target_lengths[row]), int(layout.source_lengths[row])
                yield marginals[first:last].reshape(shape)

    def _estimate(self, corpus: Corpus, threads: int) -> Iterator[tuple[TextLayout, np.ndarray]]:
        """Yield blocks of the text with their marginals."""
        config, sizes = self.config, corpus.num_cells
        effort = Effort(MAX_ENUMERATED_ALIGNMENTS, config.num_chains, BURN_IN_PASSES, SAMPLE_PASSES)
        settings = (config.alpha, config.null_probability, effort)
        for first, last in split_evenly(sizes + 1, int(sizes.sum()) // MAX_MARGINAL_CELLS + 1):
            layout = corpus.subset(first, last).layout()
            marginals = np.zeros(int(layout.cells[-1]), dtype=np.float32)
            calls = []
            for span in split_evenly(sizes[first:last] + 1):
                # Every task fills its own slice of the marginals.
                span_marginals = marginals[layout.cells[span[0]] : layout.cells[span[1]]]
                calls.append((*span, layout, self.statistics, *settings, span_marginals))
            run_parallel(estimate_marginals, calls, threads or num_available_cpus())
            yield layout, marginals

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return self.statistics._asdict()

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: BayesConfig, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        learned = LinkStatistics(*(arrays[name] for name in LinkStatistics._fields))
        learned.check(*sizes)
        return cls(learned, config)


def _best_links(
    layout: TextLayout,
    samplers: Sequence[Sampler],
    config: BayesConfig,
    each: Callable[..., Iterator[np.ndarray]],
) -> np.ndarray:
    """Return the top-scoring links under the mean of all samplers' distributions."""
    links = np.empty(int(layout.offsets[-1]), dtype=np.int32)
    # Jumps and fertilities of the last pass are fixed while the marginals are computed.
    for sampler in samplers:
        sampler.update_parameters(STAGES[-1])
    num_blocks = int(layout.cells[-1]) // MAX_MARGINAL_CELLS + 1
    for first, last in split_evenly(np.diff(layout.cells) + 1, num_blocks):
        total = np.zeros(int(layout.cells[last] - layout.cells[first]), dtype=np.float32)
        for marginals in each(lambda sampler, span=(first, last): sampler.marginals(*span), samplers):
            total += marginals
        total /= np.float32(config.num_chains * config.num_samples)
        best_links_of_marginals(first, last, layout, total, links)
    return links
