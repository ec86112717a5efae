"""Batching: padding of sentences into tensors, and length-bucketed sampling of the batches of an epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch.nn import functional as F

from regard.config import configclass, option
from regard.text.vocabulary import PAD, SINK, TokenIds
from regard.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class PaddedSequences:
    """Padded token sequences of a batch.

    Attributes:
        tokens: [B, S], token ids, padded with `PAD` on the right.
        lengths: [B], length of each row without padding.
        embedding_scale: [B, S], a factor of the embedding of each source token, by whose gradient predictions
            are attributed to source tokens (`regard.generation.attribution`). None means 1.
    """

    tokens: Int[Tensor, "B S"]
    lengths: Int[Tensor, "B"]
    embedding_scale: Float[Tensor, "B S"] | None = None

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
        # NumPy first: filling a tensor row by row is several times slower.
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        tokens = np.full((len(sentences), int(lengths.max(initial=0))), PAD, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            tokens[row, : len(sentence)] = sentence
        return cls(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def to(self, device: torch.device | str) -> "PaddedSequences":
        """Return a copy on another device."""
        scale = None if self.embedding_scale is None else self.embedding_scale.to(device)
        return PaddedSequences(self.tokens.to(device), self.lengths.to(device), scale)

    def scale_embeddings(self, embedded: Float[Tensor, "B S E"]) -> Float[Tensor, "B S E"]:
        """Return the embeddings of the tokens times `embedding_scale`."""
        return embedded if self.embedding_scale is None else embedded * self.embedding_scale.unsqueeze(-1)


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
        scored: [B, T], the target tokens whose log-likelihood is needed, a subset of the real ones. A model
            may return 0 at the others, which saves their output layer. None means all real tokens.
    """

    source: PaddedSequences
    target: PaddedSequences | None
    rows: Int[Tensor, "B"]
    upper_bounds: Float[Tensor, "B S"] | None = None
    lower_bounds: Float[Tensor, "B S"] | None = None
    scored: Bool[Tensor, "B T"] | None = None

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
        bounds = (
            None if bound is None else bound.to(device) for bound in (self.upper_bounds, self.lower_bounds)
        )
        scored = None if self.scored is None else self.scored.to(device)
        return Batch(self.source.to(device), target, self.rows.to(device), *bounds, scored=scored)

    def with_targets(self, owners: Int[Tensor, "N"], targets: PaddedSequences) -> "Batch":
        """Return N pairs of a source sentence of this batch and another target sentence.

        Args:
            owners: The row of the source sentence of each pair.
            targets: The N target sentences.
        """
        bounds = (
            None if bound is None else bound[owners] for bound in (self.upper_bounds, self.lower_bounds)
        )
        source = PaddedSequences(self.source.tokens[owners], self.source.lengths[owners])
        return Batch(source, targets, self.rows[owners], *bounds)

    @staticmethod
    def concatenate(batches: "Sequence[Batch]") -> "Batch":
        """Return the rows of several batches, whose target sentences are padded to the same width.

        Args:
            batches: Batches with target sentences and the same padded source length.
        """
        targets = [batch.target for batch in batches if batch.target is not None]
        width = max(target.tokens.shape[1] for target in targets)
        padded = [F.pad(rows.tokens, (0, width - rows.tokens.shape[1]), value=PAD) for rows in targets]
        sources = [batch.source for batch in batches]
        bounds = (
            None if None in tensors else torch.cat([tensor for tensor in tensors if tensor is not None])
            for tensors in ([part.upper_bounds for part in batches], [part.lower_bounds for part in batches])
        )
        return Batch(
            PaddedSequences(
                torch.cat([source.tokens for source in sources]),
                torch.cat([source.lengths for source in sources]),
            ),
            PaddedSequences(torch.cat(padded), torch.cat([target.lengths for target in targets])),
            torch.cat([batch.rows for batch in batches]),
            *bounds,
        )


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
    bounds = (None if bound is None else _pad_numbers(bound) for bound in (upper_bounds, lower_bounds))
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
    """
    source = np.asarray(source_lengths, dtype=np.int64)
    target = np.asarray(target_lengths, dtype=np.int64)
    # The seed of the generator includes the epoch, so that a resumed run sees the same batches.
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(source))
    # The longer side determines the memory of a batch.
    lengths = np.maximum(source, target)
    batches: list[np.ndarray] = []
    for pool in _pools(order, lengths, config):
        pool = pool[np.lexsort((source[pool], target[pool]))]  # by target length, then by source length
        batches += _split_pool(pool, source, target, config)
    return [batches[i] for i in random.permutation(len(batches))]


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
