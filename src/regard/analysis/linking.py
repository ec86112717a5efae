"""Word links of a text: a word aligner with the options of the analyses, and user-specified links."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN
from regard.analysis.inputs import ParallelText
from regard.data.text import TextSide
from regard.errors import UsageError
from regard.generation.linking import tokens_to_words
from regard.text.corpus import read_lines
from regard.text.links import (
    GoldLinks,
    Links,
    check_links,
    parse_gold_links,
    parse_links,
    read_gold_links,
)

__all__ = ["Linker", "TextLinks", "line_words", "read_gold"]

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


@dataclass(frozen=True)
class TextLinks:
    """The source of the word links of a text: an aligner and, optionally, user-specified reference links.

    Attributes:
        linker: The aligner. None computes no links.
        references: Links of the source and the reference of each line, used instead of the aligner's.
        references_path: File of these links. None for links from Python.
    """

    linker: Linker | None = None
    references: Sequence[Links] | None = None
    references_path: str | None = None

    @classmethod
    def load(
        cls, linker: Linker | None, reference_links: Path | str | Iterable[Any] | None, text: ParallelText
    ) -> Self:
        """Read the reference links of a text.

        Args:
            linker: The aligner.
            reference_links: A file in the Pharaoh format, or the links of each line: pairs of positions.
            text: The text.

        Raises:
            UsageError: if there are reference links but no aligner, or they are not pairs.
            DataError: if the links are malformed, or their number differs from the number of lines.
        """
        if reference_links is None:
            return cls(linker)
        if linker is None:
            raise UsageError(
                "--reference-links needs --aligner as well, for the links between source and translations"
            )
        path = str(reference_links) if isinstance(reference_links, str | Path) else None
        if isinstance(reference_links, str | Path):
            lines = enumerate(read_lines(reference_links), 1)
            links = [parse_links(line, f"{path}:{number}") for number, line in lines]
        else:
            try:
                links = [frozenset((int(i), int(j)) for i, j in each) for each in reference_links]
            except (TypeError, ValueError):
                raise UsageError(
                    "reference_links: expected pairs (source word, reference word) for each line"
                ) from None
        text.check_lines(len(links), path or "reference_links", "links", reference=True)
        return cls(linker, links, path)

    def reference_links(self, line: int, source: Sequence[str], reference: Sequence[str]) -> Links:
        """Return the user-specified links of a line.

        Args:
            line: Line number, from 1.
            source: Words of the source.
            reference: Words of the reference.

        Raises:
            DataError: if a link points beyond its sentence.
        """
        assert self.references is not None
        # Lines that are too long have no sentence, so links are found by line number.
        links = self.references[line - 1]
        words = {"source": len(source), "reference": len(reference)}
        where = f"{self.references_path or 'reference_links'}:{line}"
        # The links count words as the model splits them, which is clear only after tokenization.
        check_links(links, words, where, " with the tokenization of the model")
        return links


def read_gold(given: Path | str | Iterable[GoldLinks | str], text: ParallelText) -> list[GoldLinks]:
    """Return the gold links of a text.

    Args:
        given: A file in the `.talp` format, or the links of each line, also as a line of that format.
        text: The text.

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
    text.check_lines(len(gold), name, "gold links")
    return gold
