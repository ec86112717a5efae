"""The arrays of preprocessed text: text becomes numbered units, and these become the token ids for training.

A unit is a result of `Tokenizer.pretokenize`. Each distinct unit gets the next number when it first occurs.
The text becomes a temporary file of unit numbers and one of sentence lengths. Text is therefore tokenized
once, and memory holds the distinct units, not the corpus. The rows of these files are then read in chunks,
and their tokens are appended to the final files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from regard.text.tokenizers.base import Tokenizer
from regard.text.vocabulary import EOS, UNK
from regard.text.words import split_whitespace

ProgressCallback = Callable[[str, int, int | None], None]

SIDES = ("source", "target")
TAG_PREFIX = "\0"
"""First character of the unit for a source prefix. The character does not occur in text; see `clean_line`."""
TOO_LONG = -1
"""The length recorded for a sentence that was not tokenized because it has too many words."""
_BETWEEN, _LONG = "\x1f", "\x1e"
CHUNK_ROWS = 10_000
"""Number of rows in a chunk."""
PAIR_OUTCOMES = ("kept", "empty", "too_long")
"""What becomes of a pair, by number: it is kept, or dropped because a side is empty or too long."""


class UnitNumbers(dict[str, int]):
    """The number of each distinct unit of one language; a new unit gets the next number."""

    def __missing__(self, key: str) -> int:
        """Assign the next number."""
        number = self[key] = len(self)
        return number

    def append(self, lines: Iterable[str], source_prefix: str | None, files: Sequence[IO[bytes]]) -> None:
        """Append the units of the lines of `tokenize_pairs`, and their numbers, to two files."""
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


def tokenize_pairs(
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
class SegmentedUnits:
    """The tokens of every distinct unit, as flat arrays.

    Attributes:
        tokens: The distinct tokens.
        flat: The indices of the tokens of all units in `tokens`, concatenated.
        starts: [units + 1], the offset of each unit in `flat`.
    """

    tokens: list[str]
    flat: np.ndarray
    starts: np.ndarray

    @classmethod
    def from_units(cls, units: Sequence[str], tokenizer: Tokenizer) -> "SegmentedUnits":
        """Segment every unit once; a source prefix is a single token."""
        numbers: dict[str, int] = {}
        flat: list[int] = []
        starts = [0]
        for unit in units:
            tokens = (unit[len(TAG_PREFIX) :],) if unit.startswith(TAG_PREFIX) else tokenizer.segment(unit)
            flat += [numbers.setdefault(token, len(numbers)) for token in tokens]
            # The end of a unit is the start of the next one.
            starts.append(len(flat))
        return cls(list(numbers), np.array(flat, dtype=np.int32), np.array(starts, dtype=np.int64))

    def respell(self, spell: Callable[[str], Sequence[str]]) -> "SegmentedUnits":
        """Return a copy in which each token is replaced by those of `spell`, usually the token itself."""
        numbers: dict[str, int] = {}
        parts = [[numbers.setdefault(p, len(numbers)) for p in spell(token)] for token in self.tokens]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)[self.flat]
        flat = [number for token in self.flat for number in parts[token]]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return SegmentedUnits(list(numbers), np.array(flat, dtype=np.int32), ends[self.starts])

    def expand(self, units: np.ndarray) -> np.ndarray:
        """Return the token indices of a sequence of units, concatenated."""
        # Vectorized form of concatenating flat[starts[u] : starts[u + 1]] over all units u.
        sizes = np.diff(self.starts)[units]
        ends = np.cumsum(sizes)
        shift = np.repeat(self.starts[units] - (ends - sizes), sizes)
        return self.flat[shift + np.arange(len(shift))]


@dataclass(frozen=True)
class _Rows:
    """A chunk of rows of one side: the units, the number of units per row, the number of tokens per row."""

    units: np.ndarray
    sizes: np.ndarray
    tokens: np.ndarray


def _rows(directory: Path, split: str, side: str, segments: SegmentedUnits | None) -> Iterator[_Rows]:
    sizes_of = None if segments is None else np.diff(segments.starts)
    with (
        open(directory / f"{split}.{side}.sizes", "rb") as sizes_file,
        open(directory / f"{split}.{side}.units", "rb") as units_file,
    ):
        while len(sizes := np.frombuffer(sizes_file.read(4 * CHUNK_ROWS), dtype="<i4")):
            real = np.maximum(sizes, 0).astype(np.int64)  # sentences that are too long have no units
            units = np.frombuffer(units_file.read(4 * int(real.sum())), dtype="<i4")
            per_unit = np.ones(len(units), dtype=np.int64) if sizes_of is None else sizes_of[units]
            # The number of tokens per row is the difference of prefix sums over the units.
            totals = np.concatenate([[0], np.cumsum(per_unit)])
            ends = np.cumsum(real)
            tokens = totals[ends] - totals[ends - real]
            yield _Rows(units, real, np.where(sizes == TOO_LONG, TOO_LONG, tokens))


def count_units(directory: Path, split: str, side: str, num_units: int) -> np.ndarray:
    """Return the number of occurrences of each unit in a split."""
    counts = np.zeros(num_units, dtype=np.int64)
    for rows in _rows(directory, split, side, None):
        counts += np.bincount(rows.units, minlength=num_units)
    return counts


def _kept_tokens(
    directory: Path, split: str, segments: tuple[SegmentedUnits, SegmentedUnits], max_length: int
) -> Iterator[tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]]:
    """Yield for each chunk the outcomes of pairs, and tokens and lengths of each side of the kept ones."""
    sides = (_rows(directory, split, name, side) for name, side in zip(SIDES, segments, strict=True))
    for pair in zip(*sides, strict=True):
        lengths = np.stack([rows.tokens for rows in pair])
        too_long = (lengths == TOO_LONG).any(axis=0) | (lengths.max(axis=0) > max_length)
        outcomes = np.where((lengths == 0).any(axis=0), 1, np.where(too_long, 2, 0))
        keep = outcomes == 0
        # Dropped rows are removed as units, before they are expanded to tokens.
        units = (rows.units[np.repeat(keep, rows.sizes)] for rows in pair)
        yield (
            outcomes,
            [(s.expand(u), rows.tokens[keep]) for s, u, rows in zip(segments, units, pair, strict=True)],
        )


def count_kept_tokens(
    directory: Path, split: str, segments: tuple[SegmentedUnits, SegmentedUnits], max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of occurrences of each source and target token in the kept pairs of a split."""
    source, target = (np.zeros(len(side.tokens), dtype=np.int64) for side in segments)
    for _, sides in _kept_tokens(directory, split, segments, max_length):
        for counts, (tokens, _) in zip((source, target), sides, strict=True):
            counts += np.bincount(tokens, minlength=len(counts))
    return source, target


