"""Sentence pairs as words, which every detector of coverage errors reads."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from regard.alignment.base import MAX_LENGTH
from regard.text.words import fold_word, is_unspaced, is_word, split_line, word_spans

__all__ = ["SideText", "WordPair", "blocks", "split_pairs", "training_pairs"]

_log = logging.getLogger(__name__)

_CLOSING = frozenset(".,;:!?)]}»”…%。、，；：！？）」』।॥؟،؛۔")
_OPENING = frozenset("([{«„“¿¡（「『")
_JOINING = frozenset("-‐‑'’`׳״")
"""Hyphens and apostrophes, which join two words into one: `T-Shirt`, `don't`."""
_BLOCK_CELLS = 400_000  # pairs of a source and a target word


@dataclass(frozen=True)
class WordPair:
    """A sentence and its translation.

    Attributes:
        source: Words and punctuation marks of the sentence.
        target: Words and punctuation marks of its translation. It may be empty.
        lines: The lines that contain these words, if they are known. They have no effect on the comparison of
            pairs.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    lines: tuple[str, str] | None = field(default=None, compare=False)

    @cached_property
    def folded(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of both sides without differences of case and encoding, which alignment ignores."""
        return tuple(map(fold_word, self.source)), tuple(map(fold_word, self.target))

    @property
    def is_too_long(self) -> bool:
        """Whether a side has more words than an aligner aligns: evidence needs memory for each cell."""
        return max(len(self.source), len(self.target)) > MAX_LENGTH

    def swapped(self) -> "WordPair":
        """Return the pair in the other direction."""
        lines = None if self.lines is None else (self.lines[1], self.lines[0])
        return WordPair(self.target, self.source, lines)


@dataclass(frozen=True)
class SideText:
    """The line of one side of a pair, from which words can be left out.

    Attributes:
        line: The line.
        spans: First character of each word and the character after its last one.
    """

    line: str
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, pair: WordPair, side: int) -> Self:
        """Return the text of the source (0) or of the target (1).

        If the lines of the pair are unknown, the words are joined as in plain text.

        Raises:
            ValueError: if the line does not contain the words of the pair.
        """
        words = pair.target if side else pair.source
        if pair.lines is None:
            return cls._joined(words)
        line = pair.lines[side]
        if split_line(line) != words:
            raise ValueError(f"the line {line!r} does not consist of the words {words}")
        return cls(line, tuple(word_spans(line)))

    @classmethod
    def _joined(cls, words: Sequence[str]) -> Self:
        """Join words with spaces where plain text has them."""
        line, spans, attached, quoted, unspaced = "", [], True, False, False
        for word in words:
            opens, closes = word in _OPENING, word in _CLOSING or word in _JOINING
            if word == '"':
                opens, closes, quoted = not quoted, quoted, not quoted
            unspaced, before = is_unspaced(word), unspaced
            line += "" if attached or closes or (unspaced and before) else " "
            spans.append((len(line), len(line) + len(word)))
            line += word
            attached = opens or word in _JOINING
        return cls(line, tuple(spans))

    @property
    def units(self) -> list[tuple[int, int]]:
        """The units that can be left out, as first word and the word after the last one.

        A unit is a word, or several words that hyphens or apostrophes join. Other punctuation marks belong to
        no unit.
        """
        ranges: list[tuple[int, int]] = []
        words = [self.line[first:last] for first, last in self.spans]
        for i, word in enumerate(words):
            if not is_word(word):
                continue
            # The mark before this word joins it to the unit that ends before the mark.
            joined = (
                ranges
                and ranges[-1][1] == i - 1
                and words[i - 1] in _JOINING
                and self._gap(i - 1) == self._gap(i) == ""
            )
            if joined:
                ranges[-1] = (ranges[-1][0], i + 1)
            else:
                ranges.append((i, i + 1))
        return ranges

    def _gap(self, word: int) -> str:
        """Return the white space between a word and the word before it."""
        return self.line[self.spans[word - 1][1] : self.spans[word][0]]

    def without(self, first: int, last: int) -> str:
        """Return the line without the words from `first` to the one before `last`."""
        before, after = self.line[: self.spans[first][0]].rstrip(), self.line[self.spans[last - 1][1] :]
        if last == len(self.spans) or not before:
            return before + after.lstrip()
        following = self.line[slice(*self.spans[last])]
        # A mark that ends a clause stays attached to the word before it, other words need a space.
        attached = following in _CLOSING and not self._gap(last)
        space = "" if attached else self._gap(first) or self._gap(last)
        return before + space + after.lstrip()


def split_pairs(sources: Iterable[str], targets: Iterable[str]) -> list[WordPair]:
    """Return the words of each pair of lines."""
    return [WordPair(split_line(s), split_line(t), (s, t)) for s, t in zip(sources, targets, strict=True)]


def training_pairs(pairs: Sequence[WordPair]) -> list[WordPair]:
    """Return the pairs with words on both sides, without those that are too long, which a warning counts."""
    if num_long := sum(pair.is_too_long for pair in pairs):
        _log.warning(
            "%d of %d training pairs have a side of more than %d words; they are ignored. Split them into "
            "sentences.",
            *(num_long, len(pairs), MAX_LENGTH),
        )
    return [pair for pair in pairs if pair.source and pair.target and not pair.is_too_long]


def blocks(pairs: Sequence[WordPair]) -> Iterator[Sequence[WordPair]]:
    """Yield neighboring pairs in blocks with features of about 200 MB. A short text is one block."""
    start, cells = 0, 0
    for place, pair in enumerate(pairs):
        cells += len(pair.source) * len(pair.target)
        if cells > _BLOCK_CELLS and place > start:
            yield pairs[start:place]
            start, cells = place, len(pair.source) * len(pair.target)
    if start < len(pairs):
        yield pairs if start == 0 else pairs[start:]
