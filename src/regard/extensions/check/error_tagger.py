"""A small neural network that gives the log-odds of an error in each word and in each sentence.

The features of a word interact: weak links are expected of a function word, but not if its neighbors are
linked to adjacent words. Errors affect runs of words, so the network reads the words around each one. PyTorch
trains it (`regard.extensions.check.tagger_training`); NumPy suffices to apply it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from regard.text.array_files import MAX_COUNT, ArrayForm

__all__ = [
    "DILATIONS",
    "HIDDEN",
    "KERNEL_WIDTH",
    "MAX_LOGIT",
    "MIN_SCALE",
    "SENTENCE_HIDDEN",
    "ErrorTagger",
    "sentence_batches",
    "sentence_cells",
    "standardize",
]

HIDDEN = (96, 64)
SENTENCE_HIDDEN = 48
KERNEL_WIDTH = 5  # words that a convolution reads
DILATIONS = {"near": 1, "far": 2}
_BATCH_SIZE = 256  # sentences
_LENGTH_NOISE = 4.0  # words by which the lengths of the sentences of a batch may differ through shuffling
MAX_LOGIT = 30.0
MIN_SCALE = 1e-6  # added to the standard deviation of a feature, which may be constant
_MAX_WEIGHT = 1e3  # of a weight in a file: with larger ones, sums in the network could overflow
_BLOCK = 1 << 14  # words that are standardized together
_MAX_FEATURE = 8.0  # standard deviations, so that text of another domain does not leave the known range


def _parameter_shapes(num_features: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters of the network, by the names of PyTorch's modules."""
    first, size = HIDDEN
    linear = {
        "words.0": (first, num_features),
        "words.3": (size, first),
        "near": (size, size, KERNEL_WIDTH),
        "far": (size, size, KERNEL_WIDTH),
        "word_output": (1, 2 * size),
        "sentence_output.0": (SENTENCE_HIDDEN, 4 * size + 4),
        "sentence_output.3": (1, SENTENCE_HIDDEN),
    }
    return {
        f"{name}.{part}": values
        for name, shape in linear.items()
        for part, values in (("weight", shape), ("bias", shape[:1]))
    }


@dataclass(frozen=True)
class ErrorTagger:
    """A convolutional network on standardized features of words.

    Attributes:
        center: Mean of each feature.
        scale: Standard deviation of each feature.
        parameters: The float32 parameters of the network; see `_parameter_shapes`.
    """

    center: Float[np.ndarray, "F"]
    scale: Float[np.ndarray, "F"]
    parameters: Mapping[str, np.ndarray]

    def logits(
        self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "P+1"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "P"]]:
        """Return the log-odds of an error of each word and of each sentence; without words, the lowest."""
        inputs = standardize(features, self.center, self.scale)
        words, sentences = np.zeros(len(features)), np.full(len(offsets) - 1, -MAX_LOGIT)
        for rows in sentence_batches(offsets, _BATCH_SIZE):
            index, mask = sentence_cells(offsets, rows)
            word_logits, sentences[rows] = self._forward(inputs[index], mask)
            words[index[mask]] = word_logits[mask]
        return np.clip(words, -MAX_LOGIT, MAX_LOGIT), np.clip(sentences, -MAX_LOGIT, MAX_LOGIT)

    def _forward(
        self, features: Float[np.ndarray, "B T F"], mask: np.ndarray
    ) -> tuple[Float[np.ndarray, "B T"], Float[np.ndarray, "B"]]:
        """Return the log-odds of words and of sentences. The mask [B, T] states where there are words."""
        inside = mask[..., None].astype(features.dtype)
        words = np.maximum(self._linear("words.3", np.maximum(self._linear("words.0", features), 0)), 0)
        # Positions without a word must look like those beyond the sentence, so that padding has no effect.
        runs = np.maximum(self._convolve("near", words * inside), 0)
        runs = np.maximum(self._convolve("far", runs * inside), 0)
        hidden = np.concatenate([words, runs], axis=-1)
        logits = np.where(mask, self._linear("word_output", hidden)[..., 0], -MAX_LOGIT)
        probability = 1 / (1 + np.exp(-logits))
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        length = inside.sum(axis=1)
        summary = [
            (hidden * weights[..., None]).sum(axis=1),
            (hidden * inside).sum(axis=1) / length,
            logits.max(axis=1, keepdims=True),
            (probability * mask).sum(axis=1, keepdims=True),
            np.log1p(-np.minimum(probability, 1 - 1e-6)).sum(axis=1, keepdims=True),
            np.log(length),
        ]
        outputs = np.maximum(self._linear("sentence_output.0", np.concatenate(summary, axis=-1)), 0)
        return logits, self._linear("sentence_output.3", outputs)[:, 0]

    def _linear(self, name: str, inputs: np.ndarray) -> np.ndarray:
        weight = self.parameters[f"{name}.weight"]
        # One product of two matrices is much faster than one for each sentence.
        flat = inputs.reshape(-1, inputs.shape[-1]) @ weight.T + self.parameters[f"{name}.bias"]
        return flat.reshape(*inputs.shape[:-1], len(weight))

    def _convolve(self, name: str, inputs: Float[np.ndarray, "B T D"]) -> Float[np.ndarray, "B T D"]:
        """Return the convolution over the words; beyond the sentence, there are zeros."""
        step, reach = DILATIONS[name], DILATIONS[name] * (KERNEL_WIDTH // 2)
        padded = np.pad(inputs, ((0, 0), (reach, reach), (0, 0)))
        length = inputs.shape[1]
        # The words that each position reads, side by side.
        near = [padded[:, step * place : step * place + length] for place in range(KERNEL_WIDTH)]
        weight = self.parameters[f"{name}.weight"].transpose(0, 2, 1).reshape(HIDDEN[1], -1)
        flat = np.concatenate(near, axis=-1).reshape(-1, weight.shape[1]) @ weight.T
        return (flat + self.parameters[f"{name}.bias"]).reshape(inputs.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters to save."""
        return {"center": self.center, "scale": self.scale, **self.parameters}

    @staticmethod
    def array_forms(num_features: int) -> dict[str, ArrayForm]:
        """Return the forms of `arrays`."""
        return {
            "center": ("float64", -MAX_COUNT, MAX_COUNT, num_features),
            "scale": ("float64", MIN_SCALE, MAX_COUNT, num_features),
            **{
                name: ("float32", -_MAX_WEIGHT, _MAX_WEIGHT, *shape)
                for name, shape in _parameter_shapes(num_features).items()
            },
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the tagger with parameters from `arrays`, which have the forms of `array_forms`."""
        parameters = {name: value for name, value in arrays.items() if "." in name}
        return cls(arrays["center"], arrays["scale"], parameters)


def sentence_batches(
    offsets: np.ndarray, size: int, generator: np.random.Generator | None = None
) -> Iterator[np.ndarray]:
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
        yield order[start : start + size]


def sentence_cells(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each word of some sentences, and a mask of the words, both [B, T]."""
    starts, lengths = offsets[:-1][rows, None], np.diff(offsets)[rows, None]
    place = np.arange(lengths.max())
    mask = place < lengths
    return np.where(mask, starts + place, 0), mask


def standardize(features: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return standardized features in float32."""
    result = np.empty(features.shape, dtype=np.float32)
    # In blocks, so that only the result needs much memory.
    for first in range(0, len(features), _BLOCK):
        rows = slice(first, first + _BLOCK)
        result[rows] = np.clip((features[rows] - center) / scale, -_MAX_FEATURE, _MAX_FEATURE)
    return result
