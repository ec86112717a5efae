"""Lines of input with their user-specified fertilities, and the results of their translation."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from torch import nn

from regard.attention.base import Attention
from regard.attention.constrained import LOWER_BOUND_TOLERANCE
from regard.data.fertility import Bounds, Fertilities, parse_fertilities, token_fertilities
from regard.data.text import TextSide
from regard.errors import DataError
from regard.generation.config import AlignmentConfig
from regard.generation.coverage import LineRepair
from regard.generation.hypothesis import Hypothesis
from regard.generation.linking import WordIndices, attention_links, attention_map
from regard.text.links import Links
from regard.text.whitespace import ASCII_WHITESPACE, normalize_whitespace
from regard.types import Float

__all__ = [
    "Line",
    "LineResult",
    "TextHypothesis",
    "enumerate_lines",
    "has_bounded_attention",
    "log_warnings",
    "split_terms",
    "user_fertilities",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """A line to translate.

    Attributes:
        number: Line number, counted from 1.
        text: Source text.
        prefix: Text that the translation must start with.
        fertilities: Minimum and maximum attention of the tokens, or of the words, for models with
            fertilities. A maximum of NaN keeps the model's own. None keeps them all.
        terms: Words and phrases that the translation must contain.
        fertilities_name: Origin of the fertilities, for messages.
    """

    number: int
    text: str
    prefix: str = ""
    fertilities: Bounds | None = None
    terms: tuple[str, ...] = ()
    fertilities_name: str = "the fertilities"


@dataclass(frozen=True)
class TextHypothesis:
    """A hypothesis of search, converted to text.

    Attributes:
        text: The translated text.
        tokens: Tokens as the model generated them.
        hypothesis: Scores and attention.
        source_words: Word index of each source token.
        target_words: Word index of each token of `tokens`.
        alignment: Settings of the attention used for the links.
    """

    text: str
    tokens: tuple[str, ...]
    hypothesis: Hypothesis
    source_words: tuple[int, ...]
    target_words: tuple[int, ...]
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)

    @property
    def score(self) -> float:
        """Return the score that search ranks by."""
        return self.hypothesis.score

    @cached_property
    def weights(self) -> Float[np.ndarray, "T S"]:
        """Return the attention map used for the links; see `regard.generation.linking`."""
        return attention_map(self.hypothesis.posterior_attention, self.alignment)

    @cached_property
    def links(self) -> Links:
        """Return for each target word the source word with the highest attention, both counted from 0."""
        hypothesis, words = self.hypothesis, WordIndices(self.source_words, self.target_words)
        return attention_links(hypothesis.attention, hypothesis.posterior_attention, self.alignment, words)


@dataclass(frozen=True)
class LineResult:
    """Result of translating one line.

    Attributes:
        line: The line.
        source_tokens: Source tokens. They include the sink once there are translations.
        translations: Translations, best first. Empty if the line is empty or rejected.
        error: Why the line was rejected, or None.
        fertilities: User-specified minimum and maximum attention of the tokens.
        missing_terms: Required terms that at least one of the translations does not contain, with the reason
            if it is known.
        repair: Record of the check of the translation. None if it was not checked.
    """

    line: Line
    source_tokens: tuple[str, ...] = ()
    translations: tuple[TextHypothesis, ...] = ()
    error: str | None = None
    fertilities: Fertilities | None = None
    missing_terms: tuple[str, ...] = ()
    repair: LineRepair | None = None

    @property
    def text(self) -> str:
        """Return the text of the best translation, or an empty string."""
        return self.translations[0].text if self.translations else ""

    @property
    def unmet_lower_bounds(self) -> list[tuple[int, float]]:
        """Return the source tokens with less attention than their minimum, and the attention received.

        As in search, the total may be half a unit below the minimum, and attention is averaged over heads.
        The minimum may be violated if a translation reaches its maximum length or if no attention is left.
        """
        if self.fertilities is None or not self.translations:
            return []
        if self.translations[0].alignment.map != "attention":
            return []  # the map is an attribution, and received attention is unknown
        received = self.translations[0].hypothesis.attention[-1].mean(axis=1).sum(0).tolist()
        minimum = [low for low, _ in self.fertilities]
        # The sink, if there is one, follows the source tokens and has no minimum.
        pairs = zip(received, minimum, strict=False)
        return [(place, got) for place, (got, low) in enumerate(pairs) if got < low - LOWER_BOUND_TOLERANCE]


def enumerate_lines(
    lines: Iterable[str],
    prefixes: Iterable[str] | None = None,
    prefixes_name: str = "the prefixes",
    fertilities: Iterable[str] | None = None,
    fertilities_name: str = "the fertilities",
    terms: Iterable[str] | None = None,
    terms_name: str = "the terms",
) -> Iterator[Line]:
    """Yield numbered lines with their prefixes, fertilities and required terms.

    Args:
        lines: The lines.
        prefixes: One prefix per line.
        prefixes_name: Origin of the prefixes, for messages.
        fertilities: One line of fertilities per line; see `parse_fertilities`.
        fertilities_name: Origin of the fertilities, for messages.
        terms: One line of terms per line, separated by tabs.
        terms_name: Origin of the terms, for messages.

    Raises:
        DataError: if the numbers of lines differ, or a line is not one of fertilities.
    """
    files = {
        "prefix": (prefixes, prefixes_name),
        "fertilities": (fertilities, fertilities_name),
        "terms": (terms, terms_name),
    }
    parallel = {key: (iter(entries), where) for key, (entries, where) in files.items() if entries is not None}
    # An empty text, too, is compared with its parallel files below.
    number = 0
    for number, text in enumerate(lines, 1):
        fields = {key: _next_line(*parallel_file, number) for key, parallel_file in parallel.items()}
        bounds = parse_fertilities(fields.get("fertilities", ""), f"{fertilities_name}, line {number}")
        listed = split_terms(fields.get("terms", ""))
        yield Line(number, text, fields.get("prefix", ""), bounds, listed, fertilities_name)
    for rest, where in parallel.values():
        if next(rest, None) is not None:
            raise DataError(f"{where} has more lines than the text to translate, which has {number}")


def split_terms(line: str) -> tuple[str, ...]:
    """Return the terms of a line, which tabs separate."""
    return tuple(filter(None, map(normalize_whitespace, line.split("\t"))))


def _next_line(given: Iterator[str], where: str, number: int) -> str:
    """Return the next line of a file that is parallel to the text."""
    line = next(given, None)
    if line is None:
        raise DataError(
            f"{where} ends after line {number - 1}, but the text to translate has a line {number}: both must "
            "have the same number of lines"
        )
    return line


def log_warnings(result: LineResult) -> None:
    """Log warnings if a line was rejected or its translation violates required terms or minimum attention."""
    if result.error:
        _log.warning("line %d is rejected, its translation is empty: %s", result.line.number, result.error)
    for term in result.missing_terms:
        _log.warning("line %d: the translation does not contain the term %s", result.line.number, term)
    for place, received in result.unmet_lower_bounds:
        _log.warning(
            "line %d: source token %d (from 0), %r, received %.2f of attention, less than the minimum of its "
            "fertility",
            result.line.number,
            place,
            result.source_tokens[place],
            received,
        )


def has_bounded_attention(model: object) -> bool:
    """Return whether any attention layer of a model respects fertilities."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    return any(isinstance(part, Attention) and part.bounded for part in parts)


