"""Coverage errors in the translations of any system, without a reference: `regard.check`.

check = regard.check("test.de", "system.en", training_sources="train.de", training_translations="train.en")
print(check.summary())
check.worst(3)  # the sentences with the most probable errors
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from regard.analysis.coverage.base import (
    DetectionInput,
    PairScores,
    SentenceError,
    build_detector,
)
from regard.analysis.coverage.model import CoverageModel as TrainedModel
from regard.analysis.coverage.model import CoverageModelConfig
from regard.analysis.coverage.model_files import load_coverage_model, save_coverage_model
from regard.analysis.coverage.text import WordPair, split_pairs, word_spans
from regard.api.arguments import TextSource, read_texts
from regard.errors import DataError, UsageError
from regard.results import Result, finite
from regard.types import Float

__all__ = ["CheckedSentence", "CoverageCheck", "CoverageModel", "check"]

_THRESHOLD = 0.5
_VERBS: Mapping[SentenceError, str] = {
    "omission": "omit a word",
    "addition": "add a word",
    "repetition": "repeat a word",
    "unrelated": "are unrelated to the source",
}


@dataclass(frozen=True)
class CoverageModel:
    """A model of good translations, trained on parallel text.

    Attributes:
        model: The model.
        num_threads: Number of threads of the word aligner. 0 uses all processors.
    """

    model: TrainedModel
    num_threads: int = 0

    @classmethod
    def train(
        cls,
        sources: TextSource,
        translations: TextSource,
        config: CoverageModelConfig | None = None,
        num_threads: int = 0,
    ) -> Self:
        """Train a model on good translations, plain or tokenized text.

        Args:
            sources: The source lines, or a file.
            translations: Their translations.
            config: The settings of the training.
            num_threads: Number of threads. 0 uses all processors.

        Raises:
            DataError: if a file cannot be read, the numbers of lines differ, or there are fewer than 100
                sentence pairs.
        """
        pairs = _read_pairs(sources, translations, ("training_sources", "training_translations"))
        return cls(TrainedModel.train(pairs, config, num_threads), num_threads)

    @classmethod
    def load(cls, directory: Path | str, num_threads: int = 0) -> Self:
        """Load a model that was saved with `save` or `regard check --save-model`.

        Raises:
            DataError: if a file is missing or damaged; names it.
        """
        return cls(load_coverage_model(directory), num_threads)

    def save(self, directory: Path | str) -> None:
        """Save the model to a directory, atomically.

        Raises:
            DataError: if the directory contains something else, or cannot be written.
        """
        save_coverage_model(self.model, directory)


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

    @classmethod
    def of(cls, line: int, pair: WordPair, texts: tuple[str, str], scores: PairScores) -> Self:
        """Return the sentence with the scores of a detector."""
        words = {
            error: scores.words.get(error, np.empty(0)) for error in ("omission", "addition", "repetition")
        }
        return cls(
            line,
            *texts,
            *(tuple(word_spans(text)) for text in texts),
            scores.sentence,
            *words.values(),
        )

    @property
    def worst(self) -> float:
        """The largest probability of an error."""
        return max(self.probabilities.values(), default=0.0)

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "line": self.line,
            "source": self.source,
            "translation": self.translation,
            "source_words": [list(span) for span in self.source_words],
            "target_words": [list(span) for span in self.target_words],
            "probabilities": {error: finite(value) for error, value in self.probabilities.items()},
            **{
                name: [round(float(value), 4) for value in getattr(self, name)]
                for name in ("omitted", "added", "repeated")
            },
        }


@dataclass(frozen=True)
class CoverageCheck(Result):
    """The probable coverage errors of a text.

    Attributes:
        detector: Name of the detector.
        sentences: The sentences, in the order of the text.
    """

    schema: ClassVar[str] = "coverage_check"

    detector: str
    sentences: tuple[CheckedSentence, ...]

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.sentences)

    def worst(self, count: int | None = None, error: SentenceError | None = None) -> list[CheckedSentence]:
        """Return the sentences in descending order of the probability of an error.

        Args:
            count: Maximum number of sentences. Default: all.
            error: The error. Default: the most probable one of each sentence.

        Raises:
            UsageError: if the detector does not find this error.
        """
        if error is not None and self.sentences and error not in self.errors:
            raise UsageError(
                f"error={error!r}: the detector {self.detector!r} finds {', '.join(self.errors)}"
            )

        def key(one: CheckedSentence) -> float:
            return -(one.worst if error is None else one.probabilities[error])

        return sorted(self.sentences, key=key)[:count]

    @property
    def errors(self) -> tuple[SentenceError, ...]:
        """The errors that the detector finds."""
        return tuple(self.sentences[0].probabilities) if self.sentences else ()

    def count(self, error: SentenceError, threshold: float = _THRESHOLD) -> int:
        """Return the number of sentences whose probability of an error reaches a threshold."""
        return sum(one.probabilities[error] >= threshold for one in self.sentences)

    def summary(self) -> str:
        """Return the numbers of probable errors in words."""
        parts = [f"{self.count(error)} probably {_VERBS[error]}" for error in self.errors]
        return f"Of {len(self)} sentences, {', '.join(parts)}." if parts else "No sentences."

    def to_data(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        counts = {error: self.count(error) for error in self.errors}
        return {
            "detector": self.detector,
            "num_sentences": len(self),
            "counts": counts,
            "sentences": [one.to_data() for one in self.sentences],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per sentence: line, probability of each error, and the texts."""
        return [
            {"line": one.line, **one.probabilities, "source": one.source, "translation": one.translation}
            for one in self.sentences
        ]

    def __repr__(self) -> str:
        """Return the number of sentences and the detector."""
        return f"CoverageCheck({len(self)} sentences, detector={self.detector!r})"


