"""Batches: sentences as padded tensors, and which sentences go together in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from regard.config import config, option
from regard.data.vocabulary import PAD, SINK, Ids
from regard.errors import UsageError
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Batch", "BatchConfig", "Sequences", "batches", "collate"]


@dataclass(frozen=True)
class Sequences:
    """Token sequences of a batch.

    Attributes:
        tokens: Ids, padded with `PAD` on the right.
        lengths: How many ids of each row are real.
    """

    tokens: Int[Tensor, "B S"]
    lengths: Int[Tensor, "B"]

    def __len__(self) -> int:
        """The number of sequences."""
        return self.tokens.shape[0]

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """True at real tokens."""
        positions = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return positions < self.lengths[:, None]

    @property
    def words(self) -> Bool[Tensor, "B S"]:
        """True at real words: neither padding nor a sink."""
        return self.mask & (self.tokens != SINK)

    @classmethod
    def of(cls, sentences: Sequence[Ids]) -> "Sequences":
        """Pad sentences.

        Args:
            sentences: The ids of each.
        """
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        tokens = np.full((len(sentences), int(lengths.max(initial=0))), PAD, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            tokens[row, : len(sentence)] = sentence
        return cls(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def to(self, device: torch.device | str) -> "Sequences":
        """The same on another device."""
        return Sequences(self.tokens.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, or source sentences alone.

    Attributes:
        source: The source sentences, without start or end.
        target: The target sentences, ending in `EOS`, without start.
        rows: Which sentences these are: their numbers in the split, or among the lines translated.
        upper: The most attention each source token may receive (its fertility), inf at a sink; or none.
        lower: The least it must receive; or none.
        links: For each target token a distribution over the source words it is linked to, zeros where there
            is none, to guide attention by; or none.
    """

    source: Sequences
    target: Sequences | None
    rows: Int[Tensor, "B"]
    upper: Float[Tensor, "B S"] | None = None
    lower: Float[Tensor, "B S"] | None = None
    links: Float[Tensor, "B T S"] | None = None

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.source)

    @property
    def target_tokens(self) -> int:
        """The number of tokens to predict, each `EOS` included."""
        return 0 if self.target is None else int(self.target.lengths.sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same on another device."""
        target = None if self.target is None else self.target.to(device)
        beside = (None if one is None else one.to(device) for one in (self.upper, self.lower, self.links))
        return Batch(self.source.to(device), target, self.rows.to(device), *beside)


def collate(
    sources: Sequence[Ids],
    targets: Sequence[Ids] | None,
    rows: Ids,
    upper: Sequence[np.ndarray] | None = None,
    lower: Sequence[np.ndarray] | None = None,
) -> Batch:
    """Pad sentences into a batch.

    Args:
        sources: The ids of each source sentence.
        targets: The ids of each target sentence, ending in `EOS`; none when translating.
        rows: The number of each sentence.
        upper: The most attention each source token may receive.
        lower: The least it must receive.
    """
    target = None if targets is None else Sequences.of(targets)
    bounds = (None if one is None else _pad_numbers(one) for one in (upper, lower))
    return Batch(Sequences.of(sources), target, torch.from_numpy(np.array(rows, dtype=np.int64)), *bounds)


def _pad_numbers(sentences: Sequence[np.ndarray]) -> Float[Tensor, "B S"]:
    numbers = np.zeros((len(sentences), max(map(len, sentences), default=0)), dtype=np.float32)
    for row, sentence in enumerate(sentences):
        numbers[row, : len(sentence)] = sentence
    return torch.from_numpy(numbers)


@config
class BatchConfig:
    """How sentences are put into batches."""

    size: int = option(default=64, help="How much goes into a batch, in units.", ge=1, le=1_000_000)
    unit: Literal["sentences", "tokens"] = option(
        default="sentences",
        help="What size counts: sentences, or tokens with padding on the side that has more.",
    )
    pool: int = option(
        default=100,
        help="Sort by length within this many batches at a time; 1: hardly at all.",
        ge=1,
        le=100_000,
    )


def batches(
    lengths_source: Ids, lengths_target: Ids, config: BatchConfig, seed: int, epoch: int
) -> list[np.ndarray]:
    """Which rows make up each batch of an epoch, in order.

    The rows are shuffled, then sorted by length within pools of `config.pool` batches, so that a batch has
    little padding; then the batches are shuffled. Every row comes once. A row longer than a batch of
    tokens may be is a batch of its own.

    Args:
        lengths_source: The length of each source sentence.
        lengths_target: The length of each target sentence.
        config: Size and kind of the batches.
        seed: The run's seed.
        epoch: The epoch's number: the order is a function of seed and epoch alone.
    """
    source = np.asarray(lengths_source, dtype=np.int64)
    target = np.asarray(lengths_target, dtype=np.int64)
    if source.shape != target.shape:
        raise UsageError(f"lengths of {len(source)} sources and {len(target)} targets; expected as many")
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(source))
    widest = np.maximum(source, target)
    made: list[np.ndarray] = []
    for pool in _pools(order, widest, config):
        pool = pool[np.lexsort((source[pool], target[pool]))]
        made += _cut(pool, source, target, config)
    return [made[i] for i in random.permutation(len(made))]


def _pools(order: np.ndarray, widest: np.ndarray, config: BatchConfig) -> list[np.ndarray]:
    """The shuffled rows cut into pools of about `config.pool` batches."""
    room = config.size * config.pool
    weight = np.ones(len(order), dtype=np.int64) if config.unit == "sentences" else widest[order]
    filled = np.cumsum(weight) - weight
    edges = np.flatnonzero(np.diff(filled // room)) + 1
    return np.split(order, edges) if len(order) else []


def _cut(pool: np.ndarray, source: np.ndarray, target: np.ndarray, config: BatchConfig) -> list[np.ndarray]:
    """A sorted pool cut into batches."""
    if config.unit == "sentences":
        return np.split(pool, range(config.size, len(pool), config.size))
    starts, start, width = [], 0, 0
    for position, row in enumerate(pool):
        width = max(width, int(source[row]), int(target[row]))
        if position > start and width * (position - start + 1) > config.size:
            starts.append(position)
            start, width = position, max(int(source[row]), int(target[row]))
    return np.split(pool, starts)
