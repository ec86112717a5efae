"""The statistics by which the sentences of the report are sorted: one number per sentence and system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.reporting.scores import ScoreTable
from regard.reporting.systems import SystemResults

__all__ = ["SentenceStatistic", "rounded", "sentence_statistics"]

_DIGITS = 4

Checks = Sequence[Sequence[Mapping[str, Any] | None]]
"""For each system, the check of each line, in the form of a sentence of `CoverageCheck.to_dict`."""


def rounded(value: float | None) -> float | None:
    """Return a number as the page stores it, with four decimals."""
    return None if value is None else round(value, _DIGITS)


@dataclass(frozen=True)
class SentenceStatistic:
    """A number of each sentence and system.

    Attributes:
        key: Its key in the page.
        name: Its name for display, with the unit.
        values: The number of each sentence, for each system; None for a missing one.
        digits: Number of displayed decimals.
    """

    key: str
    name: str
    values: Sequence[Sequence[float | None]]
    digits: int = 0

    def to_data(self) -> dict[str, Any]:
        """Return the statistic for the page, rounded."""
        values = [[rounded(value) for value in own] for own in self.values]
        return {"key": self.key, "name": self.name, "digits": self.digits, "values": values}


def sentence_statistics(
    systems: Sequence[SystemResults], scores: ScoreTable, has_references: bool, checks: Checks | None
) -> list[SentenceStatistic]:
    """Return the statistics of all sentences.

    Args:
        systems: The systems.
        scores: Their scores.
        has_references: Whether the text has references.
        checks: The errors that a detector finds; None without a detector.
    """
    sentences = [[one.sentence for one in system.sentences] for system in systems]
    lengths = [[float(len(one.source)) for one in own] for own in sentences]
    found = [SentenceStatistic("length", "source length (words)", lengths)]
    for key, digits in (("bleu", 1), ("chrf", 1), ("meteor", 1)):
        if key in scores.sentence_scores:
            values = [one.tolist() for one in scores.sentence_scores[key]]
            found.append(SentenceStatistic(key, scores.names[key], values, digits))
    if has_references:
        repetitions = [[float(one.repetition_score) for one in own] for own in sentences]
        found.append(SentenceStatistic("rep", "repetitions", repetitions))
    if "drop" in scores.sentence_scores:
        dropped = [[float(len(one.dropped)) for one in own] for own in sentences]
        found.append(SentenceStatistic("drop", "dropped words", dropped))
        wrong = [[float(len(one.dropped) + len(one.repeated)) for one in own] for own in sentences]
        found.append(SentenceStatistic("wrong", "dropped and repeated words", wrong))
    for key, name, digits in (
        ("entropy", "attention entropy (nats)", 3),
        ("coverage", "source coverage", 3),
        ("log_prob", "log-probability per token (nats)", 3),
    ):
        values = [[getattr(one, key) for one in system.sentences] for system in systems]
        if any(value is not None for own in values for value in own):
            found.append(SentenceStatistic(key, name, values, digits))
    return found + ([] if checks is None else _check_statistics(checks))


def _check_statistics(checks: Checks) -> list[SentenceStatistic]:
    """Return the probabilities of each error, and the largest of them, by which the sentences are sorted."""
    found = [[one and one["probabilities"] for one in own] for own in checks]
    worst = [
        [None if one is None else max((value or 0.0 for value in one.values()), default=0.0) for one in own]
        for own in found
    ]
    kinds = dict.fromkeys(error for own in found for one in own if one for error in one)
    return [
        SentenceStatistic("check", "any error (probability)", worst, 3),
        *(SentenceStatistic(error, f"{error} (probability)", _values(found, error), 3) for error in kinds),
    ]


def _values(found: Sequence[Sequence[Mapping[str, float] | None]], error: str) -> list[list[float | None]]:
    """Return the probability of an error for each system and sentence."""
    return [[None if one is None else one.get(error) for one in own] for own in found]
