"""Text that comes in is written as the training text was: punctuation apart from words, or as people type it.

A model of text that is tokenised already (`Der Hund schläft .`) has `.` among its words, but not `schläft.`.
`prepare` finds out how the training text is written (`FormCounter`) and records it with the vocabularies
(`TextForm`). Wherever a line comes in, `Side.tokenize` then sets the punctuation of plain text apart, by the
rules of Moses (Koehn et al. 2007). Tokenised text is left as it is:

- a line in which a full stop, a comma or another mark stands by itself is tokenised already;
- a word that the vocabulary holds stays whole: `Mr.`, `U.S.`, `don't`.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from regard.config import config, option
from regard.data.spacing import split_at_spaces

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

__all__ = ["PLAIN", "FormCounter", "TextForm", "set_apart"]

_STOPS = frozenset(".,。、؟،।॥۔")
"""Marks that no script puts a space before in plain text."""
_ALONE = _STOPS.union('?!:;()"“”„«»', ["``", "''"])
"""What stands by itself in tokenised text; French alone writes some of it so in plain text, too."""
_FRENCH = frozenset("?!:;«»")
_CLITIC = re.compile(r"(?:'|&apos;)(?:s|ll|re|ve|d|m|t)|n(?:'|&apos;)t", re.IGNORECASE)
_ESCAPE = re.compile(r"&(?:apos|quot|amp|lt|gt|#91|#93|#124);")
_END = _STOPS | frozenset('!?;:…"؛՝։።፣')
_APOSTROPHES = "'’‘"
_WHITE = re.compile(r"\s+")


@config
class TextForm:
    """How the training text of a side is written."""

    tokenized: bool = option(default=False, help="Punctuation stands apart from words.")
    escaped: bool = option(default=False, help="Quotes and brackets are written as Moses escapes: &quot;")
    language: str | None = option(
        default=None, help="Its language, a two-letter code; null: not known.", pattern="^[a-z]{2,3}$"
    )


PLAIN = TextForm()
"""Plain text, of a language that is not known."""


class FormCounter:
    """Counts, line by line, how the punctuation of a text is written."""

    def __init__(self) -> None:
        """Start with no line."""
        self.alone = self.attached = self.escapes = 0

    def add(self, line: str) -> None:
        """Count the full stops and commas of a line that stand by themselves, and those that end a word."""
        for word in split_at_spaces(line):
            if word in _STOPS:
                self.alone += 1
            elif word[-1] in _STOPS:
                self.attached += 1
            elif word.startswith(("&apos;", "&quot;")):
                self.escapes += 1

    def form(self, language: str | None) -> TextForm:
        """Return the form of the text; tokenised where most full stops and commas stand by themselves."""
        return TextForm(tokenized=self.alone > self.attached, escaped=self.escapes > 0, language=language)


def set_apart(line: str, form: TextForm, known: Callable[[str], bool]) -> str:
    """Return a line written as the training text is.

    Args:
        line: The line, plain or tokenised.
        form: The form of the training text; a line of another is returned as it is.
        known: Whether the training text has a word.
    """
    words = split_at_spaces(line)
    doubtful = {word for word in words if len(word) > 1 and not word.isalnum() and not known(word)}
    if not form.tokenized or not doubtful or _is_tokenized(words, form.language):
        return line
    moses = _rules(form.language or "en")
    write = moses.escape_xml if form.escaped else str
    plain = any(map(_has_edge, doubtful))
    written: list[str] = []
    cut = _cut(words, moses)
    if cut[-1] == [words[-1]] and words[-1].endswith(".") and known(write(words[-1][:-1])):
        cut[-1] = [words[-1][:-1], "."]  # an initial or ordinal to the rules, but the line ends: `Plan B.`
    for word, tokens in zip(words, cut, strict=True):
        tokens = [write(token) for token in tokens]
        # In plain text unknown words may part, as in `Fritzchen's`, but at marks that the training text has.
        parts = all(known(token) for token in tokens if not (plain and token.isalnum()))
        if word in doubtful and (parts or _has_edge(word)):
            written += tokens
        else:
            written.append(write(word) if plain and not known(word) else word)
    return " ".join(written)


def _is_tokenized(words: Sequence[str], language: str | None) -> bool:
    """Whether a mark or an English clitic stands by itself, or something is escaped as Moses does."""
    marks = _ALONE - _FRENCH if language == "fr" else _ALONE
    return any(word in marks or _CLITIC.fullmatch(word) or _ESCAPE.search(word) for word in words)


def _has_edge(word: str) -> bool:
    """Whether a word of letters or digits starts or ends with a mark that text sets apart."""
    if not any(character.isalnum() for character in word):
        return False
    first, last = (unicodedata.category(word[place]) for place in (0, -1))
    opens = word[0] in '"„' or first in ("Ps", "Pi")
    closes = word[-1] in _END or last in ("Pe", "Pf", "Pi")
    return (opens and word[0] not in _APOSTROPHES) or (closes and word[-1] not in _APOSTROPHES)


@lru_cache(maxsize=16)
def _rules(language: str) -> "MosesTokenizer":
    # Imported here: the library compiles hundreds of patterns at import.
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language)


def _tokens(moses: "MosesTokenizer", line: str) -> list[str]:
    tokens = moses.tokenize(line, escape=False)
    return tokens.split() if isinstance(tokens, str) else [str(token) for token in tokens]


def _cut(words: Sequence[str], moses: "MosesTokenizer") -> list[list[str]]:
    """Cut each word of a line into Moses tokens, which depend on its neighbours."""
    tokens = iter(_tokens(moses, " ".join(words)))
    found: list[list[str]] = []
    for word in words:
        whole, own = _WHITE.sub("", word), []
        while sum(map(len, own)) < len(whole) and (token := next(tokens, None)) is not None:
            own.append(token)
        if "".join(own) != whole:  # the rules dropped a character
            return [_tokens(moses, each) or [each] for each in words]
        found.append(own)
    return found
