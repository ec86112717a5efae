"""The default aligner: a Bayesian HMM with fertilities, sampled. Östling & Tiedemann (2016).

Translations, jumps and fertilities have Dirichlet priors, which keep rare words from gathering what they do
not translate. Links are drawn by collapsed Gibbs sampling, first as in Model 1, then as in the HMM, then with
fertilities. Several samplers go their own ways; each word gets the most probable link under the mean of the
distributions that all of them drew it from at the end. A sampler's randomness is its own, so the result
depends on the seed alone, not on the threads.

Unlike the paper, jumps have one distribution; fertilities are drawn once a pass, from their posterior,
and their prior is not uniform but the fertilities of the whole text, so that rare words behave like others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from regard.alignment.base import Iteration, Setting, State
from regard.alignment.bayes_kernels import (
    FERTILITIES,
    REACH,
    Chain,
    draw_first,
    observe,
    pick,
    settle,
    sweep,
)
from regard.alignment.bayes_layout import Layout, lay_out
from regard.alignment.bayes_likelihood import likelihood
from regard.alignment.corpus import Corpus
from regard.alignment.threads import cut, run
from regard.config import config, option
from regard.data.checks import MOST_COUNTED, check_array, check_offsets, check_range
from regard.processors import available_processors

__all__ = ["BayesAligner", "BayesConfig", "Learned", "Sampler", "train_bayes"]

BLOCK_CELLS = 1 << 22
"""The most cells whose marginals are held at once, unless one pair has more."""
WARM, DRAWN = 8, 8
"""Passes over a sentence of new text before its distributions are averaged, and while they are."""
STAGES = ("ibm1", "hmm", "fertility")
JUDGED = 10
"""Of so many passes one is judged, and the last of each stage."""


@config
class BayesConfig:
    """Bayesian HMM with fertilities."""

    kind: Literal["bayes"] = option(default="bayes", help="Bayesian HMM with fertilities, sampled.")
    effort: float = option(
        default=1.0,
        help="Passes over the text, relative to 5000 / sqrt(pairs) with fertilities.",
        gt=0,
        le=1e4,
    )
    chains: int = option(
        default=4, help="Independent samplers; their distributions are averaged.", ge=1, le=4_096
    )
    samples: int = option(
        default=4, help="Draws of each sentence at the end that are averaged.", ge=1, le=10_000
    )
    alpha: float = option(default=0.0003, help="Dirichlet prior of a word's translations.", gt=0, le=1e6)
    null_alpha: float = option(
        default=0.0003, help="Dirichlet prior of the null word's translations.", gt=0, le=1e6
    )
    jump_alpha: float = option(default=0.5, help="Dirichlet prior of jumps.", gt=0, le=1e6)
    fertility_alpha: float = option(
        default=1.0,
        help="Dirichlet prior of a word's fertilities: as many words of the text's fertilities.",
        gt=0,
        le=1e6,
    )
    null: float = option(default=0.2, help="Prior of no link, relative to a link.", gt=0, lt=1)

    def passes(self, pairs: int) -> tuple[int, int, int]:
        """Passes over a text of so many pairs: as in Model 1, the HMM, and with fertilities.

        Fewer where there is more text, as in Östling & Tiedemann (2016).
        """
        most = max(2, round(self.effort * 5000 / math.sqrt(max(1, pairs))))
        return max(2, most // 4), max(1, most // 4), most


class Learned(NamedTuple):
    """What the links of a training text say: the state of an aligner of new text.

    Attributes:
        starts: int64 [source words + 1]: where each source word's entries start in `columns`.
        columns: int32: the target word of each entry, ascending in each row.
        values: float32: how many links the two words have.
        totals: float32 [source words]: the links of each source word.
        nulls: float32 [target words + 1]: the null links of each target word, and their sum.
        jumps: float32 [2 * REACH + 1]: the probability of each jump.
        ratios: float32 [source words + 1, FERTILITIES]: F(c + 1) / F(c) in column c; the last row is that of
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
        """Check what comes from a file: compiled loops follow its numbers wherever they point.

        Args:
            words: How many source words there are.
            targets: How many target words.

        Raises:
            DataError: if it was not learned from such words; names the array.
        """
        check_array("columns", self.columns, "int32", None)
        check_offsets("starts", self.starts, words, len(self.columns))
        check_range("columns", self.columns, 0, targets - 1)
        shapes = {
            "values": (len(self.columns),),
            "totals": (words,),
            "nulls": (targets + 1,),
            "jumps": (2 * REACH + 1,),
            "ratios": (words + 1, FERTILITIES),
        }
        for name, shape in shapes.items():
            check_array(name, getattr(self, name), "float32", *shape)
            check_range(name, getattr(self, name), 0, MOST_COUNTED)

    @classmethod
    def of(cls, layout: Layout, links: np.ndarray, sizes: tuple[int, int], config: BayesConfig) -> "Learned":
        """Count the links of a text whose sides have `sizes` words."""
        words, targets = sizes
        steps = np.zeros(2 * REACH + 1)
        fertilities = np.zeros((words, FERTILITIES), dtype=np.float32)
        source, target = observe(layout, links, steps, fertilities)
        linked = source >= 0
        keys, values = np.unique(
            source[linked].astype(np.int64) * targets + target[linked], return_counts=True
        )
        rows = keys // max(1, targets)
        nulls = np.bincount(target[~linked], minlength=targets)
        unknown = np.zeros((1, FERTILITIES), dtype=np.float32)
        fertilities = _with_prior(np.vstack([fertilities, unknown]), config.fertility_alpha)
        return cls(
            starts=np.searchsorted(rows, np.arange(words + 1)),
            columns=(keys - rows * targets).astype(np.int32),
            values=values.astype(np.float32),
            totals=np.bincount(source[linked], minlength=words).astype(np.float32),
            nulls=np.append(nulls, nulls.sum()).astype(np.float32),
            jumps=_shares(steps + config.jump_alpha),
            ratios=_ratios(fertilities),
        )


