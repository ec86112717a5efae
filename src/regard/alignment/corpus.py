"""The aligner's text: two sides as integers, flat, so that compiled loops run over them.

A word is what stands between blanks. Words are numbered by frequency, the most frequent first, which keeps
what the loops read often close together. In text that is aligned with a trained aligner a word of no number
is `UNKNOWN`.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.data.checks import check_range
from regard.data.corpus import CorpusConfig, read_lines, read_pairs
from regard.data.spacing import split_at_spaces
from regard.errors import DataError

if TYPE_CHECKING:
    # It brings PyTorch, which an aligner of plain text does without.
    from regard.data.prepared import Prepared

__all__ = ["UNKNOWN", "Corpus", "Text", "Words", "split_joined"]

UNKNOWN = -1
"""The number of a word that the aligner never saw."""

Pairs = Iterable[tuple[Sequence[str], Sequence[str]]]


@dataclass(frozen=True)
class Words:
    """The words of one side, in the order of their numbers.

    Attributes:
        spelling: `spelling[i]` is the word of number `i`.
    """

    spelling: tuple[str, ...]
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Number the words."""
        object.__setattr__(self, "_index", {word: number for number, word in enumerate(self.spelling)})

    def __len__(self) -> int:
        """How many words there are."""
        return len(self.spelling)

    def numbers(self, tokens: Sequence[str]) -> list[int]:
        """The number of each token, `UNKNOWN` where it has none."""
        index = self._index
        return [index.get(token, UNKNOWN) for token in tokens]


@dataclass(frozen=True, eq=False)
class Text:
    """One side of a corpus.

    Attributes:
        words: Its words.
        tokens: int32, the number of each token; memory-mapped where it comes from prepared data.
        starts: int64, where each sentence starts in `tokens`.
        lengths: int32, how many tokens each sentence has.
    """

    words: Words
    tokens: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def sentence(self, row: int) -> np.ndarray:
        """The numbers of the tokens of a sentence."""
        start = int(self.starts[row])
        return self.tokens[start : start + int(self.lengths[row])]

    @property
    def offsets(self) -> np.ndarray:
        """int64 [sentences + 1]: where each sentence's tokens stand in an array of one value a token."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentence pairs as integers."""

    source: Text
    target: Text

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.source.lengths)

    def swapped(self) -> "Corpus":
        """The same pairs in the other direction: one object however often it is asked for, both ways."""
        return self._mirror

    @cached_property
    def _mirror(self) -> "Corpus":
        mirror = Corpus(self.target, self.source)
        mirror.__dict__["_mirror"] = self
        return mirror

    def part(self, first: int, last: int) -> "Corpus":
        """The pairs from `first` up to, not including, `last`; nothing is copied."""
        return self.rows(slice(first, last))

    def rows(self, chosen: slice | np.ndarray) -> "Corpus":
        """Some of the pairs, in the order in which they are named; the tokens are not copied."""
        sides = self.source, self.target
        return Corpus(*(Text(t.words, t.tokens, t.starts[chosen], t.lengths[chosen]) for t in sides))

    @classmethod
    def from_tokens(
        cls,
        pairs: Pairs,
        words: tuple[Words, Words] | None = None,
        names: tuple[str, str] = ("source", "target"),
        allow_empty: bool = False,
    ) -> "Corpus":
        """Number the words of tokenised pairs.

        Args:
            pairs: Source and target tokens of each pair.
            words: The words of a trained aligner, so that the numbers are its own; none: number them anew.
            names: What to call the two sides in messages.
            allow_empty: Take pairs with an empty side too (nothing can be aligned in them).

        Raises:
            DataError: if there is no pair, or a side of one is empty; names side and line.
        """
        sides = tuple(_Numbering(known) for known in words or (None, None))
        for row, pair in enumerate(pairs, 1):
            for tokens, side, name in zip(pair, sides, names, strict=True):
                if not tokens and not allow_empty:
                    raise DataError(f"{name}:{row}: the line is empty; an aligner needs words on both sides")
                side.add(tokens)
        if not sides[0].lengths and not allow_empty:
            raise DataError(f"{names[0]}: there is no sentence pair to align")
        return cls(sides[0].text(), sides[1].text())

    @classmethod
    def read(
        cls,
        source: Path | str,
        target: Path | str,
        words: tuple[Words, Words] | None = None,
        lowercase: bool = False,
        allow_empty: bool = False,
    ) -> "Corpus":
        """Read two files, plain or gzip, whose lines match.

        Args:
            source: The source text, words between blanks.
            target: The target text.
            words: As in `from_tokens`.
            lowercase: Ignore case.
            allow_empty: As in `from_tokens`.

        Raises:
            DataError: if a file cannot be read, the numbers of lines differ or a line is empty; names them.
        """
        lines = read_pairs(CorpusConfig(source=str(source), target=str(target)))
        pairs = ((_split(left, lowercase), _split(right, lowercase)) for left, right in lines)
        return cls.from_tokens(pairs, words, (str(source), str(target)), allow_empty)

    @classmethod
    def read_joined(
        cls,
        lines: Path | str | Iterable[str],
        words: tuple[Words, Words] | None = None,
        lowercase: bool = False,
        name: str = "standard input",
    ) -> "Corpus":
        """Read one file, or lines, of `source ||| target`.

        Args:
            lines: The file, plain or gzip, or its lines.
            words: As in `from_tokens`.
            lowercase: Ignore case.
            name: What to call lines that are not a file's in messages.

        Raises:
            DataError: if the file cannot be read, or a line has not one `|||` with words on both sides.
        """
        if isinstance(lines, Path | str):
            name, lines = str(lines), read_lines(lines)
        split = (split_joined(line, f"{name}:{row}") for row, line in enumerate(lines, 1))
        pairs = ((_split(left, lowercase), _split(right, lowercase)) for left, right in split)
        return cls.from_tokens(pairs, words, (name, name))

    @classmethod
    def from_prepared(cls, prepared: "Prepared", split: str = "train") -> "Corpus":
        """A split of prepared data, memory-mapped: text larger than memory is read as the loops go.

        The words are the vocabularies' tokens; all that a vocabulary leaves out are one word. The end symbol
        of the target is left out.

        Raises:
            DataError: if there is no such split, or a pair has an empty side.
        """
        rows = prepared.split(split)
        texts = []
        for name, end in (("source", 0), ("target", 1)):
            tokens = np.memmap(prepared.folder / f"{split}.{name}.tokens", dtype="<i4", mode="r")
            offsets = np.fromfile(prepared.folder / f"{split}.{name}.offsets", dtype="<i8")
            lengths = (np.diff(offsets) - end).astype(np.int32)
            if not lengths.all():
                raise DataError(f"{rows.where(int(np.argmin(lengths)))}: the {name} is empty")
            words = Words(getattr(prepared.text, name).vocabulary.tokens)
            check_range(f"{prepared.folder / split}.{name}.tokens", tokens, 0, len(words) - 1)
            texts.append(Text(words, np.asarray(tokens), offsets[:-1], lengths))
        return cls(texts[0], texts[1])


