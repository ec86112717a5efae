"""How good each of several translations is if another of them is right, for minimum Bayes risk decoding.

BLEU and chrF are those of sacreBLEU for one sentence (`sentence_bleu`, `sentence_chrf`); REP turned round is

    100 - 100 sigma(t, r) / max(1, |r|),

sigma being what t says too often (`regard.metrics.coverage`) and |r| the words of r. Of all 100 is best; the
last has no least.

n texts have n^2 utilities. Their n-grams are counted once, and the matches of all pairs are products of
matrices: the smaller of two counts a and b is the number of t = 1, 2... with a >= t and b >= t.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from regard.metrics.translation import split_words

__all__ = ["Utility", "utilities"]

Utility = Literal["bleu", "chrf", "rep"]

_ORDERS = 4  # of words, in BLEU
_CHARACTERS = 6  # the orders of chrF
_RECALL = 4  # beta^2: what recall weighs in chrF2


def utilities(name: Utility, texts: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """The utility of every text against every text.

    Args:
        name: Which utility. Words are those of sacreBLEU's `13a`.
        texts: Sentences; equal ones cost nothing.

    Returns:
        In row i and column j the utility of text i if text j is the reference.
    """
    distinct = list(dict.fromkeys(texts))
    if name == "chrf":
        found = _chrf(["".join(text.split()) for text in distinct])
    else:
        words = split_words(distinct)
        found = _bleu(words) if name == "bleu" else _rep(words)
    known = {text: row for row, text in enumerate(distinct)}
    rows = [known[text] for text in texts]
    return found[np.ix_(rows, rows)]


def _bleu(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "n n"]:
    """Smoothed as by sacreBLEU's `exp`: the k-th order without a match counts as 1 / 2^k matches."""
    lengths = np.array([len(words) for words in sentences], dtype=np.float64)
    logs, smooth = np.zeros((2, len(sentences), len(sentences)))
    orders = np.zeros((len(sentences), 1))  # as many as the text has n-grams of
    any_match = np.zeros_like(logs, dtype=bool)
    for n in range(1, _ORDERS + 1):
        counts = _counts([_ngrams(words, n) for words in sentences])
        matches, said = _shared(counts, counts), counts.sum(axis=1, keepdims=True, dtype=np.float64)
        any_match |= matches > 0
        smooth += matches == 0
        precisions = np.where(matches > 0, matches, 0.5**smooth) / np.maximum(said, 1)
        logs += np.where(said > 0, np.log(precisions), 0.0)
        orders += said > 0
    brevity = np.minimum(0.0, 1 - lengths / np.maximum(lengths, 1)[:, np.newaxis])
    return np.where(any_match, 100 * np.exp(logs / np.maximum(orders, 1) + brevity), 0.0)


def _chrf(sentences: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """Of the mean precision and recall of the orders that both sentences have n-grams of."""
    precision, recall, orders = np.zeros((3, len(sentences), len(sentences)))
    for n in range(1, _CHARACTERS + 1):
        counts = _counts([_ngrams(sentence, n) for sentence in sentences])
        matches, said = _shared(counts, counts), counts.sum(axis=1, dtype=np.float64)
        both = (said[:, np.newaxis] > 0) & (said > 0)
        precision += np.where(both, matches / np.maximum(said, 1)[:, np.newaxis], 0.0)
        recall += np.where(both, matches / np.maximum(said, 1), 0.0)
        orders += both
    precision, recall = (part / np.maximum(orders, 1) for part in (precision, recall))
    below = _RECALL * precision + recall
    return 100 * (1 + _RECALL) * precision * recall / np.where(below > 0, below, 1.0)


def _rep(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "n n"]:
    """One for a pair of words said again, two for a word doubled on the spot, as `repetition` has it."""
    lengths = np.array([len(words) for words in sentences], dtype=np.float64)
    pairs = _counts([_ngrams(words, 2) for words in sentences])
    again = np.where(pairs >= 2, pairs, 0)
    doubled = _counts([[pair for pair in _ngrams(words, 2) if pair[0] == pair[1]] for words in sentences])
    sigma = _excess(again, pairs) + 2 * _excess(doubled, doubled)
    return 100 - 100 * sigma / np.maximum(lengths, 1)


def _ngrams(items: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(items[start:] for start in range(n)), strict=False))


def _counts(sentences: Sequence[Iterable[Hashable]]) -> Float[np.ndarray, "n g"]:
    """How often each sentence has each thing that one of them has."""
    known: dict[Hashable, int] = {}
    places = [[known.setdefault(one, len(known)) for one in sentence] for sentence in sentences]
    counts = np.zeros((len(sentences), len(known)), dtype=np.float32)
    for row, own in zip(counts, places, strict=True):
        np.add.at(row, own, 1)
    return counts


def _shared(first: Float[np.ndarray, "n g"], second: Float[np.ndarray, "n g"]) -> Float[np.ndarray, "n n"]:
    """The sum of the smaller counts, for each row of the first and of the second."""
    found = np.zeros((len(first), len(second)))
    most = np.minimum(first.max(axis=0, initial=0), second.max(axis=0, initial=0))
    for times in range(1, int(most.max(initial=0)) + 1):
        often = most >= times
        # Small whole numbers: float32 holds them exactly.
        ones, others = ((counts[:, often] >= times).astype(np.float32) for counts in (first, second))
        found += ones @ others.T
    return found


def _excess(said: Float[np.ndarray, "n g"], wanted: Float[np.ndarray, "n g"]) -> Float[np.ndarray, "n n"]:
    """The sum of what counts are above others."""
    return said.sum(axis=1, keepdims=True, dtype=np.float64) - _shared(said, wanted)
