"""BLEU of every prefix of a translation, used as the reward of each token.

    R(y'_1..t) = BP exp(1/4 sum_{n <= 4} log((matches_n + 1) / (count_n + 1))) |y|,
    BP = exp(1 - |y| / t) for t < |y|, else 1;   R of an empty prefix = 0

as in Indurthi et al. (2019), Section 4, after Bahdanau et al. (2017): n-gram counts start from 1, and the
score is multiplied by the length of the reference y. Matches are clipped to the reference's counts. An n-gram
with an unknown token never matches. End symbols are removed from both sides.
"""

import numpy as np

from regard.kernels.prefix_bleu import fill_prefix_bleu
from regard.types import Float, Int

__all__ = ["prefix_bleu"]


def prefix_bleu(
    produced: Int[np.ndarray, "B T"],
    produced_lengths: Int[np.ndarray, "B"],
    reference: Int[np.ndarray, "B N"],
    reference_lengths: Int[np.ndarray, "B"],
    eos_id: int,
    unk_id: int,
) -> Float[np.ndarray, "B T"]:
    """Compute R after each of the first t tokens, t = 1, 2..., stored at the position of token t.

    Args:
        produced: Token ids of translations.
        produced_lengths: Number of tokens in each row, without padding.
        reference: Token ids of the references, including end symbols.
        reference_lengths: Number of tokens in each reference, without padding.
        eos_id: Id of the end symbol, which is not counted as a token.
        unk_id: Id of the unknown token.

    Returns:
        [B, T] in float64; 0 at padding.
    """
    rewards = np.zeros(produced.shape)
    fill_prefix_bleu(rewards, produced, produced_lengths, reference, reference_lengths, eos_id, unk_id)
    return rewards
