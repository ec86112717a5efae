"""The results of a check: sentences with the probabilities of coverage errors, and with affected words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.extensions.check.base import CRITICAL, SentenceError
from regard.extensions.check.detectors import NOTES
from regard.extensions.check.evaluation import (
    WORD_KEYS,
    CoverageEvaluation,
    LineLabels,
    check_labels,
    read_labels,
    sentence_scores,
)
from regard.extensions.check.findings import Finding, find_errors
from regard.extensions.check.sentences import THRESHOLD, CheckedSentence
from regard.metrics.base import Estimate

_VERBS: Mapping[SentenceError, tuple[str, str]] = {
    "omission": ("{} omits a word", "{} omit a word"),
    "addition": ("{} adds a word", "{} add a word"),
    "repetition": ("{} repeats a word", "{} repeat a word"),
    "number": ("{} changes a number", "{} change a number"),
    "name": ("{} changes a name", "{} change a name"),
    "negation": ("{} loses a negation", "{} lose a negation"),
    "markup": ("{} changes an address, placeholder or tag", "{} change an address, placeholder or tag"),
    "unrelated": ("is {} unrelated to the source", "are {} unrelated to the source"),
}
_MAX_LINES = 8  # lines that a note lists


@dataclass(frozen=True)
class CoverageCheck(Result):
    """The probable coverage errors of a text.

    Attributes:
        detector: Name of the detector.
        sentences: The sentences, in the order of the text.
        evaluation: Comparison with labels, by `regard check --labels`.
        files: The files of the sources and of the translations; None for lists.
    """

    schema: ClassVar[str] = "coverage_check"

    detector: str
    sentences: tuple[CheckedSentence, ...]
    evaluation: CoverageEvaluation | None = None
    files: tuple[str | None, str | None] = (None, None)

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.sentences)

    @property
    def errors(self) -> tuple[SentenceError, ...]:
        """The errors that the detector finds."""
        return tuple(self.sentences[0].probabilities) if self.sentences else ()

    def worst(self, count: int | None = None, error: SentenceError | None = None) -> list[CheckedSentence]:
        """Return the sentences in descending order of the probability of an error, in percent.

        Sentences with equal probabilities are in descending order of their expected number of wrong words.

        Args:
            count: Maximum number of sentences. Default: all.
            error: The error. Default: the top-scoring one of each sentence.

        Raises:
            UsageError: if the detector does not find this error.
        """
        if error is not None and self.sentences and error not in self.errors:
            raise UsageError(
                f"error={error!r}: the detector {self.detector!r} finds {', '.join(self.errors)}"
            )

        def key(one: CheckedSentence) -> tuple[float, float]:
            value = one.worst if error is None else one.probabilities[error]
            expected_errors = float(sum(one.words(kind).sum() for kind in WORD_KEYS))
            # The page rounds in the same way, so that its order is the same.
            return -np.floor(100 * round(value, 4) + 0.5), -expected_errors

        return sorted(self.sentences, key=key)[:count]

    def count(self, error: SentenceError, threshold: float = THRESHOLD) -> int:
        """Return the number of sentences whose probability of an error reaches a threshold."""
        return sum(sentence.probabilities[error] >= threshold for sentence in self.sentences)

    def summary(self, threshold: float = THRESHOLD) -> str:
        """Return the numbers of probable errors in words."""
        if not self.errors:
            return "There are no sentences."
        counts: dict[SentenceError, int] = {error: self.count(error, threshold) for error in self.errors}
        # Numbers and the like are mentioned where there are any.
        counts = {error: count for error, count in counts.items() if count or error not in CRITICAL}
        adverb = "probably" if threshold >= 0.5 else "possibly"
        parts = [f"{count:,} {_VERBS[error][count != 1].format(adverb)}" for error, count in counts.items()]
        return f"Of {len(self):,} sentence{'s' * (len(self) != 1)}, {', '.join(parts)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """The unusual parts about the text in words, with the lines: empty or copied translations, ..."""
        messages = []
        for note, text in NOTES.items():
            lines = [each.shown_line for each in self.sentences if each.note == note]
            if lines:
                numbers = ", ".join(map(str, lines[:_MAX_LINES]))
                more = f" and {len(lines) - _MAX_LINES:,} more" if len(lines) > _MAX_LINES else ""
                messages.append(f"line{'s' * (len(lines) > 1)} {numbers}{more}: {text}")
        return tuple(messages)

    def findings(self, threshold: float = THRESHOLD) -> list[Finding]:
        """Return the errors whose probability reaches a threshold, once per place in the text."""
        return [finding for each in self.sentences for finding in find_errors(each, threshold, self.files)]

    def evaluate(
        self,
        labels: Path | str | Sequence[LineLabels],
        *,
        num_bootstrap_samples: int = 1000,
        seed: int = 0,
    ) -> CoverageEvaluation:
        """Compare the probabilities with labels, with 95 % bootstrap intervals.

        Args:
            labels: A file of labels (see `regard.extensions.check.evaluation`), or the labels.
            num_bootstrap_samples: Number of bootstrap samples.
            seed: Random seed of the bootstrap.

        Raises:
            DataError: if the file cannot be read, a label is out of range, or no labeled error is one that
                the detector finds.
            UsageError: if there are fewer than two bootstrap samples.
        """
        if num_bootstrap_samples < 2:
            raise UsageError(f"num_bootstrap_samples={num_bootstrap_samples}: expected at least 2")
        name = str(labels) if isinstance(labels, Path | str) else "labels"
        gold = read_labels(labels) if isinstance(labels, Path | str) else list(labels)
        check_labels(gold, len(self), name)
        rows = [(self.sentences[line_label.line - 1], line_label) for line_label in gold]
        scores: dict[SentenceError, dict[str, Estimate]] = {}
        counts: dict[SentenceError, tuple[int, int]] = {}
        for error in self.errors:
            labeled = [(sentence, label) for sentence, label in rows if error in label.errors]
            if not labeled:
                continue
            values = np.array([sentence.probabilities[error] for sentence, _ in labeled])
            truth = np.array([label.errors[error] for _, label in labeled])
            counts[error] = len(truth), int(truth.sum())
            scores[error] = sentence_scores(truth, values, num_bootstrap_samples, seed)
        if not scores:
            raise DataError(
                f"{name}: no label is of an error that the detector {self.detector!r} finds: "
                f"{', '.join(self.errors)}"
            )
        return CoverageEvaluation(self.detector, counts, scores)

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "detector": self.detector,
            "num_sentences": len(self),
            "counts": {error: self.count(error) for error in self.errors},
            "notes": list(self.notes),
            "evaluation": None if self.evaluation is None else self.evaluation.to_data(),
            "sentences": [sentence.to_data() for sentence in self.sentences],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per sentence; see `CheckedSentence.row`."""
        return [sentence.row() for sentence in self.sentences]

    def __repr__(self) -> str:
        """Return the number of sentences and the detector."""
        return f"CoverageCheck({len(self)} sentences, detector={self.detector!r})"
