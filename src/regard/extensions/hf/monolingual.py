"""Monolingual training data for masked and causal language models, with Hugging Face tokenizers.

In masked language modeling, 15 % of the tokens of each line, and at least one, are predicted. Of these, 80 %
are replaced by the mask token, 10 % by a random token, and 10 % are unchanged (Devlin et al., 2019, Section
3.1). The positions are sampled in each epoch as a function of seed, epoch and line. In causal language
modeling, each token and the end symbol are predicted from the preceding tokens.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from regard.data.batch import Batch, BatchConfig, collate, make_batches
from regard.errors import DataError
from regard.text.corpus import read_lines
from regard.types import Bool, Tensor

__all__ = [
    "CausalDataset",
    "MaskedBatch",
    "MaskedDataset",
    "TokenizedLines",
    "mask_tokens",
    "num_masked",
    "read_monolingual",
]

PREDICTED_RATIO, MASK_TOKEN_RATIO, RANDOM_TOKEN_RATIO = 0.15, 0.8, 0.1
TOKENIZER_CHUNK = 1000


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """A batch for masked language modeling: sentences with masked tokens as source, these tokens as target.

    Attributes:
        masked: [B, S], True at the positions to predict. Each row has one True per target token.
    """

    masked: Bool[Tensor, "B S"] | None = None

    def to(self, device: torch.device | str) -> "MaskedBatch":
        """Return a copy on another device."""
        assert self.target is not None and self.masked is not None
        parts = (self.source.to(device), self.target.to(device), self.rows.to(device))
        return MaskedBatch(*parts, masked=self.masked.to(device))


@dataclass(frozen=True)
class TokenizedLines:
    """Lines as token ids, without the special tokens around them.

    Attributes:
        ids: The ids of all lines, concatenated.
        ends: The end offset of each line in `ids`.
    """

    ids: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.ends)

    def line(self, row: int) -> np.ndarray:
        """Return the ids of a line."""
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]

    @property
    def digest(self) -> str:
        """The SHA-256 checksum of the ids."""
        return hashlib.sha256(self.ids.tobytes() + self.ends.tobytes()).hexdigest()


def read_monolingual(paths: Sequence[str], tokenizer: Any, max_tokens: int) -> TokenizedLines:
    """Tokenize files; empty lines are skipped, long lines are truncated.

    Args:
        paths: The files, plain or compressed.
        tokenizer: A Hugging Face tokenizer.
        max_tokens: Maximum number of tokens of a line.

    Raises:
        DataError: if a file is missing or invalid, or the files contain no text.
    """
    flat: list[np.ndarray] = []
    ends: list[int] = []
    total = 0
    lines = (line for line in chain.from_iterable(map(read_lines, paths)) if line.strip())
    for chunk in _chunks(lines):
        for ids in tokenizer(chunk, add_special_tokens=False, verbose=False)["input_ids"]:
            if ids:
                flat.append(np.array(ids[:max_tokens], dtype=np.int32))
                ends.append(total := total + len(flat[-1]))
    if not ends:
        raise DataError(f"{', '.join(paths)}: contains no text")
    return TokenizedLines(np.concatenate(flat), np.array(ends, dtype=np.int64))


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    left = iter(lines)
    while chunk := list(islice(left, TOKENIZER_CHUNK)):
        yield chunk


def num_masked(length: int) -> int:
    """Return the number of tokens to predict in a line of the given length."""
    return max(1, round(PREDICTED_RATIO * length))


def mask_tokens(
    ids: np.ndarray, random: np.random.Generator, mask_id: int, random_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mask tokens of a line (Devlin et al., 2019, Section 3.1).

    Args:
        ids: The token ids of the line.
        random: The random number generator.
        mask_id: The id of the mask token.
        random_ids: The ids from which random tokens are sampled.

    Returns:
        The masked line, and the sorted positions of the tokens to predict.
    """
    # Sorted, so that targets are in the order of the text.
    positions = np.sort(random.permutation(len(ids))[: num_masked(len(ids))])
    uniform = random.random(len(positions))
    masked = ids.copy()
    sampled = random.choice(random_ids, len(positions))
    masked[positions] = np.where(
        uniform < MASK_TOKEN_RATIO,
        mask_id,
        np.where(uniform < MASK_TOKEN_RATIO + RANDOM_TOKEN_RATIO, sampled, ids[positions]),
    )
    return masked, positions


