"""The contract of detectors of coverage errors, and their registry.

A detector gives a score to each source word (omitted), to each target word (added, repeated) and to the
sentence. A plugin registers another one with
`register_detector`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from regard.analysis.coverage.text import WordPair
from regard.errors import UsageError
from regard.registry import NamedRegistry
from regard.types import Float

if TYPE_CHECKING:
    from regard.analysis.coverage.model import CoverageModel

__all__ = [
    "DETECTORS",
    "ERRORS",
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
class DetectionInput:
    """The inputs of detectors; each names those that it needs.

    Attributes:
        model: The trained model of good translations, with its word aligner.
        num_threads: Number of threads of the aligner; 0 uses all processors.
    """

    model: "CoverageModel | None" = None
    num_threads: int = 0


class Detector(ABC):
    """Base class of detectors.

    Attributes:
        name: Name in tables and options.
        needs: The inputs that the detector needs, by the names of `DetectionInput`.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, inputs: DetectionInput) -> None:
        """Keep the inputs.

        Raises:
            UsageError: if an input is missing; names what to give.
        """
        for need in self.needs:
            if getattr(inputs, need) is None:
                raise UsageError(f"the detector {self.name!r} needs {_REMEDIES[need]}")
        self.inputs = inputs

    @abstractmethod
    def detect(self, pairs: Sequence[WordPair]) -> list[PairScores]:
        """Return the scores of each pair."""


_REMEDIES: Mapping[str, str] = {
    "model": "parallel text of good translations, or a model trained on such text: training=(sources, "
    "translations) or model=DIR in Python, --train-source and --train-target or --model DIR on the command "
    "line. The detectors 'length' and 'repetition' need none",
}

DETECTORS: NamedRegistry[type[Detector]] = NamedRegistry("detector", packages=["regard.analysis.coverage"])
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
