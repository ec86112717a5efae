"""Word links of training pairs, to teach attention by (guided alignment, Chen et al. 2016).

Links come from a Pharaoh file (see `regard.data.links`), a line for every pair of the training corpora in
their order, counted on words, each of whose subwords gets the links, or on the tokens a model reads; without
sink, end symbol or a corpus's tag. A batch gets them as a distribution over the source for each target token.
"""

import dataclasses
import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig
from regard.data.corpus import read_lines
from regard.data.links import parse_gold
from regard.data.prepared import Split
from regard.data.vocabulary import UNK
from regard.errors import DataError
from regard.types import Float, Tensor

__all__ = ["GuidedSplit", "SplitLinks", "Units"]

Units = Literal["words", "tokens"]
"""What links count: words, or the tokens a model reads."""

Positions = list[list[int]]  # of each unit of a sentence its tokens


@dataclass(frozen=True)
class SplitLinks:
    """The links of a split's rows.

    Attributes:
        pairs: [N, 2], source and target token of every link, row after row.
        offsets: [rows + 1], where each row's links start.
    """

    pairs: np.ndarray
    offsets: np.ndarray

    @classmethod
    def read(
        cls, path: Path | str, split: Split, tagged: Sequence[bool] | None = None, units: Units = "tokens"
    ) -> "SplitLinks":
        """Read the links of a split; sure and possible links (`.talp`) count alike.

        Subwords that the vocabulary lacks do not tell where words end: a pair that has some, and words of
        several tokens, gets no links of words.

        Args:
            path: The file, plain or gzip.
            split: The split.
            tagged: Whether each of its corpora has a tag, which then is the first source token.
            units: What the links count.

        Raises:
            DataError: Another number of lines than the corpora have pairs, a field that is no link, or a link
                beyond the words or tokens of its pair; names the line.
        """
        counts = [int(corpus["pairs"]) for corpus in split.corpora]
        shifts = np.repeat(np.array(tagged or [False] * len(counts), dtype=np.int64), counts).tolist()
        place = _words(split) if units == "words" else _tokens(split)
        coming = iter([*split.lines.tolist(), -1])
        row, line_of_row = 0, next(coming)
        flat, ends, number = array("q"), [0], 0
        for number, line in enumerate(read_lines(path), 1):
            links = parse_gold(line, f"{path}, line {number}").possible
            if number - 1 != line_of_row:
                continue  # a pair that was dropped for its length
            found = place(row, shifts[number - 1])
            # No words where they cannot be told, and then no links.
            source, target = ([], []) if found is None else found
            for i, j in () if found is None else sorted(links):
                if i >= len(source) or j >= len(target):
                    raise DataError(
                        f"{path}, line {number}: link {i}-{j}, and the pair has {len(source)} source and "
                        f"{len(target)} target {units} ({split.where(row)})"
                    )
                for pair in itertools.product(source[i], target[j]):
                    flat.extend(pair)
            ends.append(len(flat) // 2)
            row, line_of_row = row + 1, next(coming)
        if number != len(shifts):
            raise DataError(f"{path}: {number} lines, expected {len(shifts)}: one for each training pair")
        return cls(np.array(flat, dtype=np.int32).reshape(-1, 2), np.array(ends))

    def of(self, row: int) -> list[tuple[int, int]]:
        """The links of a row."""
        return [(i, j) for i, j in self.pairs[self.offsets[row] : self.offsets[row + 1]].tolist()]

    def distributions(
        self, rows: Sequence[int] | np.ndarray, steps: int, size: int
    ) -> Float[Tensor, "B T S"]:
        """For each target token an equal share for each of its source tokens; zeros where it has none.

        Args:
            rows: The rows of the batch.
            steps: T.
            size: S.
        """
        made = np.zeros((len(rows), steps, size), dtype=np.float32)
        for place, row in enumerate(rows):
            links = self.pairs[self.offsets[row] : self.offsets[row + 1]]
            made[place, links[:, 1], links[:, 0]] = 1
        return torch.from_numpy(made / made.sum(-1, keepdims=True).clip(min=1))


@dataclass(frozen=True)
class GuidedSplit:
    """A split whose batches carry links.

    Attributes:
        split: The split.
        links: The links of its rows.
    """

    split: Split
    links: SplitLinks

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The source and target lengths of every row; see `Split.lengths`."""
        return self.split.lengths

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch; see `Split.batches`."""
        return self.split.batches(config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """The rows as a padded batch, with their links."""
        batch = self.split.batch(rows)
        assert batch.target is not None
        steps, size = batch.target.tokens.shape[1], batch.source.tokens.shape[1]
        return dataclasses.replace(batch, links=self.links.distributions(rows, steps, size))

    def where(self, row: int) -> str:
        """The file and line a row comes from; see `Split.where`."""
        return self.split.where(row)


def _tokens(split: Split) -> Callable[[int, int], tuple[Positions, Positions]]:
    """Of a row and the length of its tag the positions of its tokens, the end symbol's left out."""

    def place(row: int, shift: int) -> tuple[Positions, Positions]:
        source, target = int(split.source_lengths[row]), int(split.target_lengths[row]) - 1
        return [[i] for i in range(shift, source)], [[j] for j in range(target)]

    return place


def _words(split: Split) -> Callable[[int, int], tuple[Positions, Positions] | None]:
    """Of a row and the length of its tag the positions of its words; none where these cannot be told."""

    def place(row: int, shift: int) -> tuple[Positions, Positions] | None:
        source, target = split.example(row)
        sides = []
        for ids, side, first in ((source, split.text.source, shift), (target[:-1], split.text.target, 0)):
            words: Positions = []
            tokens = side.vocabulary.strings(ids[first:].tolist())
            for position, word in enumerate(side.tokenizer.word_ids(tokens), first):
                words += [[] for _ in range(word + 1 - len(words))]
                words[word].append(position)
            if len(words) < len(tokens) and (ids == UNK).any():
                return None
            sides.append(words)
        return sides[0], sides[1]

    return place
