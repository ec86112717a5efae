"""Expectation maximisation over a text: what Models 1 and 2 and the HMM share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from regard.alignment.base import Setting
from regard.alignment.cells import Block, Blocks
from regard.alignment.corpus import Corpus
from regard.alignment.table import Table
from regard.alignment.threads import run
from regard.processors import available_processors

__all__ = ["Expectation", "ExpectationAligner", "Maximiser", "over_sentences"]

Expectation = Callable[[Block, np.ndarray, np.ndarray], np.ndarray]
"""Fills the posteriors of a block's cells and of the null word for its target tokens; returns sums."""


def over_sentences(
    kernel: Callable[..., np.ndarray], block: Block, threads: int, *arguments: object
) -> np.ndarray:
    """Run a compiled loop over the pairs of a block and add up what its pieces return."""
    calls = [(*piece, *arguments) for piece in block.sentence_pieces]
    total = np.zeros(0)
    for sums in run(kernel, calls, threads):
        total = sums if not len(total) else total + sums
    return total


class Maximiser:
    """The passes of one model over a text: expected counts, then a new table."""

    def __init__(self, corpus: Corpus, table: Table, setting: Setting) -> None:
        """Lay out the pairs this process works on; the table is changed in place."""
        self._table, self._setting = table, setting
        self._blocks = Blocks(setting.share(corpus), table, setting.threads)
        self._counts = np.zeros(len(table.columns))

    def step(self, expect: Expectation, alpha: float) -> np.ndarray:
        """One pass.

        Args:
            expect: The model's expectation over a block.
            alpha: The prior of the table's update.

        Returns:
            The sums of `expect` over the blocks and the processes.
        """
        sums = np.zeros(0)
        for block in self._blocks:
            posteriors = np.empty(len(block.slots), dtype=np.float32)
            null = np.empty(_width(block), dtype=np.float32)
            part = expect(block, posteriors, null)
            sums = part if not len(sums) else sums + part
            block.accumulate(posteriors, null, self._table, self._counts, self._setting.threads)
        counts = self._setting.reduce(self._counts)
        self._table.update(counts, alpha, self._setting.threads)
        self._counts[:] = 0
        return self._setting.reduce(sums)


class ExpectationAligner(ABC):
    """An aligner whose expectation over a block gives the probability of every link."""

    table: Table

    @abstractmethod
    def expect(self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int) -> np.ndarray:
        """The expectation over a block: see `Expectation`."""

    @abstractmethod
    def best(self, block: Block, heads: np.ndarray, threads: int) -> None:
        """Write each target token's source word, -1 for none, into `heads`, int32 [target tokens]."""

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """The best source word of each target word: see `Aligner.align`."""
        threads = threads or available_processors()
        heads = [np.empty(0, dtype=np.int32)]
        for block in Blocks(corpus, self.table, threads, keep=False):
            heads.append(np.empty(_width(block), dtype=np.int32))
            self.best(block, heads[-1], threads)
        return np.concatenate(heads)

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """The probability of every link: see `Aligner.posteriors`."""
        threads = threads or available_processors()
        for block in Blocks(corpus, self.table, threads, keep=False):
            posteriors = np.empty(len(block.slots), dtype=np.float32)
            self.expect(block, posteriors, np.empty(_width(block), dtype=np.float32), threads)
            for row, (first, last) in enumerate(pairwise(block.cells.tolist())):
                shape = int(block.corpus.source.lengths[row]), int(block.corpus.target.lengths[row])
                yield posteriors[first:last].reshape(shape).T


def _width(block: Block) -> int:
    """How many target tokens a block has."""
    return int(block.corpus.target.lengths.sum())
