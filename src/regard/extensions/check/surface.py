"""Surface features: the length of a translation and its repeated n-grams, which need no word alignment."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from regard.extensions.check.base import WordPair
from regard.text.words import is_alphabetic, is_reduplication, word_share

MIN_DEVIATION = 0.05
"""Minimum standard deviation of the logarithm of the length."""
MAX_NGRAM = 4
"""Maximum size of a repetition: longer ones count as this number of words."""
MIN_PREFIX = 4
"""Minimum number of characters that two similar words share."""
_MIN_DOUBLES = 3


@dataclass(frozen=True)
class LengthModel:
    """The logarithm of the length of a translation, as a linear function of that of its source.

    Attributes:
        slope: The slope.
        intercept: The intercept.
        deviation: Standard deviation of the residuals.
    """

    slope: float
    intercept: float
    deviation: float

    @classmethod
    def fit(cls, lengths: Int[np.ndarray, "P 2"]) -> Self:
        """Fit the function to the numbers of characters of good translations, by least squares."""
        source, target = np.log1p(lengths).T
        variance = float(source.var())
        covariance = float(((source - source.mean()) * (target - target.mean())).mean())
        slope = covariance / variance if variance > 1e-9 else 1.0
        intercept = float(target.mean() - slope * source.mean())
        return cls(slope, intercept, max(float((target - slope * source - intercept).std()), MIN_DEVIATION))

    def excess(self, lengths: Int[np.ndarray, "P 2"]) -> Float[np.ndarray, "P"]:
        """Return the excess length of each translation over the expected one, in standard deviations."""
        source, target = np.log1p(lengths).T
        return (target - self.slope * source - self.intercept) / self.deviation

    def ratio(self, lengths: Int[np.ndarray, "P 2"]) -> Float[np.ndarray, "P"]:
        """Return the number of characters that each source character is expected to become."""
        return np.exp((self.slope - 1) * np.log1p(lengths[:, 0]) + self.intercept)


def num_characters(pairs: Sequence[WordPair]) -> Int[np.ndarray, "P 2"]:
    """Return the numbers of characters of both sides, which vary less than those of words."""
    return np.array([pair.lengths for pair in pairs], dtype=np.int64).reshape(-1, 2)


def doubled_words(pairs: Iterable[WordPair]) -> frozenset[str]:
    """Return the target words that good translations double at least three times."""
    counts = Counter(a for pair in pairs for a, b in pairwise(pair.folded[1]) if a == b and is_alphabetic(a))
    return frozenset(word for word, count in counts.items() if count >= _MIN_DOUBLES)


def longest_repetitions(words: Sequence[str], doubled: Set[str] = frozenset()) -> list[tuple[float, int]]:
    """Return the longest n-gram around each word that occurs before, without overlap: its size and n.

    The size counts words, up to 4. In scripts without spaces, a character is only a part of a word. N-grams
    of punctuation marks and numbers alone are no repetitions, nor is a word that is doubled as its language
    may double it, see `repeats_previous`.
    """
    shares = [word_share(word) for word in words]
    longest = [(0.0, 0)] * len(words)
    for n in range(1, round(MAX_NGRAM / min(shares, default=1.0)) + 1):
        first: dict[tuple[str, ...], int] = {}
        repeats = False
        for start, ngram in enumerate(zip(*(words[shift:] for shift in range(n)), strict=False)):
            seen = first.setdefault(ngram, start)
            # Overlap is excluded, because "a a a" does not repeat the bigram "a a".
            if seen + n > start:
                continue
            repeats = True
            if any(map(is_alphabetic, ngram)) and (
                seen + n < start or repeats_previous(words, start, n, doubled)
            ):
                size = min(sum(shares[start : start + n]), MAX_NGRAM)
                longest[start : start + n] = [(size, n)] * n
        # A longer n-gram is repeated only if its beginning is.
        if not repeats:
            break
    return longest


def repeats_previous(words: Sequence[str], start: int, n: int, doubled: Set[str] = frozenset()) -> bool:
    """Return whether the n words from `start` on are an erroneous copy of the n words before them.

    Two copies are no error of a word that good translations double (German `die die`), or where a language
    doubles words, see `is_reduplication`; three are one.
    """
    ngram = words[start : start + n]
    if start < n or words[start - n : start] != ngram:
        return False
    copies = [words[place : place + n] for place in range(start - 2 * n, start + 2 * n, n) if place >= 0]
    usual = is_reduplication(ngram) or (n == 1 and ngram[0] in doubled)
    return copies.count(ngram) > 2 or not usual


def prefix_similarity(word: str, others: Iterable[str]) -> float:
    """Return the largest share of a common beginning of a word and others, 0 below four characters."""
    best, start = 0.0, word[:MIN_PREFIX]
    if len(word) < MIN_PREFIX:
        return best
    for other in others:
        if not other.startswith(start):
            continue
        shared = next(
            (i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b),
            min(len(word), len(other)),
        )
        best = max(best, shared / max(len(word), len(other)))
    return best
