"""Whether source and target of validation or test text look swapped.

Text of one language fits the other language's side of the training text badly: most of its words are unknown
there, or are cut into many rare subword tokens. How well a line fits a side is its probability under the
smoothed unigrams of the side; a token that is unknown is as rare as can be. The measure needs no list of
languages, and works with words, subword tokens and joint vocabularies.
"""

import logging

import numpy as np

from regard.data.prepared import Prepared
from regard.data.text import Side
from regard.data.vocabulary import UNK

__all__ = ["looks_swapped", "tell_swapped"]

SAMPLE = 1000
"""How many lines of a text are looked at, at most, evenly spread."""
CLEARLY = 0.9
"""The text is swapped where the other side costs less than this share of its own side's nats, both ways."""
LEAST = 5.0
"""And less by so many nats: a word or two are no evidence."""
ADDED = 0.1
"""Added to the number of times that each token occurs."""

_log = logging.getLogger(__name__)


def tell_swapped(prepared: Prepared) -> None:
    """Warn of validation and test text whose source and target look swapped."""
    for name in prepared:
        if name != "train" and looks_swapped(prepared, name):
            names = " and ".join(corpus["name"] for corpus in prepared.split(name).corpora)
            _log.warning(
                "%s: source and target look swapped: the source text fits the target side of the training "
                "text better, and the target text its source side; check data.%s",
                names,
                name,
            )


def looks_swapped(prepared: Prepared, name: str) -> bool:
    """Whether both sides of a split fit the other side of the training text clearly better than their own.

    Args:
        prepared: The text.
        name: The split, one whose text is kept: not `train`.
    """
    lines = prepared.split(name).raw()
    counts = prepared.split("train").counts()
    sides = prepared.text.source, prepared.text.target
    for own, other in ((0, 1), (1, 0)):
        chosen = lines[own][:: max(1, len(lines[own]) // SAMPLE)]
        if any(sides[other].problem(line) is not None for line in chosen):
            return False  # such as words where the other side takes actions
        costs = [_nats(chosen, sides[side], counts[side]) for side in (own, other)]
        if costs[1] > min(CLEARLY * costs[0], costs[0] - LEAST):
            return False
    return True


def _nats(lines: list[str], side: Side, counts: np.ndarray) -> float:
    """Minus the log-probability of lines under the smoothed unigrams of a side."""
    known = counts + ADDED
    known[UNK] = ADDED
    ids = np.array([i for line in lines for i in side.vocabulary.ids(side.tokenizer.encode(line))], dtype=int)
    return float((np.log(known.sum()) - np.log(known[ids])).sum())
