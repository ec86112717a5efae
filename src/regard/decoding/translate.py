"""From lines of text to translations of them, in order and in bounded memory."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.fertility import Fertilities
from regard.data.links import Links
from regard.data.text import TextPair
from regard.data.vocabulary import UNK
from regard.decoding.beam import beam_search
from regard.decoding.blocks import blocks, sorted_batches, too_long
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import sample
from regard.decoding.unknown import map_weights, replace_unknown
from regard.errors import DataError
from regard.metrics.alignment import links_from_weights
from regard.models.base import TranslationModel
from regard.types import Float

__all__ = ["Line", "LineResult", "Translation", "Translator", "number_lines", "warn_refused"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """A line to translate.

    Attributes:
        number: Counted from 1.
        text: Its text.
        prefix: The text its translation must start with.
        fertilities: How much attention each of its tokens must and may receive, for models with a budget;
            none: the model's own.
    """

    number: int
    text: str
    prefix: str = ""
    fertilities: Fertilities | None = None


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: Its text.
        tokens: Its tokens, as the model said them.
        hypothesis: Its scores and its attention.
        source_words: The word that each source token is part of.
        target_words: The same of `tokens`.
    """

    text: str
    tokens: tuple[str, ...]
    hypothesis: Hypothesis
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]

    @property
    def score(self) -> float:
        """What search ranks by."""
        return self.hypothesis.score

    @cached_property
    def weights(self) -> Float[np.ndarray, "T S"]:
        """One map, the end symbol left out: the last layer, the mean of its heads."""
        return map_weights(self.hypothesis.attention)[: len(self.tokens)]

    @cached_property
    def links(self) -> Links:
        """The most attended source word of each target word, both counted from 0."""
        return links_from_weights(self.weights, self.source_words, self.target_words)


@dataclass(frozen=True)
class LineResult:
    """What became of a line.

    Attributes:
        line: The line.
        source_tokens: Its tokens, as the model read them: with its sink, once there are translations.
        translations: Best first; none for a line that is empty or refused.
        refused: Why the line was refused; none where it was not.
    """

    line: Line
    source_tokens: tuple[str, ...] = ()
    translations: tuple[Translation, ...] = ()
    refused: str | None = None

    @property
    def text(self) -> str:
        """The best translation, or an empty line."""
        return self.translations[0].text if self.translations else ""


@dataclass(frozen=True)
class Translator:
    """A model with its text handling and search settings.

    Attributes:
        model: The model, or an ensemble.
        text: How its two sides are written.
        search: How to search.
        sampling: How to draw translations; without it they are searched for.
    """

    model: TranslationModel
    text: TextPair
    search: SearchConfig
    sampling: SamplingConfig | None = None

    def translate(self, lines: Iterable[Line]) -> Iterator[LineResult]:
        """Translate lines, a block of `search.batch.block` at a time; results come in order.

        A line that is too long is refused with a warning.
        """
        for block in blocks(lines, self.search.batch.block):
            for result in self.block(block):
                warn_refused(result)
                yield result

    def block(self, lines: Sequence[Line]) -> list[LineResult]:
        """Translate lines held together."""
        results = [self._read(line) for line in lines]
        lengths = [0 if result.refused else len(result.source_tokens) for result in results]
        for rows in sorted_batches(lengths, self.search.batch):
            for row, found in zip(rows, self._search([results[row] for row in rows]), strict=True):
                result = results[row]
                written = tuple(self._write(result, hypothesis) for hypothesis in found)
                read = (*result.source_tokens, *self.text.sink)
                results[row] = LineResult(result.line, read, written)
        return results

    def _read(self, line: Line) -> LineResult:
        """Tokenise a line, or refuse it."""
        longest = self.search.batch.longest
        refused = too_long(line.text, None, longest)
        if refused is None:
            tokens = self.text.source.tokenize(line.text)
            refused = too_long(line.text, len(tokens), longest)
            if refused is None:
                return LineResult(line, tuple(tokens))
        return LineResult(line, refused=refused)

    def _search(self, read: Sequence[LineResult]) -> list[list[Hypothesis]]:
        """Search for a batch of lines, or draw."""
        ids = [self.text.source.vocabulary.ids(result.source_tokens) for result in read]
        numbers = [result.line.number for result in read]
        device = next(self.model.parameters()).device
        given = [result.line.fertilities for result in read]
        batch = self.text.batch(ids, None, numbers, given).to(device)
        source = batch.source
        prefixes = None
        if any(result.line.prefix for result in read):
            prefixes = [self.text.target.encode(result.line.prefix) for result in read]
        if self.sampling is not None:
            return sample(
                self.model, source, self.search, self.sampling, numbers, prefixes, batch.upper, batch.lower
            )
        return beam_search(self.model, source, self.search, prefixes, batch.upper, batch.lower)

    def _write(self, result: LineResult, hypothesis: Hypothesis) -> Translation:
        """A hypothesis as text."""
        target = self.text.target
        said = target.vocabulary.strings(hypothesis.tokens)
        # A forced prefix is written as it was given, be its words known or not.
        given = target.tokenize(result.line.prefix) if result.line.prefix else []
        written = [*given, *said[len(given) :]]
        if self.search.replace_unknown and UNK in hypothesis.tokens[len(given) :]:
            unknown = [token == UNK and i >= len(given) for i, token in enumerate(hypothesis.tokens)]
            weights = map_weights(hypothesis.attention)
            written = replace_unknown(unknown, written, weights, result.source_tokens, self.text)
        return Translation(
            text=target.tokenizer.decode(written),
            tokens=tuple(said),
            hypothesis=hypothesis,
            source_words=(*self.text.source.word_ids(result.source_tokens), *[-1] * len(self.text.sink)),
            target_words=tuple(target.word_ids(said)),
        )


def number_lines(
    lines: Iterable[str], prefixes: Iterable[str] | None = None, name: str = "the prefixes"
) -> Iterator[Line]:
    """Lines with their numbers and the prefixes of their translations.

    Args:
        lines: The lines.
        prefixes: As many prefixes.
        name: Where the prefixes come from, for messages.

    Raises:
        DataError: if the numbers of lines and prefixes differ.
    """
    if prefixes is None:
        yield from (Line(number, text) for number, text in enumerate(lines, 1))
        return
    given = iter(prefixes)
    number = 0
    for number, text in enumerate(lines, 1):
        prefix = next(given, None)
        if prefix is None:
            raise DataError(f"{name}: ends after line {number - 1}; there is a line {number} to translate")
        yield Line(number, text, prefix)
    if next(given, None) is not None:
        raise DataError(f"{name}: more lines than there are to translate ({number})")


def warn_refused(result: LineResult) -> None:
    """Tell of a line that was refused."""
    if result.refused:
        _log.warning("line %d refused, its translation is left empty: %s", result.line.number, result.refused)