def user_fertilities(
    tokens: Sequence[str],
    side: TextSide,
    bounds: Bounds | None,
    by_word: Mapping[str, tuple[float, float]],
    where: str,
) -> Bounds | None:
    """Return the user-specified bounds on the attention to each token, or None if there are none.

    Args:
        tokens: The sentence.
        side: Text processing of the source.
        bounds: Minimum and maximum of each token or word. None specifies nothing.
        by_word: Minimum and maximum for words, applied to each of their subword tokens. Takes precedence over
            `bounds`.
        where: File and line, for messages.

    Raises:
        DataError: if the number of bounds does not match the sentence.
    """
    words = side.word_ids(tokens) if bounds or by_word else []
    token_bounds = list(token_fertilities(bounds, words, where)) if bounds else None
    if by_word:
        for number in dict.fromkeys(words):
            places = [i for i, word in enumerate(words) if word == number]
            word_bounds = by_word.get(
                side.tokenizer.decode([tokens[i] for i in places]).strip(ASCII_WHITESPACE)
            )
            if word_bounds is not None:
                # A NaN maximum keeps the model's own fertility.
                token_bounds = [(0.0, math.nan)] * len(tokens) if token_bounds is None else token_bounds
                for i in places:
                    token_bounds[i] = word_bounds
    return token_bounds
