"""The inputs of all analyses: systems, a text with references and word links, and a progress display."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from regard.alignment import Corpus, WordAligner
from regard.alignment.corpus import UNKNOWN
from regard.errors import DataError, UsageError
from regard.text.corpus import read_lines
from regard.text.links import GoldLinks, Links, format_links, parse_gold_links
from regard.text.paths import readable

if TYPE_CHECKING:
    from regard.data.text import TextSide
    from regard.generation.base import BaseTranslator

_T = TypeVar("_T")
_Parsed = TypeVar("_Parsed", Links, GoldLinks)
_MAX_UNKNOWN_SHARE = 0.3  # a note is made if more than this share of the words is unknown to the aligner

WordPairs = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Pairs of sentences, as lists of words."""


@runtime_checkable
class Progress(Protocol):
    """A progress display that passes items through."""

    def __call__(self, items: Iterable[_T], name: str, total: int) -> Iterator[_T]:
        """Yield the items and show the progress; `name` labels the task, `total` is the number of items."""
        ...


def no_progress(items: Iterable[_T], name: str, total: int) -> Iterator[_T]:
    """Yield the items without a display."""
    return iter(items)


@dataclass(frozen=True)
class System:
    """A system that is analyzed: a model, an ensemble, or a file of translations.

    Attributes:
        name: Display name.
        paths: The model directories, or the file.
        translator: The translator, with its search settings.
    """

    name: str
    paths: tuple[str, ...]
    translator: "BaseTranslator"


@dataclass(frozen=True)
class ParallelText:
    """Source lines and their reference translations.

    Attributes:
        sources: The source lines.
        references: One reference per source line.
        source_path: The file of the source lines. None for a text from Python.
        reference_path: The file of the references. None for a text from Python.

    Raises:
        DataError: if a side contains no text.
    """

    sources: tuple[str, ...]
    references: tuple[str, ...]
    source_path: str | None = None
    reference_path: str | None = None

    def __post_init__(self) -> None:
        """Check that both sides contain text."""
        for lines, name, path in (
            (self.sources, self.source_name, self.source_path),
            (self.references, self.reference_path or "references", self.reference_path),
        ):
            # A text of empty lines is nearly always the wrong file, and would get meaningless scores.
            if not any(line.strip() for line in lines):
                raise DataError(f"{name}: the {'list' if path is None else 'file'} contains no text")

    @property
    def source_name(self) -> str:
        """Name of the source side, for messages."""
        return self.source_path or "sources"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of source and reference lines."""
        return list(zip(self.sources, self.references, strict=True))

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.sources)


def check_names(names: Sequence[str] | None, defaults: Sequence[str]) -> list[str]:
    """Return the display names of systems, by default `defaults`.

    Raises:
        UsageError: if the number of names differs from the number of systems, or a name is empty or occurs
            twice.
    """
    chosen = [readable(name) for name in (defaults if names is None else names)]
    if len(chosen) != len(defaults):
        raise UsageError(
            f"--names has {len(chosen)} names but there are {len(defaults)} models: give one name per model"
        )
    # Names are the keys of results, so a second system of the same name would replace the first.
    if len(set(chosen)) < len(chosen) or not all(chosen):
        raise UsageError(
            f"the names of the models must be different and not empty, not {', '.join(chosen)}: "
            "choose them with --names"
        )
    return chosen


def line_words(line: str, side: "TextSide") -> tuple[str, ...]:
    """Return the words of a line as its tokenizer splits it, with subword tokens joined."""
    from regard.generation.linking import tokens_to_words  # needs PyTorch, unlike the rest of this module

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


def read_links(source: Any, name: str, parse: Callable[[str, str], _Parsed]) -> tuple[list[_Parsed], str]:
    """Return the links of each pair, and their name for messages.

    Args:
        source: A file, or the links of each pair, parsed or as lines.
        name: Name of the argument. A file has its own name.
        parse: Parses one line, given its name for messages.

    Raises:
        DataError: if the file cannot be read, or a line is not a list of links.
    """
    if isinstance(source, Path | str):
        name, source = str(source), read_lines(source)
    links = []
    for number, row in enumerate(source, 1):
        if not isinstance(row, str | GoldLinks):
            # Gold links that are given as pairs of positions are sure links. Arrays have NumPy integers.
            row = format_links((int(i), int(j)) for i, j in row)
        links.append(parse(row, f"{name}:{number}") if isinstance(row, str) else row)
    return links, name


def read_gold(source: Path | str | Iterable[GoldLinks | str], text: ParallelText) -> list[GoldLinks]:
    """Return the gold links of a text, from a `.talp` file or the links of each line.

    Raises:
        DataError: if the links are malformed, or their number differs from the number of lines.
    """
    gold, name = read_links(source, "gold_links", parse_gold_links)
    if len(gold) != len(text):
        raise DataError(
            f"{name} has {len(gold)} lines but {text.source_name} has {len(text)}: gold links need one line "
            "per source line"
        )
    return gold
