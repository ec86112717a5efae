"""Minimum Bayes risk decoding: choose the candidate with the highest expected utility.

Kumar & Byrne (2004) apply it to n-best lists, Eikema & Aziz (2020) to samples:

    y* = argmax_y sum_y' w(y') u(y, y'),

where y and y' run over the same candidates, including y' = y, and u is a function of
`regard.metrics.utility`. By default, samples have equal weights, and a translation that is sampled twice
counts twice. The weight of a hypothesis in an n-best list is its share of the list's probability. If samples
are weighted by probability, repeated samples count once.

The utility `coverage` needs no references: it is that of a detector of coverage errors, which compares each
candidate with the source (`regard.generation.coverage`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from regard.config import configclass, option
from regard.errors import UsageError
from regard.generation.config import GenerationConfig
from regard.generation.coverage import CoverageJudge
from regard.metrics.utility import utilities
from regard.types import Float

__all__ = ["MBR", "rank_by_coverage", "rank_candidates"]

# Decimals for comparing expected utilities, so that ties do not depend on the order of summation.
_UTILITY_DECIMALS = 9
_DEFAULT_NUM_SAMPLES = 32


@configclass
class MBR:
    """Settings of minimum Bayes risk decoding."""

    utility: Literal["bleu", "chrf", "coverage"] = option(
        default="chrf",
        help="Utility of a candidate given a reference: sentence-level BLEU or chrF. coverage: 100 minus the "
        "expected number of omitted, added and repeated words per 100 source words, by a coverage model.",
    )
    num_candidates: int = option(
        default=0,
        help="Number of candidates. 0 means the beam size, or 32 samples.",
        ge=0,
        le=1_000,
    )
    weighting: Literal["auto", "uniform", "probability"] = option(
        default="auto",
        help="Weights of the candidates as references: equal (uniform) or proportional to their probability. "
        "auto: uniform for samples, probability for n-best lists.",
    )

    def candidate_search(self, search: GenerationConfig, sampled: bool) -> GenerationConfig:
        """Return the search settings that generate the candidates, sampled or not.

        Raises:
            UsageError: if there are fewer than two candidates, or more than the beam size.
        """
        count = max(
            self.num_candidates or (_DEFAULT_NUM_SAMPLES if sampled else search.beam_size), search.num_return
        )
        if count < 2:
            raise UsageError(
                "minimum Bayes risk decoding needs at least 2 candidates: raise the number of candidates or "
                "the beam size"
            )
        if sampled:
            return replace(search, num_return=count, beam_size=max(search.beam_size, count))
        if count > search.beam_size:
            raise UsageError(f"{count} candidates require a beam of at least {count}, not {search.beam_size}")
        return replace(search, num_return=count)

    def reference_weights(self, log_probs: Sequence[float], sampled: bool) -> Float[np.ndarray, "n"]:
        """Return the weight of each candidate as a reference, which sum to 1, from its log-probability."""
        logs = np.array(log_probs, dtype=np.float64)
        if self.weighting == "uniform" or (self.weighting == "auto" and sampled):
            return np.full(len(logs), 1 / len(logs))
        # Subtract the maximum to avoid underflow.
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()


def rank_candidates(
    texts: Sequence[str], log_probs: Sequence[float], config: MBR, sampled: bool
) -> list[tuple[int, float]]:
    """Return the distinct candidates (index, expected utility), best first. Ties keep the input order.

    The probability of a candidate that was sampled several times is divided among its copies.
    """
    assert config.utility != "coverage"
    weights = config.reference_weights(log_probs, sampled)
    return _ranked(texts, utilities(config.utility, texts) @ weights)


def rank_by_coverage(source: str, texts: Sequence[str], judge: CoverageJudge) -> list[tuple[int, float]]:
    """Return the distinct candidates (index, coverage utility), best first. Ties keep the input order."""
    # Samples contain many duplicates, and each is judged once.
    distinct = list(dict.fromkeys(texts))
    judged = judge.judge([source] * len(distinct), distinct)
    # 100 minus the expected number of coverage errors per 100 source words; 100 is the best value.
    utility = {
        text: 100 - 100 * judgment.errors / max(1, len(judgment.source_words))
        for text, judgment in zip(distinct, judged, strict=True)
    }
    return _ranked(texts, np.array([utility[text] for text in texts]))


def _ranked(texts: Sequence[str], expected: Float[np.ndarray, "n"]) -> list[tuple[int, float]]:
    order: list[int] = np.argsort(-expected.round(_UTILITY_DECIMALS), kind="stable").tolist()
    # Of candidates with equal text, only the first is returned.
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    return [(place, float(expected[place])) for place in order if first[texts[place]] == place]
