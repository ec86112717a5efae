"""The Moses tokenizer (Koehn et al., 2007), implemented with the package sacremoses.

Special characters are not escaped: `'` is not replaced by `&apos;`, since the escapes are only needed for the
phrase tables of Moses and would enter the vocabulary. Decoding therefore does not unescape `&apos;` either.
For text that already contains the escapes, as some published corpora do, use the tokenizer `words`.

Decoding restores the line. The detokenizer of sacremoses supports European punctuation and straight quotes;
`detokenize` adds the full stops and commas of other scripts (in `है ।`, the danda follows its word without a
space), typographic quotes and apostrophes, and currency symbols. A split that it would not undo is not made:
`and/or` is one token, since `and / or` is other text. Spaces that the rules of Moses demand or forbid remain
different: `5 %` becomes `5%`, and in French `Quoi?` becomes `Quoi ?`. Languages without spaces between words
(Japanese, Chinese, Thai) are rejected: Moses splits text at spaces, so that a whole clause is one token.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Literal

from regard.config import configclass, option
from regard.text.tokenizers.base import STOPS, TextFormat, Tokenizer, register_tokenizer
from regard.text.words import ASCII_WHITESPACE, normalize_whitespace, split_whitespace

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer

_FOLLOWING = ",.?!:;\\%}])" + "…‰" + "।॥۔؟،؛٪՞՝։።፣፤፥፦፧׃၊။។៕᠂᠃᱾᱿꫰꫱" + "、。，！？：；）」』】》"
"""Punctuation marks that follow a word without a space: those of Moses, then those of other scripts."""
_PRECEDING = "([{¿¡（「『【《"
"""Punctuation marks that precede a word without a space."""
_FRENCH = frozenset("?!:;%«»")
"""Marks that Moses, like French typography, separates from their word with a space."""
_QUOTES = {mark: marks for marks in ("“”„", "«»", "‘’‚") for mark in marks}
"""The marks of the same type as a quote."""
_CONTRACTIONS = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
"""Endings after an apostrophe in English: `it’s`."""
_JOINERS = "\u00ad\u200c\u200d\u2060"
"""Invisible characters within words: soft hyphen, non-joiner (Persian), joiner (Indic), word joiner."""
_OUTER_SPACE = re.compile(r"(?<!\w)\s|\s(?!\w)")
_WORD = re.compile(f"[^{ASCII_WHITESPACE}]+")
_SEPARATE_MARKS = STOPS.union('?!:;()"“”„«»', ["``", "''", "&quot;"])
"""Punctuation marks that are separate words in tokenized text. Plain French has some of them, too."""
_EDGES = ".,?!:;()[]\"“”„«»‘’'…"
"""Marks that may touch a word of the vocabulary."""
_SPACES = [chr(code) for code in range(0xA0, 0x3001) if chr(code).isspace()]
_HIDE_SPACES = {ord(space): chr(0xFDD0 + number) for number, space in enumerate(_SPACES)}
"""Spaces within words, such as U+00A0 in `10 000`, which Moses would split, to noncharacters of Unicode."""
_SHOW_SPACES = {ord(hidden): chr(space) for space, hidden in _HIDE_SPACES.items()}
_UNSPACED = {
    "bo": "Tibetan",
    "ja": "Japanese",
    "km": "Khmer",
    "lo": "Lao",
    "my": "Burmese",
    "th": "Thai",
    "yue": "Cantonese",
    "zh": "Chinese",
}
"""Languages without spaces between words."""


@cache
def _marks(letters: str) -> re.Pattern[str]:
    """Return a pattern of the marks that are separated from words."""
    # Combining marks and joiners are part of a word, as in the Unicode rules of word boundaries (UAX 29).
    joined = "".join(chr(code) for code in range(0x20000) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"([^{letters}{_JOINERS}{joined}\ufdd0-\ufdef\s.'`,\-])")


@configclass
class MosesConfig:
    """The Moses tokenizer, which separates punctuation with rules for each language."""

    kind: Literal["moses"] = option(default="moses", help="The Moses tokenizer.")
    language: str = option(
        default="en",
        help="Two-letter code of the language, which must have spaces between words.",
        pattern="^[a-z]{2,3}$",
    )

    def __post_init__(self) -> None:
        """Check that the language has spaces between words."""
        if self.language in _UNSPACED:
            raise ValueError(
                f"language = {self.language!r}: Moses splits text at spaces, but {_UNSPACED[self.language]} "
                "has no spaces between words: use kind 'sentencepiece', or separate the words with another "
                "tool and use kind 'words' (or 'bpe' with tokenized = true)"
            )


@register_tokenizer("moses", MosesConfig)
class MosesTokenizer(Tokenizer):
    """The Moses tokenizer and detokenizer, which restores the line."""

    plain_text = True

    def __init__(self, config: MosesConfig, learned: bytes = b"") -> None:
        """Create the tokenizer of the library."""
        # Imported here, because the library compiles hundreds of patterns on import.
        from sacremoses import MosesTokenizer as Rules

        super().__init__(config)
        self._rules = Rules(lang=config.language)
        self._rules.PAD_NOT_ISALNUM = _marks(self._rules.IsAlnum), r" \1 "

    def pretokenize(self, line: str) -> list[str]:
        """Return the Moses tokens of a line, without the splits that `decode` would not undo."""
        line = normalize_whitespace(_OUTER_SPACE.sub(" ", line)).translate(_HIDE_SPACES)
        tokens = [str(token) for token in self._rules.tokenize(line, escape=False)]
        if "".join(tokens) != line.replace(" ", ""):
            return line.translate(_SHOW_SPACES).split(
                " "
            )  # the line contains a marker that the library uses itself, such as DOTMULTI
        while (text := self.decode(tokens).translate(_HIDE_SPACES)) != line:
            merged = _merge(tokens, _spaces(line, tokens), _spaces(text, tokens), self.config.language)
            if len(merged) == len(tokens):
                break
            tokens = merged
        return [token.translate(_SHOW_SPACES) for token in tokens]

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the detokenized text."""
        return detokenize(tokens, self.config.language)


