"""The text of an aligner: two sides as flat integer arrays for compiled loops.

Words are separated by white space. They are numbered by frequency, most frequent first, so that the
data of frequent words is close together in memory. When a trained aligner is applied, words that did not
occur in training are `UNKNOWN`.
"""

import logging
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, repeat, tee
from typing import NamedTuple

import numpy as np

from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_segments
from regard.text.words import split_whitespace

_log = logging.getLogger(__name__)

UNKNOWN = -1
"""The number that stands for all words that do not occur in the training text."""

TokenPairs = Iterable[Sequence[Sequence[str]]]


@dataclass(frozen=True)
class WordList:
    """The words of one side, in the order of their numbers.

    Attributes:
        words: `words[i]` is the word with number `i`.
    """

    words: tuple[str, ...]
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the index from words to numbers."""
        object.__setattr__(self, "_index", {word: number for number, word in enumerate(self.words)})

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)

    def numbers(self, tokens: Sequence[str]) -> list[int]:
        """Return the number of each token, `UNKNOWN` if it has none."""
        return list(map(self._index.get, tokens, repeat(UNKNOWN)))


@dataclass(frozen=True, eq=False)
class Text:
    """One side of a corpus.

    Attributes:
        words: The words.
        tokens: int32, the number of each token; memory-mapped if it comes from prepared data.
        starts: int64, the start of each sentence in `tokens`.
        lengths: int32, the number of tokens of each sentence.
    """

    words: WordList
    tokens: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def sentence(self, row: int) -> np.ndarray:
        """Return the numbers of the tokens of a sentence."""
        start = int(self.starts[row])
        return self.tokens[start : start + int(self.lengths[row])]

    @property
    def offsets(self) -> np.ndarray:
        """int64 [sentences + 1]: the start of each sentence in an array with one value per token."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def sentence_tokens(self) -> np.ndarray:
        """int32 [tokens]: the tokens of all sentences, in the order of `offsets`."""
        offsets, lengths = self.offsets, self.lengths.astype(np.int64)
        return self.tokens[np.repeat(self.starts - offsets[:-1], lengths) + np.arange(offsets[-1])]


