"""Sentence pairs as words, which every detector of coverage errors reads."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

__all__ = ["WordPair", "split_line", "split_pairs", "word_spans"]

# Scripts without spaces between words. Each of their characters is a word, because an aligner needs units
# that recur.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")


@dataclass(frozen=True)
class WordPair:
    """A sentence and its translation.

    Attributes:
        source: Words and punctuation marks of the sentence.
        target: Words and punctuation marks of its translation. It may be empty.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]

    @cached_property
    def folded(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of both sides without differences of case, which alignment ignores."""
        return tuple(map(str.casefold, self.source)), tuple(map(str.casefold, self.target))

    def swapped(self) -> "WordPair":
        """Return the pair in the other direction."""
        return WordPair(self.target, self.source)


def split_line(line: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a line of plain or tokenized text.

    In scripts without spaces between words (Chinese, Japanese, Thai, ...), each character is a word.
    """
    return tuple(_WORD.findall(line))


def word_spans(line: str) -> list[tuple[int, int]]:
    """Return for each word of `split_line` its first character and the one after its last."""
    return [one.span() for one in _WORD.finditer(line)]


def split_pairs(sources: Iterable[str], targets: Iterable[str]) -> list[WordPair]:
    """Return the words of each pair of lines."""
    return [WordPair(split_line(s), split_line(t)) for s, t in zip(sources, targets, strict=True)]
