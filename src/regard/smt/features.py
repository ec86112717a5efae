"""The features of the log-linear model (Och & Ney, 2002).

The score of a translation is the weighted sum of its features. Each feature is a sum over phrase pairs.
"""

import numpy as np

from regard.smt.extraction import ORIENTATIONS
from regard.smt.phrase_table import SCORES

__all__ = ["INITIAL_WEIGHTS", "NUM_FEATURES", "UNKNOWN_WEIGHT", "feature_names", "tuned_features"]

LANGUAGE, WORDS, PHRASES, UNKNOWN, DISTORTION, TABLE, BACKWARD, FORWARD = 0, 1, 2, 3, 4, 5, 9, 12
"""The indices of the features: log p of the language model in nats; minus the number of words; minus the
number of phrases; the number of copied unknown words; minus the distance of reordering jumps in source words;
the four scores of the phrase table; log p of the backward orientations; log p of the forward orientations."""
NUM_FEATURES = 15

UNKNOWN_WEIGHT = -10.0
"""The weight of a copied unknown word. It is not tuned: a word is copied only if there is no alternative."""

INITIAL_WEIGHTS = np.array([0.5, -1.0, 0.2, UNKNOWN_WEIGHT, 0.3, 0.2, 0.2, 0.2, 0.2, *[0.3] * 6])
"""The weights before tuning."""


def feature_names() -> tuple[str, ...]:
    """Return the names of the features."""
    orientations = [f"{kind} {way}" for way in ("back", "ahead") for kind in ORIENTATIONS]
    return ("language model", "words", "phrases", "unknown", "distortion", *SCORES, *orientations)


def tuned_features(lexicalized: bool) -> np.ndarray:
    """Return the indices of the features whose weights are tuned.

    Args:
        lexicalized: Whether the orientations are included.
    """
    last = NUM_FEATURES if lexicalized else BACKWARD
    return np.array([feature for feature in range(last) if feature != UNKNOWN])
