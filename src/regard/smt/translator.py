"""Translation of text lines with a phrase-based system.

The attention of a translation is derived from the word links within its phrase pairs. A target word
distributes a total weight of 1 evenly over the source words that it is linked to. Target words without links
and the end symbol have no attention. Scores are weighted sums of features and not normalized, so they rank
only translations of the same sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from regard.cpu_threads import num_available_cpus
from regard.data.text import TextProcessor
from regard.data.vocabulary import UNK
from regard.generation.base import BaseTranslator, Capability, Description
from regard.generation.config import GenerationBatchConfig, GenerationConfig
from regard.generation.hypothesis import Hypothesis
from regard.generation.lines import InputLine, LineResult, TextHypothesis
from regard.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.smt.model import PhraseModel

__all__ = ["PhraseTranslator"]


@dataclass(frozen=True)
class PhraseTranslator(BaseTranslator):
    """A phrase-based system with search settings.

    Attributes:
        model: The system.
        text: Text processing of both sides.
        search: Search settings. `beam_size` is the number of hypotheses per stack that are extended, and
            `num_return` the number of translations returned. Apart from these, only the batch limits have an
            effect.
        num_threads: Number of CPU threads. 0 means one per processor. The translations do not depend on it.
        name: Name of the system in messages.
    """

    model: PhraseModel
    text: TextProcessor
    search: GenerationConfig
    num_threads: int = 0
    name: str = "the phrase-based system"
    search_options = frozenset(
        {"beam_size", "num_return", *(one.name for one in fields(GenerationBatchConfig))}
    )

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Attention, which is derived from word links. Scores are not probabilities."""
        return frozenset({"attention"})

    def describe(self) -> Description:
        """Return the properties of the system. Its parameters are the phrase pairs."""
        return Description("phrase", num_parameters=len(self.model.decoder.table), attention="phrase")

    @cached_property
    def _decoder(self) -> PhraseDecoder:
        decoder = self.model.decoder
        return replace(decoder, limits=replace(decoder.limits, stack_size=self.search.beam_size))

    def translate_block(self, lines: Sequence[InputLine]) -> list[LineResult]:
        """Translate the lines of one block."""
        results = [self.tokenize(line) for line in lines]
        sources = [self.model.source_ids(list(result.source_tokens)) for result in results]
        found = self._decoder.translate(
            sources, self.search.num_return, self.num_threads or num_available_cpus()
        )
        return [
            replace(result, translations=tuple(self._detokenize(result, one) for one in several))
            for result, several in zip(results, found, strict=True)
        ]

    def _detokenize(self, result: LineResult, found: PhraseTranslation) -> TextHypothesis:
        """Convert a translation to text, with the word links of its phrases as attention."""
        target, words = self.text.target, found.words
        weights = np.zeros((len(words) + 1, 1, len(result.source_tokens)), dtype=np.float32)
        written: list[str] = []
        # Within a phrase, target positions count from the number of words before it.
        for phrase in found.phrases:
            for i, j in phrase.links:
                weights[len(written) + j, 0, i] = 1
            known = target.vocabulary.to_tokens([word for word in phrase.words if word != COPIED])
            written += known or [result.source_tokens[phrase.start]]
        sums = weights.sum(axis=2, keepdims=True)
        hypothesis = Hypothesis(
            tokens=tuple(UNK if word == COPIED else word for word in words),
            score=found.score,
            log_probability=found.score,
            token_log_probs=(),
            attention=(weights / np.maximum(sums, 1),),
        )
        return self.to_translation(result, target.tokenizer.decode(written), written, hypothesis)
