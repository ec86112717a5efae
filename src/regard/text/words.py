"""Words, punctuation marks and characters of a line of plain text, by the rules of Unicode.

A word is a run of letters and digits with all that Unicode attaches to them: vowel signs, accents of a
decomposed letter, soft hyphens, the zero-width non-joiner of Persian (UAX #29, rule WB4). In scripts without
spaces between words, each character as a reader perceives it (a grapheme cluster of UAX #29) counts as a
word. Apostrophes, hyphens and other marks are words of their own, as in tokenized text.

Tokens of tokenized text are separated by ASCII white space only, as in the Pharaoh format, word aligners and
n-gram tools. `str.split` also splits at every Unicode space, but a token may contain one: the ideographic
space U+3000 in Japanese corpora, the no-break space U+00A0 in French corpora. Splitting there would shift all
later word positions, and with them the alignment links. Control characters count as white space, as they do
in text files, where `clean_line` replaces them.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import regex

ASCII_WHITESPACE = " \t\n\r\v\f"
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters except the tab and the line feed, which separate the fields and lines of files."""
_TOKEN = re.compile("[^\x00-\x20\x7f-\x9f]+")

_IDEOGRAPHS = r"[[\p{Han}\p{Bopomofo}\p{Yi}\p{Tangut}〆]&&[\p{L}\p{Nl}]]"
# The prolonged sound marks of kana belong to no script of their own.
_SYLLABLES = (
    r"[[\p{Hiragana}\p{Katakana}ーｰ\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}]&&\p{L}]"
)
_UNSPACED = rf"[{_IDEOGRAPHS}{_SYLLABLES}]"
"""Letters of scripts without spaces between words."""
_ATTACHED = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]"
_WORD = regex.compile(
    rf"(?V1)(?={_UNSPACED})\X|[\w--{_UNSPACED}](?:[\w--{_UNSPACED}]|{_ATTACHED})*|(?![\s\p{{Cc}}\p{{Cf}}])\X"
)
# Most lines of European text contain only these characters, and `re` is several times faster than `regex`.
_LATIN = re.compile("[ -~À-ÖØ-öø-ɏ‐-‧]*")
_LATIN_WORD = re.compile("[0-9A-Za-z_À-ÖØ-öø-ɏ]+|[^ ]")
_STARTS_UNSPACED = regex.compile(f"(?V1){_UNSPACED}")
_STARTS_IDEOGRAPH = regex.compile(f"(?V1){_IDEOGRAPHS}")
_JOINS = regex.compile(rf"(?V1)[[\p{{L}}\p{{M}}\p{{N}}]--{_UNSPACED}]|{_ATTACHED}")
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
_DOUBLING_IS_AN_ERROR = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}\p{Georgian}\p{N}]")


def split_line(line: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a line of plain or tokenized text.

    In scripts without spaces between words (Chinese, Japanese, Thai, ...), each character is a word.
    """
    return tuple((_LATIN_WORD if _LATIN.fullmatch(line) else _WORD).findall(line))


def word_spans(line: str) -> list[tuple[int, int]]:
    """Return for each word of `split_line` its first character and the one after its last."""
    pattern = _LATIN_WORD if _LATIN.fullmatch(line) else _WORD
    return [match.span() for match in pattern.finditer(line)]


def is_word(token: str) -> bool:
    """Return whether a token starts with a letter or a digit, and so is no punctuation mark."""
    return token[:1].isalnum()


@lru_cache(maxsize=200_000)
def is_alphabetic(token: str) -> bool:
    """Return whether a token consists of letters and of marks that are attached to them, without digits."""
    return token.isalpha() or (
        any(map(str.isalpha, token))
        and all(letter.isalpha() or _JOINS.match(letter) for letter in token)
        and not any(map(str.isnumeric, token))
    )


def normalize_word(word: str) -> str:
    """Return a word in the form NFC of Unicode, without invisible characters such as soft hyphens."""
    return word if word.isascii() else unicodedata.normalize("NFC", _IGNORABLE.sub("", word) or word)


@lru_cache(maxsize=200_000)
def fold_word(word: str) -> str:
    """Return a word without differences of case and of encoding, to compare it with other words."""
    return normalize_word(normalize_word(word).casefold())


def joins_letters(character: str) -> bool:
    """Return whether a character forms a word with adjacent letters, as letters and digits do.

    Letters of scripts without spaces between words do not.
    """
    return _JOINS.match(character) is not None


@lru_cache(maxsize=200_000)
def word_share(token: str) -> float:
    """Return the approximate share of a word in a token: less than 1 in scripts without spaces."""
    if not _STARTS_UNSPACED.match(token):
        return 1.0
    return 0.5 if _STARTS_IDEOGRAPH.match(token) else 0.25


def is_reduplication(tokens: Sequence[str]) -> bool:
    """Return whether doubling these tokens gives a usual expression in many languages of their scripts.

    Most languages of Asia and Ethiopia double a word to intensify or distribute it (Hindi `धीरे धीरे`,
    slowly; Chinese `谢谢`). In the alphabets of Europe, a doubled word is more often an error, though Turkish
    and Indonesian, which have the Latin alphabet, double words as well.
    """
    return sum(map(word_share, tokens)) <= 1 and not any(map(_DOUBLING_IS_AN_ERROR.search, tokens))


def split_whitespace(line: str) -> list[str]:
    """Return the words of a line, separated by runs of ASCII white space and control characters."""
    return _TOKEN.findall(line)


def normalize_whitespace(line: str) -> str:
    """Return a line with single spaces between words and without leading and trailing white space."""
    return " ".join(_TOKEN.findall(line))
