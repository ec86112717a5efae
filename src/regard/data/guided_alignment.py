"""Word alignment links of training pairs as supervision of attention (guided alignment; Chen et al., 2016).

The links are read from a Pharaoh file (see `regard.data.links`) with one line for each pair of the training
corpora, in their order. Positions count words, whose links then apply to all their subword tokens, or tokens
of the model; sinks, end symbols and source prefixes are not counted. In a batch, the links are a distribution
over the source tokens for each target token.
"""

import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from regard.data.corpus import read_lines
from regard.data.dataset import DatasetSplit
from regard.data.links import parse_gold_links
from regard.data.vocabulary import UNK
from regard.errors import DataError
from regard.types import Float, Tensor

__all__ = ["LinkUnit", "SplitLinks"]

LinkUnit = Literal["words", "tokens"]
"""Unit of the positions in links: words, or tokens of the model."""

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
        has_tag: Sequence[bool] | None = None,
        unit: LinkUnit = "tokens",
    ) -> "SplitLinks":
        """Read the links of a split; sure and possible links (`.talp`) are treated alike.

        Unknown subword tokens have no word boundaries. A pair with unknown tokens and words of several
        tokens therefore gets no links if the links count words.

        Args:
            path: The file, plain or gzip.
            split: The split.
            has_tag: For each corpus, whether it has a source prefix, which is then the first source token.
            unit: Unit of the positions in the links.

        Raises:
            DataError: if the number of lines differs from the number of pairs of the corpora, a field is not
                a link, or a link is out of range. The message gives the line.
        """
        counts = [int(corpus["pairs"]) for corpus in split.corpora]
        # A source prefix shifts all source positions by one; links do not count it.
        shifts = np.repeat(np.array(has_tag or [False] * len(counts), dtype=np.int64), counts).tolist()
        place = _words(split) if unit == "words" else _tokens(split)
        coming = iter([*split.lines.tolist(), -1])
        row, line_of_row = 0, next(coming)
        flat, ends, number = array("q"), [0], 0
        for number, line in enumerate(read_lines(path), 1):
            links = parse_gold_links(line, f"{path}, line {number}").possible
            if number - 1 != line_of_row:
                continue  # a pair that was dropped for its length
            found = place(row, shifts[number - 1])
            # Without word boundaries, the pair gets no links.
            source, target = ([], []) if found is None else found
            for i, j in () if found is None else sorted(links):
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
        return cls(np.array(flat, dtype=np.int32).reshape(-1, 2), np.array(ends))

    def links_of_row(self, row: int) -> list[tuple[int, int]]:
        """Return the links of a row as pairs of source and target position."""
        return [(i, j) for i, j in self.pairs[self.offsets[row] : self.offsets[row + 1]].tolist()]

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


def _tokens(split: DatasetSplit) -> Callable[[int, int], tuple[TokenPositions, TokenPositions]]:
    """Return a function from a row and its prefix length to the positions of its tokens, without `EOS`."""

    def place(row: int, shift: int) -> tuple[TokenPositions, TokenPositions]:
        source, target = int(split.source_lengths[row]), int(split.target_lengths[row]) - 1
        return [[i] for i in range(shift, source)], [[j] for j in range(target)]

    return place


def _words(split: DatasetSplit) -> Callable[[int, int], tuple[TokenPositions, TokenPositions] | None]:
    """Return a function from a row and its prefix length to the token positions of its words.

    The function returns None if the word boundaries are not known.
    """

    def place(row: int, shift: int) -> tuple[TokenPositions, TokenPositions] | None:
        source, target = split.example(row)
        sides = []
        for ids, side, first in ((source, split.text.source, shift), (target[:-1], split.text.target, 0)):
            words: TokenPositions = []
            tokens = side.vocabulary.to_tokens(ids[first:].tolist())
            for position, word in enumerate(side.tokenizer.word_ids(tokens), first):
                words += [[] for _ in range(word + 1 - len(words))]
                words[word].append(position)
            # An unknown token has lost the mark that shows where a word begins or ends.
            if len(words) < len(tokens) and (ids == UNK).any():
                return None
            sides.append(words)
        return sides[0], sides[1]

    return place
