"""From lines of text to their translations by a phrase-based system, in the form of `Translator`'s.

What a neural model attends to is here what its phrases say: a target word gives each source word that it
is linked to within its phrase the same weight, 1 in all; one without links, and the end symbol, give none.
Scores are weighted sums of features, not normalised: they rank translations of one sentence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from regard.data.text import TextPair
from regard.data.vocabulary import UNK
from regard.decoding.blocks import blocks, too_long
from regard.decoding.config import SearchConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.translate import Line, LineResult, Translation, warn_refused
from regard.processors import available_processors
from regard.smt.decoder import COPIED, Decoder, Found
from regard.smt.model import PhraseModel

__all__ = ["PhraseTranslator"]


@dataclass(frozen=True)
class PhraseTranslator:
    """A phrase-based system with search settings.

    Attributes:
        model: The system.
        search: Its `beam` is the number of hypotheses of a stack that are extended, its `nbest` how many
            translations are returned; of the rest the limits of `batch` alone count.
        threads: On the CPU; 0: as many as there are processors. The translations do not depend on it.
    """

    model: PhraseModel
    search: SearchConfig
    threads: int = 0

    @property
    def text(self) -> TextPair:
        """How the two sides are written."""
        return self.model.text

    @cached_property
    def _decoder(self) -> Decoder:
        decoder = self.model.decoder
        return replace(decoder, beam=replace(decoder.beam, stack=self.search.beam))

    def as_written(self) -> "PhraseTranslator":
        """The same for tokenised text, which is taken as it stands."""
        return replace(self, model=replace(self.model, text=self.text.as_written()))

    def translate(self, lines: Iterable[Line]) -> Iterator[LineResult]:
        """Translate lines as `Translator.translate` does."""
        for block in blocks(lines, self.search.batch.block):
            for result in self.block(block):
                warn_refused(result)
                yield result

    def block(self, lines: Sequence[Line]) -> list[LineResult]:
        """Translate lines held together."""
        results = [self._read(line) for line in lines]
        sources = [self.model.source_ids(list(result.source_tokens)) for result in results]
        found = self._decoder.translate(sources, self.search.nbest, self.threads or available_processors())
        return [
            replace(result, translations=tuple(self._write(result, one) for one in several))
            for result, several in zip(results, found, strict=True)
        ]

    def _read(self, line: Line) -> LineResult:
        """Tokenise a line, or refuse it."""
        longest, side = self.search.batch.longest, self.text.source
        refused = too_long(line.text, None, longest) or side.problem(line.text)
        if line.prefix or line.terms or line.fertility:
            refused = "a phrase-based system takes no prefix, terms or fertilities"
        if refused is None:
            tokens = side.tokenize(line.text)
            refused = too_long(line.text, len(tokens), longest)
            if refused is None:
                return LineResult(line, tuple(tokens))
        return LineResult(line, refused=refused)

    def _write(self, result: LineResult, found: Found) -> Translation:
        """A translation as text, with the links of its phrases as attention."""
        source, target = self.text.source, self.text.target
        words = found.words
        weights = np.zeros((len(words) + 1, 1, len(result.source_tokens)), dtype=np.float32)
        said: list[str] = []
        for piece in found.pieces:
            for i, j in piece.links:
                weights[len(said) + j, 0, i] = 1
            known = target.vocabulary.strings([word for word in piece.words if word != COPIED])
            said += known or [result.source_tokens[piece.start]]
        sums = weights.sum(axis=2, keepdims=True)
        hypothesis = Hypothesis(
            tokens=tuple(UNK if word == COPIED else word for word in words),
            score=found.score,
            log_probability=found.score,
            token_log_probs=(),
            attention=(weights / np.maximum(sums, 1),),
        )
        return Translation(
            text=target.tokenizer.decode(said),
            tokens=tuple(said),
            hypothesis=hypothesis,
            source_words=tuple(source.word_ids(result.source_tokens)),
            target_words=tuple(target.word_ids(said)),
            alignment=self.search.alignment,
        )
