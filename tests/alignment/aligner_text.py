"""Random sentence pairs and a helper for the aligner tests."""

from itertools import pairwise

import numpy as np


def random_pairs(seed, number=40, words=9, longest=7):
    """Return `number` sentence pairs of random words, from 1 to `longest` words per side."""
    random = np.random.default_rng(seed)

    def sentence(letter):
        return [f"{letter}{word}" for word in random.integers(0, words, random.integers(1, longest + 1))]

    return [(sentence("s"), sentence("t")) for _ in range(number)]


def by_sentence(values, text):
    """Split an array with one value per token into a list with one array per sentence."""
    return [values[first:last] for first, last in pairwise(text.offsets)]
