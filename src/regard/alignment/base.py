"""What every word aligner is: trained on pairs, it finds for each target word the source word it translates.

An `Aligner` goes in one direction; `regard.alignment.both` puts two together. A `Setting` is what training
needs beside text and configuration: threads, seed, and how counts add up over processes that share the work.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from regard.alignment.corpus import Corpus
from regard.processors import available_processors

__all__ = ["Aligner", "Iteration", "Reduce", "Setting", "State"]

Reduce = Callable[[np.ndarray], np.ndarray]
"""Sums an array over the processes that share the work; every process gets the sum."""


@dataclass(frozen=True)
class Iteration:
    """What one pass over the text found, for reports.

    Attributes:
        stage: The model in training, such as `ibm1`.
        number: The pass, from 1.
        of: How many there will be.
        log_likelihood: Of the target text given the source text before the update, in nats; of a sampler,
            given the links that it drew; nan where unknown.
        tokens: Target tokens it is the sum of.
        figures: What else the model learned, such as the diagonal tension.
    """

    stage: str
    number: int
    of: int
    log_likelihood: float
    tokens: int
    figures: Mapping[str, float]

    @property
    def perplexity(self) -> float:
        """Exp of minus the mean log-likelihood of a target token."""
        return float(np.exp(-self.log_likelihood / max(1, self.tokens)))


def _silent(iteration: Iteration) -> None:
    pass


def _alone(array: np.ndarray) -> np.ndarray:
    return array


@dataclass(frozen=True)
class Setting:
    """The circumstances of a training run; of them the result depends on `seed` alone, but for rounding.

    Attributes:
        threads: Threads of compiled work; the links do not depend on it.
        seed: Of all that is drawn at random.
        report: Called after each pass.
        process: This process among those that share the work, from 0.
        processes: How many there are. Each holds the whole text and works on its own part of the pairs.
        reduce: Sums counts over the processes.
    """

    threads: int = 0
    seed: int = 0
    report: Callable[[Iteration], None] = _silent
    process: int = 0
    processes: int = 1
    reduce: Reduce = _alone

    def __post_init__(self) -> None:
        """Take as many threads as there are processors unless told."""
        if not self.threads:
            object.__setattr__(self, "threads", available_processors())

    def share(self, corpus: Corpus) -> Corpus:
        """The pairs this process works on."""
        size = len(corpus)
        first, last = (size * number // self.processes for number in (self.process, self.process + 1))
        return corpus.part(first, last)


@dataclass(frozen=True)
class State:
    """An aligner as it is kept in a file: JSON values and arrays."""

    settings: dict[str, Any]
    arrays: dict[str, np.ndarray]


@runtime_checkable
class Aligner(Protocol):
    """A trained aligner of one direction.

    Attributes:
        kind: Its name in configurations and files.
    """

    kind: ClassVar[str]

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """The best links of each pair.

        Args:
            corpus: Pairs numbered by the words the aligner was trained on; unknown words are aligned too. A
                side may be empty.
            threads: Of compiled work; 0: as many as there are processors.

        Returns:
            int32 [target tokens], in the order of `corpus.target.offsets`: the position in its sentence of
            the source word, from 0, or -1 for none.
        """
        ...

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """The probability of every link.

        Yields:
            float32 [T, S] for each pair: that target word t goes back to source word s; what a row lacks to 1
            is the probability of none.
        """
        ...

    def state(self) -> State:
        """What `from_state` needs to make the same aligner."""
        ...

    @classmethod
    def from_state(cls, state: State, sizes: tuple[int, int]) -> Self:
        """The aligner that `state` described.

        Args:
            state: What it gave, which may come from a file that was altered.
            sizes: How many source and how many target words there are.

        Raises:
            DataError: if an array is not what compiled loops expect; names it.
            ValueError: if a setting is wrong.
        """
        ...
