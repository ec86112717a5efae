"""The choice among candidate translations: minimum Bayes risk decoding, and detectors of coverage errors.

Kumar & Byrne (2004) apply minimum Bayes risk to n-best lists, Eikema & Aziz (2020) to samples:

    y* = argmax_y sum_y' w(y') u(y, y'),

where y and y' run over the same candidates, including y' = y, and u is one of `regard.metrics.translation`.
Samples have equal weights, and a translation that is sampled twice counts twice. The weight
of a hypothesis in an n-best list is its share of the list's probability.

Detectors of coverage errors choose repaired translations (`regard.generation.repair`). They are built above
this package (`regard.extensions.check`), so only their interface and their records are here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from regard.config import configclass, option
from regard.errors import UsageError
from regard.generation.config import GenerationConfig
from regard.metrics.translation import utilities

# Decimals for comparing expected utilities, so that ties do not depend on the order of summation.
_UTILITY_DECIMALS = 9
_DEFAULT_NUM_SAMPLES = 32


@dataclass(frozen=True)
class CoverageJudgment:
    """The coverage errors of one translation.

    Attributes:
        source_words: Words of the sentence.
        omitted: Probability that each of them is omitted.
        omission: Probability that the translation omits something.
        addition: Probability that the translation adds something.
        repetition: Probability that the translation repeats something.
        errors: Expected number of words that are omitted, added or repeated.
    """

    source_words: tuple[str, ...]
    omitted: tuple[float, ...]
    omission: float
    addition: float
    repetition: float
    errors: float

    def record(self) -> dict[str, Any]:
        """Return the probabilities as JSON values, with the four digits that are meaningful."""
        values = ("omission", "addition", "repetition", "errors")
        words = [round(probability, 4) for probability in self.omitted]
        return {name: round(getattr(self, name), 4) for name in values} | {
            "source_words": list(self.source_words),
            "omitted": words,
        }


@runtime_checkable
class CoverageJudge(Protocol):
    """A detector of coverage errors, as the repair of translations uses it."""

    def judge(self, sources: Sequence[str], translations: Sequence[str]) -> list[CoverageJudgment]:
        """Return the coverage errors of each translation."""
        ...


@dataclass(frozen=True)
class LineRepair:
    """The record of a checked translation.

    Attributes:
        changed: Whether the translation was replaced.
        text_before: The translation before the repair.
        before: Its coverage errors.
        after: The coverage errors after the repair; those before it if nothing was changed.
        log_probability_before: Its log-probability under the model, in nats.
        log_probability_after: The log-probability after the repair.
    """

    changed: bool
    text_before: str
    before: CoverageJudgment
    after: CoverageJudgment
    log_probability_before: float
    log_probability_after: float


@configclass
class MBR:
    """Settings of minimum Bayes risk decoding."""

    utility: Literal["bleu", "chrf"] = option(
        default="chrf", help="Utility of a candidate given a reference: sentence-level BLEU or chrF."
    )
    num_candidates: int = option(
        default=0, help="Number of candidates. 0 means the beam size, or 32 samples.", ge=0, le=1_000
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


def rank_candidates(
    texts: Sequence[str], log_probs: Sequence[float], config: MBR, sampled: bool
) -> list[tuple[int, float]]:
    """Return the distinct candidates (index, expected utility), best first. Ties keep the input order."""
    logs = np.zeros(len(texts)) if sampled else np.array(log_probs, dtype=np.float64)
    # Subtract the maximum to avoid underflow.
    shares = np.exp(logs - logs.max())
    expected = utilities(config.utility, texts) @ (shares / shares.sum())
    order: list[int] = np.argsort(-expected.round(_UTILITY_DECIMALS), kind="stable").tolist()
    # Of candidates with equal text, only the first is returned.
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    return [(place, float(expected[place])) for place in order if first[texts[place]] == place]
