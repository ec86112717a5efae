"""Expectation maximization over a text: the translation table, its cells, and the passes of the models.

The table p(target word | source word) is sparse. Rows are stored one after the other (compressed sparse
rows), and contain the target words that co-occur with a source word. The last row is that of the null word,
and contains all target words. Missing entries and smaller values count as `MIN_PROBABILITY`.

The text is processed in blocks with a bounded number of cells. Each block contains the table entry of every
cell. Blocks are kept for the next pass if all of them fit into memory; otherwise they are computed again.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.alignment.base import DirectionAligner, IterationStats, TrainingSetup, run_parallel, split_evenly
from regard.alignment.corpus import Corpus, TextLayout
from regard.alignment.em_kernels import (
    MIN_PROBABILITY,
    accumulate,
    accumulate_null,
    cooccurring_words,
    find_slots,
    normalize_rows,
    occurrences,
    pick_links,
    sort_cells,
)
from regard.config import option
from regard.config.cpu_threads import num_available_cpus
from regard.errors import DataError
from regard.text.array_files import check_arrays, check_offsets

MAX_STORED_PROBABILITY = 1.001
"""Maximum value in a file, with tolerance for rounding."""
MAX_BLOCK_CELLS = 1 << 24
"""Maximum number of cells per block, unless one pair has more."""
MAX_KEPT_CELLS = 1 << 27
"""Maximum number of cells of a corpus whose blocks are kept (512 MiB of slots)."""


def alpha_option(default: float) -> float:
    """Return the option of a configuration for the prior of the translation table."""
    return option(
        default=default,
        help="Concentration of the Dirichlet prior on translations; smaller values prefer fewer translations "
        "per word. 0 disables the prior.",
        ge=0,
        le=1e6,
    )


@dataclass(frozen=True)
class TranslationTable:
    """A translation table.

    Attributes:
        starts: int64 [source words + 2], the start of each row; the last row is that of the null word.
        columns: int32, the target word of each entry; not sorted, except in the null word's row: 0, 1, 2, ...
        values: float32, the probability of each entry.
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> "TranslationTable":
        """Return a uniform table of the words that co-occur in a corpus."""
        source, targets = corpus.source, len(corpus.target.words)
        positions = occurrences(source.tokens, source.starts, source.lengths, len(source.words))
        starts, columns = cooccurring_words(positions, corpus.layout(), targets)
        return cls(starts, columns, np.full(len(columns), 1 / max(1, targets), dtype=np.float32))

    @property
    def words(self) -> int:
        """The number of source words, without the null word."""
        return len(self.starts) - 2

    @property
    def nulls(self) -> np.ndarray:
        """The row of the null word, float32 [target words]: a view of `values`."""
        return self.values[self.starts[-2] :]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for a file, without entries at `MIN_PROBABILITY` outside the null word's row."""
        keep = self.values > MIN_PROBABILITY
        keep[self.starts[-2] :] = True
        offsets = np.concatenate([[0], np.cumsum(keep)])
        return {"starts": offsets[self.starts], "columns": self.columns[keep], "values": self.values[keep]}

    @classmethod
    def load(cls, arrays: dict[str, np.ndarray], sizes: tuple[int, int]) -> "TranslationTable":
        """Return a table from the arrays of a file, because compiled loops do not check their indices.

        Args:
            arrays: The arrays, which may include others.
            sizes: Number of source words and of target words.

        Raises:
            DataError: if the arrays do not fit these numbers. The message names the array.
            KeyError: if an array is missing.
        """
        words, targets = sizes
        table = cls(*(arrays[name] for name in ("starts", "columns", "values")))
        size = table.columns.size
        forms = {
            "starts": ("int64", 0, size, words + 2),
            "columns": ("int32", 0, targets - 1, None),
            "values": ("float32", 0, MAX_STORED_PROBABILITY, size),
        }
        check_arrays(vars(table), forms)
        check_offsets("starts", table.starts, words + 1, size)
        if not np.array_equal(table.columns[table.starts[-2] :], np.arange(targets)):
            raise DataError("columns: the null word's row must contain every target word in order")
        return table

    def update(self, counts: np.ndarray, alpha: float, threads: int) -> None:
        """Compute the probabilities from expected counts, and reset the counts to 0.

        Args:
            counts: float64, the expected count of each entry.
            alpha: Concentration of the symmetric Dirichlet prior. With variational Bayes,
                p = exp(psi(c + alpha) - psi(sum)). 0 disables the prior: p = c / sum.
            threads: Number of threads.
        """
        shared = (self.starts, counts, self.values, alpha)
        spans = split_evenly(np.diff(self.starts))
        run_parallel(normalize_rows, [(*span, *shared) for span in spans], threads)


