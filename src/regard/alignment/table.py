"""The sparse translation table p(target word | source word).

Rows are stored one after the other (compressed sparse rows), and contain the target words that co-occur with
a source word. The last row is that of the null word, and contains all target words. Missing entries and
smaller values count as `MIN_PROBABILITY`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.threads import run_parallel, split_evenly
from regard.data.checks import check_array, check_offsets, check_range
from regard.errors import DataError

__all__ = ["MIN_PROBABILITY", "TranslationTable", "digamma", "occurrences"]

MIN_PROBABILITY = 1e-9
"""Minimum probability of a translation."""
MAX_STORED_PROBABILITY = 1.001
"""Maximum value in a file, with tolerance for rounding."""


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
    def of(cls, corpus: Corpus, threads: int) -> "TranslationTable":
        """Return a uniform table of the words that co-occur in a corpus."""
        source, target = corpus.source, corpus.target
        words, targets = len(source.words), len(target.words)
        firsts, rows = occurrences(source.tokens, source.starts, source.lengths, words)
        costs = np.zeros(words, dtype=np.int64)
        _row_costs(firsts, rows, target.lengths, costs)
        spans = split_evenly(costs)
        sizes = np.zeros(words + 1, dtype=np.int64)
        sizes[words] = targets
        text = (firsts, rows, target.tokens, target.starts, target.lengths, targets)
        run_parallel(_count_row, [(*span, *text, sizes) for span in spans], threads)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        columns = np.empty(starts[-1], dtype=np.int32)
        run_parallel(_fill_row, [(*span, *text, starts, columns) for span in spans], threads)
        columns[starts[words] :] = np.arange(targets, dtype=np.int32)
        return cls(starts, columns, np.full(len(columns), 1 / max(1, targets), dtype=np.float32))

    @property
    def words(self) -> int:
        """The number of source words, without the null word."""
        return len(self.starts) - 2

    @property
    def targets(self) -> int:
        """The number of target words."""
        return int(self.starts[-1] - self.starts[-2])

    def check(self, words: int, targets: int) -> None:
        """Check a table from a file, because compiled loops do not check their indices.

        Args:
            words: Number of source words.
            targets: Number of target words.

        Raises:
            DataError: if the arrays do not fit these numbers. The message names the array.
        """
        check_array("columns", self.columns, "int32", None)
        check_offsets("starts", self.starts, words + 1, len(self.columns))
        check_range("columns", self.columns, 0, targets - 1)
        check_array("values", self.values, "float32", len(self.columns))
        check_range("values", self.values, 0, MAX_STORED_PROBABILITY)
        if not np.array_equal(self.columns[self.starts[-2] :], np.arange(targets)):
            raise DataError("columns: the null word's row must contain every target word in order")

    def update(self, counts: np.ndarray, alpha: float, threads: int) -> None:
        """Compute the probabilities from expected counts, and reset the counts to 0.

        Args:
            counts: float64, the expected count of each entry.
            alpha: Concentration of the symmetric Dirichlet prior. With variational Bayes,
                p = exp(psi(c + alpha) - psi(sum)). 0 disables the prior: p = c / sum.
            threads: Number of threads.
        """
        spans = split_evenly(np.diff(self.starts))
        run_parallel(
            _normalize, [(*span, self.starts, counts, self.values, alpha) for span in spans], threads
        )

    def probability(self, source: int, target: int) -> float:
        """Return the probability of a translation; the null word is source word number `words`."""
        row = slice(self.starts[source], self.starts[source + 1])
        found = np.flatnonzero(self.columns[row] == target)
        return max(MIN_PROBABILITY, float(self.values[row][found[0]])) if len(found) else MIN_PROBABILITY

    def pruned(self) -> "TranslationTable":
        """Return the table without entries at `MIN_PROBABILITY`; the null word's row is kept completely."""
        keep = self.values > MIN_PROBABILITY
        keep[self.starts[-2] :] = True
        kept = np.concatenate([[0], np.cumsum(keep)])
        return TranslationTable(kept[self.starts], self.columns[keep], self.values[keep])


@njit(nogil=True, cache=True)
def occurrences(tokens, starts, lengths, words):
    """Return the sentences of each word, and the start of each word's range in them (a counting sort)."""
    firsts = np.zeros(words + 1, dtype=np.int64)
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            if token >= 0:
                firsts[token + 1] += 1
    for word in range(words):
        firsts[word + 1] += firsts[word]
    rows = np.empty(firsts[words], dtype=np.int32)
    free = firsts[:words].copy()
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            if token >= 0:
                rows[free[token]] = row
                free[token] += 1
    return firsts, rows


@njit(nogil=True, cache=True)
def _row_costs(firsts, rows, lengths, costs):
    for word in range(len(costs)):
        for place in range(firsts[word], firsts[word + 1]):
            costs[word] += lengths[rows[place]]


@njit(nogil=True, cache=True)
def _count_row(first, last, firsts, rows, tokens, starts, lengths, targets, sizes):
    seen = np.full(targets, -1, dtype=np.int32)
    # Marking entries of `seen` with the word itself makes resetting it unnecessary.
    for word in range(first, last):
        size = 0
        before = -1
        for place in range(firsts[word], firsts[word + 1]):
            row = rows[place]
            if row == before:
                continue
            before = row
            for at in range(starts[row], starts[row] + lengths[row]):
                token = tokens[at]
                if seen[token] != word:
                    seen[token] = word
                    size += 1
        sizes[word] = size


@njit(nogil=True, cache=True)
def _fill_row(first, last, firsts, rows, tokens, starts, lengths, targets, row_starts, columns):
    seen = np.full(targets, -1, dtype=np.int32)
    for word in range(first, last):
        free = row_starts[word]
        before = -1
        for place in range(firsts[word], firsts[word + 1]):
            row = rows[place]
            if row == before:
                continue
            before = row
            for at in range(starts[row], starts[row] + lengths[row]):
                token = tokens[at]
                if seen[token] != word:
                    seen[token] = word
                    columns[free] = token
                    free += 1


@njit(nogil=True, cache=True)
def digamma(x):
    """Return psi(x) for x > 0: psi(x) = psi(x + 1) - 1 / x up to 7, then the asymptotic series."""
    result = 0.0
    while x < 7:
        result -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = inverse * (
        1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132)))
    )
    return result + math.log(x) - 0.5 / x - series


@njit(nogil=True, cache=True)
def _normalize(first, last, starts, counts, values, alpha):
    for row in range(first, last):
        total = alpha * (starts[row + 1] - starts[row])
        for entry in range(starts[row], starts[row + 1]):
            total += counts[entry]
        # No expected counts, e.g. in the row of a disabled null word.
        if total <= 0:
            continue
        if alpha > 0:
            level = digamma(total)
            least = level + math.log(MIN_PROBABILITY)
            for entry in range(starts[row], starts[row + 1]):
                x = counts[entry] + alpha
                # psi(x) < log(x) - 1 / (2 x) <= x - 1 - 1 / (2 x): true for most entries, and avoids digamma.
                small = x - 1 - 0.5 / x < least
                values[entry] = (
                    MIN_PROBABILITY if small else max(MIN_PROBABILITY, math.exp(digamma(x) - level))
                )
        else:
            for entry in range(starts[row], starts[row + 1]):
                values[entry] = counts[entry] / total
        counts[starts[row] : starts[row + 1]] = 0