def convert_format(line: str, text_format: TextFormat, in_vocabulary: Callable[[str], bool]) -> str:
    """Convert a line to the format of the training text.

    Words are lowercased, and the punctuation of a plain line is separated with the rules of Moses. A word of
    the vocabulary is never changed: `Mr.`, `don't`, also if other marks touch it: `(C++),`. A line that
    contains a full stop, a comma or another punctuation mark as a separate word is tokenized, and none of
    its words is split.

    Args:
        line: The line, plain or tokenized, in any case.
        text_format: The format of the training text.
        in_vocabulary: Returns whether a word is in the vocabulary.
    """
    if text_format.lowercase:
        line = _WORD.sub(lambda word: word[0] if in_vocabulary(word[0]) else word[0].lower(), line)
    language = text_format.language or "en"
    # Plain French has a space before some marks.
    marks = _SEPARATE_MARKS - _FRENCH if language == "fr" else _SEPARATE_MARKS
    if not text_format.tokenized or language in _UNSPACED or not marks.isdisjoint(split_whitespace(line)):
        return line
    words = split_whitespace(_OUTER_SPACE.sub(" ", line).translate(_HIDE_SPACES))
    split = partial(_tokenizer(language)._rules.tokenize, escape=text_format.escaped)
    tokens: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        core = word.strip(_EDGES)
        if in_vocabulary(word.translate(_SHOW_SPACES)):
            tokens.append(word)
        elif core and not (core.isalnum() and following) and in_vocabulary(core.translate(_SHOW_SPACES)):
            before, _, after = word.partition(core)
            tokens += [*split(before), core, *split(after)]
        else:
            # Moses does not separate some full stops, depending on the next word.
            parts = split(f"{word} {following[:1]}")
            tokens += parts[: len(parts) - bool(following)]
    return " ".join(tokens).translate(_SHOW_SPACES)


def detokenize(tokens: Sequence[str], language: str, unescape: bool = False) -> str:
    """Return the text of Moses tokens.

    Args:
        tokens: The tokens.
        language: Language code. A language without rules of its own has the general rules.
        unescape: Whether the tokens contain the escapes of Moses, such as `&quot;`.
    """
    rules = _detokenizer(language)
    plain = [rules.unescape_xml(token) for token in tokens] if unescape else tokens
    hidden = [token.translate(_HIDE_SPACES) for token in plain]
    return rules.detokenize(_attach(hidden, language), unescape=False).translate(_SHOW_SPACES)


@lru_cache(maxsize=16)
def _tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(MosesConfig(language=language))


@lru_cache(maxsize=16)
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    # The Czech rules of sacremoses 0.2 fail on `s' - li`.
    rules = MosesDetokenizer(lang="" if language == "cs" else language)
    rules.IS_PUNCT = re.compile(f"^[{re.escape(_FOLLOWING)}]+$")
    # Without currency symbols, which the library also attaches to the word after them in `5 € und`.
    rules.IS_CURRENCY_SYMBOL = re.compile(f"^[{re.escape(_PRECEDING)}]+$")
    # `'n'` is a word, unlike the `'s` in `it 's`.
    rules.IS_ENGLISH_CONTRACTION = re.compile(rf"^'[{rules.IsAlpha}][^']*$")
    # `@-@` in a line is text, since this tokenizer does not mark hyphens.
    rules.AGGRESSIVE_HYPHEN_SPLIT = re.compile("(?!)"), "-"
    return rules


