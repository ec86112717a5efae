"""Translation of text lines with a phrase-based system, through the interface of `Translator`.

The attention of a translation is derived from the word links within its phrase pairs. A target word
distributes a total weight of 1 evenly over the source words that it is linked to. Target words without links
and the end symbol have no attention. Scores are weighted sums of features and not normalized, so they rank
only translations of the same sentence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from regard.cpu_threads import num_available_cpus
from regard.data.text import TextProcessor
from regard.data.vocabulary import UNK
from regard.decoding.blocks import length_error, read_blocks
from regard.decoding.config import GenerationConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.lines import InputLine, LineResult, Translation, log_warnings
from regard.smt.decoder import COPIED, PhraseDecoder, PhraseTranslation
from regard.smt.model import PhraseModel

__all__ = ["PhraseTranslator"]


@dataclass(frozen=True)
class PhraseTranslator:
    """A phrase-based system with search settings.

    Attributes:
        model: The system.
        search: Search settings. `beam_size` is the number of hypotheses per stack that are extended, and
            `num_return` the number of translations returned. Apart from these, only the batch limits have an
            effect.
        num_threads: Number of CPU threads. 0 means one per processor. The translations do not depend on it.
    """

    model: PhraseModel
    search: GenerationConfig
    num_threads: int = 0

    @property
    def text(self) -> TextProcessor:
        """Return the text processing of both sides."""
        return self.model.text

    @cached_property
    def _decoder(self) -> PhraseDecoder:
        decoder = self.model.decoder
        return replace(decoder, limits=replace(decoder.limits, stack_size=self.search.beam_size))

    def pretokenized(self) -> "PhraseTranslator":
        """Return a copy for pretokenized text, whose words are used unchanged."""
        return replace(self, model=replace(self.model, text=self.text.without_conversion()))

    def translate(self, lines: Iterable[InputLine]) -> Iterator[LineResult]:
        """Translate lines as `Translator.translate` does."""
        for block in read_blocks(lines, self.search.buffer_lines):
            for result in self.translate_block(block):
                log_warnings(result)
                yield result

    def translate_block(self, lines: Sequence[InputLine]) -> list[LineResult]:
        """Translate the lines of one block."""
        results = [self._tokenize(line) for line in lines]
        sources = [self.model.source_ids(list(result.source_tokens)) for result in results]
        found = self._decoder.translate(
            sources, self.search.num_return, self.num_threads or num_available_cpus()
        )
        return [
            replace(result, translations=tuple(self._to_translation(result, one) for one in several))
            for result, several in zip(results, found, strict=True)
        ]

    def _tokenize(self, line: InputLine) -> LineResult:
        """Tokenize a line, or reject it."""
        max_length, side = self.search.max_source_length, self.text.source
        error = length_error(line.text, None, max_length) or side.format_error(line.text)
        if line.prefix or line.terms or line.fertilities:
            error = "a phrase-based system does not support prefixes, terms or fertilities"
        if error is None:
            tokens = side.tokenize(line.text)
            error = length_error(line.text, len(tokens), max_length)
            if error is None:
                return LineResult(line, tuple(tokens))
        return LineResult(line, error=error)

    def _to_translation(self, result: LineResult, found: PhraseTranslation) -> Translation:
        """Convert a translation to text, with the word links of its phrases as attention."""
        source, target = self.text.source, self.text.target
        words = found.words
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
        return Translation(
            text=target.tokenizer.decode(written),
            tokens=tuple(written),
            hypothesis=hypothesis,
            source_words=tuple(source.word_ids(result.source_tokens)),
            target_words=tuple(target.word_ids(written)),
            alignment=self.search.alignment,
        )
