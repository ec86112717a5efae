"""The default aligner: a Bayesian HMM with fertilities and Gibbs sampling (Östling & Tiedemann, 2016).

Translations, jumps and fertilities have Dirichlet priors, which prevent rare words from attracting unrelated
words. Links are sampled by collapsed Gibbs sampling, first with Model 1, then with the HMM, then with
fertilities. There are several independent samplers. Each word receives its top-scoring link under the mean of
all samplers' conditional distributions in the last passes. Every sampler has its own random generator, so the
result depends on the seed, but not on the number of threads.

In contrast to the paper, there is a single jump distribution. Fertility parameters are sampled once per pass
from their posterior. Their prior is the fertility distribution of the whole text instead of a uniform one, so
that rare words behave like the others.

New text is aligned with the fixed statistics of training. The weight of the links a of a sentence pair is

    prod_j p(f_j | e_{a_j}) prod_k J(a_k - a_before) J(m - a_last) prod_i F(c_i) / F(0)

with the symbols of `regard.alignment.bayes_kernels`, where k ranges over the linked words. If a pair has few
alignments, their weights are summed. Otherwise the link distributions are estimated by Gibbs sampling.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
    link_weights,
    next_linked,
    recount_links,
    sample_position,
)
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
from regard.alignment.em_kernels import longest_lengths
from regard.config.cpu_threads import num_available_cpus
from regard.kernels.compilation import njit, search_key
from regard.text.array_files import MAX_COUNT, check_arrays, check_offsets

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
@dataclass(eq=False)
class BayesAligner(DirectionAligner):
    """A trained Bayesian aligner.

    Attributes:
        statistics: The statistics of the training text.
        config: The configuration.
        trained: The training text and its links; None for a loaded aligner.
    """

    statistics: LinkStatistics
    config: BayesConfig
    trained: tuple[Corpus, np.ndarray] | None = None

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
            links = np.empty(tokens, dtype=np.int32)
            # Jumps and fertilities of the last pass are fixed while the marginals are computed.
            for sampler in samplers:
                sampler.update_parameters(STAGES[-1])
            num_blocks = int(layout.cells[-1]) // MAX_MARGINAL_CELLS + 1
            for first, last in split_evenly(np.diff(layout.cells) + 1, num_blocks):
                total = np.zeros(int(layout.cells[last] - layout.cells[first]), dtype=np.float32)
                spans = [(first, last)] * len(samplers)
                for marginals in pool.map(Sampler.marginals, samplers, spans):
                    total += marginals
                total /= np.float32(config.num_chains * config.num_samples)
                best_links_of_marginals(first, last, layout, total, links)
        return cls(LinkStatistics.of(layout, links, sizes, config), config, (corpus, links))

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the best source word of each target word; see `DirectionAligner.align`.

        For the training text itself, the links are those of training. The links of other texts are sampled
        with fixed statistics.
        """
        if self.trained is not None:
            text, links = self.trained
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
        effort = _Effort(MAX_ENUMERATED_ALIGNMENTS, config.num_chains, BURN_IN_PASSES, SAMPLE_PASSES)
        settings = (config.alpha, config.null_probability, effort)
        for first, last in split_evenly(sizes + 1, int(sizes.sum()) // MAX_MARGINAL_CELLS + 1):
            layout = corpus.subset(first, last).layout()
            marginals = np.zeros(int(layout.cells[-1]), dtype=np.float32)
            calls = []
            for span in split_evenly(sizes[first:last] + 1):
                # Every task fills its own slice of the marginals.
                span_marginals = marginals[layout.cells[span[0]] : layout.cells[span[1]]]
                calls.append((*span, layout, self.statistics, *settings, span_marginals))
            run_parallel(_estimate_marginals, calls, threads or num_available_cpus())
            yield layout, marginals

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays; see `DirectionAligner.arrays`."""
        return self.statistics._asdict()

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], config: BayesConfig, sizes: tuple[int, int]) -> Self:
        """Restore an aligner; see `DirectionAligner.load`."""
        learned = LinkStatistics(*(arrays[name] for name in LinkStatistics._fields))
        words, targets = sizes
        size, counts = learned.columns.size, ("float32", 0, MAX_COUNT)
        forms = {
            "starts": ("int64", 0, size, words + 1),
            "columns": ("int32", 0, targets - 1, None),
            "values": (*counts, size),
            "totals": (*counts, words),
            "nulls": (*counts, targets + 1),
            "jumps": (*counts, 2 * MAX_JUMP + 1),
            "ratios": (*counts, words + 1, NUM_FERTILITIES),
        }
        check_arrays(learned._asdict(), forms)
        check_offsets("starts", learned.starts, words, size)
        return cls(learned, config)


class _Effort(NamedTuple):
    """The maximum number of alignments of a pair that are enumerated, and the effort of sampling others."""

    max_alignments: int
    restarts: int
    burn_in: int
    passes: int


@njit(nogil=True, cache=True)
def _probability(learned, word, token, alpha):
    """Return p(target token | source word) from the learned statistics; either word may be unknown."""
    targets = len(learned.nulls) - 1
    if word < 0:
        # Unknown source words have a uniform distribution.
        return 1 / targets
    at = search_key(learned.columns, token, learned.starts[word], learned.starts[word + 1])
    count = learned.values[at] if at >= 0 else 0.0
    return (count + alpha) / (learned.totals[word] + alpha * targets)


@njit(nogil=True, cache=True)
def _estimate_marginals(first, last, layout, learned, alpha, null, effort, marginals):
    """Write the link distributions of sentences `first` to `last` of a new text to `marginals`, all zero.

    `learned` is a `LinkStatistics`. A sentence's random seed depends only on its words, so its links do not
    depend on the other sentences.
    """
    targets = len(learned.nulls) - 1
    middle = longest_lengths(first, last, layout.source_lengths, layout.target_lengths)[0] + 1
    random, jumps = np.empty(1, np.uint64), np.empty(2 * middle + 1, np.float32)
    for jump in range(-middle, middle + 1):
        jumps[middle + jump] = learned.jumps[MAX_JUMP + max(-MAX_JUMP, min(MAX_JUMP, jump))]
    for row in range(first, last):
        m, n = layout.source_lengths[row], layout.target_lengths[row]
        # Unknown words are -1, which indexes the last row of ratios.
        source = layout.source[layout.source_starts[row] : layout.source_starts[row] + m]
        target = layout.target[layout.target_starts[row] : layout.target_starts[row] + n]
        lexical, nulls = np.empty((n, m), np.float32), np.empty(n, np.float32)
        random[0] = m
        for j in range(n):
            token = target[j]
            count = learned.nulls[token] if token >= 0 else np.float32(0)
            nulls[j] = null * (count + alpha) / (learned.nulls[-1] + alpha * targets)
            # An FNV-style hash of the target tokens is the seed of the sentence.
            random[0] = random[0] * np.uint64(0x100000001B3) + np.uint64(token + 1)
            for i in range(m):
                lexical[j, i] = _probability(learned, source[i], token, alpha)
        cells = marginals[
            layout.cells[row] - layout.cells[first] : layout.cells[row + 1] - layout.cells[first]
        ]
        if n * np.log(m + 1.0) <= np.log(effort.max_alignments):
            _enumerate_links(source, lexical, nulls, jumps, learned.ratios, cells)
        else:
            _sample_links(source, lexical, nulls, jumps, learned.ratios, effort, random, cells)


@njit(nogil=True, cache=True)
def _enumerate_links(source, lexical, nulls, jumps, ratios, marginals):
    """Add the exact link distributions of a sentence pair to `marginals`, by a depth-first search."""
    n, m = lexical.shape
    middle, most = len(jumps) // 2, NUM_FERTILITIES - 1
    fertility, links = np.zeros(m, np.int64), np.full(n, -2)  # -2: no link has been tried
    # The weight and the last linked position of words 0 to j - 1, and the sum over the links of the others.
    weights, before, sums = np.ones(n + 1), np.full(n + 1, -1), np.zeros(n + 1)
    totals, scales = np.zeros((n, m)), np.empty(n)
    for j in range(n):
        # Products of the divided rows do not underflow.
        scales[j] = 1 / (lexical[j].sum() + nulls[j])
    j = 0
    while j >= 0:
        if j == n:
            sums[n] = weights[n] * jumps[middle + m - before[n]]
            j -= 1
            continue
        old = links[j]
        if old > -2:
            sums[j] += sums[j + 1]
        if old >= 0:
            totals[j, old] += sums[j + 1]
            fertility[old] -= 1
        links[j] = new = old + 1
        if new == m:
            links[j] = -2
            j -= 1
            continue
        scale = weights[j] * scales[j]
        if new < 0:
            weights[j + 1], before[j + 1] = scale * nulls[j], before[j]
        else:
            ratio = ratios[source[new], min(most, fertility[new])]
            weights[j + 1] = scale * lexical[j, new] * jumps[middle + new - before[j]] * ratio
            before[j + 1] = new
            fertility[new] += 1
        j += 1
        sums[j] = 0
    for j in range(n):
        for i in range(m):
            marginals[j * m + i] = totals[j, i] / sums[0]


@njit(nogil=True, cache=True)
def _sample_links(source, lexical, nulls, jumps, ratios, effort, random, marginals):
    """Add the link distributions of a sentence pair to `marginals`, estimated by Gibbs sampling."""
    # The types of these numbers are those in `gibbs_pass`, so that functions are compiled only once.
    n, m, none_yet = np.int32(len(nulls)), np.int32(len(source)), np.int32(-1)
    middle, most, backs = len(jumps) // 2, NUM_FERTILITIES - 1, jumps[::-1].copy()
    links, nexts, fertility = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(m, np.int32)
    weights, factors = np.empty(m, np.float32), np.empty(m, np.float32)
    share = np.float32(1 / (effort.restarts * effort.passes))
    for _ in range(effort.restarts):
        fertility[:] = 0
        for j in range(n):
            links[j] = sample_position(m, none_yet, lexical[j].sum(), nulls[j], lexical[j], random)
            if links[j] >= 0:
                fertility[links[j]] += 1
        for i in range(m):
            factors[i] = ratios[source[i], min(most, fertility[i])]
        for number in range(effort.burn_in + effort.passes):
            next_linked(links, m, n, nexts)
            before = -1
            for j in range(n):
                old, after = links[j], nexts[j]
                if old >= 0:
                    fertility[old] -= 1
                    factors[old] = ratios[source[old], min(most, fertility[old])]
                forth, back = np.uintp(middle - before), np.uintp(middle - after)
                for i in range(np.uintp(m)):
                    weights[i] = lexical[j, i]
                total = link_weights(m, factors, jumps, forth, backs, back, weights)
                none = nulls[j] * jumps[middle + after - before]
                links[j] = sample_position(m, old, total, none, weights, random)
                if number >= effort.burn_in:
                    at, scale = np.uintp(j * m), share / (total + none)
                    for i in range(np.uintp(m)):
                        marginals[at + i] += weights[i] * scale
                if links[j] >= 0:
                    before = links[j]
                    fertility[before] += 1
                    factors[before] = ratios[source[before], min(most, fertility[before])]
