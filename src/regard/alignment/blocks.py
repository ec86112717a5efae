"""The entry of the translation table for each possible link of a corpus.

A cell is a pair of a source and a target token of the same sentence pair. The cells of a pair are in rows,
one per source token. `slots` contains the table entry of each cell. The text is processed in blocks with a
bounded number of cells. Blocks are kept for the next pass if all of them fit into memory; otherwise they are
computed again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.table import TranslationTable, occurrences
from regard.alignment.threads import run_parallel, split_evenly

__all__ = ["Block", "Blocks"]

MAX_BLOCK_CELLS = 1 << 24
"""Maximum number of cells per block, unless one pair has more."""
MAX_KEPT_CELLS = 1 << 27
"""Maximum number of cells of a corpus whose blocks are kept (512 MiB of slots)."""


@dataclass(frozen=True)
class Block:
    """A range of sentence pairs with their cells.

    Attributes:
        corpus: The pairs.
        first: The number of the first pair in the whole corpus.
        cells: int64 [pairs + 1], the start of each pair's cells.
        slots: int32 or int64 [cells], the table entry of each cell, -1 if it has none.
        order: int64 [source tokens], the start of each source token's cells, sorted by word.
        widths: int32 [source tokens], the number of cells of each source token, in the same order.
        firsts: int64 [source words + 1], the start of each word in `order`.
        sentence_ranges: Ranges of pairs of similar cost, one per thread task.
        word_ranges: Ranges of source words of similar cost, one per thread task.
    """

    corpus: Corpus
    first: int
    cells: np.ndarray
    slots: np.ndarray
    order: np.ndarray
    widths: np.ndarray
    firsts: np.ndarray
    sentence_ranges: list[tuple[int, int]]
    word_ranges: list[tuple[int, int]]

    def accumulate(
        self,
        posteriors: np.ndarray,
        null: np.ndarray,
        table: TranslationTable,
        counts: np.ndarray,
        threads: int,
    ) -> None:
        """Add the posterior of every cell to the count of its table entry.

        Each task has its own source words, and hence rows of the table. No two tasks write to the same entry,
        and the order of every sum is that of the text, so the result is deterministic.

        Args:
            posteriors: float32, the posterior of each cell.
            null: float32, the posterior of the null word for each target token of the block.
            table: The table.
            counts: float64, the counts of its entries; modified in place.
            threads: Number of threads.
        """
        target = self.corpus.target
        shared = (self.firsts, self.order, self.widths, self.slots, posteriors, counts)
        run_parallel(_accumulate, [(*span, *shared) for span in self.word_ranges], threads)
        _accumulate_null(null, target.tokens, target.starts, target.lengths, counts[table.starts[-2] :])


class Blocks:
    """The blocks of a corpus, with slots for one translation table."""

    def __init__(self, corpus: Corpus, table: TranslationTable, threads: int, keep: bool = True) -> None:
        """Divide the corpus into blocks. `keep` retains them for further passes if they fit into memory."""
        self._corpus, self._table, self._threads = corpus, table, threads
        sizes = corpus.source.lengths.astype(np.int64) * corpus.target.lengths
        num_blocks = int(sizes.sum() // MAX_BLOCK_CELLS) + 1
        self._ranges = split_evenly(sizes + 1, num_blocks)
        self._keep = keep and int(sizes.sum()) <= MAX_KEPT_CELLS
        self._kept: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks in order."""
        for number, (first, last) in enumerate(self._ranges):
            block = self._kept.get(number) or _block(self._corpus, self._table, first, last, self._threads)
            if self._keep:
                self._kept[number] = block
            yield block


def _block(corpus: Corpus, table: TranslationTable, first: int, last: int, threads: int) -> Block:
    part = corpus.subset(first, last)
    source, target = part.source, part.target
    sizes = source.lengths.astype(np.int64) * target.lengths
    cells = np.concatenate([[0], np.cumsum(sizes)])
    firsts, rows = occurrences(source.tokens, source.starts, source.lengths, table.words)
    order = np.empty(len(rows), dtype=np.int64)
    widths = np.empty(len(rows), dtype=np.int32)
    _sort_cells(source.tokens, source.starts, source.lengths, target.lengths, cells, firsts, order, widths)
    work = np.add.reduceat(np.append(widths, 0), np.minimum(firsts[:-1], len(widths)), dtype=np.int64)
    # reduceat returns the element itself if a range is empty.
    work[firsts[:-1] == firsts[1:]] = 0
    word_spans = split_evenly(work + 1)
    # 32 bits where possible: the slots take most of the memory.
    kind = np.int32 if len(table.columns) < 2**31 else np.int64
    slots = np.full(cells[-1], -1, dtype=kind)
    shared = (
        firsts,
        order,
        widths,
        rows,
        target.tokens,
        target.starts,
        table.starts,
        table.columns,
        table.targets,
    )
    run_parallel(_find, [(*span, *shared, slots) for span in word_spans], threads)
    return Block(part, first, cells, slots, order, widths, firsts, split_evenly(sizes + 1), word_spans)


@njit(nogil=True, cache=True)
def _sort_cells(tokens, starts, lengths, widths, cells, firsts, order, sorted_widths):
    free = firsts[:-1].copy()
    for row in range(len(starts)):
        for at in range(lengths[row]):
            token = tokens[starts[row] + at]
            if token >= 0:
                order[free[token]] = cells[row] + at * widths[row]
                sorted_widths[free[token]] = widths[row]
                free[token] += 1


@njit(nogil=True, cache=True)
def _find(first, last, firsts, order, widths, rows, tokens, starts, row_starts, columns, targets, slots):
    # A dense index of one table row at a time, reset after each word.
    where = np.full(targets, -1, dtype=np.int64)
    for word in range(first, last):
        if firsts[word] == firsts[word + 1]:
            continue
        for entry in range(row_starts[word], row_starts[word + 1]):
            where[columns[entry]] = entry
        for place in range(firsts[word], firsts[word + 1]):
            cell, start = order[place], starts[rows[place]]
            for at in range(widths[place]):
                token = tokens[start + at]
                if token >= 0:
                    slots[cell + at] = where[token]
        for entry in range(row_starts[word], row_starts[word + 1]):
            where[columns[entry]] = -1


@njit(nogil=True, cache=True)
def _accumulate(first, last, firsts, order, widths, slots, posteriors, counts):
    for word in range(first, last):
        for place in range(firsts[word], firsts[word + 1]):
            for cell in range(order[place], order[place] + widths[place]):
                counts[slots[cell]] += posteriors[cell]


@njit(nogil=True, cache=True)
def _accumulate_null(null, tokens, starts, lengths, counts):
    at = 0
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            counts[token] += null[at]
            at += 1
