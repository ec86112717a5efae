"""Text for the aligner's tests."""

from itertools import pairwise

import numpy as np


def random_pairs(seed, number=40, words=9, longest=7):
    """Sentence pairs of random words."""
    random = np.random.default_rng(seed)

    def sentence(letter):
        return [f"{letter}{word}" for word in random.integers(0, words, random.integers(1, longest + 1))]

    return [(sentence("s"), sentence("t")) for _ in range(number)]


def by_sentence(values, text):
    """An array of one value a token as a list of arrays, one a sentence."""
    return [values[first:last] for first, last in pairwise(text.offsets)]
