"""Conversion of input text to the format of the training text: lowercased or not, tokenized or plain.

If the training text is tokenized (`Der Hund schläft .`), its vocabulary contains `.` but not `schläft.`. If
it is lowercased, its vocabulary contains `hund` but not `Hund`. `prepare_data` detects the format of the
training text (`TextFormatDetector`) and stores it with the vocabularies (`TextFormat`). `TextSide.tokenize`
then converts input lines (`convert_format`): words are lowercased, and the punctuation of plain lines is
separated with the rules of Moses (Koehn et al., 2007). A word of the vocabulary is never changed: `Mr.`,
`U.S.`, `don't`, also if other marks touch it: `(C++),`. A line that contains a full stop, a comma or another
punctuation mark as a separate word is tokenized, and none of its words is split.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from regard.config import configclass, option
from regard.text.words import ASCII_WHITESPACE, joins_letters, split_whitespace

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

__all__ = ["PLAIN_TEXT", "TextFormat", "TextFormatDetector", "convert_format"]

_STOPS = frozenset(".,。、؟،।॥۔")
"""Punctuation marks that never follow a space in plain text, in any script."""
_SEPARATE_MARKS = _STOPS.union('?!:;()"“”„«»', ["``", "''"])
"""Punctuation marks that are separate words in tokenized text. Plain French has some of them, too."""
_FRENCH = frozenset("?!:;«»")
_CLITIC = re.compile(r"(?:'|&apos;)(?:s|ll|re|ve|d|m|t)|n(?:'|&apos;)t", re.IGNORECASE)
_ESCAPE = re.compile(r"&(?:apos|quot|amp|lt|gt|#91|#93|#124);")
_END = _STOPS | frozenset('!?;:…"؛՝։።፣')
_APOSTROPHES = "'’‘"
_WHITESPACE = re.compile(r"\s+")
_WORD = re.compile(f"[^{ASCII_WHITESPACE}]+")
_MAX_OWN_MARKS = 3
"""Number of marks at the start or end of a word that may be part of it, such as those of `C++`."""
_MIN_LOWERCASE_WORDS = 100
"""Number of words in lower case, without a capital letter among them, from which a text is lowercased."""


@configclass
class TextFormat:
    """Format of the training text of one language."""

    tokenized: bool = option(default=False, help="Whether punctuation is separated from words.")
    escaped: bool = option(
        default=False, help="Whether quotes and brackets are escaped as in Moses, such as &quot;."
    )
    lowercase: bool = option(default=False, help="Whether the text contains no capital letters.")
    language: str | None = option(
        default=None, help="Language as a two-letter code, or null if unknown.", pattern="^[a-z]{2,3}$"
    )


PLAIN_TEXT = TextFormat()
"""Plain text in an unknown language."""


class TextFormatDetector:
    """Counts punctuation marks and capital letters to detect the format of a text."""

    def __init__(self) -> None:
        """Initialize all counts with zero."""
        self.alone = self.attached = self.escapes = 0
        self.lower = self.capitalized = 0

    def add(self, line: str) -> None:
        """Count the full stops and commas of a line, separate or attached, and its words by their case."""
        for word in split_whitespace(line):
            if word in _STOPS:
                self.alone += 1
            elif word[-1] in _STOPS:
                self.attached += 1
            elif word.startswith(("&apos;", "&quot;")):
                self.escapes += 1
            self.capitalized += word != word.lower()
            self.lower += word.islower()

    @property
    def lowercase(self) -> bool:
        """Whether the text is lowercased: it has no capital letter in at least 100 words."""
        return not self.capitalized and self.lower >= _MIN_LOWERCASE_WORDS

    def detect(self, language: str | None) -> TextFormat:
        """Return the format of the text: tokenized if most full stops and commas are separate words."""
        return TextFormat(tokenized=self.alone > self.attached, escaped=self.escapes > 0, language=language)


def convert_format(line: str, text_format: TextFormat, in_vocabulary: Callable[[str], bool]) -> str:
    """Convert a line to the format of the training text.

    Args:
        line: The line, plain or tokenized, in any case.
        text_format: The format of the training text.
        in_vocabulary: Returns whether a word is in the vocabulary. Such a word is not changed.
    """
    if text_format.lowercase:
        line = _WORD.sub(lambda word: word[0] if in_vocabulary(word[0]) else word[0].lower(), line)
    return _separate_punctuation(line, text_format, in_vocabulary) if text_format.tokenized else line


def _separate_punctuation(line: str, text_format: TextFormat, in_vocabulary: Callable[[str], bool]) -> str:
    """Separate the punctuation of a plain line as in a tokenized training text."""
    words = split_whitespace(line)
    doubtful = {word for word in words if len(word) > 1 and _has_mark(word) and not in_vocabulary(word)}
    # Plain French has a space before some marks.
    marks = _SEPARATE_MARKS - _FRENCH if text_format.language == "fr" else _SEPARATE_MARKS
    tokenized = any(word in marks or _CLITIC.fullmatch(word) or _ESCAPE.search(word) for word in words)
    # A line of known words is left alone: it has the format of the training text.
    if not doubtful or tokenized:
        return line
    moses = _rules(text_format.language or "en")
    write = moses.escape_xml if text_format.escaped else str
    plain = any(map(_has_edge, doubtful))
    written: list[str] = []
    cut = _cut(words, moses)
    if cut[-1] == [words[-1]] and words[-1].endswith(".") and in_vocabulary(write(words[-1][:-1])):
        # Moses keeps the full stop of initials and ordinals, but here it ends the sentence: `Plan B.`.
        cut[-1] = [words[-1][:-1], "."]
    for word, tokens in zip(words, cut, strict=True):
        if word in doubtful and (parts := _around_known_word(word, lambda core: in_vocabulary(write(core)))):
            before, core, after = parts
            written += map(write, [*_tokens(moses, before), core, *_tokens(moses, after)])
            continue
        tokens = [write(token) for token in tokens]
        # In plain text, an unknown word such as `Fritzchen's` is split if the vocabulary has its marks.
        all_known = all(in_vocabulary(token) for token in tokens if not plain or _has_mark(token))
        if word in doubtful and (all_known or _has_edge(word)):
            written += tokens
        else:
            written.append(write(word) if plain and not in_vocabulary(word) else word)
    return " ".join(written)


def _is_letter(character: str) -> bool:
    return character.isalnum() or joins_letters(character)


def _has_mark(word: str) -> bool:
    """Return whether a word contains a punctuation mark or symbol."""
    return not all(map(_is_letter, word))


def _around_known_word(word: str, in_vocabulary: Callable[[str], bool]) -> tuple[str, str, str] | None:
    """Return the marks before the longest known word that contains marks, that word, and the marks after it.

    The rules of Moses would also split the known word: `(C++),` or `don't!`. None if there is none.
    """
    letters = [place for place, character in enumerate(word) if _is_letter(character)]
    if not letters:
        return None
    first, end = letters[0], letters[-1] + 1
    spans = (
        (start, stop)
        for start in range(max(0, first - _MAX_OWN_MARKS), first + 1)
        for stop in range(end, min(len(word), end + _MAX_OWN_MARKS) + 1)
    )
    for start, stop in sorted(spans, key=lambda span: span[0] - span[1]):
        if _has_mark(word[start:stop]) and in_vocabulary(word[start:stop]):
            return word[:start], word[start:stop], word[stop:]
    return None


def _has_edge(word: str) -> bool:
    """Return whether a word with letters or digits starts or ends with a mark that tokenizers separate."""
    if not any(map(_is_letter, word)):
        return False
    first, last = (unicodedata.category(word[place]) for place in (0, -1))
    opens = word[0] in '"„' or first in ("Ps", "Pi")
    closes = word[-1] in _END or last in ("Pe", "Pf", "Pi")
    # An apostrophe may be part of a word: `rock 'n' roll`.
    return (opens and word[0] not in _APOSTROPHES) or (closes and word[-1] not in _APOSTROPHES)


@lru_cache(maxsize=16)
def _rules(language: str) -> "MosesTokenizer":
    # Imported here, because the library compiles hundreds of patterns on import.
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language)


def _tokens(moses: "MosesTokenizer", line: str) -> list[str]:
    tokens = moses.tokenize(line, escape=False)
    return tokens.split() if isinstance(tokens, str) else [str(token) for token in tokens]


def _cut(words: Sequence[str], moses: "MosesTokenizer") -> list[list[str]]:
    """Split each word of a line into Moses tokens, which depend on the neighboring words."""
    tokens = iter(_tokens(moses, " ".join(words)))
    tokens_by_word: list[list[str]] = []
    for word in words:
        whole, parts = _WHITESPACE.sub("", word), []
        while sum(map(len, parts)) < len(whole) and (token := next(tokens, None)) is not None:
            parts.append(token)
        if "".join(parts) != whole:  # Moses dropped a character, so the tokens cannot be aligned to words
            return [_tokens(moses, each) or [each] for each in words]
        tokens_by_word.append(_with_spaces(word, parts))
    return tokens_by_word


def _with_spaces(word: str, tokens: Sequence[str]) -> list[str]:
    """Return the tokens of a word, joined where it has a space between letters or digits: `10\u00a0000`."""
    joined: list[str] = []
    place = 0
    for token in tokens:
        start = word.index(token[0], place)
        # In plain French, such a space separates a mark from the word.
        if start > place and joined and joined[-1][-1].isalnum() and token[0].isalnum():
            joined[-1] += word[place:start] + token
        else:
            joined.append(token)
        place = start + len(token)
    return joined
