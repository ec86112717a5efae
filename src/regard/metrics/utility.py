"""Utilities between translations for minimum Bayes risk decoding, and BLEU of prefixes as a reward.

BLEU and chrF are sacreBLEU's sentence-level scores (`sentence_bleu`, `sentence_chrf`), at most 100.

n texts have n^2 utilities. Their n-grams are counted once, and the matches of all pairs are computed by
matrix multiplication: the minimum of two counts a and b is the number of t = 1, 2... with a >= t and b >= t.

The reward of each token is based on the BLEU of every prefix of a translation:

    R(y'_1..t) = BP exp(1/4 sum_{n <= 4} log((matches_n + 1) / (count_n + 1))) |y|,
    BP = exp(1 - |y| / t) for t < |y|, else 1;   R of an empty prefix = 0

as in Indurthi et al. (2019), Section 4, after Bahdanau et al. (2017): n-gram counts start from 1, and the
score is multiplied by the length of the reference y. Matches are clipped to the reference's counts. An n-gram
with an unknown token never matches. End symbols are removed from both sides.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from regard.metrics.translation import split_words

__all__ = ["Utility", "prefix_bleu", "utilities"]

Utility = Literal["bleu", "chrf"]

_ORDERS = 4  # maximum n-gram order of words in BLEU
_CHARACTERS = 6  # maximum n-gram order of characters in chrF
_RECALL = 4  # beta^2, the weight of recall in chrF2


def utilities(name: Utility, texts: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """Compute the utility of every text (row) with every text as the reference (column).

    Words are those of sacreBLEU's `13a` tokenizer.
    """
    # Samples from a model contain many duplicates, and the cost is quadratic in the number of texts.
    distinct = list(dict.fromkeys(texts))
    if name == "chrf":
        utility = _chrf(["".join(text.split()) for text in distinct])
    else:
        utility = _bleu(split_words(distinct))
    # Copy the utilities of distinct texts to all of their duplicates.
    known = {text: row for row, text in enumerate(distinct)}
    rows = [known[text] for text in texts]
    return utility[np.ix_(rows, rows)]


def _bleu(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "n n"]:
    """Compute BLEU with sacreBLEU's `exp` smoothing: the k-th order without a match has 1 / 2^k matches."""
    lengths = np.array([len(words) for words in sentences], dtype=np.float64)
    logs, smooth = np.zeros((2, len(sentences), len(sentences)))
    orders = np.zeros((len(sentences), 1))  # number of orders for which the text has n-grams
    any_match = np.zeros_like(logs, dtype=bool)
    for n in range(1, _ORDERS + 1):
        counts = _count_ngrams(sentences, n)
        matches, totals = _clipped_matches(counts), counts.sum(axis=1, keepdims=True, dtype=np.float64)
        # As in sacreBLEU, each order without a match halves the smoothed number of matches.
        any_match |= matches > 0
        smooth += matches == 0
        precisions = np.where(matches > 0, matches, 0.5**smooth) / np.maximum(totals, 1)
        logs += np.where(totals > 0, np.log(precisions), 0.0)
        orders += totals > 0
    # Row i is the text and column j its reference: the penalty is 1 - r / c if the text is shorter.
    brevity = np.minimum(0.0, 1 - lengths / np.maximum(lengths, 1)[:, np.newaxis])
    return np.where(any_match, 100 * np.exp(logs / np.maximum(orders, 1) + brevity), 0.0)


def _chrf(sentences: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """Compute chrF from the mean precision and recall of the orders for which both sentences have n-grams."""
    precision, recall, orders = np.zeros((3, len(sentences), len(sentences)))
    for n in range(1, _CHARACTERS + 1):
        counts = _count_ngrams(sentences, n)
        matches, totals = _clipped_matches(counts), counts.sum(axis=1, dtype=np.float64)
        both = (totals[:, np.newaxis] > 0) & (totals > 0)
        precision += np.where(both, matches / np.maximum(totals, 1)[:, np.newaxis], 0.0)
        recall += np.where(both, matches / np.maximum(totals, 1), 0.0)
        # As in sacreBLEU, orders without n-grams in a short sentence do not lower the mean.
        orders += both
    precision, recall = (part / np.maximum(orders, 1) for part in (precision, recall))
    below = _RECALL * precision + recall
    return 100 * (1 + _RECALL) * precision * recall / np.where(below > 0, below, 1.0)


def _count_ngrams(sentences: Sequence[Sequence[str]], n: int) -> Float[np.ndarray, "n g"]:
    """Return the count of each distinct n-gram in each sentence."""
    known: dict[tuple[str, ...], int] = {}
    places = [
        [known.setdefault(ngram, len(known)) for ngram in zip(*(words[i:] for i in range(n)), strict=False)]
        for words in sentences
    ]
    counts = np.zeros((len(sentences), len(known)), dtype=np.float32)
    for row, ngrams in zip(counts, places, strict=True):
        np.add.at(row, ngrams, 1)
    return counts


def _clipped_matches(counts: Float[np.ndarray, "n g"]) -> Float[np.ndarray, "n n"]:
    """Return the sum of the minimum counts for each pair of rows."""
    matches = np.zeros((len(counts), len(counts)))
    maximum = counts.max(axis=0, initial=0)
    for times in range(1, int(maximum.max(initial=0)) + 1):
        # min(a, b) counts the thresholds that both a and b reach, so products of 0/1 matrices suffice.
        # The counts are small integers, which float32 represents exactly.
        ones = (counts[:, maximum >= times] >= times).astype(np.float32)
        matches += ones @ ones.T
    return matches


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
    # Numba is imported only when rewards are computed, because search needs the utilities alone.
    from regard.kernels.compilation import fill_prefix_bleu

    rewards = np.zeros(produced.shape)
    fill_prefix_bleu(rewards, produced, produced_lengths, reference, reference_lengths, eos_id, unk_id)
    return rewards
