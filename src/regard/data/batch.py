"""Batching: padding of sentences into tensors, and length-bucketed sampling of the batches of an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from regard.config import configclass, option
from regard.data.vocabulary import PAD, SINK, TokenIds
from regard.errors import UsageError
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Batch", "BatchConfig", "PaddedSequences", "collate", "make_batches"]


@dataclass(frozen=True)
class PaddedSequences:
    """Padded token sequences of a batch.

    Attributes:
        tokens: [B, S], token ids, padded with `PAD` on the right.
        lengths: [B], length of each row without padding.
    """

    tokens: Int[Tensor, "B S"]
    lengths: Int[Tensor, "B"]

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self.tokens.shape[0]

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """A mask that is True at tokens and False at padding."""
        positions = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return positions < self.lengths[:, None]

    @property
    def word_mask(self) -> Bool[Tensor, "B S"]:
        """A mask that is True at tokens of the text and False at padding and sinks."""
        return self.mask & (self.tokens != SINK)

    @classmethod
    def pad(cls, sentences: Sequence[TokenIds]) -> "PaddedSequences":
        """Pad sentences to the same length.

        Args:
            sentences: The token ids of each sentence.
        """
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        tokens = np.full((len(sentences), int(lengths.max(initial=0))), PAD, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            tokens[row, : len(sentence)] = sentence
        return cls(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def to(self, device: torch.device | str) -> "PaddedSequences":
        """Return a copy on another device."""
        return PaddedSequences(self.tokens.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class Batch:
    """A batch of sentence pairs, or of source sentences only.

    Attributes:
        source: The source sentences, without `BOS` and `EOS`.
        target: The target sentences, with `EOS` and without `BOS`; None in translation.
        rows: [B], the index of each sentence in the split or in the input.
        upper_bounds: [B, S], maximum total attention of each source token (its fertility); inf at a sink.
            None means no limit.
        lower_bounds: [B, S], minimum total attention of each source token, or None.
        links: [B, T, S], for guided alignment: for each target token a uniform distribution over the source
            tokens that are linked to it, or zeros if there are none. None without guided alignment.
    """

    source: PaddedSequences
    target: PaddedSequences | None
    rows: Int[Tensor, "B"]
    upper_bounds: Float[Tensor, "B S"] | None = None
    lower_bounds: Float[Tensor, "B S"] | None = None
    links: Float[Tensor, "B T S"] | None = None

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.source)

    @property
    def target_tokens(self) -> int:
        """The number of target tokens, including `EOS`."""
        return 0 if self.target is None else int(self.target.lengths.sum())

    def to(self, device: torch.device | str) -> "Batch":
        """Return a copy on another device."""
        target = None if self.target is None else self.target.to(device)
        optional = (
            None if one is None else one.to(device)
            for one in (self.upper_bounds, self.lower_bounds, self.links)
        )
        return Batch(self.source.to(device), target, self.rows.to(device), *optional)


def collate(
    sources: Sequence[TokenIds],
    targets: Sequence[TokenIds] | None,
    rows: TokenIds,
    upper_bounds: Sequence[np.ndarray] | None = None,
    lower_bounds: Sequence[np.ndarray] | None = None,
) -> Batch:
    """Pad sentences into a batch.

    Args:
        sources: The ids of each source sentence.
        targets: The ids of each target sentence, ending in `EOS`. None in translation.
        rows: The index of each sentence.
        upper_bounds: Maximum total attention of each source token, per sentence.
        lower_bounds: Minimum total attention of each source token, per sentence.
    """
    target = None if targets is None else PaddedSequences.pad(targets)
    bounds = (None if one is None else _pad_numbers(one) for one in (upper_bounds, lower_bounds))
    return Batch(
        PaddedSequences.pad(sources), target, torch.from_numpy(np.array(rows, dtype=np.int64)), *bounds
    )


def _pad_numbers(sentences: Sequence[np.ndarray]) -> Float[Tensor, "B S"]:
    numbers = np.zeros((len(sentences), max(map(len, sentences), default=0)), dtype=np.float32)
    for row, sentence in enumerate(sentences):
        numbers[row, : len(sentence)] = sentence
    return torch.from_numpy(numbers)


@configclass
class BatchConfig:
    """Size and bucketing of batches."""

    batch_size: int = option(
        default=64,
        help="Size of a batch over all processes, in units of `batch_unit`.",
        ge=1,
        le=1_000_000,
    )
    batch_unit: Literal["sentences", "tokens"] = option(
        default="sentences",
        help="Unit of the batch size: sentences, or tokens including padding, on the longer side.",
    )
    bucket_batches: int = option(
        default=100,
        help="Number of batches whose sentences are sorted by length together. Higher values reduce padding; "
        "1 makes batches almost random.",
        ge=1,
        le=100_000,
    )


def make_batches(
    source_lengths: TokenIds, target_lengths: TokenIds, config: BatchConfig, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the row indices of each batch of an epoch, in order.

    The rows are shuffled, then sorted by length within pools of `config.bucket_batches` batches to reduce
    padding. Then the batches are shuffled. Each row occurs once. A row that exceeds the batch size in tokens
    forms its own batch.

    Args:
        source_lengths: The length of each source sentence.
        target_lengths: The length of each target sentence.
        config: Size and unit of the batches.
        seed: The seed of the run.
        epoch: The number of the epoch. The order depends only on seed and epoch.

    Raises:
        UsageError: if the numbers of source and target lengths differ.
    """
    source = np.asarray(source_lengths, dtype=np.int64)
    target = np.asarray(target_lengths, dtype=np.int64)
    if source.shape != target.shape:
        raise UsageError(
            f"{len(source)} source lengths but {len(target)} target lengths: the numbers must be equal"
        )
    # The seed of the generator includes the epoch, so that a resumed run sees the same batches.
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(source))
    lengths = np.maximum(source, target)
    made: list[np.ndarray] = []
    for pool in _pools(order, lengths, config):
        pool = pool[np.lexsort((source[pool], target[pool]))]  # by target length, then by source length
        made += _split_pool(pool, source, target, config)
    return [made[i] for i in random.permutation(len(made))]


def _pools(order: np.ndarray, lengths: np.ndarray, config: BatchConfig) -> list[np.ndarray]:
    """Split the shuffled rows into pools of about `config.bucket_batches` batches."""
    pool_size = config.batch_size * config.bucket_batches
    sizes = np.ones(len(order), dtype=np.int64) if config.batch_unit == "sentences" else lengths[order]
    # A new pool starts when the number of units before a row passes a multiple of `pool_size`.
    starts = np.cumsum(sizes) - sizes
    edges = np.flatnonzero(np.diff(starts // pool_size)) + 1
    return np.split(order, edges) if len(order) else []


def _split_pool(
    pool: np.ndarray, source: np.ndarray, target: np.ndarray, config: BatchConfig
) -> list[np.ndarray]:
    """Split a sorted pool into batches."""
    if config.batch_unit == "sentences":
        return np.split(pool, range(config.batch_size, len(pool), config.batch_size))
    starts, start, width = [], 0, 0
    for position, row in enumerate(pool):
        width = max(width, int(source[row]), int(target[row]))
        # Width times number of rows is the size of the padded tensor.
        if position > start and width * (position - start + 1) > config.batch_size:
            starts.append(position)
            start, width = position, max(int(source[row]), int(target[row]))
    return np.split(pool, starts)
