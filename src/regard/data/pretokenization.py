"""The first half of preprocessing: text is converted to numbered units in temporary files.

A unit is a result of `Tokenizer.pretokenize`. Each distinct unit gets the next number when it first occurs.
The text becomes a flat file of unit numbers and a file of sentence lengths. Text is therefore tokenized once,
and memory holds the distinct units, not the corpus.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_pairs
from regard.text.tokenizers.base import Tokenizer
from regard.text.words import split_whitespace
from regard.text.workers import ordered_map

__all__ = ["SIDES", "TAG_PREFIX", "TOO_LONG", "ProgressCallback", "UnitNumbers", "UnitWriter"]

ProgressCallback = Callable[[str, int, int | None], None]

SIDES = ("source", "target")
CHUNK_LINES = 4096
"""Number of lines in a chunk that is tokenized at once."""
TAG_PREFIX = "\0"
"""First character of the unit for a source prefix. The character does not occur in text; see `clean_line`."""
TOO_LONG = -1
"""The length recorded for a sentence that was not tokenized because it has too many words."""
_BETWEEN, _LONG = "\x1f", "\x1e"


class UnitNumbers(dict[str, int]):
    """The number of each distinct unit of one language; a new unit gets the next number."""

    def __missing__(self, key: str) -> int:
        """Assign the next number."""
        number = self[key] = len(self)
        return number

    def append(self, lines: Iterable[str], source_prefix: str | None, files: Sequence[IO[bytes]]) -> None:
        """Append the units of the lines of `_tokenize_chunk`, and their numbers, to two files."""
        first = [] if source_prefix is None else [self[TAG_PREFIX + source_prefix]]
        flat: list[int] = []
        sizes: list[int] = []
        for line in lines:
            # An empty sentence gets no prefix, so that the pair is dropped.
            units = (
                [*first, *(self[unit] for unit in line.split(_BETWEEN))] if line not in ("", _LONG) else []
            )
            flat += units
            sizes.append(TOO_LONG if line == _LONG else len(units))
        for file, numbers in zip(files, (flat, sizes), strict=True):
            file.write(np.array(numbers, dtype="<i4").tobytes())


def _tokenize_chunk(
    tokenizers: tuple[Tokenizer, Tokenizer], max_words: int, pairs: list[tuple[str, str]]
) -> list[list[str]]:
    """Split the sides of pairs into units, separated by `_BETWEEN`."""

    def split(tokenizer: Tokenizer, line: str) -> str:
        # No tokenizer produces fewer tokens than words, so that a line with too many words will be dropped
        # in any case and need not be tokenized.
        if len(line) > max_words and len(split_whitespace(line)) > max_words:
            return _LONG
        return _BETWEEN.join(tokenizer.pretokenize(line))

    return [[split(tokenizer, pair[side]) for pair in pairs] for side, tokenizer in enumerate(tokenizers)]


@dataclass(frozen=True)
class UnitWriter:
    """Tokenizes the corpora of splits and writes their units to temporary files.

    Attributes:
        tokenizers: The source and the target tokenizer.
        units: The source and the target numbering; new units are added.
        directory: Directory for the files `SPLIT.SIDE.units` and `SPLIT.SIDE.sizes`, and for the lines
            themselves, `SPLIT.SIDE.raw`, which are kept for all splits except `train`.
    """

    tokenizers: tuple[Tokenizer, Tokenizer]
    units: tuple[UnitNumbers, UnitNumbers]
    directory: Path

    def write(
        self,
        split: str,
        corpora: Iterable[CorpusConfig],
        max_words: int,
        num_processes: int,
        on_progress: Callable[[int], None],
    ) -> list[int]:
        """Tokenize the corpora of a split and write their units.

        Args:
            split: Name of the split.
            corpora: The corpora, in order.
            max_words: Maximum number of words; longer lines are recorded as too long.
            num_processes: Number of worker processes.
            on_progress: Called with the number of pairs processed since the last call.

        Returns:
            The number of pairs of each corpus.

        Raises:
            DataError: if a line does not have the format of its tokenizer. The message gives file and line.
        """
        tokenize = partial(_tokenize_chunk, self.tokenizers, max_words)
        if any(type(tokenizer).__module__ == "__main__" for tokenizer in self.tokenizers):
            num_processes = 1  # another process cannot import the class of a script or a notebook
        counts = []
        with ExitStack() as opened:
            files: dict[tuple[str, str], IO[bytes]] = {
                (side, kind): opened.enter_context(open(self.directory / f"{split}.{side}.{kind}", "wb"))
                for side in SIDES
                for kind in ("units", "sizes", "raw")
            }
            for corpus in corpora:
                chunks = _chunks(_checked(corpus, self.tokenizers), files if split != "train" else None)
                counts.append(0)
                prefixes = corpus.source_prefix, None
                for sides in ordered_map(tokenize, chunks, num_processes):
                    for name, lines, units, prefix in zip(SIDES, sides, self.units, prefixes, strict=True):
                        units.append(lines, prefix, (files[name, "units"], files[name, "sizes"]))
                    counts[-1] += len(sides[0])
                    on_progress(len(sides[0]))
        return counts


def _checked(corpus: CorpusConfig, tokenizers: tuple[Tokenizer, Tokenizer]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a corpus after checking that they have the format of the tokenizers."""
    for number, pair in enumerate(read_pairs(corpus), 1):
        for tokenizer, line, name in zip(tokenizers, pair, (corpus.source, corpus.target), strict=True):
            problem = tokenizer.format_error(line)
            if problem is not None:
                raise DataError(f"{corpus.tsv or name}: line {number}: {problem}")
        yield pair


def _chunks(
    pairs: Iterator[tuple[str, str]], files: dict[tuple[str, str], IO[bytes]] | None
) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(pairs, CHUNK_LINES)):
        if files is not None:
            files["source", "raw"].write("".join(f"{source}\n" for source, _ in chunk).encode())
            files["target", "raw"].write("".join(f"{target}\n" for _, target in chunk).encode())
        yield chunk
