"""The coverage model as the detector of search: for repair of translations and `--mbr coverage`."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.extensions.check.base import ERRORS
from regard.extensions.check.model import ErrorModel
from regard.extensions.check.text import split_pairs
from regard.generation.coverage import CoverageJudgment
from regard.text.words import fold_word, is_word

__all__ = ["CoverageModelJudge"]


@dataclass(frozen=True)
class CoverageModelJudge:
    """A `CoverageJudge` from a model of good translations and its word aligner.

    Attributes:
        model: The model.
        num_threads: Number of threads of the aligner; 0 uses all processors.
    """

    model: ErrorModel
    num_threads: int = 0

    def judge(self, sources: Sequence[str], translations: Sequence[str]) -> list[CoverageJudgment]:
        """Return the coverage errors of each translation."""
        pairs = split_pairs(sources, translations)
        scores = self.model.scores(self.model.collect(pairs, self.num_threads), self.num_threads)
        return [
            CoverageJudgment(
                pair.source,
                tuple(one.words["omission"].tolist()),
                *(float(one.sentence[error]) for error in ERRORS),
                errors=sum(float(values.sum()) for values in one.words.values()),
            )
            for pair, one in zip(pairs, scores, strict=True)
        ]

    def translations(self, word: str, count: int) -> list[str]:
        """Return up to `count` translations of a source word, in order of probability and in lower case."""
        found = self.model.aligner.translations(fold_word(word), count)
        # Punctuation and the words that align with everything are no useful terms.
        return [target for target, _ in found if is_word(target)]