def write_split(
    directory: Path,
    split: str,
    segments: tuple[SegmentedUnits, SegmentedUnits],
    ids: tuple[np.ndarray, np.ndarray],
    max_length: int,
    output_dir: Path,
) -> tuple[np.ndarray, dict[str, dict[str, int]]]:
    """Write the final arrays of a split: tokens, offsets and line numbers.

    Args:
        directory: Directory of the temporary files.
        split: Name of the split.
        segments: The tokens of the units of each side.
        ids: The id of each token of `segments`, for each side.
        max_length: Maximum number of tokens on a side; longer pairs are dropped.
        output_dir: Directory for the files `SPLIT.SIDE.tokens` (int32), `SPLIT.SIDE.offsets` (int64,
            [rows + 1]) and `SPLIT.lines` (int64, line number of each row over all corpora, from 0).

    Returns:
        The outcome of each pair, an index into `PAIR_OUTCOMES`, and for each side the number of tokens of the
        kept pairs and that of unknown ones.
    """
    chunks: list[np.ndarray] = []
    num_rows, totals, counts = 0, [0, 0], {side: {"tokens": 0, "unknown": 0} for side in SIDES}
    names = [f"{split}.{side}.{kind}" for side in SIDES for kind in ("tokens", "offsets")]
    with ExitStack() as opened:
        files = [opened.enter_context(open(output_dir / name, "wb")) for name in [*names, f"{split}.lines"]]
        for side in (0, 1):
            # The first offset; the ends of all rows follow.
            files[2 * side + 1].write(np.zeros(1, dtype="<i8").tobytes())
        for outcomes, sides in _kept_tokens(directory, split, segments, max_length):
            chunks.append(outcomes)
            for side, (numbers, lengths) in enumerate(sides):
                tokens = ids[side][numbers]
                counts[SIDES[side]]["tokens"] += len(tokens)
                counts[SIDES[side]]["unknown"] += int((tokens == UNK).sum())
                if side == 1:
                    # np.insert interprets all positions relative to the original array.
                    tokens, lengths = np.insert(tokens, np.cumsum(lengths), EOS), lengths + 1
                files[2 * side].write(tokens.astype("<i4").tobytes())
                files[2 * side + 1].write((totals[side] + np.cumsum(lengths)).astype("<i8").tobytes())
                totals[side] += len(tokens)
            files[4].write((num_rows + np.flatnonzero(outcomes == 0)).astype("<i8").tobytes())
            num_rows += len(outcomes)
    return np.concatenate(chunks), counts
