"""The result of a check for one sentence: the probabilities of its errors and the affected words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from regard.extensions.check.base import CoverageError, Mismatch, PairScores, SentenceError
from regard.extensions.check.critical import largest_probabilities, markup_mismatches
from regard.extensions.check.detectors import Note
from regard.extensions.check.evaluation import WORD_KEYS
from regard.text.words import word_spans

THRESHOLD = 0.5
"""The probability from which an error is shown by default."""
MARKS: Mapping[CoverageError, tuple[str, str]] = {
    "omission": ("[", "]"),
    "addition": ("{", "}"),
    "repetition": ("<", ">"),
}
"""The brackets around omitted, added and repeated words in text."""


@dataclass(frozen=True, slots=True, repr=False)
class CheckedSentence:
    """A translation and its probable errors.

    Attributes:
        line: Number of the sentence, from 1; in plain text, its line.
        source: The source sentence.
        translation: Its translation.
        probabilities: For each error that the detector finds, the probability that the sentence has it, or
            the score of a detector that gives no probabilities.
        omitted: For each source word, the probability that the translation omits it. Empty if the detector
            judges sentences only.
        added: For each target word, the probability that it translates nothing in the source.
        repeated: For each target word, the probability that it is an incorrect repetition.
        mismatches: The numbers, names, negations, addresses, placeholders and tags without a counterpart,
            with their characters in the source or the translation.
        note: Why the sentence is no ordinary translation, one of the names in `NOTES`, or None.
        id: The identifier of the segment in its file, if it has one.
        file_line: The line of the file at which the segment starts, if it is another one than `line`.
    """

    line: int
    source: str
    translation: str
    probabilities: Mapping[SentenceError, float]
    omitted: Float[np.ndarray, "S"] = field(default_factory=lambda: np.empty(0))
    added: Float[np.ndarray, "T"] = field(default_factory=lambda: np.empty(0))
    repeated: Float[np.ndarray, "T"] = field(default_factory=lambda: np.empty(0))
    mismatches: tuple[Mismatch, ...] = ()
    note: Note | None = None
    id: str | None = None
    file_line: int | None = None

    @classmethod
    def of(
        cls,
        line: int,
        texts: tuple[str, str],
        scores: PairScores,
        note: Note | None = None,
        id: str | None = None,
        file_line: int | None = None,
    ) -> Self:
        """Return the sentence with the scores of a detector."""
        omitted, added, repeated = (scores.words.get(error, np.empty(0)) for error in WORD_KEYS)
        spans = {"source": word_spans(texts[0]), "target": word_spans(texts[1])} if scores.mismatches else {}
        mismatches = [
            Mismatch(error, side, spans[side][start][0], spans[side][end - 1][1], probability)
            for error, side, start, end, probability in scores.mismatches
        ]
        probabilities = dict(scores.sentence)
        if "number" in probabilities:
            if note not in ("too_long", "empty_source", "empty_translation"):
                mismatches += markup_mismatches(*texts)
            probabilities |= largest_probabilities(mismatches, ["markup"])
        words = omitted, added, repeated
        return cls(line, *texts, probabilities, *words, tuple(mismatches), note, id, file_line)

    @property
    def source_words(self) -> tuple[tuple[int, int], ...]:
        """The first character of each source word and the one after its last."""
        return tuple(word_spans(self.source))

    @property
    def target_words(self) -> tuple[tuple[int, int], ...]:
        """The first character of each word of the translation and the one after its last."""
        return tuple(word_spans(self.translation))

    @property
    def shown_line(self) -> int:
        """The line for a reader: that of the file in which the segment starts, if there is one."""
        return self.file_line or self.line

    @property
    def worst(self) -> float:
        """The largest probability of an error."""
        return max(self.probabilities.values(), default=0.0)

    def __repr__(self) -> str:
        """Return the line, the probable errors and the translation."""
        errors = {error: round(p, 2) for error, p in self.probabilities.items() if p >= 0.01}
        return f"CheckedSentence(line={self.line}, {errors}, {self.translation!r})"

    def words(self, error: CoverageError) -> Float[np.ndarray, "_"]:
        """Return the probability of an error for each word of its side, empty if there are none."""
        return getattr(self, WORD_KEYS[error])

    def word_spans(self, error: CoverageError) -> tuple[tuple[int, int], ...]:
        """Return the spans of the words in which an error is found."""
        return self.source_words if error == "omission" else self.target_words

    def row(self) -> dict[str, Any]:
        """Return a row of a table: line, probabilities, texts of the affected words, note, and texts."""
        row: dict[str, Any] = {"line": self.line, **self.probabilities}
        for error, key in WORD_KEYS.items():
            text = self.source if error == "omission" else self.translation
            row[key] = " | ".join(text[first:last] for first, last, _ in marked_spans(self, error))
        return {**row, "note": self.note or "", "source": self.source, "translation": self.translation}

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
            "mismatches": [each._asdict() for each in self.mismatches],
            "note": self.note,
            "id": self.id,
            "file_line": self.file_line,
        }


def marked_spans(
    sentence: CheckedSentence, error: CoverageError, threshold: float = THRESHOLD
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
