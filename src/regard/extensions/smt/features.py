"""The features of the log-linear model, Och & Ney (2002), and the arrays that they are computed from.

The score of a translation is the weighted sum of its features. Each feature is a sum over phrase pairs.
"""

from typing import NamedTuple

import numpy as np

from regard.extensions.smt.extraction import ORIENTATIONS
from regard.extensions.smt.language_model import LanguageModelArrays
from regard.extensions.smt.phrase_table import SCORES
from regard.kernels.compilation import njit

__all__ = [
    "INITIAL_WEIGHTS",
    "NUM_FEATURES",
    "UNKNOWN_WEIGHT",
    "PhraseTableArrays",
    "ScoringArrays",
    "feature_names",
    "orientation_score",
    "tuned_features",
]

LN10 = np.log(10.0)

LANGUAGE, WORDS, PHRASES, COPIES, DISTORTION, TABLE, BACKWARD, FORWARD = 0, 1, 2, 3, 4, 5, 9, 12
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
    return np.array([feature for feature in range(last) if feature != COPIES])


class PhraseTableArrays(NamedTuple):
    """The arrays of a phrase table, for compiled functions; see `PhraseTable` and `Trie`."""

    first: np.ndarray
    words: np.ndarray
    entries: np.ndarray
    targets: np.ndarray
    scores: np.ndarray
    reordering: np.ndarray
    forward_classes: np.ndarray
    target_words: np.ndarray
    target_offsets: np.ndarray


class ScoringArrays(NamedTuple):
    """The tables and weights that score a translation, for compiled functions.

    Attributes:
        phrases: The phrase table.
        language_model: The language model.
        start_state: The state of the language model at the start of a sentence.
        language_ids: int64 [target words], the id of each target word in the language model.
        weights: float64 [NUM_FEATURES], the feature weights.
        lexicalized: Whether orientations are scored.
    """

    phrases: PhraseTableArrays
    language_model: LanguageModelArrays
    start_state: int
    language_ids: np.ndarray
    weights: np.ndarray
    lexicalized: bool


@njit(nogil=True, cache=True)
def orientation_score(phrases, entry, column):
    """Return the log-probability of an orientation, which is uniform for a copied word (a negative entry)."""
    return phrases.reordering[entry, column] if entry >= 0 else np.log(1 / 3)
