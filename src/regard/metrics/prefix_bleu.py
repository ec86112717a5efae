"""BLEU of every prefix of a translation: the reward of each of its words.

    R(y'_1..t) = BP exp(1/4 sum_{n <= 4} log((matches_n + 1) / (count_n + 1))) |y|,
    BP = exp(1 - |y| / t) for t < |y|, else 1;   R of no word = 0

as Indurthi et al. (2019), Section 4, after Bahdanau et al. (2017): counts of n-grams start from 1, and the
score is as large as its reference y. Matches are clipped to the reference's counts; an n-gram with an unknown
word never matches; end symbols are left out of both sides.
"""

import numpy as np

from regard.kernels.prefix_bleu import fill_prefix_bleu
from regard.types import Float, Int

__all__ = ["prefix_bleu"]


def prefix_bleu(
    produced: Int[np.ndarray, "B T"],
    steps: Int[np.ndarray, "B"],
    reference: Int[np.ndarray, "B N"],
    lengths: Int[np.ndarray, "B"],
    end: int,
    unknown: int,
) -> Float[np.ndarray, "B T"]:
    """R after each of the first t tokens, t = 1, 2..., in the place of token t.

    Args:
        produced: Tokens of translations.
        steps: How many of each row are real.
        reference: Tokens of the references, end symbols included.
        lengths: How many of each row are real.
        end: The end symbol: it is no word.
        unknown: The unknown word.

    Returns:
        float64; zero beyond the real tokens.
    """
    found = np.zeros(produced.shape)
    fill_prefix_bleu(found, produced, steps, reference, lengths, end, unknown)
    return found