def split_joined(line: str, where: str) -> tuple[str, str]:
    """The two sides of a line `source ||| target`.

    Raises:
        DataError: if it has not one `|||` between blanks with words on both sides; `where` opens the message.
    """
    tokens = split_at_spaces(line)
    if tokens.count("|||") != 1:
        raise DataError(f"{where}: {tokens.count('|||')} separators |||, expected one: source ||| target")
    middle = tokens.index("|||")
    for side, name in ((tokens[:middle], "source"), (tokens[middle + 1 :], "target")):
        if not side:
            raise DataError(f"{where}: the {name} is empty; an aligner needs words on both sides")
    return " ".join(tokens[:middle]), " ".join(tokens[middle + 1 :])


def _split(line: str, lowercase: bool) -> list[str]:
    return split_at_spaces(line.lower() if lowercase else line)


class _Numbering:
    """Tokens of one side as they come in, to numbers."""

    def __init__(self, known: Words | None) -> None:
        self._known = known
        self._new: defaultdict[str, int] = defaultdict()
        self._new.default_factory = self._new.__len__
        self._flat = array("i")
        self.lengths = array("i")

    def add(self, tokens: Sequence[str]) -> None:
        """Take one sentence."""
        self._flat.extend(
            map(self._new.__getitem__, tokens) if self._known is None else self._known.numbers(tokens)
        )
        self.lengths.append(len(tokens))

    def text(self) -> Text:
        """The side; new words are numbered by frequency, of equals the one seen first."""
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
        return Text(Words(tuple(spelling[number] for number in order)), rank[tokens], starts, lengths)
