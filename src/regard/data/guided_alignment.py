"""Word alignment links of training pairs as supervision of attention (guided alignment; Chen et al., 2016).

The links are read from a Pharaoh file (see `regard.text.links`) with one line for each pair of the training
corpora, in their order. Positions count the words of the text files, whose links then apply to all tokens of
the word, or tokens of the model; sinks, end symbols and source prefixes are not counted. In a batch, the
links are a distribution over the source tokens for each target token.
"""

import itertools
import logging
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from regard.data.dataset import DatasetSplit
from regard.data.text import TextSide
from regard.errors import DataError
from regard.text.corpus import CorpusConfig, read_lines, read_pairs
from regard.text.links import parse_gold_links
from regard.text.tokenizers.words import SPACE_MARK
from regard.text.words import split_whitespace
from regard.types import Float, Tensor

_log = logging.getLogger(__name__)

LinkUnit = Literal["words", "tokens"]
"""Unit of the positions in links: words separated by ASCII white space, or tokens of the model."""

TokenPositions = list[list[int]]  # the token positions of each word or token of a sentence


@dataclass(frozen=True)
class SplitLinks:
    """The links of all rows of a split.

    Attributes:
        pairs: [N, 2], the source and target positions of the links of all rows, concatenated.
        offsets: [rows + 1], the offset of each row in `pairs`.
    """

    pairs: np.ndarray
    offsets: np.ndarray

    @classmethod
    def read(
        cls,
        path: Path | str,
        split: DatasetSplit,
        corpora: Sequence[CorpusConfig],
        unit: LinkUnit = "tokens",
    ) -> "SplitLinks":
        """Read the links of a split; sure and possible links (`.talp`) are treated alike.

        A pair whose words cannot be assigned to its tokens gets no links, with a warning (see `WordTokens`).

        Args:
            path: The file, plain or compressed.
            split: The split.
            corpora: The corpora of the split. Links do not count their source prefixes.
            unit: Unit of the positions in the links. Words are read from the text files of the corpora.

        Raises:
            DataError: if the number of lines differs from the number of pairs of the corpora, a field is not
                a link, or a link is out of range. The message gives the line. Also if the words of no pair
                can be assigned to its tokens.
        """
        counts = [int(corpus["pairs"]) for corpus in split.corpora]
        # A source prefix shifts all source positions by one.
        prefixed = np.array([corpus.source_prefix is not None for corpus in corpora], dtype=np.int64)
        shifts = np.repeat(prefixed, counts).tolist()
        place = _WordPlaces(split, corpora) if unit == "words" else partial(_tokens, split)
        coming = iter([*split.lines.tolist(), -1])
        row, line_of_row = 0, next(coming)
        flat, ends, number = array("q"), [0], 0
        for number, line in enumerate(read_lines(path), 1):
            links = parse_gold_links(line, f"{path}, line {number}").possible
            if number - 1 != line_of_row:
                continue  # a pair that was dropped for its length
            source, target = place(row, number - 1, shifts[number - 1])
            for i, j in sorted(links):
                if i >= len(source) or j >= len(target):
                    raise DataError(
                        f"{path}, line {number}: link {i}-{j}, but the pair has {len(source)} source and "
                        f"{len(target)} target {unit} ({split.location(row)})"
                    )
                for pair in itertools.product(source[i], target[j]):
                    flat.extend(pair)
            ends.append(len(flat) // 2)
            row, line_of_row = row + 1, next(coming)
        if number != len(shifts):
            raise DataError(f"{path}: {number} lines, expected {len(shifts)}: one per training pair")
        if isinstance(place, _WordPlaces):
            place.report_unplaced(str(path))
        return cls(np.array(flat, dtype=np.int32).reshape(-1, 2), np.array(ends))

    def target_distributions(
        self, rows: Sequence[int] | np.ndarray, target_length: int, source_length: int
    ) -> Float[Tensor, "B T S"]:
        """Return for each target token a uniform distribution over its linked source tokens, or zeros.

        Args:
            rows: The rows of the batch.
            target_length: T, the padded target length.
            source_length: S, the padded source length.
        """
        distributions = np.zeros((len(rows), target_length, source_length), dtype=np.float32)
        for index, row in enumerate(rows):
            links = self.pairs[self.offsets[row] : self.offsets[row + 1]]
            distributions[index, links[:, 1], links[:, 0]] = 1
        return torch.from_numpy(distributions / distributions.sum(-1, keepdims=True).clip(min=1))


def _tokens(split: DatasetSplit, row: int, line: int, shift: int) -> tuple[TokenPositions, TokenPositions]:
    """Return the position of each token of a row, without its source prefix and `EOS`."""
    source, target = int(split.source_lengths[row]), int(split.target_lengths[row]) - 1
    return [[i] for i in range(shift, source)], [[j] for j in range(target)]


@dataclass(frozen=True, eq=False)
class WordTokens:
    """Finds the tokens of each word of a line, where words are separated by ASCII white space.

    Aligners count these words, but tokenizers split them further: Moses separates the comma of `Haus,`. A
    unit of the tokenizer belongs to the word that contains its first character. If the tokenizer changes
    characters (Unicode normalization, bytes), its own word marks are used if they give the same number of
    words.

    Attributes:
        side: The text processing of the language.
    """

    side: TextSide
    _segments: dict[str, list[str]] = field(default_factory=dict, init=False)

    def __call__(self, line: str) -> TokenPositions | None:
        """Return the token positions of each word of a line; None if they cannot be determined."""
        words, units = split_whitespace(line), self.side.tokenizer.pretokenize(line)
        segments = [self._segment(unit) for unit in units]
        of_units = _words_of_units(words, units)
        if of_units is not None:
            of_tokens = [
                word for word, tokens in zip(of_units, segments, strict=True) for _ in range(len(tokens))
            ]
        else:
            of_tokens = self.side.tokenizer.word_ids([token for tokens in segments for token in tokens])
            if not of_tokens or of_tokens[-1] + 1 != len(words):
                return None
        places: TokenPositions = [[] for _ in words]
        for position, word in enumerate(of_tokens):
            places[word].append(position)
        return places

    def _segment(self, unit: str) -> list[str]:
        """Return the tokens of a unit, as preprocessing splits it."""
        tokens = self._segments.get(unit)
        if tokens is None:
            side = self.side
            tokens = [part for token in side.tokenizer.segment(unit) for part in side.split_unknown(token)]
            self._segments[unit] = tokens
        return tokens


def _words_of_units(words: Sequence[str], units: Sequence[str]) -> list[int] | None:
    """Return the word of each unit by the characters of both; None if the characters differ."""
    # Tokenizers remove or mark spaces, some of which (U+00A0) are inside a word of the aligner.
    words, units = (
        ["".join(text.replace(SPACE_MARK, " ").split()) for text in side] for side in (words, units)
    )
    if "".join(words) != "".join(units):
        return None
    ends = list(itertools.accumulate(map(len, words)))
    starts = itertools.accumulate(map(len, units[:-1]), initial=0)
    # A unit without characters, such as a mark for a space, belongs to the word after it.
    return [min(bisect_right(ends, start), len(words) - 1) for start in starts] if units else []


class _WordPlaces:
    """The tokens of the words of a split, whose text files are read once, from the first row to the last."""

    def __init__(self, split: DatasetSplit, corpora: Sequence[CorpusConfig]) -> None:
        self.split = split
        self._pairs = enumerate(pair for corpus in corpora for pair in read_pairs(corpus))
        self._sides = WordTokens(split.text.source), WordTokens(split.text.target)
        self._unplaced: list[int] = []

    def __call__(self, row: int, line: int, shift: int) -> tuple[TokenPositions, TokenPositions]:
        """Return the token positions of each word of a row; words without known tokens have none."""
        pair = next((pair for number, pair in self._pairs if number == line), ("", ""))
        positions = [side(text) for side, text in zip(self._sides, pair, strict=True)]
        lengths = int(self.split.source_lengths[row]) - shift, int(self.split.target_lengths[row]) - 1
        for places, length in zip(positions, lengths, strict=True):
            if places is not None and sum(map(len, places)) != length:
                raise DataError(f"{self.split.location(row)}: the text has changed since it was prepared")
        source, target = positions
        if source is None or target is None:
            self._unplaced.append(row)
            source, target = ([[] for _ in split_whitespace(text)] for text in pair)
        return [[position + shift for position in word] for word in source], target

    def report_unplaced(self, path: str) -> None:
        """Log the number of pairs whose words have no known tokens, with the first of them.

        Raises:
            DataError: if these are all pairs.
        """
        if not self._unplaced:
            return
        where, total = self.split.location(self._unplaced[0]), len(self.split)
        if len(self._unplaced) == total:
            raise DataError(
                f"{path}: the tokenizers do not show which tokens belong to a word ({where}); align the "
                "tokens and set units = 'tokens'"
            )
        _log.warning(
            "%s: the links of %d of %d pairs are not used, because their words cannot be assigned to tokens "
            "(the first one is %s)",
            path,
            len(self._unplaced),
            total,
            where,
        )
