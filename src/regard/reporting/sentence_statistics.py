"""The statistics by which the sentences of the report are sorted: one number per sentence and system."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.reporting.scores import ScoreTable
from regard.reporting.systems import SystemResults

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
    """Return the statistics of all sentences.

    Args:
        systems: The systems.
        scores: Their scores.
        has_references: Whether the text has references.
        checks: The errors that a detector finds; None without a detector.
    """
    sentences = [[result.sentence for result in system.sentences] for system in systems]
    lengths = [
        [float(len(sentence.source)) for sentence in system_sentences] for system_sentences in sentences
    ]
    statistics = [SentenceStatistic("length", "source length (words)", lengths)]
    for key in ("bleu", "chrf"):
        if key in scores.sentence_scores:
            values = [system_scores.tolist() for system_scores in scores.sentence_scores[key]]
            statistics.append(SentenceStatistic(key, scores.names[key], values, 1))
    if has_references:
        repetitions = [
            [float(sentence.repetition_score) for sentence in system_sentences]
            for system_sentences in sentences
        ]
        statistics.append(SentenceStatistic("rep", "repetitions", repetitions))
    if "drop" in scores.sentence_scores:
        dropped = [
            [float(len(sentence.dropped)) for sentence in system_sentences] for system_sentences in sentences
        ]
        statistics.append(SentenceStatistic("drop", "dropped words", dropped))
        wrong = [
            [float(len(sentence.dropped) + len(sentence.repeated)) for sentence in system_sentences]
            for system_sentences in sentences
        ]
        statistics.append(SentenceStatistic("wrong", "dropped and repeated words", wrong))
    for key, name, digits in (
        ("entropy", "attention entropy (nats)", 3),
        ("coverage", "source coverage", 3),
        ("log_prob", "log-probability per token (nats)", 3),
    ):
        values = [[getattr(result, key) for result in system.sentences] for system in systems]
        if any(value is not None for system_values in values for value in system_values):
            statistics.append(SentenceStatistic(key, name, values, digits))
    return statistics + ([] if checks is None else _check_statistics(checks))


def _check_statistics(checks: Checks) -> list[SentenceStatistic]:
    """Return the probabilities of each error, and the largest of them, by which the sentences are sorted."""
    probabilities = [
        [check and check["probabilities"] for check in system_checks] for system_checks in checks
    ]
    worst = [
        [
            None
            if sentence_probabilities is None
            else max((value or 0.0 for value in sentence_probabilities.values()), default=0.0)
            for sentence_probabilities in system_probabilities
        ]
        for system_probabilities in probabilities
    ]
    kinds = dict.fromkeys(
        error
        for system_probabilities in probabilities
        for sentence_probabilities in system_probabilities
        if sentence_probabilities
        for error in sentence_probabilities
    )
    return [
        SentenceStatistic("check", "any error (probability)", worst, 3),
        *(
            SentenceStatistic(error, f"{error} (probability)", _values(probabilities, error), 3)
            for error in kinds
        ),
    ]


def _values(found: Sequence[Sequence[Mapping[str, float] | None]], error: str) -> list[list[float | None]]:
    """Return the probability of an error for each system and sentence."""
    return [
        [
            None if sentence_probabilities is None else sentence_probabilities.get(error)
            for sentence_probabilities in system_probabilities
        ]
        for system_probabilities in found
    ]
