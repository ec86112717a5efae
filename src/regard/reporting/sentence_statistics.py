"""The statistics by which the sentences of the report are sorted: one number per sentence and system."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.reporting.scores import ScoreTable
from regard.reporting.systems import SentenceResult, SystemResults

__all__ = ["SentenceStatistic", "sentence_statistics"]

Checks = Sequence[Sequence[Mapping[str, Any] | None]]
"""For each system, the check of each line, in the form of a sentence of `CoverageCheck.to_dict`."""


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


def sentence_statistics(
    systems: Sequence[SystemResults], scores: ScoreTable, has_references: bool, checks: Checks | None
) -> list[SentenceStatistic]:
    """Return the statistics of all sentences; `checks` has the errors that a detector finds."""
    statistics: list[SentenceStatistic] = []

    def add(key: str, name: str, value: Callable[[SentenceResult], float | None], digits: int = 0) -> None:
        values = [[value(result) for result in system.sentences] for system in systems]
        statistics.append(SentenceStatistic(key, name, values, digits))

    add("length", "source length (words)", lambda result: float(len(result.sentence.source)))
    for key in ("bleu", "chrf"):
        if key in scores.sentence_scores:
            values = [system_scores.tolist() for system_scores in scores.sentence_scores[key]]
            statistics.append(SentenceStatistic(key, scores.names[key], values, 1))
    if has_references:
        add("rep", "repetitions", lambda result: float(result.sentence.repetition_score))
    if "drop" in scores.sentence_scores:
        add("drop", "dropped words", lambda result: float(len(result.sentence.dropped)))
        add(
            "wrong",
            "dropped and repeated words",
            lambda result: float(len(result.sentence.dropped) + len(result.sentence.repeated)),
        )
    for key, name in (
        ("entropy", "attention entropy (nats)"),
        ("coverage", "source coverage"),
        ("log_prob", "log-probability per token (nats)"),
    ):
        if any(getattr(result, key) is not None for system in systems for result in system.sentences):
            add(key, name, lambda result, key=key: getattr(result, key), 3)
    return statistics + ([] if checks is None else _check_statistics(checks))


def _check_statistics(checks: Checks) -> list[SentenceStatistic]:
    """Return the probabilities of each error, and the largest of them, by which the sentences are sorted."""
    probabilities = [[check and check["probabilities"] for check in lines] for lines in checks]
    kinds = dict.fromkeys(error for lines in probabilities for line in lines if line for error in line)

    def values(probability: Callable[[Mapping[str, Any]], float | None]) -> list[list[float | None]]:
        return [[None if line is None else probability(line) for line in lines] for lines in probabilities]

    worst = values(lambda line: max((value or 0.0 for value in line.values()), default=0.0))
    return [
        SentenceStatistic("check", "any error (probability)", worst, 3),
        *(
            SentenceStatistic(error, f"{error} (probability)", values(lambda line, e=error: line.get(e)), 3)
            for error in kinds
        ),
    ]
