"""A small neural network that gives the log-odds of an error in each word and in each sentence.

The features of a word interact: weak links are expected of a function word, but not if its neighbors are
linked to adjacent words. Errors affect runs of words, so the network reads the words around each one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from regard.text.array_files import MAX_COUNT, ArrayForm
from regard.types import Float, Int

__all__ = ["ErrorTagger"]

_HIDDEN = (96, 64)
_SENTENCE_HIDDEN = 48
_WIDTH = 5  # words that a convolution reads
_DROPOUT = 0.1
_EPOCHS = 4, 6  # minimum and maximum
_MIN_BATCHES = 800  # in all epochs; with fewer batches per epoch, there are more epochs, up to the maximum
_BATCH_SIZE = 64  # sentences
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 1e-3
_MAX_GRADIENT = 1.0
_SENTENCE_WEIGHT = 0.3  # weight of the loss of sentences; that of words is 1
_LENGTH_NOISE = 4.0  # words by which the lengths of the sentences of a batch may differ through shuffling
_MAX_LOGIT = 30.0
_MIN_SCALE = 1e-6  # added to the standard deviation of a feature, which may be constant
_MAX_WEIGHT = 1e3  # of a weight in a file: with larger ones, sums in the network could overflow
_BLOCK = 1 << 14  # words that are standardized together
_MAX_FEATURE = 8.0  # standard deviations, so that text of another domain does not leave the known range


@dataclass(frozen=True)
class ErrorTagger:
    """A convolutional network on standardized features of words.

    Attributes:
        center: Mean of each feature.
        scale: Standard deviation of each feature.
        network: The network.
    """

    center: Float[np.ndarray, "F"]
    scale: Float[np.ndarray, "F"]
    network: "_Network"

    @classmethod
    def fit(
        cls,
        features: Float[np.ndarray, "N F"],
        offsets: Int[np.ndarray, "P+1"],
        labels: tuple[np.ndarray, np.ndarray],
        seed: int,
    ) -> Self:
        """Train the network on examples.

        Args:
            features: One row per word.
            offsets: Start of each sentence among the words, and the end of the last one.
            labels: Boolean, whether each word is affected, [N], and whether each sentence is, [P].
            seed: Random seed of weights, dropout and order. It determines the result up to rounding errors.
        """
        center = features.mean(axis=0, dtype=np.float64)
        # One column at a time, because the table of all may be as large as the memory allows.
        scale = np.array([column.std(dtype=np.float64) for column in features.T]) + _MIN_SCALE
        inputs = _standardize(features, center, scale)
        words, sentences = (torch.from_numpy(one.astype(np.float32)) for one in labels)
        generator = np.random.default_rng(seed)
        # The random numbers of the caller stay as they are.
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            network = _Network(features.shape[1])
            optimizer = torch.optim.AdamW(network.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
            size = max(1, sum(1 for _ in _batches(offsets, _BATCH_SIZE)))
            epochs = min(max(_EPOCHS[0], -(-_MIN_BATCHES // size)), _EPOCHS[1])
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, _LEARNING_RATE, total_steps=epochs * size
            )
            for _ in range(epochs):
                for rows in _batches(offsets, _BATCH_SIZE, generator):
                    index, mask = _cells(offsets, rows)
                    word_logits, sentence_logits = network(inputs[index], mask)
                    loss = functional.binary_cross_entropy_with_logits(word_logits[mask], words[index][mask])
                    loss = loss + _SENTENCE_WEIGHT * functional.binary_cross_entropy_with_logits(
                        sentence_logits, sentences[rows]
                    )
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(network.parameters(), _MAX_GRADIENT)
                    optimizer.step()
                    schedule.step()
        return cls(center, scale, network.eval())

    def logits(
        self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "P+1"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "P"]]:
        """Return the log-odds of an error of each word and of each sentence; without words, the lowest."""
        inputs = _standardize(features, self.center, self.scale)
        words, sentences = torch.zeros(len(features)), torch.full((len(offsets) - 1,), -_MAX_LOGIT)
        with torch.no_grad():
            for rows in _batches(offsets, 4 * _BATCH_SIZE):
                index, mask = _cells(offsets, rows)
                word_logits, sentences[rows] = self.network(inputs[index], mask)
                words[index[mask]] = word_logits[mask]
        found = (one.numpy().astype(np.float64) for one in (words, sentences))
        word_logits, sentence_logits = (np.clip(one, -_MAX_LOGIT, _MAX_LOGIT) for one in found)
        return word_logits, sentence_logits

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters to save."""
        found = {"center": self.center, "scale": self.scale}
        return found | {name: value.numpy() for name, value in self.network.state_dict().items()}

    @staticmethod
    def array_forms(num_features: int) -> dict[str, ArrayForm]:
        """Return the forms of `arrays`."""
        parameters = _Network(num_features).state_dict()
        return {
            "center": ("float64", -MAX_COUNT, MAX_COUNT, num_features),
            "scale": ("float64", _MIN_SCALE, MAX_COUNT, num_features),
            **{name: ("float32", -_MAX_WEIGHT, _MAX_WEIGHT, *one.shape) for name, one in parameters.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the tagger with parameters from `arrays`, which have the forms of `array_forms`."""
        center, scale = arrays["center"], arrays["scale"]
        network = _Network(len(center))
        weights = {name: torch.from_numpy(value) for name, value in arrays.items() if "." in name}
        network.load_state_dict(weights)
        return cls(center, scale, network.eval())


class _Network(nn.Module):
    """Two layers for each word, two convolutions over the sentence, and outputs for words and sentences."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        first, size = _HIDDEN
        self.words = nn.Sequential(
            nn.Linear(num_features, first),
            nn.ReLU(),
            nn.Dropout(_DROPOUT),
            nn.Linear(first, size),
            nn.ReLU(),
            nn.Dropout(_DROPOUT),
        )
        self.near = nn.Conv1d(size, size, _WIDTH, padding="same")
        self.far = nn.Conv1d(size, size, _WIDTH, padding="same", dilation=2)
        self.word_output = nn.Linear(2 * size, 1)
        self.sentence_output = nn.Sequential(
            nn.Linear(4 * size + 4, _SENTENCE_HIDDEN),
            nn.ReLU(),
            nn.Dropout(_DROPOUT),
            nn.Linear(_SENTENCE_HIDDEN, 1),
        )

    def forward(self, features: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-odds of words and of sentences.

        Args:
            features: [B, T, F].
            mask: Boolean, [B, T], whether a position has a word.

        Returns:
            [B, T] and [B].
        """
        inside = mask[..., None].to(features.dtype)
        words = self.words(features)
        # Positions without a word must look like those beyond the sentence, so that padding has no effect.
        runs = functional.relu(self.near((words * inside).mT))
        runs = functional.relu(self.far(runs * inside.mT)).mT
        hidden = torch.cat([words, runs], dim=-1)
        logits = self.word_output(hidden)[..., 0].masked_fill(~mask, -_MAX_LOGIT)
        probability = torch.sigmoid(logits)
        length = inside.sum(dim=1)
        summary = [
            (hidden * torch.softmax(logits, dim=1)[..., None]).sum(dim=1),
            (hidden * inside).sum(dim=1) / length,
            logits.amax(dim=1, keepdim=True),
            (probability * mask).sum(dim=1, keepdim=True),
            torch.log1p(-probability.clamp(max=1 - 1e-6)).sum(dim=1, keepdim=True),
            length.log(),
        ]
        return logits, self.sentence_output(torch.cat(summary, dim=-1))[:, 0]


def _batches(
    offsets: np.ndarray, size: int, generator: np.random.Generator | None = None
) -> Iterator[torch.Tensor]:
    """Yield the numbers of sentences of similar lengths, without empty ones; shuffled with a generator."""
    lengths = np.diff(offsets).astype(np.float64)
    filled = np.flatnonzero(lengths)
    if generator is not None:
        lengths = lengths + _LENGTH_NOISE * generator.random(len(lengths))
    order = filled[np.argsort(lengths[filled], kind="stable")]
    starts = np.arange(0, len(order), size)
    if generator is not None:
        generator.shuffle(starts)
    for start in starts.tolist():
        yield torch.from_numpy(order[start : start + size])


def _cells(offsets: np.ndarray, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the number of each word of some sentences, and a mask of the words, both [B, T]."""
    chosen = rows.numpy()
    starts, lengths = offsets[:-1][chosen, None], np.diff(offsets)[chosen, None]
    place = np.arange(lengths.max())
    mask = place < lengths
    return torch.from_numpy(np.where(mask, starts + place, 0)), torch.from_numpy(mask)


def _standardize(features: np.ndarray, center: np.ndarray, scale: np.ndarray) -> torch.Tensor:
    found = np.empty(features.shape, dtype=np.float32)
    # In blocks, so that only the result needs much memory.
    for first in range(0, len(features), _BLOCK):
        rows = slice(first, first + _BLOCK)
        found[rows] = np.clip((features[rows] - center) / scale, -_MAX_FEATURE, _MAX_FEATURE)
    return torch.from_numpy(found)
