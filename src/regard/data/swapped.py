"""Detection of validation or test sets whose source and target are swapped.

Text in one language fits the training text of the other language badly: most of its words are unknown there,
or are split into many rare subword tokens. The fit is measured by the probability of the text under a
smoothed unigram model of each side; unknown tokens get the lowest probability. This needs no list
of languages, and it works with words, subword tokens and shared vocabularies.
"""

import logging

import numpy as np

from regard.data.prepared import Prepared
from regard.data.text import Side
from regard.data.vocabulary import UNK

__all__ = ["looks_swapped", "tell_swapped"]

SAMPLE = 1000
"""Maximum number of lines that are examined, evenly spaced."""
CLEARLY = 0.9
"""Both sides must have a cost in nats under the other side of less than this fraction of their own."""
LEAST = 5.0
"""Minimum difference of the costs in nats, since one or two words are not sufficient evidence."""
ADDED = 0.1
"""Constant of additive smoothing of the unigram counts."""

_log = logging.getLogger(__name__)


def tell_swapped(prepared: Prepared) -> None:
    """Log a warning for validation and test sets whose source and target seem to be swapped."""
    for name in prepared:
        if name != "train" and looks_swapped(prepared, name):
            names = " and ".join(corpus["name"] for corpus in prepared.split(name).corpora)
            _log.warning(
                "%s: source and target seem to be swapped: the source text fits the target side of the "
                "training text better, and the target text the source side; check data.%s",
                names,
                name,
            )


def looks_swapped(prepared: Prepared, name: str) -> bool:
    """Return whether both sides of a split fit the other side of the training text clearly better.

    Args:
        prepared: The preprocessed data.
        name: Name of the split; not `train`, whose text is not stored.
    """
    lines = prepared.split(name).raw()
    counts = prepared.split("train").counts()
    sides = prepared.text.source, prepared.text.target
    for own, other in ((0, 1), (1, 0)):
        chosen = lines[own][:: max(1, len(lines[own]) // SAMPLE)]
        if any(sides[other].problem(line) is not None for line in chosen):
            return False  # the text does not have the format of the other tokenizer, such as inflection
        costs = [_nats(chosen, sides[side], counts[side]) for side in (own, other)]
        # Both criteria must hold on both sides: a relative and an absolute difference.
        if costs[1] > min(CLEARLY * costs[0], costs[0] - LEAST):
            return False
    return True


def _nats(lines: list[str], side: Side, counts: np.ndarray) -> float:
    """Return the negative log-probability of lines under the smoothed unigram model of a side."""
    known = counts + ADDED
    known[UNK] = ADDED
    ids = np.array([i for line in lines for i in side.vocabulary.ids(side.tokenizer.encode(line))], dtype=int)
    return float((np.log(known.sum()) - np.log(known[ids])).sum())