class TextLayout(NamedTuple):
    """The arrays of a corpus, in the form that compiled loops accept.

    A cell is a pair of a source and a target token of the same sentence pair.

    Attributes:
        source: int32, the source tokens.
        source_starts: int64, the start of each sentence in `source`.
        source_lengths: int32, the length of each sentence.
        target: int32, the target tokens.
        target_starts: int64, the start of each sentence in `target`.
        target_lengths: int32, the length of each sentence.
        offsets: int64 [pairs + 1], the start of each pair in an array with one value per target token.
        cells: int64 [pairs + 1], the start of each pair in an array with one value per cell.
        slots: An integer for each cell, whose meaning and order depend on the aligner. Empty if not needed.
    """

    source: np.ndarray
    source_starts: np.ndarray
    source_lengths: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray
    target_lengths: np.ndarray
    offsets: np.ndarray
    cells: np.ndarray
    slots: np.ndarray


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentence pairs as integers."""

    source: Text
    target: Text
    _shortened: dict[int, "Corpus"] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source.lengths)

    @property
    def num_target_tokens(self) -> int:
        """The number of target tokens."""
        return int(self.target.lengths.sum())

    @property
    def num_cells(self) -> np.ndarray:
        """int64 [pairs]: the product of the two lengths of each pair."""
        return self.source.lengths.astype(np.int64) * self.target.lengths

    def layout(self) -> TextLayout:
        """Return the arrays of the corpus, without slots."""
        source, target = self.source, self.target
        return TextLayout(
            *(source.tokens, source.starts, source.lengths),
            *(target.tokens, target.starts, target.lengths),
            offsets=target.offsets,
            cells=np.concatenate([[0], np.cumsum(self.num_cells)]),
            slots=np.zeros(0, dtype=np.uint32),
        )

    def swapped(self) -> "Corpus":
        """Return the same pairs in the other direction, with the same sides."""
        return Corpus(self.target, self.source)

    def subset(self, first: int, last: int) -> "Corpus":
        """Return the pairs from `first` to `last` (exclusive), without copying."""
        return self.select(slice(first, last))

    def select(self, chosen: slice | np.ndarray) -> "Corpus":
        """Return the selected pairs in the given order, without copying tokens."""
        sides = self.source, self.target
        return Corpus(*(Text(t.words, t.tokens, t.starts[chosen], t.lengths[chosen]) for t in sides))

    def without_long_pairs(self, max_length: int) -> "Corpus":
        """Return the corpus with empty pairs instead of those with a side of more than `max_length` words.

        The time and memory of aligners grow faster than the length. The first call logs a warning with the
        number of these pairs; further calls return the same object, by which `BayesAligner.align` recognizes
        the training text.
        """
        if max_length not in self._shortened:
            sides = self.source, self.target
            short = np.maximum(*(side.lengths for side in sides)) <= max_length
            texts = (replace(side, lengths=np.where(short, side.lengths, np.int32(0))) for side in sides)
            self._shortened[max_length] = self if short.all() else Corpus(*texts)
            if not short.all():
                _log.warning(
                    "%d of %d pairs have a side of more than %d words; they are not aligned and get no "
                    "links. Split them into sentences.",
                    *(len(short) - int(short.sum()), len(short), max_length),
                )
        return self._shortened[max_length]

    @classmethod
    def from_tokens(
        cls,
        pairs: TokenPairs,
        words: tuple[WordList, WordList] | None = None,
        names: tuple[str, str] = ("source", "target"),
        allow_empty: bool = False,
        rows: Iterable[int] | None = None,
    ) -> "Corpus":
        """Build a corpus from tokenized pairs.

        Args:
            pairs: Source and target tokens of each pair.
            words: The words of a trained aligner, whose numbers are used. Default: None, which numbers the
                words anew.
            names: The names of the two sides in error messages.
            allow_empty: Whether to accept pairs with an empty side, in which nothing can be aligned.
            rows: The line of each pair, for messages. Default: counted from 1.

        Raises:
            DataError: if there are no pairs, or if a side of one is empty. The message names side and line.
        """
        sides = tuple(_SideBuilder(known) for known in words or (None, None))
        for pair, row in zip(pairs, count(1) if rows is None else rows, strict=False):
            for tokens, side, name in zip(pair, sides, names, strict=True):
                if not tokens and not allow_empty:
                    raise DataError(
                        f"{name}:{row}: the line is empty; word alignment needs words on both sides"
                    )
                side.add(tokens)
        if not sides[0].lengths and not allow_empty:
            raise DataError(f"{names[0]}: the file contains no sentence pairs")
        return cls(sides[0].text(), sides[1].text())

    @classmethod
    def read(
        cls,
        corpus: CorpusConfig,
        words: tuple[WordList, WordList] | None = None,
        lowercase: bool = False,
        allow_empty: bool = False,
    ) -> "Corpus":
        """Read a corpus from files, whose words are separated by white space; see `from_tokens`.

        Raises:
            DataError: if a file cannot be read, the numbers of lines differ, or a line is empty. The message
                names them.
        """
        fold = str.lower if lowercase else str
        segments, lines = tee(read_segments(corpus))
        pairs = (
            tuple(split_whitespace(fold(line)) for line in (segment.source, segment.target))
            for segment in segments
        )
        names = corpus.source or corpus.file or "", corpus.target or corpus.file or ""
        return cls.from_tokens(pairs, words, names, allow_empty, (segment.line for segment in lines))


class _SideBuilder:
    """Converts the tokens of one side to numbers, sentence by sentence."""

    def __init__(self, known: WordList | None) -> None:
        self._known = known
        self._new: defaultdict[str, int] = defaultdict()
        # A missing word receives the next free number.
        self._new.default_factory = self._new.__len__
        self._flat = array("i")
        self.lengths = array("i")

    def add(self, tokens: Sequence[str]) -> None:
        """Add one sentence."""
        self._flat.extend(
            map(self._new.__getitem__, tokens) if self._known is None else self._known.numbers(tokens)
        )
        self.lengths.append(len(tokens))

    def text(self) -> Text:
        """Return the side. New words are numbered by frequency, ties by first occurrence."""
        tokens = np.frombuffer(self._flat, dtype=np.int32) if self._flat else np.empty(0, np.int32)
        lengths = np.frombuffer(self.lengths, dtype=np.int32) if self.lengths else np.empty(0, np.int32)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        if self._known is not None:
            return Text(self._known, tokens, starts, lengths)
        counts = np.bincount(tokens, minlength=len(self._new))
        order = np.argsort(-counts, kind="stable")
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        spelling = list(self._new)
        return Text(WordList(tuple(spelling[number] for number in order)), rank[tokens], starts, lengths)
