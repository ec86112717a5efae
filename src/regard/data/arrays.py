"""The second half of preprocessing: numbered units are converted to the arrays of token ids for training.

Rows are processed in chunks, which are read from the temporary files of `regard.data.pretokenization` and
appended to the final files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.pretokenization import TAG_PREFIX, TOO_LONG
from regard.data.text_checks import UnknownTokenCounter
from regard.text.tokenizers.base import Tokenizer
from regard.text.vocabulary import EOS

__all__ = ["KeptRows", "SegmentedUnits", "count_kept_tokens", "count_units", "write_split"]

CHUNK_ROWS = 10_000
"""Number of rows in a chunk."""
SIDES = ("source", "target")


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
        """Return a copy in which each token is replaced by a sequence of tokens.

        Args:
            spell: Returns the replacement of a token, usually the token itself.
        """
        numbers: dict[str, int] = {}
        parts = [[numbers.setdefault(p, len(numbers)) for p in spell(token)] for token in self.tokens]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)[self.flat]
        flat = [number for token in self.flat for number in parts[token]]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return SegmentedUnits(list(numbers), np.array(flat, dtype=np.int32), ends[self.starts])

    @property
    def sizes(self) -> np.ndarray:
        """The number of tokens of each unit."""
        return np.diff(self.starts)

    def expand(self, units: np.ndarray) -> np.ndarray:
        """Return the token indices of a sequence of units, concatenated."""
        # Vectorized form of concatenating flat[starts[u] : starts[u + 1]] over all units u.
        sizes = self.sizes[units]
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
    sizes_of = None if segments is None else segments.sizes
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


@dataclass(frozen=True)
class KeptRows:
    """Boolean arrays that mark the kept and dropped rows.

    Attributes:
        keep: True if the pair is kept.
        empty: True if a side is empty.
        too_long: True if a side is too long.
    """

    keep: np.ndarray
    empty: np.ndarray
    too_long: np.ndarray


def _decide(source: _Rows, target: _Rows, max_length: int) -> KeptRows:
    empty = (source.tokens == 0) | (target.tokens == 0)
    lengths = np.maximum(source.tokens, target.tokens)
    long = ~empty & ((source.tokens == TOO_LONG) | (target.tokens == TOO_LONG) | (lengths > max_length))
    return KeptRows(~empty & ~long, empty, long)


def _pairs(
    directory: Path, split: str, segments: tuple[SegmentedUnits, SegmentedUnits]
) -> Iterator[tuple[_Rows, _Rows]]:
    sources = _rows(directory, split, "source", segments[0])
    targets = _rows(directory, split, "target", segments[1])
    return zip(sources, targets, strict=True)


def count_kept_tokens(
    directory: Path, split: str, segments: tuple[SegmentedUnits, SegmentedUnits], max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of occurrences of each source and target token in the kept pairs of a split."""
    counts = tuple(np.zeros(len(side.tokens), dtype=np.int64) for side in segments)
    for pair in _pairs(directory, split, segments):
        kept_rows = _decide(*pair, max_length)
        for rows, side, count in zip(pair, segments, counts, strict=True):
            units = rows.units[np.repeat(kept_rows.keep, rows.sizes)]
            count += np.bincount(side.expand(units), minlength=len(count))
    return counts[0], counts[1]


def write_split(
    directory: Path,
    split: str,
    segments: tuple[SegmentedUnits, SegmentedUnits],
    ids: tuple[np.ndarray, np.ndarray],
    max_length: int,
    output_dir: Path,
    unknown_counts: tuple[UnknownTokenCounter, UnknownTokenCounter],
) -> KeptRows:
    """Write the final arrays of a split: tokens, offsets and line numbers.

    Args:
        directory: Directory of the temporary files.
        split: Name of the split.
        segments: The tokens of the units of each side.
        ids: The id of each token of `segments`, for each side.
        max_length: Maximum number of tokens on a side; longer pairs are dropped.
        output_dir: Directory for the files `SPLIT.SIDE.tokens` (int32), `SPLIT.SIDE.offsets` (int64,
            [rows + 1]) and `SPLIT.lines` (int64, line number of each row over all corpora, from 0).
        unknown_counts: Counters of unknown tokens for each side.

    Returns:
        The kept and dropped pairs of the corpora.
    """
    decisions: list[KeptRows] = []
    totals = [0, 0]
    num_rows = 0
    names = [f"{split}.{side}.{kind}" for side in SIDES for kind in ("tokens", "offsets")]
    files = [open(output_dir / name, "wb") for name in [*names, f"{split}.lines"]]
    try:
        for side in (0, 1):
            # The first offset; the ends of all rows follow.
            files[2 * side + 1].write(np.zeros(1, dtype="<i8").tobytes())
        for pair in _pairs(directory, split, segments):
            kept_rows = _decide(*pair, max_length)
            decisions.append(kept_rows)
            for side, rows in enumerate(pair):
                # Dropped rows are removed as units, before they are expanded to tokens.
                numbers = segments[side].expand(rows.units[np.repeat(kept_rows.keep, rows.sizes)])
                unknown_counts[side].add(numbers)
                tokens, sizes = _final(ids[side][numbers], rows.tokens[kept_rows.keep], end=side == 1)
                files[2 * side].write(tokens.astype("<i4").tobytes())
                files[2 * side + 1].write((totals[side] + np.cumsum(sizes)).astype("<i8").tobytes())
                totals[side] += len(tokens)
            files[4].write((num_rows + np.flatnonzero(kept_rows.keep)).astype("<i8").tobytes())
            num_rows += len(kept_rows.keep)
    finally:
        for file in files:
            file.close()
    return KeptRows(
        *(np.concatenate([getattr(d, name) for d in decisions]) for name in ("keep", "empty", "too_long"))
    )


def _final(tokens: np.ndarray, sizes: np.ndarray, end: bool) -> tuple[np.ndarray, np.ndarray]:
    """Append `EOS` to each row if `end` is true; return the ids and the row lengths."""
    if end:
        # np.insert interprets all positions relative to the original array.
        tokens = np.insert(tokens, np.cumsum(sizes), EOS)
        sizes = sizes + 1
    return tokens, sizes
