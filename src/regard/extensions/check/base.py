"""The contract of detectors of coverage errors, and their registry.

A detector gives a score to each source word (omitted), to each target word (added, repeated) and to the
sentence. A plugin registers another one with
`register_detector`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float

from regard.config.registry import NamedRegistry, subclass_of
from regard.errors import UsageError
from regard.extensions.check.text import WordPair, blocks

if TYPE_CHECKING:
    from regard.extensions.check.link_model import Evidence
    from regard.generation.base import BaseTranslator

__all__ = [
    "DETECTORS",
    "ERRORS",
    "ContrastiveConfig",
    "CoverageError",
    "DetectionInput",
    "Detector",
    "PairScores",
    "SentenceError",
    "build_detector",
    "register_detector",
]

CoverageError = Literal["omission", "addition", "repetition"]
ERRORS: tuple[CoverageError, ...] = get_args(CoverageError)
"""The kinds of coverage errors. Omissions are found in the source, the others in the translation."""

SentenceError = Literal["omission", "addition", "repetition", "unrelated"]
"""The kinds of errors of a sentence: also a translation that is unrelated to the source."""


@dataclass(frozen=True)
class PairScores:
    """Scores of one sentence pair; the higher, the more probable is the error.

    Attributes:
        sentence: Score of the sentence for each error that the detector finds.
        words: Score of each word for the same errors: [S] for omissions, [T] for additions and repetitions.
            Empty if the detector judges sentences only.
    """

    sentence: Mapping[SentenceError, float]
    words: Mapping[CoverageError, Float[np.ndarray, "..."]] = field(default_factory=dict)


@dataclass(frozen=True)
class ContrastiveConfig:
    """Settings of contrastive conditioning.

    Attributes:
        max_span: Maximum number of words in a span that is left out. The text between two punctuation marks
            may be longer.
        candidates: Number of spans that are left out, per word of the sentence: those with the highest scores
            of the detector `combined` if there is a model of good translations. Otherwise, the words are left
            out in pairs first, and these are the single words and the spans of three or more words with the
            highest gains.
        word_penalty: Nats by which the gain of a span of one word is lowered, because lines are often more
            probable without a word that is not omitted.
    """

    max_span: int = 5
    candidates: float = 0.5
    word_penalty: float = 1.5


@dataclass(frozen=True)
class DetectionInput:
    """The inputs of detectors; each names those that it needs.

    Attributes:
        model: The `regard.extensions.check.model.ErrorModel`, with its word aligner. None without one.
        num_threads: Number of threads of the aligner; 0 uses all processors.
        translator: A translator from the source to the target language, which scores translations.
        reverse_translator: A translator from the target to the source language.
        contrastive: Settings of contrastive conditioning.
    """

    model: Any = None
    num_threads: int = 0
    translator: "BaseTranslator | None" = None
    reverse_translator: "BaseTranslator | None" = None
    contrastive: ContrastiveConfig = field(default_factory=ContrastiveConfig)

    def evidence(self, pairs: Sequence[WordPair]) -> "Iterator[Evidence]":
        """Yield the evidence of the model about a text, in blocks of sentences that bound the memory."""
        assert self.model is not None
        return (self.model.collect(block, self.num_threads) for block in blocks(pairs))

    @property
    def translators(self) -> "Mapping[CoverageError, BaseTranslator]":
        """The translators that are present, by the kind of error that they find."""
        both: "dict[CoverageError, BaseTranslator | None]" = {
            "omission": self.translator,
            "addition": self.reverse_translator,
        }
        return {error: translator for error, translator in both.items() if translator is not None}


class Detector(ABC):
    """Base class of detectors.

    Attributes:
        name: Name in tables and options.
        needs: The inputs that the detector needs, by the names of `DetectionInput`.
        needs_one_of: Inputs of which the detector needs at least one. It finds more errors with all of them.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    needs_one_of: ClassVar[tuple[str, ...]] = ()

    def __init__(self, inputs: DetectionInput) -> None:
        """Keep the inputs.

        Raises:
            UsageError: if an input is missing; names what to give.
        """
        missing = [_REMEDIES[need] for need in self.needs if getattr(inputs, need) is None]
        if all(getattr(inputs, need) is None for need in self.needs_one_of):
            missing += [" or ".join(_REMEDIES[need] for need in self.needs_one_of)] * bool(self.needs_one_of)
        if missing:
            raise UsageError(f"the detector {self.name!r} needs {'; and '.join(missing)}")
        self.inputs = inputs

    @abstractmethod
    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""


_REMEDIES: Mapping[str, str] = {
    "model": "parallel text of good translations, or a model trained on such text: training=(sources, "
    "translations) or checker=DIR in Python, --train SOURCE TARGET or --checker DIR on the command "
    "line. The detectors 'length' and 'repetition' need none",
    "translator": "a translator from the source to the target language (translator=), to find omissions",
    "reverse_translator": "a translator from the target to the source language (reverse_translator=), to "
    "find additions",
}

DETECTORS: NamedRegistry[type[Detector]] = NamedRegistry(
    "detector",
    packages=[f"regard.extensions.check.{name}" for name in ("detectors", "model", "contrastive")],
    contract=subclass_of(Detector),
)
register_detector = DETECTORS.register


def build_detector(name: str, inputs: DetectionInput) -> Detector:
    """Build a detector by its name.

    Raises:
        UsageError: if there is no such detector, or an input that it needs is missing.
    """
    detector = DETECTORS.get(name)
    if detector is None:
        raise UsageError(f"detector {name!r}: expected one of {', '.join(DETECTORS.names())}")
    return detector(inputs)
