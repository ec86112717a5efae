"""The results of a check: sentences with the probabilities of coverage errors, and with affected words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from regard.config.results import Result
from regard.errors import DataError, UsageError
from regard.extensions.check.base import CoverageError, PairScores, SentenceError
from regard.extensions.check.detectors import NOTES, Note
from regard.extensions.check.evaluation import (
    WORD_KEYS,
    CoverageEvaluation,
    CoverageScore,
    LineLabels,
    check_labels,
    labeled_words,
    read_labels,
    sentence_scores,
    word_scores,
)
from regard.plot.analyses import check_chart
from regard.plot.figure import Figure
from regard.text.words import word_spans

_THRESHOLD = 0.5
_VERBS: Mapping[SentenceError, tuple[str, str]] = {
    "omission": ("{} omits a word", "{} omit a word"),
    "addition": ("{} adds a word", "{} add a word"),
    "repetition": ("{} repeats a word", "{} repeat a word"),
    "unrelated": ("is {} unrelated to the source", "are {} unrelated to the source"),
}
MARKS: Mapping[CoverageError, tuple[str, str]] = {
    "omission": ("[", "]"),
    "addition": ("{", "}"),
    "repetition": ("<", ">"),
}
"""The brackets around omitted, added and repeated words in text."""
_MAX_LINES = 8  # lines that a note lists


@dataclass(frozen=True)
class CheckedSentence:
    """A translation and its probable errors.

    Attributes:
        line: Number of the line, from 1.
        source: The source sentence.
        translation: Its translation.
        source_words: First character of each source word and the one after its last.
        target_words: The same of the translation.
        probabilities: For each error that the detector finds, the probability that the sentence has it, or
            the score of a detector that gives no probabilities.
        omitted: For each source word, the probability that the translation omits it. Empty if the detector
            judges sentences only.
        added: For each target word, the probability that it translates nothing in the source.
        repeated: For each target word, the probability that it is an incorrect repetition.
        note: Why the sentence is no ordinary translation, one of the names in `NOTES`, or None.
    """

    line: int
    source: str
    translation: str
    source_words: tuple[tuple[int, int], ...]
    target_words: tuple[tuple[int, int], ...]
    probabilities: Mapping[SentenceError, float]
    omitted: Float[np.ndarray, "S"] = field(default_factory=lambda: np.empty(0))
    added: Float[np.ndarray, "T"] = field(default_factory=lambda: np.empty(0))
    repeated: Float[np.ndarray, "T"] = field(default_factory=lambda: np.empty(0))
    note: Note | None = None

    @classmethod
    def of(cls, line: int, texts: tuple[str, str], scores: PairScores, note: Note | None = None) -> Self:
        """Return the sentence with the scores of a detector."""
        words = {key: scores.words.get(error, np.empty(0)) for error, key in WORD_KEYS.items()}
        source, translation = (tuple(word_spans(text)) for text in texts)
        return cls(line, *texts, source, translation, scores.sentence, **words, note=note)

    @property
    def worst(self) -> float:
        """The largest probability of an error."""
        return max(self.probabilities.values(), default=0.0)

    def words(self, error: CoverageError) -> Float[np.ndarray, "_"]:
        """Return the probability of an error for each word of its side, empty if there are none."""
        return getattr(self, WORD_KEYS[error])

    def word_spans(self, error: CoverageError) -> tuple[tuple[int, int], ...]:
        """Return the spans of the words in which an error is found."""
        return self.source_words if error == "omission" else self.target_words

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "line": self.line,
            "source": self.source,
            "translation": self.translation,
            "source_words": [list(span) for span in self.source_words],
            "target_words": [list(span) for span in self.target_words],
            "probabilities": dict(self.probabilities),
            **{name: np.round(getattr(self, name), 4).tolist() for name in WORD_KEYS.values()},
            "note": self.note,
        }


def marked_spans(
    sentence: CheckedSentence, error: CoverageError, threshold: float = _THRESHOLD
) -> list[tuple[int, int, bool]]:
    """Return the text that an error probably affects: first character, the one after the last, certainty.

    These are the words whose probability reaches the threshold, with neighboring words in one span. If the
    sentence reaches the threshold but none of its words does, it is the top-scoring word, uncertain.
    """
    words = sentence.words(error)
    if not len(words):
        return []
    spans = sentence.word_spans(error)
    chosen = np.flatnonzero(words >= threshold)
    certain = bool(len(chosen))
    if not certain:
        if sentence.probabilities.get(error, 0.0) < threshold:
            return []
        chosen = np.array([int(words.argmax())])
    groups = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
    return [(spans[group[0]][0], spans[group[-1]][1], certain) for group in groups]


@dataclass(frozen=True)
class CoverageCheck(Result):
    """The probable coverage errors of a text.

    Attributes:
        detector: Name of the detector.
        sentences: The sentences, in the order of the text.
        evaluation: Comparison with labels, by `regard check --labels`.
    """

    schema: ClassVar[str] = "coverage_check"

    detector: str
    sentences: tuple[CheckedSentence, ...]
    evaluation: CoverageEvaluation | None = None

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

    def count(self, error: SentenceError, threshold: float = _THRESHOLD) -> int:
        """Return the number of sentences whose probability of an error reaches a threshold."""
        return sum(sentence.probabilities[error] >= threshold for sentence in self.sentences)

    def plot(self) -> Figure:
        """Return the figure of the number of sentences with a probable error, by kind and threshold."""
        return check_chart(
            {
                error: np.array([sentence.probabilities[error] for sentence in self.sentences])
                for error in self.errors
            }
        )

    def summary(self, threshold: float = _THRESHOLD) -> str:
        """Return the numbers of probable errors in words."""
        if not self.errors:
            return "There are no sentences."
        counts: dict[SentenceError, int] = {error: self.count(error, threshold) for error in self.errors}
        adverb = "probably" if threshold >= 0.5 else "possibly"
        parts = [f"{count:,} {_VERBS[error][count != 1].format(adverb)}" for error, count in counts.items()]
        return f"Of {len(self):,} sentence{'s' * (len(self) != 1)}, {', '.join(parts)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """The unusual parts about the text in words, with the lines: empty or copied translations, ..."""
        messages = []
        for note, text in NOTES.items():
            lines = [sentence.line for sentence in self.sentences if sentence.note == note]
            if lines:
                numbers = ", ".join(map(str, lines[:_MAX_LINES]))
                more = f" and {len(lines) - _MAX_LINES:,} more" if len(lines) > _MAX_LINES else ""
                messages.append(f"line{'s' * (len(lines) > 1)} {numbers}{more}: {text}")
        return tuple(messages)

    def evaluate(
        self,
        labels: Path | str | Sequence[LineLabels],
        *,
        threshold: float = _THRESHOLD,
        num_bootstrap_samples: int = 1000,
        seed: int = 0,
    ) -> CoverageEvaluation:
        """Compare the probabilities with labels, with 95 % bootstrap intervals.

        Args:
            labels: A file of labels (see `regard.extensions.check.evaluation`), or the labels.
            threshold: Probability from which a word counts as found.
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
        lengths = [(len(sentence.source), len(sentence.translation)) for sentence in self.sentences]
        check_labels(gold, lengths, name)
        rows = [(self.sentences[line_label.line - 1], line_label) for line_label in gold]
        scores: list[CoverageScore] = []
        counts: dict[tuple[str, SentenceError], tuple[int, int]] = {}
        samples = num_bootstrap_samples, seed
        for error in self.errors:
            labeled = [(sentence, label) for sentence, label in rows if error in label.errors]
            if not labeled:
                continue
            values = np.array([sentence.probabilities[error] for sentence, _ in labeled])
            truth = np.array([label.errors[error] for _, label in labeled])
            counts["sentence", error] = len(truth), int(truth.sum())
            measured = sentence_scores(truth, values, *samples)
            scores += [CoverageScore("sentence", error, key, each) for key, each in measured.items()]
        for error in WORD_KEYS:
            pairs = [
                (labeled_words(sentence.word_spans(error), label.spans[error]), sentence.words(error))
                for sentence, label in rows
                if error in label.spans
            ]
            pairs = [pair for pair in pairs if len(pair[0]) == len(pair[1])]
            if not any(len(pair[0]) for pair in pairs):
                continue
            counts["word", error] = sum(len(hit) for hit, _ in pairs), sum(int(hit.sum()) for hit, _ in pairs)
            words, probabilities = zip(*pairs, strict=True)
            measured = word_scores(words, probabilities, threshold, *samples)
            scores += [CoverageScore("word", error, key, each) for key, each in measured.items()]
        if not scores:
            raise DataError(
                f"{name}: no label is of an error that the detector {self.detector!r} finds: "
                f"{', '.join(self.errors)}"
            )
        return CoverageEvaluation(self.detector, tuple(scores), counts, threshold)

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
        """Return one row per sentence: line, probabilities, texts of the affected words, note, and texts."""
        rows = []
        for sentence in self.sentences:
            row: dict[str, Any] = {"line": sentence.line, **sentence.probabilities}
            for error, key in WORD_KEYS.items():
                text = sentence.source if error == "omission" else sentence.translation
                row[key] = " | ".join(text[first:last] for first, last, _ in marked_spans(sentence, error))
            texts = {"source": sentence.source, "translation": sentence.translation}
            rows.append({**row, "note": sentence.note or "", **texts})
        return rows

    def __repr__(self) -> str:
        """Return the number of sentences and the detector."""
        return f"CoverageCheck({len(self)} sentences, detector={self.detector!r})"