@dataclass(frozen=True)
class Block:
    """A range of sentence pairs with their cells.

    Attributes:
        corpus: The pairs.
        layout: Their arrays. `slots` (int32 or int64) is the table entry of each cell, -1 if it has none. The
            cells of a pair are in rows, one per source token.
        order: int64 [source tokens], the start of each source token's cells, sorted by word.
        widths: int32 [source tokens], the number of cells of each source token, in the same order.
        firsts: int64 [source words + 1], the start of each word in `order`.
        word_ranges: Ranges of source words of similar cost, one per thread task.
    """

    corpus: Corpus
    layout: TextLayout
    order: np.ndarray
    widths: np.ndarray
    firsts: np.ndarray
    word_ranges: list[tuple[int, int]]

    @classmethod
    def of(cls, corpus: Corpus, table: TranslationTable, threads: int) -> "Block":
        """Find the table entry of each cell of a corpus."""
        source, layout = corpus.source, corpus.layout()
        positions = occurrences(source.tokens, source.starts, source.lengths, table.words)
        firsts = positions.firsts
        order = np.empty(len(positions.rows), dtype=np.int64)
        widths = np.empty(len(positions.rows), dtype=np.int32)
        sort_cells(layout, firsts, order, widths)
        work = np.add.reduceat(np.append(widths, 0), np.minimum(firsts[:-1], len(widths)), dtype=np.int64)
        # reduceat returns the element itself if a range is empty.
        work[firsts[:-1] == firsts[1:]] = 0
        word_ranges = split_evenly(work + 1)
        # 32 bits where possible: the slots take most of the memory.
        kind = np.int32 if len(table.columns) < 2**31 else np.int64
        slots = np.full(layout.cells[-1], -1, dtype=kind)
        shared = (positions, order, layout, (table.starts, table.columns), slots)
        run_parallel(find_slots, [(*span, *shared) for span in word_ranges], threads)
        return cls(corpus, layout._replace(slots=slots), order, widths, firsts, word_ranges)

    def buffers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return empty arrays for the posteriors of the cells and of the null word."""
        cells, words = len(self.layout.slots), int(self.layout.offsets[-1])
        return np.empty(cells, np.float32), np.empty(words, np.float32)

    def run(self, kernel: Callable[..., np.ndarray], threads: int, *arguments: object) -> np.ndarray:
        """Run a compiled loop over the pairs, and add up the results of its parts."""
        spans = split_evenly(self.corpus.num_cells + 1)  # ranges of pairs of similar cost
        calls = [(*span, self.layout, *arguments) for span in spans]
        total = np.zeros(0)
        for sums in run_parallel(kernel, calls, threads):
            total = sums if not len(total) else total + sums
        return total

    def accumulate(
        self,
        posteriors: np.ndarray,
        null: np.ndarray,
        table: TranslationTable,
        counts: np.ndarray,
        threads: int,
    ) -> None:
        """Add the posterior of every cell, and of the null words, to the count of its table entry, float64.

        Each task has its own source words, and hence rows of the table. No two tasks write to the same entry,
        and the order of every sum is that of the text, so the result is deterministic.
        """
        shared = (self.firsts, self.order, self.widths, self.layout.slots, posteriors, counts)
        run_parallel(accumulate, [(*span, *shared) for span in self.word_ranges], threads)
        target = self.corpus.target
        accumulate_null(null, target.tokens, target.starts, target.lengths, counts[table.starts[-2] :])


def iterate_blocks(corpus: Corpus, table: TranslationTable, threads: int) -> Iterator[Block]:
    """Yield the blocks of a corpus in order, with slots for a translation table."""
    sizes = corpus.num_cells
    for span in split_evenly(sizes + 1, int(sizes.sum() // MAX_BLOCK_CELLS) + 1):
        yield Block.of(corpus.subset(*span), table, threads)


class EMAligner(DirectionAligner):
    """An aligner whose link probabilities are computed by an expectation step over blocks.

    Attributes:
        table: The translation table.
        tension: The tension of a diagonal prior, for reports; 0 if there is none.
    """

    table: TranslationTable
    tension: float = 0.0

    @abstractmethod
    def expect(
        self, block: Block, posteriors: np.ndarray, null: np.ndarray, threads: int, with_sums: bool = True
    ) -> np.ndarray:
        """Run the expectation step over a block.

        Args:
            block: The block.
            posteriors: float32, the posterior of each cell; filled in place.
            null: float32, the posterior of the null word for each target token; filled in place.
            threads: Number of threads.
            with_sums: Whether the other sums of the model are needed.

        Returns:
            The log-likelihood in nats, the number of null words, and other sums of the model.
        """

    def compact(self) -> None:
        """Remove the entries at the minimum from the table, which only further training needs."""
        self.table = TranslationTable(**self.table.arrays())

    def _infer(self, block: Block, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the posteriors of the cells and of the null word."""
        posteriors, null = block.buffers()
        self.expect(block, posteriors, null, threads, with_sums=False)
        return posteriors, null

    def best(self, block: Block, links: np.ndarray, threads: int) -> None:
        """Write the source position of each target token, -1 for none, to `links`, int32 [target tokens]."""
        block.run(pick_links, threads, *self._infer(block, threads), links)

    def align(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the best source word of each target word; see `DirectionAligner.align`."""
        threads = threads or num_available_cpus()
        links = [np.empty(0, dtype=np.int32)]
        for block in iterate_blocks(corpus, self.table, threads):
            links.append(np.empty(block.corpus.num_target_tokens, dtype=np.int32))
            self.best(block, links[-1], threads)
        return np.concatenate(links)

    def posteriors(self, corpus: Corpus, threads: int = 0) -> Iterator[np.ndarray]:
        """Compute the probability of every link; see `DirectionAligner.posteriors`."""
        threads = threads or num_available_cpus()
        for block in iterate_blocks(corpus, self.table, threads):
            posteriors, _ = self._infer(block, threads)
            for row, (first, last) in enumerate(pairwise(block.layout.cells.tolist())):
                shape = int(block.layout.source_lengths[row]), int(block.layout.target_lengths[row])
                # Cells have rows of source tokens, the interface has rows of target tokens.
                yield posteriors[first:last].reshape(shape).T

    def cell_posteriors(self, corpus: Corpus, threads: int = 0) -> np.ndarray:
        """Return the probability of every link in one array; see `DirectionAligner.cell_posteriors`."""
        threads = threads or num_available_cpus()
        parts = (self._infer(block, threads)[0] for block in iterate_blocks(corpus, self.table, threads))
        return np.concatenate([np.empty(0, np.float32), *parts])


def train_passes(
    corpus: Corpus, model: EMAligner, setting: TrainingSetup, stage: str
) -> Iterator[tuple[int, np.ndarray]]:
    """Run and report the passes over a text: expected counts, then an update of the table of the model.

    The caller updates the other parameters of the model after each pass.

    Args:
        corpus: The pairs.
        model: The model. Its configuration has the number of passes and the Dirichlet prior of the table.
        setting: Threads and reports.
        stage: Name of the stage, for reports.

    Yields:
        The number of the pass, from 1, and the results of `EMAligner.expect`, summed over the blocks.
    """
    table, threads, words = model.table, setting.num_threads, corpus.num_target_tokens
    kept = corpus.num_cells.sum() <= MAX_KEPT_CELLS
    stored = list(iterate_blocks(corpus, table, threads)) if kept else None
    counts = np.zeros(len(table.columns))
    for number in range(1, model.config.iterations + 1):
        sums = np.zeros(0)
        for block in stored or iterate_blocks(corpus, table, threads):
            posteriors, null = block.buffers()
            part = model.expect(block, posteriors, null, threads)
            sums = part if not len(sums) else sums + part
            # Posteriors exist for one block at a time; only the counts are kept.
            block.accumulate(posteriors, null, table, counts, threads)
        table.update(counts, model.config.alpha, threads)
        metrics = {"null": sums[1] / max(1, words)}
        if model.tension:
            metrics["tension"] = model.tension
        iterations = model.config.iterations
        setting.report(IterationStats(stage, number, iterations, float(sums[0]), words, metrics))
        yield number, sums
