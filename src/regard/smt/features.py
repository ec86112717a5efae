"""What a translation is judged by: the features of the log-linear model. Och & Ney (2002).

The score of a translation is the weighted sum of its features, all of them sums over its phrases.
"""

import numpy as np

from regard.smt.extraction import ORIENTATIONS
from regard.smt.phrase_table import SCORES

__all__ = ["FEATURES", "START", "UNKNOWN_WEIGHT", "feature_names", "tuned"]

LANGUAGE, WORDS, PHRASES, UNKNOWN, DISTORTION, TABLE, BACK, AHEAD = 0, 1, 2, 3, 4, 5, 9, 12
"""Where features stand: log p of the language model in nats; minus the number of words, and of phrases; the
number of words copied since they are unknown; minus the source words jumped over; the scores of the phrase
table; log p of the orientations looking back, and looking ahead."""
FEATURES = 15

UNKNOWN_WEIGHT = -10.0
"""A word is copied only where nothing else can be done: its weight is not tuned."""

START = np.array([0.5, -1.0, 0.2, UNKNOWN_WEIGHT, 0.3, 0.2, 0.2, 0.2, 0.2, *[0.3] * 6])
"""The weights before tuning."""


def feature_names() -> tuple[str, ...]:
    """The names of the features."""
    orientations = [f"{kind} {way}" for way in ("back", "ahead") for kind in ORIENTATIONS]
    return ("language model", "words", "phrases", "unknown", "distortion", *SCORES, *orientations)


def tuned(lexicalised: bool) -> np.ndarray:
    """The features whose weights are tuned.

    Args:
        lexicalised: Whether orientations are among them.
    """
    last = FEATURES if lexicalised else BACK
    return np.array([feature for feature in range(last) if feature != UNKNOWN])
