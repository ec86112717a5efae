"""A check for swapped source and target sides of prepared text.

Text in one language fits the training text of the other language badly: most of its words are unknown there,
or are split into many rare subword tokens. The fit is measured by the probability of the text under a
smoothed unigram model of each side; unknown tokens get the lowest probability. This needs no list of
languages, and it works with words, subword tokens and shared vocabularies.
"""

import logging

import numpy as np

from regard.data.dataset import PreparedData
from regard.data.text import TextSide
from regard.text.vocabulary import UNK

__all__ = ["is_swapped", "warn_if_swapped"]

_log = logging.getLogger(__name__)
MAX_LINES = 1000
"""Maximum number of lines that are examined, evenly spaced."""
MAX_COST_RATIO = 0.9
"""Both sides must have a cost in nats under the other side of less than this fraction of their own."""
MIN_COST_DIFFERENCE = 5.0
"""Minimum difference of the costs in nats, since one or two words are not sufficient evidence."""
SMOOTHING = 0.1
"""Constant of additive smoothing of the unigram counts."""


def warn_if_swapped(prepared: PreparedData) -> None:
    """Log a warning for validation and test sets whose source and target seem to be swapped."""
    for name in prepared:
        if name != "train" and is_swapped(prepared, name):
            names = " and ".join(corpus["name"] for corpus in prepared.split(name).corpora)
            _log.warning(
                "%s: source and target seem to be swapped: the source text fits the target side of the "
                "training text better, and the target text the source side; check data.%s",
                names,
                name,
            )


def is_swapped(prepared: PreparedData, name: str) -> bool:
    """Return whether both sides of a split fit the other side of the training text clearly better.

    Args:
        prepared: The preprocessed data.
        name: Name of the split; not `train`, whose text is not stored.
    """
    lines = prepared.split(name).raw_lines()
    counts = prepared.split("train").token_counts()
    sides = prepared.text.source, prepared.text.target
    for side_index, other in ((0, 1), (1, 0)):
        chosen = lines[side_index][:: max(1, len(lines[side_index]) // MAX_LINES)]
        if any(sides[other].format_error(line) is not None for line in chosen):
            return False  # the text does not have the format of the other tokenizer, such as inflection
        costs = [_negative_log_likelihood(chosen, sides[side], counts[side]) for side in (side_index, other)]
        # Both criteria must hold on both sides: a relative and an absolute difference.
        if costs[1] > min(MAX_COST_RATIO * costs[0], costs[0] - MIN_COST_DIFFERENCE):
            return False
    return True


def _negative_log_likelihood(lines: list[str], side: TextSide, counts: np.ndarray) -> float:
    """Return the negative log-probability of lines under the smoothed unigram model of a side."""
    smoothed = counts + SMOOTHING
    # The training text may contain many unknown tokens, which must not make them probable.
    smoothed[UNK] = SMOOTHING
    ids = np.array(
        [i for line in lines for i in side.vocabulary.to_ids(side.tokenizer.encode(line))], dtype=int
    )
    return float((np.log(smoothed.sum()) - np.log(smoothed[ids])).sum())
