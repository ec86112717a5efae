"""Expectation maximization over a text: the code shared by Models 1 to 3 and the HMM."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from regard.alignment.base import TrainingSetup
from regard.alignment.blocks import Block, Blocks
from regard.alignment.corpus import Corpus
from regard.alignment.table import TranslationTable
from regard.alignment.threads import run_parallel
from regard.cpu_threads import num_available_cpus

__all__ = ["EMAligner", "EMTrainer", "Expectation", "run_over_sentences"]

Expectation = Callable[[Block, np.ndarray, np.ndarray], np.ndarray]
"""Computes the posteriors of a block's cells and of the null word for its target tokens; returns sums."""


def run_over_sentences(
    kernel: Callable[..., np.ndarray], block: Block, threads: int, *arguments: object
) -> np.ndarray:
    """Run a compiled loop over the pairs of a block, and add up the results of its parts."""
    calls = [(*span, *arguments) for span in block.sentence_ranges]
    total = np.zeros(0)
    # Results are in the order of the text, so the sum does not depend on the number of threads.
    for sums in run_parallel(kernel, calls, threads):
        total = sums if not len(total) else total + sums
    return total


class EMTrainer:
    """Runs the passes of a model over a text: expected counts, then an update of the table."""

    def __init__(self, corpus: Corpus, table: TranslationTable, setting: TrainingSetup) -> None:
        """Prepare the pairs of this process. The table is updated in place."""
        self._table, self._setting = table, setting
        self._blocks = Blocks(setting.local_part(corpus), table, setting.num_threads)
        self._counts = np.zeros(len(table.columns))

    def step(self, expect: Expectation, alpha: float) -> np.ndarray:
        """Run one pass.

        Args:
            expect: The model's expectation over a block.
            alpha: The Dirichlet prior of the table's update.

        Returns:
            The results of `expect`, summed over the blocks and the processes.
        """
        sums = np.zeros(0)
        for block in self._blocks:
            posteriors = np.empty(len(block.slots), dtype=np.float32)
            null = np.empty(_num_target_tokens(block), dtype=np.float32)
            part = expect(block, posteriors, null)
            sums = part if not len(sums) else sums + part
            # Posteriors exist for one block at a time; only the counts are kept.
            block.accumulate(posteriors, null, self._table, self._counts, self._setting.num_threads)
        counts = self._setting.reduce(self._counts)
        self._table.update(counts, alpha, self._setting.num_threads)
        self._counts[:] = 0
        return self._setting.reduce(sums)


class EMAligner(ABC):
    """An aligner whose link probabilities are computed by an expectation step over blocks."""

    table: TranslationTable

    @abstractmethod
    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """Run the expectation step over a block; see `Expectation`."""

    @abstractmethod
    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Write the source position of each target token, -1 for none, to `links`, int32 [target tokens]."""

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the best source word of each target word; see `DirectionAligner.align`."""
        threads = threads or num_available_cpus()
        links = [np.empty(0, dtype=np.int32)]
        for block in Blocks(corpus, self.table, threads, keep=False):
            links.append(np.empty(_num_target_tokens(block), dtype=np.int32))
            self.best(block, links[-1], threads)
        return np.concatenate(links)

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """Compute the probability of every link; see `DirectionAligner.posteriors`."""
        threads = threads or num_available_cpus()
        for block in Blocks(corpus, self.table, threads, keep=False):
            posteriors = np.empty(len(block.slots), dtype=np.float32)
            self.expect(block, posteriors, np.empty(_num_target_tokens(block), dtype=np.float32), threads)
            for row, (first, last) in enumerate(pairwise(block.cells.tolist())):
                shape = int(block.corpus.source.lengths[row]), int(block.corpus.target.lengths[row])
                # Cells have rows of source tokens, the interface has rows of target tokens.
                yield posteriors[first:last].reshape(shape).T


def _num_target_tokens(block: Block) -> int:
    """Return the number of target tokens of a block."""
    return int(block.corpus.target.lengths.sum())
