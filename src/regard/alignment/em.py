"""Expectation maximisation over a text: what Models 1 and 2 and the HMM share."""

from collections.abc import Callable, Iterator

import numpy as np

from regard.alignment.base import Setting
from regard.alignment.cells import Block, Blocks
from regard.alignment.corpus import Corpus
from regard.alignment.table import Table
from regard.alignment.threads import run

__all__ = ["Expectation", "Maximiser", "block_posteriors", "over_sentences"]

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
            null = np.empty(int(block.corpus.target.lengths.sum()), dtype=np.float32)
            part = expect(block, posteriors, null)
            sums = part if not len(sums) else sums + part
            block.accumulate(posteriors, null, self._table, self._counts, self._setting.threads)
        counts = self._setting.reduce(self._counts)
        self._table.update(counts, alpha, self._setting.threads)
        self._counts[:] = 0
        return self._setting.reduce(sums)


def block_posteriors(blocks: Blocks, expect: Expectation) -> Iterator[np.ndarray]:
    """The posteriors of each pair of a text, float32 [T, S]."""
    for block in blocks:
        posteriors = np.empty(len(block.slots), dtype=np.float32)
        null = np.empty(int(block.corpus.target.lengths.sum()), dtype=np.float32)
        expect(block, posteriors, null)
        for row, (first, last) in enumerate(zip(block.cells, block.cells[1:], strict=False)):
            shape = int(block.corpus.source.lengths[row]), int(block.corpus.target.lengths[row])
            yield posteriors[first:last].reshape(shape).T
