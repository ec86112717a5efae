"""The translation table p(target word | source word), sparse: a row of the target words it occurs with.

Rows lie one after the other (compressed sparse rows); the last row is the null word's and holds every target
word. What stands in no row, and what is smaller, counts as `FLOOR`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.threads import cut, run
from regard.data.checks import check_array, check_offsets, check_range
from regard.errors import DataError

__all__ = ["FLOOR", "Table", "digamma", "occurrences"]

FLOOR = 1e-9
"""The least probability of a translation."""
MOST_PROBABLE = 1.001
"""The highest that a file may hold, rounding included."""


@dataclass(frozen=True)
class Table:
    """A translation table.

    Attributes:
        starts: int64 [source words + 2]: where each row starts; the last row is the null word's.
        columns: int32: the target word of each entry; not sorted, but for the null word's: 0, 1, 2...
        values: float32: its probability.
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus, threads: int) -> "Table":
        """The words that occur together in a corpus, all equally probable."""
        source, target = corpus.source, corpus.target
        words, targets = len(source.words), len(target.words)
        firsts, rows = occurrences(source.tokens, source.starts, source.lengths, words)
        costs = np.zeros(words, dtype=np.int64)
        _work(firsts, rows, target.lengths, costs)
        pieces = cut(costs)
        sizes = np.zeros(words + 1, dtype=np.int64)
        sizes[words] = targets
        text = (firsts, rows, target.tokens, target.starts, target.lengths, targets)
        run(_count_row, [(*piece, *text, sizes) for piece in pieces], threads)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        columns = np.empty(starts[-1], dtype=np.int32)
        run(_fill_row, [(*piece, *text, starts, columns) for piece in pieces], threads)
        columns[starts[words] :] = np.arange(targets, dtype=np.int32)
        return cls(starts, columns, np.full(len(columns), 1 / max(1, targets), dtype=np.float32))

    @property
    def words(self) -> int:
        """The number of source words, the null word not counted."""
        return len(self.starts) - 2

    @property
    def targets(self) -> int:
        """The number of target words."""
        return int(self.starts[-1] - self.starts[-2])

    def check(self, words: int, targets: int) -> None:
        """Check a table from a file: compiled loops follow its numbers wherever they point.

        Args:
            words: How many source words there are.
            targets: How many target words.

        Raises:
            DataError: if it is no table of such words; names the array.
        """
        check_array("columns", self.columns, "int32", None)
        check_offsets("starts", self.starts, words + 1, len(self.columns))
        check_range("columns", self.columns, 0, targets - 1)
        check_array("values", self.values, "float32", len(self.columns))
        check_range("values", self.values, 0, MOST_PROBABLE)
        if not np.array_equal(self.columns[self.starts[-2] :], np.arange(targets)):
            raise DataError("columns: the null word's row does not hold every target word in order")

    def update(self, counts: np.ndarray, alpha: float, threads: int) -> None:
        """Set the probabilities from expected counts, and the counts to 0.

        Args:
            counts: float64, of each entry.
            alpha: Of the symmetric Dirichlet prior, by variational Bayes: p = exp(psi(c + alpha) - psi(sum));
                0: none, p = c / sum.
            threads: How many.
        """
        pieces = cut(np.diff(self.starts))
        run(_normalise, [(*piece, self.starts, counts, self.values, alpha) for piece in pieces], threads)

    def probability(self, source: int, target: int) -> float:
        """The probability of a translation; the null word is source word number `words`."""
        row = slice(self.starts[source], self.starts[source + 1])
        found = np.flatnonzero(self.columns[row] == target)
        return max(FLOOR, float(self.values[row][found[0]])) if len(found) else FLOOR

    def pruned(self) -> "Table":
        """Without the entries that count as `FLOOR` anyhow; the null word's row stays whole."""
        keep = self.values > FLOOR
        keep[self.starts[-2] :] = True
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Table(kept[self.starts], self.columns[keep], self.values[keep])


@njit(nogil=True, cache=True)
def occurrences(tokens, starts, lengths, words):
    """The sentences of each word, one after the other, and where each word's start; a counting sort."""
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
def _work(firsts, rows, lengths, costs):
    for word in range(len(costs)):
        for place in range(firsts[word], firsts[word + 1]):
            costs[word] += lengths[rows[place]]


@njit(nogil=True, cache=True)
def _count_row(first, last, firsts, rows, tokens, starts, lengths, targets, sizes):
    seen = np.full(targets, -1, dtype=np.int32)
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
    """psi(x) for x > 0: the recurrence psi(x) = psi(x + 1) - 1 / x up to 7, then the asymptotic series."""
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
def _normalise(first, last, starts, counts, values, alpha):
    for row in range(first, last):
        total = alpha * (starts[row + 1] - starts[row])
        for entry in range(starts[row], starts[row + 1]):
            total += counts[entry]
        if total <= 0:
            continue
        if alpha > 0:
            level = digamma(total)
            least = level + math.log(FLOOR)
            for entry in range(starts[row], starts[row + 1]):
                x = counts[entry] + alpha
                # psi(x) < log(x) - 1 / (2 x) <= x - 1 - 1 / (2 x): most entries end here.
                small = x - 1 - 0.5 / x < least
                values[entry] = FLOOR if small else max(FLOOR, math.exp(digamma(x) - level))
        else:
            for entry in range(starts[row], starts[row + 1]):
                values[entry] = counts[entry] / total
        counts[starts[row] : starts[row + 1]] = 0
