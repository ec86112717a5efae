"""Random sentence pairs and a helper for the aligner tests."""

from itertools import pairwise

import numpy as np

from regard.alignment.em_kernels import MIN_PROBABILITY


def random_pairs(seed, number=40, words=9, longest=7):
    """Return `number` sentence pairs of random words, from 1 to `longest` words per side."""
    random = np.random.default_rng(seed)

    def sentence(letter):
        return [f"{letter}{word}" for word in random.integers(0, words, random.integers(1, longest + 1))]

    return [(sentence("s"), sentence("t")) for _ in range(number)]


def by_sentence(values, text):
    """Split an array with one value per token into a list with one array per sentence."""
    return [values[first:last] for first, last in pairwise(text.offsets)]


def table_probability(table, source, target):
    """Return the probability of a translation; the null word is source word number `table.words`."""
    row = slice(table.starts[source], table.starts[source + 1])
    matches = np.flatnonzero(table.columns[row] == target)
    return max(MIN_PROBABILITY, float(table.values[row][matches[0]])) if len(matches) else MIN_PROBABILITY