def _attach(tokens: Sequence[str], language: str) -> list[str]:
    """Attach the marks to adjacent words that the detokenizer of sacremoses leaves alone.

    Opening and closing quotes of a type alternate, regardless of the character: `„x“`, `“x”`, `”x”`, `»x«`.
    """
    joins = [False] * (len(tokens) + 2)
    types = {i: _QUOTES[token] for i, token in enumerate(tokens) if token in _QUOTES}
    last = {kind: i for i, kind in types.items()}
    opened = dict.fromkeys(last, False)
    for i, token in enumerate(tokens):
        if token[0].isalnum():
            continue
        before, after = tokens[i - 1] if i else "", tokens[i + 1] if i + 1 < len(tokens) else ""
        inside = before[-1:].isalpha() and after[:1].isalpha()
        kind = None if language == "fr" and token in _FRENCH else types.get(i)
        if inside and _is_apostrophe(tokens, i, opened.get("‘’‚", False), language):
            joins[i] = joins[i + 1] = True
        # A closing quote that follows a word may have no opening quote: `dogs’ owner`.
        elif kind is not None and (
            opened[kind] or (before[-1:].isalnum() and (token == "’" or (i == last[kind] and token in "”»")))
        ):
            opened[kind] = False
            joins[i] = True
            # The detokenizer attaches `,` to the preceding word, but not `,”`.
            while i > 1 and _follows(tokens[i - 1], language):
                i -= 1
                joins[i] = True
        elif kind is not None:
            opened[kind] = joins[i + 1] = True
            joins[i + 2] |= bool(after) and set(after) <= set(_PRECEDING)
        elif token in _JOINERS or unicodedata.category(token[0])[0] == "M":
            joins[i] = i > 0
            joins[i + 1] |= inside
        elif unicodedata.category(token[0]) == "Sc":
            joins[i + 1] |= after[:1].isdigit() and not before[-1:].isdigit()
        elif token == "<" and ">" in tokens[i + 2 : i + 4]:
            end = tokens.index(">", i + 2)
            joins[i + 1 : end + 1] = [True] * (end - i)
        elif not after and set(token) <= set(_PRECEDING):
            joins[i] = i > 0
    return _join(tokens, joins)


def _is_apostrophe(tokens: Sequence[str], place: int, quoted: bool, language: str) -> bool:
    """Return whether a token between two words is an apostrophe, not a quote or an English possessive."""
    token, before, after = tokens[place], tokens[place - 1], tokens[place + 1]
    if token == "'":
        return language != "en" and tokens.count("'") == 1  # a quotation has two
    possessive = language == "en" and before.endswith("s")
    return token == "’" and (after in _CONTRACTIONS or not (quoted or possessive))


def _follows(token: str, language: str) -> bool:
    """Return whether a token is punctuation that follows a word without a space."""
    return set(token) <= set(_FOLLOWING) and not (language == "fr" and token in _FRENCH)


def _spaces(text: str, tokens: Sequence[str]) -> list[bool]:
    """Return whether the text has a space before each token."""
    place, spaces = 0, []
    for token in tokens:
        spaces.append(text[place] == " ")
        place += spaces[-1] + len(token)
    return spaces


def _merge(
    tokens: Sequence[str], wanted: Sequence[bool], written: Sequence[bool], language: str
) -> list[str]:
    """Merge tokens that detokenization separates, or attaches to the wrong side, unlike the line.

    The line has the `wanted` spaces before tokens, and the detokenized text has the `written` ones.
    """
    joins = [False] * len(tokens)
    ends = [*wanted[1:], True]
    for i in range(1, len(tokens)):
        if written[i] and not wanted[i]:
            inside = not ends[i] and tokens[i + 1][0].isalnum()
            french = tokens[i - 1] == "«" or (tokens[i] in _FRENCH and not inside)
            joins[i] |= language != "fr" or not french
        elif wanted[i] and not written[i]:
            # The mark becomes part of the word on its other side.
            if not (tokens[i][0].isalnum() or ends[i] or _follows(tokens[i] + tokens[i + 1], language)):
                joins[i + 1] = True
            elif not tokens[i - 1][-1].isalnum() and i > 1 and not wanted[i - 1]:
                joins[i - 1] = True
    return _join(tokens, joins)


def _join(tokens: Sequence[str], joins: Sequence[bool]) -> list[str]:
    """Append each token with a true value to the token before it."""
    joined: list[str] = []
    for token, join in zip(tokens, joins, strict=False):
        if join:
            joined[-1] += token
        else:
            joined.append(token)
    return joined
