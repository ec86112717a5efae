"""Detectors that need no training: the length of the translation, and repeated words.

Their scores are probabilities by a fixed rule, not calibrated ones; the combined detector calibrates them.
"""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.extensions.check.base import Detector, PairScores, WordPair, register_detector
from regard.extensions.check.features import LengthModel, longest_repetitions, repeats_previous

_SHIFT = 2.0  # standard deviations by which an error is assumed to change the length
_PRIOR = -2.2  # log-odds of an error in one of ten sentences
_MIN_PAIRS = 20
_DEVIATION = 0.35  # of the logarithm of the ratio of lengths, for any languages
_SCRIPTS = ((re.compile("[\u3400-\u9fff\uf900-\ufaff]"), 3.0), (re.compile("[\uac00-\ud7af]"), 2.0),
            (re.compile("[\u3040-\u30ff]"), 1.5))  # fmt: skip
"""Letters of an alphabet that a character of some scripts stands for: Han, Hangul, Kana."""


@register_detector("length")
class LengthDetector(Detector):
    """The length of the translation, compared with the length that is usual for such a source.

    The lengths of the text itself are the usual ones, and for fewer than 20 pairs, equal lengths, where a
    character of Chinese or Japanese counts for several letters. The score is the probability of an error by
    Bayes' rule, if lengths are normally distributed, an omission or addition changes the length by two
    standard deviations, and one sentence in ten has one.
    """

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        if not pairs:
            return []
        if len(pairs) >= _MIN_PAIRS:
            excess = LengthModel.fit(pairs).excess(pairs)
        else:
            # The number of letters of an alphabet that the words correspond to, plus 1.
            sizes = np.ones((len(pairs), 2))
            for row, pair in enumerate(pairs):
                for column, side in enumerate((pair.source, pair.target)):
                    text = "".join(side)
                    wide = sum((size - 1) * len(script.findall(text)) for script, size in _SCRIPTS)
                    sizes[row, column] += len(text) + wide
            logarithms = np.log(sizes)
            excess = (logarithms[:, 1] - logarithms[:, 0]) / _DEVIATION
        # The logarithm of the ratio of two normal densities, whose means are _SHIFT apart.
        shorter, longer = (
            1 / (1 + np.exp(-(_PRIOR + _SHIFT * sign * excess - _SHIFT**2 / 2))) for sign in (-1, 1)
        )
        return [
            PairScores({"omission": float(omission), "addition": float(addition)})
            for omission, addition in zip(shorter, longer, strict=True)
        ]


_SIZE_SCORES = (0.0, 0.05, 0.3, 0.6, 0.85)
"""Score of a word by the size of the longest n-gram around it that occurs before."""
_ADJACENT = 0.9
_SOURCE_REPEATS = 0.3


@register_detector("repetition")
class RepetitionDetector(Detector):
    """N-grams that the translation repeats more often than the source does.

    Adjacent copies and longer n-grams have higher scores.
    """

    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""
        words = map(_repeated_words, pairs)
        return [
            PairScores({"repetition": float(scores.max(initial=0.0))}, {"repetition": scores})
            for scores in words
        ]


def _repeated_words(pair: WordPair) -> Float[np.ndarray, "T"]:
    """Return the scores of the target words of a pair."""
    source, target = pair.folded
    if len(set(target)) == len(target):
        return np.zeros(len(target))
    repetitions = longest_repetitions(target)
    sizes = np.array([size for size, _ in repetitions])
    scores = np.array([_SIZE_SCORES[int(size)] for size in sizes])
    for t, (_, longest) in enumerate(repetitions):
        if any(repeats_previous(target, t, n) for n in range(1, longest + 1)):
            scores[t : t + longest] = _ADJACENT
    # A source with a repetition of this size may need one in the translation.
    largest = max((size for size, _ in longest_repetitions(source)), default=0)
    return np.where(sizes <= largest, scores * _SOURCE_REPEATS, scores)
