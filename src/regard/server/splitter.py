"""Sentences of a text in any language, by rules that no list of abbreviations stands behind.

A sentence ends

- at every line break;
- after `.`, `!`, `?`, `…` and their kin of other scripts, with the quotes and brackets that close behind
  them, where white space follows, unless the next word starts with a small letter;
- after the full stops of scripts without spaces (`。`, `！`, `？`), whatever follows.

A `.` ends none after what looks like an abbreviation or an ordinal: a single letter (`J.`), letters with a
dot between them (`e.g.`, `U.S.`), up to four letters without a vowel that are not all capitals (`Dr.`,
`bzw.`; not `DDR.`), one or two digits (`3. Mai`). An abbreviation with a vowel before a capital (`Prof.
Weber`) is cut wrongly: no rule without a list knows it from the end of a sentence.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Sentence", "split_sentences"]

_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACED = ".!?…‽⁇⁈⁉؟۔।॥።፧"
_UNSPACED = "。！？｡．"
_END = re.compile(f"[{_SPACED}{_UNSPACED}]+")
_VOWELS = set("aeiouyæøœаеёиоуыэюяіїєαεηιουω")
_QUOTES = "\"'"


@dataclass(frozen=True)
class Sentence:
    """A sentence and its place.

    Attributes:
        text: Its words, a space between two.
        start: Where it starts in the whole text, in characters.
        end: Where it ends.
    """

    text: str
    start: int
    end: int


def split_sentences(text: str, lines_only: bool = False) -> list[Sentence]:
    """The sentences of a text, in order; white space alone is none.

    Args:
        text: The text.
        lines_only: Whether a line is a sentence, whatever stands in it.
    """
    cut = _trimmed if lines_only else _spans
    return [
        Sentence(" ".join(text[start:end].split()), start, end)
        for first, last in _lines(text)
        for start, end in cut(text, first, last)
    ]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _BREAK.finditer(text):
        yield start, found.start()
        start = found.end()
    yield start, len(text)


def _spans(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence of a line, without the white space around it."""
    start = first
    for found in _END.finditer(text, first, last):
        end = _past_closing(text, found.end(), last)
        if found.start() >= start and _ends(text, found, end, last, start):
            yield from _trimmed(text, start, end)
            start = end
    yield from _trimmed(text, start, last)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def _past_closing(text: str, place: int, last: int) -> int:
    """The place after what closes: brackets, and every kind of quotes, as `“` opens here and closes there."""
    while place < last and (
        unicodedata.category(text[place]) in ("Pe", "Pf", "Pi") or text[place] in _QUOTES
    ):
        place += 1
    return place


def _ends(text: str, found: re.Match[str], end: int, last: int, start: int) -> bool:
    """Whether the marks that were found end a sentence; `end` is the place after what closes behind them."""
    if end >= last:
        return True
    if found.group()[-1] in _UNSPACED:
        return True
    if not text[end].isspace():
        return False
    following = _first_letter(text, end, last)
    if following.islower():
        return False
    return found.group() != "." or not _is_short_for(_word_before(text, found.start(), start))


def _first_letter(text: str, place: int, last: int) -> str:
    """The first character that is neither white space nor opens a quote or bracket; empty at the end."""
    while place < last and (
        text[place].isspace()
        or unicodedata.category(text[place]) in ("Ps", "Pi", "Pf", "Cf")
        or text[place] in _QUOTES
    ):
        place += 1
    return text[place] if place < last else ""


def _word_before(text: str, place: int, start: int) -> str:
    """The letters, digits, marks and inner dots that stand before a place."""
    first = place
    while first > start and (text[first - 1] == "." or unicodedata.category(text[first - 1])[0] in "LNM"):
        first -= 1
        if place - first > 12:  # longer than any abbreviation
            break
    return text[first:place]


def _is_short_for(word: str) -> bool:
    """Whether a word with a dot behind it looks like an abbreviation or an ordinal."""
    parts = word.split(".")
    if len(parts) > 1:
        return all(part and len(part) <= 3 for part in parts)
    letters = [one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one)]
    if not letters:
        return False
    if all(one.isdecimal() for one in letters):
        return len(letters) <= 2
    if len(letters) == 1:
        # A letter of a script without case (Chinese, Arabic) is no initial.
        return letters[0].isupper() or letters[0].islower()
    cased = all(one.isupper() or one.islower() for one in letters)
    return (
        cased
        and len(letters) <= 4
        and not word.isupper()
        and not any(one.lower() in _VOWELS for one in letters)
    )