def check(
    sources: TextSource,
    translations: TextSource,
    detector: str = "combined",
    *,
    model: CoverageModel | Path | str | None = None,
    training: tuple[TextSource, TextSource] | None = None,
    num_threads: int = 0,
    **inputs: Any,
) -> CoverageCheck:
    """Find omissions, additions and repetitions in translations of any system, without a reference.

    Args:
        sources: The source lines, or a file.
        translations: Their translations, or a file.
        detector: Name of the detector.
        model: A model of good translations, or its directory.
        training: Good translations on which such a model is trained, if `model` is None.
        num_threads: Number of threads of the word aligner. 0 uses all processors.
        inputs: Further inputs of detectors, such as `translator`; see `DetectionInput`.

    Raises:
        DataError: if a file cannot be read, or the numbers of lines differ.
        UsageError: if there is no such detector, or an input that it needs is missing; says what to give.
    """
    lines = _read_lines(sources, translations, ("sources", "translations"))
    if isinstance(model, Path | str):
        model = CoverageModel.load(model, num_threads)
    elif model is None and training is not None:
        model = CoverageModel.train(*training, num_threads=num_threads)
    found = DetectionInput(model=None if model is None else model.model, num_threads=num_threads, **inputs)
    own = build_detector(detector, found)
    pairs = split_pairs(*lines)
    scores = own.detect(pairs)
    sentences = [
        CheckedSentence.of(line, pair, (source, translation), one)
        for line, (pair, source, translation, one) in enumerate(zip(pairs, *lines, scores, strict=True), 1)
    ]
    return CoverageCheck(detector, tuple(sentences))


def _read_lines(first: TextSource, second: TextSource, names: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Return the lines of two texts.

    Raises:
        DataError: if the numbers of lines differ.
    """
    sides = read_texts(first, names[0]), read_texts(second, names[1])
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{names[0]} has {len(sides[0])} lines, {names[1]} has {len(sides[1])}: expected the same number"
        )
    return sides


def _read_pairs(first: TextSource, second: TextSource, names: tuple[str, str]) -> Sequence[WordPair]:
    """Return the words of two texts."""
    return split_pairs(*_read_lines(first, second, names))
