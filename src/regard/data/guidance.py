"""Word links of training pairs, to teach attention by (guided alignment, Chen et al. 2016).

Links come from a Pharaoh file (see `regard.data.links`), a line for every pair of the training corpora in
their order, counted on the tokens a model reads: words, or subwords where the tokenizer makes them, without
sink, end symbol or a corpus's tag. A batch gets them as a distribution over the source for each target token.
"""

import dataclasses
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig
from regard.data.corpus import CorpusConfig, read_lines
from regard.data.links import parse_gold
from regard.data.prepared import Split
from regard.errors import DataError
from regard.types import Float, Tensor

__all__ = ["GuidedSplit", "SplitLinks", "guide"]


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
    def read(cls, path: Path | str, split: Split, tagged: Sequence[bool] | None = None) -> "SplitLinks":
        """Read the links of a split; sure and possible links (`.talp`) count alike.

        Args:
            path: The file, plain or gzip.
            split: The split.
            tagged: Whether each of its corpora has a tag, which then is the first source token.

        Raises:
            DataError: Another number of lines than the corpora have pairs, a field that is no link, or a link
                beyond the tokens of its pair; names the line.
        """
        counts = [int(corpus["pairs"]) for corpus in split.corpora]
        shifts = np.repeat(np.array(tagged or [False] * len(counts), dtype=np.int64), counts).tolist()
        # Without the end symbol; a tag is none of the tokens that links count.
        sizes = zip(split.source_lengths.tolist(), (split.target_lengths - 1).tolist(), strict=True)
        kept = enumerate(zip(split.lines.tolist(), sizes, strict=True))
        row, (coming, (source, target)) = next(kept, (0, (-1, (0, 0))))
        flat, ends, number = array("q"), [0], 0
        for number, line in enumerate(read_lines(path), 1):
            links = parse_gold(line, f"{path}, line {number}").possible
            if number - 1 != coming:
                continue  # a pair that was dropped for its length
            shift = shifts[number - 1]
            for i, j in sorted(links):
                if i >= source - shift or j >= target:
                    raise DataError(
                        f"{path}, line {number}: link {i}-{j}, and the pair has {source - shift} source and "
                        f"{target} target tokens ({split.where(row)})"
                    )
                flat.extend((i + shift, j))
            ends.append(len(flat) // 2)
            row, (coming, (source, target)) = next(kept, (row, (-1, (0, 0))))
        if number != len(shifts):
            raise DataError(f"{path}: {number} lines, expected {len(shifts)}: one for each training pair")
        return cls(np.array(flat, dtype=np.int32).reshape(-1, 2), np.array(ends))

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


def guide(split: Split, corpora: Sequence[CorpusConfig], path: str | None) -> Split | GuidedSplit:
    """The training split, with the links of a file where there is one.

    Raises:
        DataError: if the file does not fit the corpora; see `SplitLinks.read`.
    """
    if path is None:
        return split
    return GuidedSplit(split, SplitLinks.read(path, split, [corpus.tag is not None for corpus in corpora]))
