"""A made-up check with known probabilities, for tests of the pages."""

import numpy as np

from regard.extensions.check.base import SentenceError
from regard.extensions.check.result import CoverageCheck
from regard.extensions.check.sentences import CheckedSentence
from regard.text.words import split_line

TEXTS = [
    ("ein roter Hund läuft .", "a dog runs ."),
    ("</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>"),
    ("👩‍👩‍👧 schläft fest", "she sleeps sleeps"),
    ("das Haus", "the house of the mayor"),
]


def made_check(texts=TEXTS, detector: str = "<b>made</b>") -> CoverageCheck:
    """Return a check in which the second word is omitted and the third one added, and others improbable.

    Line N has the omission probability 0.9 - 0.2 (N - 1), and the last one is unrelated to its source.
    """
    sentences = []
    for number, (source, target) in enumerate(texts, 1):
        omission = round(0.9 - 0.2 * (number - 1), 1)
        omitted, added, repeated = (np.full(len(split_line(text)), 0.01) for text in (source, target, target))
        omitted[1:2], added[2:3] = omission, 0.55
        probabilities: dict[SentenceError, float] = {"omission": omission, "addition": 0.3, "repetition": 0.0}
        probabilities["unrelated"] = 0.97 if number == len(texts) else 0.0
        sentences.append(CheckedSentence(number, source, target, probabilities, omitted, added, repeated))
    return CoverageCheck(detector, tuple(sentences))
