"""Split a text into sentences with sentencex, the sentence splitter of the Wikimedia Foundation.

It has rules and abbreviations for many languages, so that `Prof. Weber` is not split. For other languages it
uses the rules of a related language or of English. A line break always ends a sentence.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

from regard.data.whitespace import normalize_whitespace

__all__ = ["SentenceSpan", "split_sentences"]

_log = logging.getLogger(__name__)
_SPACE = re.compile(r"\s")
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True)
class SentenceSpan:
    """A sentence and its position in a text.

    Attributes:
        text: The sentence, with single spaces between words.
        start: Index of its first character in the whole text.
        end: Index after its last character.
    """

    text: str
    start: int
    end: int


def split_sentences(text: str, lines_only: bool = False, language: str | None = None) -> list[SentenceSpan]:
    """Return the sentences of a text, in order; lines of white space are skipped.

    Args:
        text: The text.
        lines_only: Whether each line is one sentence, without further splitting.
        language: Language code of ISO 639. Default: English.
    """
    return [
        SentenceSpan(normalize_whitespace(text[start:end]), start, end)
        for first, last in _lines(text)
        for start, end in ([(first, last)] if lines_only else _spans(text, first, last, language or "en"))
        for start, end in _trimmed(text, start, end)
    ]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _BREAK.finditer(text):
        yield start, found.start()
        start = found.end()
    yield start, len(text)


def _spans(text: str, first: int, last: int, language: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence of a line."""
    start = first
    for sentence in _segment(text[first:last], language):
        yield start, start + len(sentence)
        start += len(sentence)


def _segment(line: str, language: str) -> list[str]:
    """Return the sentences of a line including white space; the whole line if sentencex fails."""
    # sentencex 1.0.32 splits within the bytes of U+3000 after an initial. Each white space character is
    # therefore replaced by one space, which keeps all indices.
    plain = _SPACE.sub(" ", line)
    try:
        found = segment(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of its Rust code, not a subclass of Exception
            raise
        _log.warning("a line of %d characters is not split: sentencex: %s", len(line), error)
        return [line]
    # Without this check, a character that sentencex drops would shift the positions of all later sentences.
    return found if "".join(found) == plain else [line]


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
