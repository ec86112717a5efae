"""Word links of a text: a word aligner with the options of the analyses, and gold links."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN
from regard.analysis.inputs import ParallelText
from regard.data.text import TextSide
from regard.errors import DataError
from regard.generation.linking import tokens_to_words
from regard.text.links import GoldLinks, Links, parse_gold_links, read_gold_links

__all__ = ["Linker", "line_words", "read_gold"]

_MAX_UNKNOWN_SHARE = 0.3  # a note is made if more than this share of the words is unknown to the aligner

WordPairs = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Pairs of sentences, as lists of words."""


def line_words(line: str, side: TextSide) -> tuple[str, ...]:
    """Return the words of a line as its tokenizer splits it, with subword tokens joined."""
    return tuple(word for word in tokens_to_words(side, side.tokenize(line)) if word)


@dataclass(frozen=True)
class Linker:
    """A word aligner that optionally ignores case.

    Attributes:
        aligner: The aligner.
        lowercase: Whether to ignore case.
        num_threads: Number of threads. 0 uses all processors.
        path: Directory of the aligner. None for an aligner from Python.
    """

    aligner: WordAligner
    lowercase: bool
    num_threads: int
    path: str | None = None

    @classmethod
    def load(cls, aligner: Path | str | WordAligner, lowercase: bool, num_threads: int | None = None) -> Self:
        """Load an aligner. Case is also ignored if it was ignored in training.

        Raises:
            DataError: if the directory does not contain an aligner.
        """
        path = None if isinstance(aligner, WordAligner) else str(aligner)
        loaded = aligner if isinstance(aligner, WordAligner) else WordAligner.load(aligner)
        # The vocabulary of an aligner without case has no capitals, so capitalized words would be unknown.
        return cls(loaded, lowercase or loaded.lowercase, num_threads or 0, path)

    def align(self, pairs: WordPairs) -> list[Links]:
        """Return the links of each pair of sentences."""
        return list(self.aligner.align(self._corpus(pairs), threads=self.num_threads))

    def unknown_word_notes(self, pairs: WordPairs) -> tuple[str, ...]:
        """Return a note if many of the words are not in the vocabulary of the aligner."""
        corpus = self._corpus(pairs)
        sides = corpus.source.tokens, corpus.target.tokens
        # An aligner for other tokens would find few links, and nearly every word would count as dropped.
        unknown_share = sum(int((side == UNKNOWN).sum()) for side in sides) / max(sum(map(len, sides)), 1)
        if unknown_share <= _MAX_UNKNOWN_SHARE:
            return ()
        return (
            f"{unknown_share:.0%} of the words are not in the vocabulary of the aligner. Train it on "
            "text that is split into words in the same way as by the tokenizers of the model.",
        )

    def _corpus(self, pairs: WordPairs) -> Corpus:
        if self.lowercase:
            pairs = [([word.lower() for word in s], [word.lower() for word in t]) for s, t in pairs]
        # Empty sides are allowed, because a translation may have no words.
        return Corpus.from_tokens(pairs, self.aligner.words, allow_empty=True)


def read_gold(given: Path | str | Iterable[GoldLinks | str], text: ParallelText) -> list[GoldLinks]:
    """Return the gold links of a text, from a `.talp` file or the links of each line.

    Raises:
        DataError: if the links are malformed, or their number differs from the number of lines.
    """
    if isinstance(given, str | Path):
        gold, name = list(read_gold_links(given)), str(given)
    else:
        name = "gold_links"
        gold = [
            line_links
            if isinstance(line_links, GoldLinks)
            else parse_gold_links(line_links, f"{name}:{number}")
            for number, line_links in enumerate(given, 1)
        ]
    if len(gold) != len(text):
        raise DataError(
            f"{name} has {len(gold)} lines but {text.source_name} has {len(text)}: gold links need one line "
            "per source line"
        )
    return gold
