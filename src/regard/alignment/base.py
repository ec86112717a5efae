"""The interface of word aligners, their registry, and the parallel execution of compiled loops in threads.

A `DirectionAligner` links target words to source words; `regard.alignment.word_aligner` combines two
directions. A `TrainingSetup` holds the parameters of a training run other than text and configuration.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np

from regard.alignment.corpus import Corpus
from regard.config.cpu_threads import num_available_cpus
from regard.config.registry import PartConfig, Registry, subclass_of
from regard.config.results import perplexity
from regard.text.links import MAX_LENGTH

_T = TypeVar("_T")

NUM_RANGES = 32
"""Number of ranges that work is cut into, large enough that all threads finish at about the same time."""
_MIN_COST = 1 << 14  # of a range: each call of a compiled loop costs time


@dataclass(frozen=True)
class IterationStats:
    """The results of one pass over the text, for progress reports.

    Attributes:
        stage: The model that is trained, such as `ibm1`.
        iteration: Number of the pass, counted from 1.
        num_iterations: Total number of passes.
        log_likelihood: Log-likelihood of the target text given the source text, before the update, in nats.
            For a sampler, it is conditioned on the sampled links. NaN if unknown.
        tokens: Number of target tokens.
        metrics: Other statistics, such as the diagonal tension.
    """

    stage: str
    iteration: int
    num_iterations: int
    log_likelihood: float
    tokens: int
    metrics: Mapping[str, float]

    @property
    def perplexity(self) -> float:
        """The perplexity per target token."""
        return perplexity(-self.log_likelihood / max(1, self.tokens))

    def values(self) -> dict[str, float]:
        """Return the perplexity, if it is known, and the other statistics."""
        known = {"perplexity": self.perplexity} if np.isfinite(self.log_likelihood) else {}
        return known | {name: float(value) for name, value in self.metrics.items()}


@dataclass(frozen=True)
class TrainingSetup:
    """The parameters of a training run. Apart from rounding, only `seed` affects the result.

    Attributes:
        num_threads: Number of threads of compiled loops; it does not affect the links. 0: all processors.
        seed: Random seed.
        report: Function called after each pass.
    """

    num_threads: int = 0
    seed: int = 0
    report: Callable[[IterationStats], None] = lambda iteration: None

    def __post_init__(self) -> None:
        """Set the number of threads to that of the processors if it is 0."""
        if not self.num_threads:
            object.__setattr__(self, "num_threads", num_available_cpus())


class DirectionAligner(ABC):
    """A trained aligner of one direction.

    Attributes:
        config: The configuration.
        max_length: Maximum number of words of a side of a pair; longer pairs are not aligned.
    """

    config: Any
    max_length: ClassVar[int] = MAX_LENGTH

    @classmethod
    @abstractmethod
    def train(cls, corpus: Corpus, config: Any, setup: TrainingSetup) -> Self:
        """Train an aligner that links the target words of a corpus to its source words."""

    @abstractmethod
    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the best link of each target word.

        Args:
            corpus: Pairs, numbered by the words of the training text; unknown words are aligned too. A side
                may be empty.
            threads: Number of threads; 0 means all processors.

        Returns:
            int32 [target tokens], in the order of `corpus.target.offsets`: the position of the source word in
            its sentence, counted from 0, or -1 for no link.
        """

    @abstractmethod
    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """Compute the posterior probability of every link.

        Yields:
            For each pair, float32 [T, S]: the probability that target word t is aligned to source word s. The
            rest of each row, up to 1, is the probability of no link.
        """

    def cell_posteriors(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the probability of every link, float32 [cells]; the source word of a pair varies slowest."""
        matrices = (matrix.T.ravel() for matrix in self.posteriors(corpus, threads))
        return np.concatenate([np.empty(0, np.float32), *matrices])

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, the input of `load`."""

    @classmethod
    @abstractmethod
    def load(cls, arrays: dict[str, np.ndarray], config: Any, sizes: tuple[int, int]) -> Self:
        """Restore an aligner from its arrays.

        Args:
            arrays: The result of `arrays`, possibly from a file that was modified.
            config: The configuration.
            sizes: Number of source words and of target words.

        Raises:
            DataError: if an array does not have the form that compiled loops need. The message names it.
            KeyError: if an array is missing.
        """


DEFAULT_ALIGNER = "bayes"
ALIGNERS: Registry[type[DirectionAligner]] = Registry(
    "aligner",
    default=DEFAULT_ALIGNER,
    packages=["regard.alignment.ibm", "regard.alignment.hmm", "regard.alignment.bayes"],
    contract=subclass_of(DirectionAligner),
)
register_aligner = ALIGNERS.register

AlignerConfig = Annotated[PartConfig, ALIGNERS]


def default_config(kind: str) -> AlignerConfig:
    """Return the default configuration of a kind of aligner, one of `ALIGNERS.names()`."""
    return dict(zip(ALIGNERS.names(), ALIGNERS.config_classes(), strict=True))[kind]()


def train_direction(corpus: Corpus, config: AlignerConfig, setup: TrainingSetup) -> DirectionAligner:
    """Train an aligner that links the target words of a corpus to its source words.

    It is not trained on pairs with more words than its `max_length`.
    """
    aligner = ALIGNERS.part_of(config)
    return aligner.train(corpus.without_long_pairs(aligner.max_length), config, setup)


def run_parallel(function: Callable[..., _T], calls: Sequence[tuple[Any, ...]], threads: int) -> list[_T]:
    """Call a function for each part of the work.

    Returns:
        The results of the calls, in order.
    """
    if threads < 2 or len(calls) < 2:
        return [function(*call) for call in calls]
    # The first call compiles the function if necessary; two calls at once would compile it twice.
    first = function(*calls[0])
    with ThreadPoolExecutor(min(threads, len(calls) - 1)) as pool:
        return [first, *pool.map(lambda call: function(*call), calls[1:])]


def split_evenly(costs: np.ndarray, num_ranges: int = NUM_RANGES) -> list[tuple[int, int]]:
    """Cut a range of items into at most `num_ranges` non-empty ranges of about equal cost.

    The ranges do not depend on the number of threads, and `run_parallel` returns results in order. Sums over
    them are therefore bitwise reproducible.
    """
    if not len(costs):
        return []
    ends = np.cumsum(costs, dtype=np.float64)
    num_ranges = min(num_ranges, int(ends[-1] // _MIN_COST) + 1)
    wanted = np.arange(1, num_ranges) * (ends[-1] / num_ranges)
    # Equal edges are those of empty ranges.
    return list(pairwise(sorted({0, *np.searchsorted(ends, wanted).tolist(), len(costs)})))
