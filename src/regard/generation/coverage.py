"""The interface of detectors of coverage errors, as search uses it, and the records of repaired translations.

Detectors are built above this package (`regard.extensions.check`), so only their interface is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

__all__ = ["CoverageJudge", "CoverageJudgment", "LineRepair", "RepairSummary"]


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
    """A detector of coverage errors, as the repair of translations and the choice of candidates use it."""

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


@dataclass
class RepairSummary:
    """Totals of a checked text.

    Attributes:
        threshold: Probability of an omitted word from which a sentence is translated again.
        num_sentences: Number of sentences with a translation.
        num_likely: Number of sentences with a word above the threshold.
        num_changed: Number of sentences whose translation was replaced.
        omission_before: Sum over all sentences of the probability that a translation omits something.
        omission_after: The same, after repair.
    """

    threshold: float = 0.3
    num_sentences: int = 0
    num_likely: int = 0
    num_changed: int = 0
    omission_before: float = 0.0
    omission_after: float = 0.0

    def add(self, record: LineRepair | None) -> None:
        """Count one sentence; None is a line without a translation."""
        if record is None:
            return
        self.num_sentences += 1
        self.num_likely += max(record.before.omitted, default=0.0) >= self.threshold
        self.omission_before += record.before.omission
        self.omission_after += record.after.omission
        self.num_changed += record.changed

    def __str__(self) -> str:
        """Return the totals as a sentence."""
        count = max(self.num_sentences, 1)
        return (
            f"{self.num_sentences:,} sentences checked, {self.num_likely:,} likely omit a word, "
            f"{self.num_changed:,} changed; mean probability of an omission "
            f"{self.omission_before / count:.3f} before, {self.omission_after / count:.3f} after"
        )
