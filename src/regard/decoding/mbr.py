"""Minimum Bayes risk decoding: the translation that is best on average if any of the others may be right.

Kumar & Byrne (2004), over an n-best list; Eikema & Aziz (2020), over samples:

    y* = argmax_y sum_y' w(y') u(y, y'),

y and y' going over the same candidates, itself included, u one of `regard.metrics.utility`. Each sample
weighs the same: one drawn twice counts twice. A hypothesis of an n-best list weighs what it has of the list's
probability; where samples are to weigh that, one drawn twice counts once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from regard.config import config, option
from regard.decoding.config import SearchConfig
from regard.errors import UsageError
from regard.metrics.utility import utilities
from regard.types import Float

__all__ = ["MbrConfig", "expected_utilities", "rank"]

_SAMPLES = 32
_EQUAL = 9  # digits to which expected utilities are compared: sums of the same numbers are equal in any order


@config
class MbrConfig:
    """Minimum Bayes risk decoding."""

    utility: Literal["bleu", "chrf", "rep"] = option(
        default="chrf", help="BLEU and chrF of a sentence, or 100 less the repetitions per 100 words (rep)."
    )
    candidates: int = option(
        default=0,
        help="How many translations are compared; 0: all of the beam, or 32 samples.",
        ge=0,
        le=1_000,
    )
    weights: Literal["auto", "uniform", "probability"] = option(
        default="auto",
        help="What a candidate weighs as a reference: the same as the others, or its share of their "
        "probability; auto: the same for samples, its share for n-best lists.",
    )

    def search(self, search: SearchConfig, sampled: bool) -> SearchConfig:
        """How to find the candidates.

        Args:
            search: How to search, where it is only one translation that is wanted.
            sampled: Whether they are drawn.

        Raises:
            UsageError: if there are to be more of them than the beam holds, or one, which is nothing to
                choose from.
        """
        count = max(self.candidates or (_SAMPLES if sampled else search.beam), search.nbest)
        if count < 2:
            raise UsageError("minimum Bayes risk compares translations: one has nothing to be compared with")
        if sampled:
            return replace(search, nbest=count, beam=max(search.beam, count))
        if count > search.beam:
            raise UsageError(f"{count} candidates cannot come from a beam of {search.beam}")
        return replace(search, nbest=count)

    def weigh(self, log_probs: Sequence[float], sampled: bool) -> Float[np.ndarray, "n"]:
        """What each candidate weighs as a reference; the sum is 1.

        Args:
            log_probs: The log-probability of each.
            sampled: Whether they were drawn.
        """
        logs = np.array(log_probs, dtype=np.float64)
        if self.weights == "uniform" or (self.weights == "auto" and sampled):
            return np.full(len(logs), 1 / len(logs))
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()


def expected_utilities(
    texts: Sequence[str], weights: Float[np.ndarray, "n"], utility: Literal["bleu", "chrf", "rep"]
) -> Float[np.ndarray, "n"]:
    """The mean utility of each candidate against all.

    Args:
        texts: The candidates.
        weights: What each weighs as a reference; their sum is 1.
        utility: Which utility.
    """
    return utilities(utility, texts) @ weights


def rank(
    texts: Sequence[str], log_probs: Sequence[float], config: MbrConfig, sampled: bool
) -> list[tuple[int, float]]:
    """The candidates with different texts and their expected utility, best first; of equal ones the first.

    Args:
        texts: The candidates, at least one.
        log_probs: The log-probability of each; of one that was drawn several times, each time its part.
        config: Utility and weights.
        sampled: Whether they were drawn.
    """
    expected = expected_utilities(texts, config.weigh(log_probs, sampled), config.utility)
    order: list[int] = np.argsort(-expected.round(_EQUAL), kind="stable").tolist()
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    return [(place, float(expected[place])) for place in order if first[texts[place]] == place]