class CausalDataset:
    """Training examples of a causal language model.

    Args:
        lines: The text.
        start: The id before every line.
        end: The id after every line.
    """

    def __init__(self, lines: TokenizedLines, start: int, end: int) -> None:
        """Store the text and compute the lengths."""
        self.text, self.start, self.end = lines, start, end
        self._lengths = np.diff(lines.ends, prepend=0) + 1

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The source and target length of every line, which are equal, including the end symbol."""
        return self._lengths, self._lengths

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch."""
        return make_batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> Batch:
        """Return rows as a padded batch."""
        lines = [self.text.line(int(row)) for row in rows]
        sources = [np.concatenate([[self.start], line]) for line in lines]
        return collate(sources, [np.concatenate([line, [self.end]]) for line in lines], rows)


class MaskedDataset:
    """Training examples of a masked language model.

    Args:
        lines: The text.
        tokenizer: The Hugging Face tokenizer, which defines the mask token and other special tokens.
    """

    def __init__(self, lines: TokenizedLines, tokenizer: Any) -> None:
        """Store the text and compute the lengths."""
        self.text, self._mask_seed = lines, (0, 0)
        self.mask: int = tokenizer.mask_token_id
        self.prefix_ids, self.suffix_ids = _special_ids(tokenizer)
        special = set(tokenizer.all_special_ids)
        self.random_ids = np.array([number for number in range(len(tokenizer)) if number not in special])
        # Lengths without special tokens, on which the number of masked tokens depends.
        lengths = np.diff(lines.ends, prepend=0)
        self._lengths = lengths + len(self.prefix_ids) + len(self.suffix_ids)
        self._num_masked = np.array([num_masked(int(length)) for length in lengths])

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The length of every line, including special tokens, and its number of masked tokens."""
        return self._lengths, self._num_masked

    def batches(self, config: BatchConfig, seed: int, epoch: int) -> list[np.ndarray]:
        """Return the rows of each batch of an epoch, and use the masks of this epoch from now on."""
        self._mask_seed = (seed, epoch)
        return make_batches(*self.lengths, config, seed, epoch)

    def batch(self, rows: Sequence[int] | np.ndarray) -> MaskedBatch:
        """Return rows as a padded batch with masked tokens."""
        sources, targets = [], []
        length = int(max(self._lengths[int(row)] for row in rows))
        masked = np.zeros((len(rows), length), dtype=bool)
        for number, row in enumerate(rows):
            line = self.text.line(int(row))
            # Seeded by row, so that the mask does not depend on the composition of batches.
            random = np.random.default_rng([*self._mask_seed, int(row)])
            masked_ids, positions = mask_tokens(line, random, self.mask, self.random_ids)
            sources.append(np.concatenate([self.prefix_ids, masked_ids, self.suffix_ids]))
            targets.append(line[positions])
            masked[number, positions + len(self.prefix_ids)] = True
        batch = collate(sources, targets, rows)
        assert batch.target is not None
        return MaskedBatch(batch.source, batch.target, batch.rows, masked=torch.from_numpy(masked))


def _special_ids(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of the special tokens that the tokenizer adds before and after a line."""
    # Compare the tokens of a short text with and without special tokens.
    bare, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
    # The tokens of the text alone occur within the full sequence; the rest is around them.
    first = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    return np.array(whole[:first], dtype=np.int64), np.array(whole[first + len(bare) :], dtype=np.int64)