class BayesAligner:
    """A trained aligner.

    Attributes:
        learned: What it learned.
        config: Its settings.
    """

    kind: ClassVar[str] = "bayes"

    def __init__(
        self, learned: Learned, config: BayesConfig, trained: tuple[Corpus, np.ndarray] | None = None
    ) -> None:
        """Put together what training found.

        Args:
            learned: What the links say.
            config: The settings.
            trained: The training text and its links.
        """
        self.learned, self.config, self._trained = learned, config, trained

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """The best source word of each target word: see `Aligner.align`.

        The links of the very text the aligner was trained on are those that the samplers found; those of
        other text are drawn with what was learned held.
        """
        if self._trained is not None:
            text, links = self._trained
            if corpus.source is text.source and corpus.target is text.target:
                return links
        links = np.empty(int(corpus.target.lengths.sum()), dtype=np.int32)
        for first, part, layout, marginals in self._settled(corpus, threads):
            pick(0, len(part), layout, marginals, links[first:])
        return links

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """The probability of every link, any text being taken as new: see `Aligner.posteriors`."""
        for _, part, layout, marginals in self._settled(corpus, threads):
            for row in range(len(part)):
                shape = int(layout.target_lengths[row]), int(layout.source_lengths[row])
                yield marginals[layout.cells[row] : layout.cells[row + 1]].reshape(shape)

    def _settled(self, corpus: Corpus, threads: int) -> Iterator[tuple[int, Corpus, Layout, np.ndarray]]:
        """Blocks of the text with their marginals, and which target token each starts with."""
        threads, config, first_token = threads or available_processors(), self.config, 0
        sizes = corpus.source.lengths.astype(np.int64) * corpus.target.lengths
        for first, last in cut(sizes + 1, int(sizes.sum()) // BLOCK_CELLS + 1):
            part = corpus.part(first, last)
            layout = _plain(part)
            marginals = np.zeros(int(layout.cells[-1]), dtype=np.float32)
            settings = config.alpha, config.null_alpha, config.null, config.chains, WARM, DRAWN
            calls = [
                (
                    *piece,
                    layout,
                    self.learned,
                    *settings,
                    marginals[layout.cells[piece[0]] : layout.cells[piece[1]]],
                )
                for piece in cut(sizes[first:last] + 1)
            ]
            run(settle, calls, threads)
            yield first_token, part, layout, marginals
            first_token += int(layout.offsets[-1])

    def state(self) -> State:
        """See `Aligner.state`."""
        names = (name for name in type(self.config).__dataclass_fields__ if name != "kind")
        return State({name: getattr(self.config, name) for name in names}, self.learned._asdict())

    @classmethod
    def from_state(cls, state: State, sizes: tuple[int, int]) -> Self:
        """See `Aligner.from_state`."""
        learned = Learned(*(state.arrays[name] for name in Learned._fields))
        learned.check(*sizes)
        return cls(learned, BayesConfig(**state.settings))


def train_bayes(corpus: Corpus, config: BayesConfig, setting: Setting) -> BayesAligner:
    """Sample the links of a text.

    Memory: 4 bytes for every source word of every target word, beside the text. Processes share the samplers.
    """
    layout, slots = lay_out(corpus, setting.threads)
    sizes = len(corpus.source.words), len(corpus.target.words)
    seeds = np.random.SeedSequence(setting.seed).spawn(config.chains)[setting.process :: setting.processes]
    samplers = [Sampler(layout, slots, sizes, config, seed) for seed in seeds]
    with ThreadPoolExecutor(max(1, min(setting.threads, len(samplers)))) as pool:
        for stage, of in zip(STAGES, config.passes(len(corpus)), strict=True):
            for number in range(1, of + 1):
                judged = number == of or number % JUDGED == 0
                found = list(pool.map(lambda sampler, at=(stage, judged): sampler.step(*at), samplers))
                _report(setting, stage, number, of, config.chains, found)
        links = _best_links(layout, samplers, config, setting, pool.map)
    return BayesAligner(Learned.of(layout, links, sizes, config), config, (corpus, links))


class Sampler:
    """One sampler of the links of a text.

    Attributes:
        chain: What it knows.
    """

    def __init__(
        self,
        layout: Layout,
        slots: int,
        sizes: tuple[int, int],
        config: BayesConfig,
        seed: np.random.SeedSequence,
    ) -> None:
        """Start from random links.

        Args:
            layout: The text.
            slots: How many slots it has.
            sizes: How many source and target words.
            config: The settings.
            seed: Of everything it draws.
        """
        words, targets = sizes
        # Jumps go from -1 to the length and back.
        jumps = np.ones(2 * int(layout.source_lengths.max(initial=0)) + 5, dtype=np.float32)
        self._layout, self._config = layout, config
        self._random = np.random.Generator(np.random.PCG64(seed))
        self.chain = Chain(
            links=np.empty(int(layout.offsets[-1]), dtype=np.int32),
            counts=np.zeros(slots, dtype=np.float32),
            totals=np.zeros(words, dtype=np.float32),
            nulls=np.zeros(targets + 1, dtype=np.float32),
            jumps=jumps,
            backs=jumps.copy(),
            ratios=np.ones((words, FERTILITIES), dtype=np.float32),
            steps=np.zeros(2 * REACH + 1),
            fertilities=np.zeros((words, FERTILITIES), dtype=np.float32),
            random=self._random.integers(0, 2**64, 1, dtype=np.uint64),
        )
        draw_first(layout, self.chain, config.null)

    def step(self, stage: str, judged: bool = False) -> np.ndarray:
        """One pass over the text.

        Returns:
            How many links changed, how many are null, how many words there are, and what `likelihood` gives,
            nan unless the pass is judged.
        """
        self.prepare(stage)
        moved = self._sweep(0, len(self._layout.source_lengths), 1, np.zeros(0, dtype=np.float32))
        priors = self._config.alpha, self._config.null_alpha
        judgement = likelihood(self._layout, self.chain, *priors) if judged else math.nan
        return np.array([moved, self.chain.nulls[-1], len(self.chain.links), judgement], dtype=np.float64)

    def prepare(self, stage: str) -> None:
        """Set jumps to their mean and draw fertilities, given the links of the last pass."""
        chain = self.chain
        if stage != "ibm1":
            half = len(chain.jumps) // 2
            distances = np.clip(np.arange(-half, half + 1), -REACH, REACH)
            chain.jumps[:] = _shares(chain.steps + self._config.jump_alpha)[REACH + distances]
            chain.backs[:] = chain.jumps[::-1]
        if stage == "fertility":
            counts = _with_prior(chain.fertilities, self._config.fertility_alpha)
            chain.ratios[:] = _ratios(self._random.standard_gamma(counts, dtype=np.float32))
        chain.steps[:] = 0
        chain.fertilities[:] = 0

    def marginals(self, first: int, last: int) -> np.ndarray:
        """The mean distributions of the links of sentences `first` to `last`."""
        cells = self._layout.cells
        marginals = np.zeros(int(cells[last] - cells[first]), dtype=np.float32)
        self._sweep(first, last, self._config.samples, marginals)
        return marginals

    def _sweep(self, first: int, last: int, passes: int, marginals: np.ndarray) -> int:
        config = self._config
        priors = config.alpha, config.null_alpha, config.null
        return sweep(first, last, self._layout, self.chain, *priors, passes, marginals)


def _best_links(
    layout: Layout,
    samplers: Sequence[Sampler],
    config: BayesConfig,
    setting: Setting,
    each: Callable[..., Iterator[np.ndarray]],
) -> np.ndarray:
    """The most probable links under the mean of all samplers' distributions."""
    links = np.empty(int(layout.offsets[-1]), dtype=np.int32)
    for sampler in samplers:
        sampler.prepare(STAGES[-1])
    for first, last in cut(np.diff(layout.cells) + 1, int(layout.cells[-1]) // BLOCK_CELLS + 1):
        total = np.zeros(int(layout.cells[last] - layout.cells[first]), dtype=np.float32)
        for marginals in each(
            lambda sampler, first=first, last=last: sampler.marginals(first, last), samplers
        ):
            total += marginals
        total = setting.reduce(total) / np.float32(config.chains * config.samples)
        pick(first, last, layout, total, links)
    return links


def _report(
    setting: Setting, stage: str, number: int, of: int, samplers: int, found: Sequence[np.ndarray]
) -> None:
    """Report the means of what all samplers found, those of other processes too."""
    sums = setting.reduce(np.sum(found, axis=0) if found else np.zeros(4))
    moved, null, tokens, log_likelihood = sums / samplers
    figures = {"moved": moved / max(1, tokens), "null": null / max(1, tokens)}
    setting.report(Iteration(f"bayes {stage}", number, of, log_likelihood, round(tokens), figures))


def _plain(corpus: Corpus) -> Layout:
    """The layout of a text, without slots."""
    source, target = corpus.source, corpus.target
    cells = np.concatenate([[0], np.cumsum(source.lengths.astype(np.int64) * target.lengths)])
    sides = (source.tokens, source.starts, source.lengths, target.tokens, target.starts, target.lengths)
    return Layout(*sides, target.offsets, cells, np.zeros(0, dtype=np.uint32))


def _shares(counts: np.ndarray) -> np.ndarray:
    return (counts / counts.sum()).astype(np.float32)


def _with_prior(fertilities: np.ndarray, alpha: float) -> np.ndarray:
    """Add to the fertilities of each word, one a row, `alpha` words with those of the whole text."""
    # Half a word each, so that none is ruled out in a short text.
    shared = fertilities.sum(axis=0, dtype=np.float64) + 0.5
    return fertilities + (alpha * shared / shared.sum()).astype(np.float32)


def _ratios(weights: np.ndarray) -> np.ndarray:
    """F(c + 1) / F(c) of fertilities in proportion to `weights`; more than 6 links are out of reach."""
    least = np.float32(1e-30)
    ratios = np.full_like(weights, 1e-10)
    ratios[:, :-2] = np.minimum((weights[:, 1:-1] + least) / (weights[:, :-2] + least), np.float32(1e6))
    return ratios
