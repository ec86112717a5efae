"""The text in the form that the Bayesian aligner's loops use: co-occurring word pairs and their positions.

A cell is a pair of a source and a target token of the same sentence pair. Its slot is the number of its word
pair, so that link counts are in an array. Word pairs that co-occur only once share slot 0: a sampler excludes
the current link from its counts, so such a pair always has count 0.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from regard.alignment.corpus import Corpus
from regard.alignment.threads import run_parallel, split_evenly

__all__ = ["TextLayout", "build_layout"]

FREQUENT_PAIR = 16
"""Word pairs that co-occur at least this often are numbered first, so that they are close in memory."""


class TextLayout(NamedTuple):
    """A read-only description of a text, shared by all samplers.

    Attributes:
        source: int32, the source tokens.
        source_starts: int64, the start of each sentence in `source`.
        source_lengths: int32, the length of each sentence.
        target: int32, the target tokens.
        target_starts: int64, the start of each sentence in `target`.
        target_lengths: int32, the length of each sentence.
        offsets: int64 [sentences + 1], the start of each sentence's links.
        cells: int64 [sentences + 1], the start of each sentence's cells, in rows of source positions, one row
            per target position.
        slots: uint32, the slot of each cell.
    """

    source: np.ndarray
    source_starts: np.ndarray
    source_lengths: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray
    target_lengths: np.ndarray
    offsets: np.ndarray
    cells: np.ndarray
    slots: np.ndarray


def build_layout(corpus: Corpus, threads: int) -> tuple[TextLayout, int]:
    """Number the word pairs of a corpus, using 4 bytes per cell.

    Returns:
        The layout and the number of slots.
    """
    source, target = corpus.source, corpus.target
    words, targets = len(source.words), len(target.words)
    cells = np.concatenate([[0], np.cumsum(source.lengths.astype(np.int64) * target.lengths)])
    slots = np.empty(cells[-1], dtype=np.uint32)
    sides = (source.tokens, source.starts, source.lengths, target.tokens, target.starts, target.lengths)
    layout = TextLayout(*sides, target.offsets, cells, slots)
    firsts, rows, places = _occurrences(source.tokens, source.starts, source.lengths, words)
    work = np.concatenate([[0], np.cumsum(target.lengths[rows], dtype=np.int64)])
    spans = split_evenly(np.diff(work[firsts]) + 1)
    # Row 0: frequent pairs, row 1: the others that occur more than once. Slot 0 is shared.
    sizes = np.zeros((2, words), dtype=np.int64)
    run_parallel(_count_pairs, [(*span, firsts, rows, layout, targets, sizes) for span in spans], threads)
    ends = 1 + np.cumsum(sizes)
    numbers = ends.reshape(sizes.shape) - sizes
    run_parallel(
        _number_pairs, [(*span, firsts, rows, places, numbers, layout, targets) for span in spans], threads
    )
    return layout, int(ends[-1]) if words else 1


@njit(nogil=True, cache=True)
def _occurrences(tokens, starts, lengths, words):
    """Return where each word's occurrences start, and their sentences and positions (a counting sort)."""
    firsts = np.zeros(words + 1, dtype=np.int64)
    for row in range(len(starts)):
        for token in tokens[starts[row] : starts[row] + lengths[row]]:
            firsts[token + 1] += 1
    for word in range(words):
        firsts[word + 1] += firsts[word]
    rows, places = np.empty(firsts[words], dtype=np.int32), np.empty(firsts[words], dtype=np.int32)
    free = firsts[:words].copy()
    for row in range(len(starts)):
        for place in range(lengths[row]):
            token = tokens[starts[row] + place]
            rows[free[token]], places[free[token]] = row, place
            free[token] += 1
    return firsts, rows, places


@njit(nogil=True, cache=True)
def _count_pairs(first, last, firsts, rows, layout, targets, sizes):
    """Count the target words that each source word co-occurs with often, and those with more than once."""
    tokens, starts, lengths = layout.target, layout.target_starts, layout.target_lengths
    met = np.zeros(targets, dtype=np.int32)
    for word in range(first, last):
        often, more = 0, 0
        for at in range(firsts[word], firsts[word + 1]):
            row = rows[at]
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                met[token] += 1
                # Count each pair once, when its second (or `FREQUENT_PAIR`-th) occurrence is seen.
                more += met[token] == 2
                often += met[token] == FREQUENT_PAIR
        sizes[0, word], sizes[1, word] = often, more - often
        for at in range(firsts[word], firsts[word + 1]):
            row = rows[at]
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                met[token] = 0


@njit(nogil=True, cache=True)
def _number_pairs(first, last, firsts, rows, places, numbers, layout, targets):
    """Fill the slots of the cells of source words `first` to `last`."""
    tokens, starts, lengths = layout.target, layout.target_starts, layout.target_lengths
    met, number = np.zeros(targets, dtype=np.int32), np.zeros(targets, dtype=np.uint32)
    for word in range(first, last):
        often, more = numbers[0, word], numbers[1, word]
        for at in range(firsts[word], firsts[word + 1]):
            row = rows[at]
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                met[token] += 1
        for at in range(firsts[word], firsts[word + 1]):
            row = rows[at]
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                if met[token] >= FREQUENT_PAIR:
                    number[token] = often
                    often += 1
                elif met[token] >= 2:
                    number[token] = more
                    more += 1
                met[token] = 0
        for at in range(firsts[word], firsts[word + 1]):
            row, m = rows[at], layout.source_lengths[rows[at]]
            cell = layout.cells[row] + places[at]
            for j in range(lengths[row]):
                layout.slots[cell + j * m] = number[tokens[starts[row] + j]]
        for at in range(firsts[word], firsts[word + 1]):
            row = rows[at]
            for token in tokens[starts[row] : starts[row] + lengths[row]]:
                number[token] = 0
