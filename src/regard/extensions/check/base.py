"""Sentence pairs as words, and the contract of detectors of coverage errors with their registry.

A detector gives a score to each source word (omitted), to each target word (added, repeated) and to the
sentence. A plugin registers another one with `register_detector`.
"""

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float

from regard.config.registry import NamedRegistry, subclass_of
from regard.errors import UsageError
from regard.text.links import MAX_LENGTH
from regard.text.words import fold_word, normalize_word, split_line

__all__ = [
    "CRITICAL",
    "DETECTORS",
    "ERRORS",
    "TAGGED",
    "CoverageError",
    "CriticalError",
    "Detector",
    "FoldedPair",
    "Mismatch",
    "PairScores",
    "SentenceError",
    "Side",
    "WordPair",
    "blocks",
    "build_detector",
    "register_detector",
    "split_pairs",
    "training_pairs",
]

_log = logging.getLogger(__name__)

CoverageError = Literal["omission", "addition", "repetition"]
ERRORS: tuple[CoverageError, ...] = get_args(CoverageError)
"""The kinds of coverage errors. Omissions are found in the source, the others in the translation."""
TAGGED: tuple[CoverageError, ...] = ("omission", "addition")
"""The errors that networks find, in translations that are related to the source."""

CriticalError = Literal["number", "name", "negation", "markup"]
"""The kinds of words that must have a counterpart, see `regard.extensions.check.critical`."""
CRITICAL: tuple[CriticalError, ...] = get_args(CriticalError)
"""The same as a tuple."""

SentenceError = Literal[
    "omission", "addition", "repetition", "unrelated", "number", "name", "negation", "markup"
]
"""The kinds of errors of a sentence: also a translation that is unrelated to the source."""
Side = Literal["source", "target"]

FoldedPair = tuple[tuple[str, ...], tuple[str, ...]]
"""The words of both sides without differences of case and encoding."""

_BLOCK_CELLS = 200_000  # pairs of a source and a target word


@dataclass(frozen=True, slots=True)
class WordPair:
    """A sentence and its translation.

    Attributes:
        source: Words and punctuation marks of the sentence.
        target: Words and punctuation marks of its translation. It may be empty.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def folded(self) -> FoldedPair:
        """The words of both sides without differences of case and encoding, which alignment ignores."""
        return tuple(map(fold_word, self.source)), tuple(map(fold_word, self.target))

    @property
    def lengths(self) -> tuple[int, int]:
        """The numbers of characters of the words of both sides."""
        return len(normalize_word("".join(self.source))), len(normalize_word("".join(self.target)))

    @property
    def is_too_long(self) -> bool:
        """Whether a side has more words than an aligner aligns: evidence needs memory for each cell."""
        return max(len(self.source), len(self.target)) > MAX_LENGTH


def split_pairs(sources: Iterable[str], targets: Iterable[str]) -> list[WordPair]:
    """Return the words of each pair of lines."""

    def words(line: str) -> tuple[str, ...]:
        # One string for all occurrences of a word saves most of the memory of a large text.
        return tuple(map(sys.intern, split_line(line)))

    return [WordPair(words(s), words(t)) for s, t in zip(sources, targets, strict=True)]


def training_pairs(pairs: Sequence[WordPair]) -> list[WordPair]:
    """Return the pairs with words on both sides, without those that are too long, which a warning counts."""
    if num_long := sum(pair.is_too_long for pair in pairs):
        _log.warning(
            "%d of %d training pairs have a side of more than %d words; they are ignored. Split them into "
            "sentences.",
            *(num_long, len(pairs), MAX_LENGTH),
        )
    return [pair for pair in pairs if pair.source and pair.target and not pair.is_too_long]


def blocks(pairs: Sequence[WordPair]) -> Iterator[Sequence[WordPair]]:
    """Yield neighboring pairs in blocks with features of about 50 MB. A short text is one block."""
    start, cells = 0, 0
    for place, pair in enumerate(pairs):
        cells += len(pair.source) * len(pair.target)
        if cells > _BLOCK_CELLS and place > start:
            yield pairs[start:place]
            start, cells = place, len(pair.source) * len(pair.target)
    if start < len(pairs):
        yield pairs[start:]


class Mismatch(NamedTuple):
    """A word without the counterpart that it needs on the other side.

    Attributes:
        error: The kind of the word.
        side: The side of the word.
        start: Position of the word in the sentence; in a `CheckedSentence`, its first character.
        end: The position after it.
        probability: The probability of an error.
    """

    error: CriticalError
    side: Side
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class PairScores:
    """Scores of one sentence pair; the higher, the more probable is the error.

    Attributes:
        sentence: Score of the sentence for each error that the detector finds.
        words: Score of each word for the same errors: [S] for omissions, [T] for additions and repetitions.
            Empty if the detector judges sentences only.
        mismatches: The words without the counterpart that they need.
    """

    sentence: Mapping[SentenceError, float]
    words: Mapping[CoverageError, Float[np.ndarray, "..."]] = field(default_factory=dict)
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(eq=False)
class Detector(ABC):
    """Base class of detectors.

    Attributes:
        needs_model: Whether the detector needs a model of good translations.
        model: The `regard.extensions.check.model.ErrorModel`. None without one.
        num_threads: Number of threads; 0 uses all processors.
        encoder: A multilingual encoder (the hook `text_encoder`), which a detector without a model may use.
    """

    needs_model: ClassVar[bool] = False

    model: Any = None
    num_threads: int = 0
    encoder: Any = None

    @abstractmethod
    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""


DETECTORS: NamedRegistry[type[Detector]] = NamedRegistry(
    "detector",
    packages=["regard.extensions.check.detectors"],
    contract=subclass_of(Detector),
)
register_detector = DETECTORS.register


def build_detector(name: str, model: Any = None, num_threads: int = 0) -> Detector:
    """Build a detector by its name.

    Args:
        name: The name.
        model: The model of good translations.
        num_threads: Number of threads; 0 uses all processors.

    Raises:
        UsageError: if there is no such detector, or it needs a model.
    """
    detector = DETECTORS.get(name)
    if detector is None:
        raise UsageError(f"detector {name!r}: expected one of {', '.join(DETECTORS.names())}")
    if detector.needs_model and model is None:
        raise UsageError(
            f"the detector {name!r} needs parallel text of good translations, or a model trained on such "
            "text: training=(sources, translations) or checker=DIR in Python, --train SOURCE TARGET or "
            "--checker DIR on the command line. The detectors 'rules', 'length' and 'repetition' need none"
        )
    return detector(model, num_threads)
