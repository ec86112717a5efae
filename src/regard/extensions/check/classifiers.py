"""Classifiers of errors: a small neural network for words and sentences, and a logistic regression.

The features of a word interact: weak links are expected of a function word, but not if its neighbors are
linked to adjacent words. Errors affect runs of words, so the network reads the words around each one. NumPy
trains it as fast as PyTorch, with less memory.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.analysis.inputs import Progress, no_progress
from regard.text.array_files import MAX_COUNT, ArrayForm

_HIDDEN = (96, 64, 48)  # of words, and of sentences
_KERNEL_WIDTH = 5  # words that a convolution reads
_DILATIONS = {"near": 1, "far": 2}
_LENGTH_NOISE = 4.0  # words by which the lengths of the sentences of a batch may differ through shuffling
_MAX_LOGIT = 30.0
_MAX_PROBABILITY = np.float32(1 - 1e-6)  # of an error, where its logarithm is taken
_MIN_SCALE = 1e-6  # added to the standard deviation of a feature, which may be constant
_MAX_WEIGHT = 1e3  # of a weight in a file: with larger ones, sums in the network could overflow
_SCALE_SAMPLE = 10_000  # words from which mean and deviation of features are estimated
_MAX_FEATURE = 8.0  # standard deviations, so that text of another domain does not leave the known range
_DROPOUT = 0.1
_EPOCHS = 4, 6  # minimum and maximum
_MIN_BATCHES = 750  # in all epochs; with fewer batches per epoch, there are more epochs, up to the maximum
_BATCH_SIZE = 64  # sentences
_LEARNING_RATE = 2e-3
_WEIGHT_DECAY = 1e-3
_SECOND_DECAY = 0.999  # of the squared gradients in Adam
_WARMUP = 0.3  # share of the training with a rising learning rate
_MAX_GRADIENT = 1.0
_SENTENCE_WEIGHT = 0.3  # weight of the loss of sentences; that of words is 1
_PENALTY = 1.0
_ITERATIONS = 50

Layers = Mapping[str, tuple[Float[np.ndarray, "D H"], Float[np.ndarray, "H"]]]
"""The weights and the biases of linear layers."""


def _layer_shapes(num_features: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of the network, [H, D] or [H, D, width], by the names of layers."""
    first, size, last = _HIDDEN
    return {
        "words.0": (first, num_features),
        "words.3": (size, first),
        "near": (size, size, _KERNEL_WIDTH),
        "far": (size, size, _KERNEL_WIDTH),
        "word_output": (1, 2 * size),
        "sentence_output.0": (last, 4 * size + 4),
        "sentence_output.3": (1, last),
    }


@dataclass
class Network:
    """Two layers for each word, two convolutions over the sentence, and outputs for words and sentences.

    Attributes:
        layers: Weights [D, H] and biases [H] of the layers. A convolution has [width D, H].
        generator: Random numbers of dropout, in training.
    """

    layers: Layers
    generator: np.random.Generator | None = None
    _inputs: dict[str, np.ndarray] = field(default_factory=dict)
    _outputs: dict[str, np.ndarray] = field(default_factory=dict)

    def forward(
        self, features: Float[np.ndarray, "B T F"], mask: Bool[np.ndarray, "B T"]
    ) -> tuple[Float[np.ndarray, "B T"], Float[np.ndarray, "B"]]:
        """Return the log-odds of words, -inf where there is none, and of sentences.

        Args:
            features: Standardized features of words, float32.
            mask: Whether a position has a word. Each sentence has one.
        """
        inside, length = mask[..., None], mask.sum(axis=1, dtype=np.float32, keepdims=True)
        words = self._hidden("words.3", self._hidden("words.0", features))
        # Positions without a word are zeros, as those beyond the sentence, so padding has no effect.
        runs = self._hidden("near", _windows(words * inside, _DILATIONS["near"]))
        runs = self._hidden("far", _windows(runs * inside, _DILATIONS["far"]))
        hidden = np.concatenate([words, runs], axis=-1)
        logits = self._linear("word_output", hidden)[..., 0]
        logits[~mask] = -np.inf
        highest, probability = logits.max(axis=1, keepdims=True), 1 / (1 + np.exp(-logits))
        weights = np.exp(logits - highest)
        weights /= weights.sum(axis=1, keepdims=True)
        weights = np.stack([weights, mask / length], axis=1)
        summary = [
            (weights @ hidden).reshape(len(mask), -1),
            highest,
            probability.sum(axis=1, keepdims=True),
            np.log1p(-np.minimum(probability, _MAX_PROBABILITY)).sum(axis=1, keepdims=True),
            np.log(length),
        ]
        outputs = self._hidden("sentence_output.0", np.concatenate(summary, axis=-1))
        self._outputs |= {"logits": logits, "probability": probability, "weights": weights}
        return logits, self._linear("sentence_output.3", outputs)[:, 0]

    def backward(
        self, words: Float[np.ndarray, "B T"], sentences: Float[np.ndarray, "B"], gradients: Layers
    ) -> None:
        """Write the gradients of a loss with respect to the parameters, after `forward`.

        Args:
            words: Gradients with respect to the log-odds of words, 0 where there is none.
            sentences: Those with respect to the log-odds of sentences.
            gradients: The gradients, of the shapes of the layers; overwritten.
        """
        logits, probability = self._outputs["logits"], self._outputs["probability"]
        weights, hidden = self._outputs["weights"], self._inputs["word_output"]
        summary = self._backward("sentence_output.3", sentences[:, None], gradients)
        summary = self._backward("sentence_output.0", summary, gradients)
        means = summary[:, : 2 * hidden.shape[-1]].reshape(len(logits), 2, -1)
        highest, total, correct, _ = summary[:, 2 * hidden.shape[-1] :, None].swapaxes(0, 1)
        attention = (means[:, :1] @ hidden.mT)[:, 0]
        words = words + weights[:, 0] * (attention - (weights[:, 0] * attention).sum(axis=1, keepdims=True))
        is_highest = logits == logits.max(axis=1, keepdims=True)
        words += highest * is_highest / is_highest.sum(axis=1, keepdims=True, dtype=np.float32)
        words += total * probability * (1 - probability)
        words -= correct * probability * (probability < _MAX_PROBABILITY)
        inside = np.isfinite(logits)[..., None]
        states = self._backward("word_output", words[..., None], gradients) + weights.mT @ means
        states, runs = np.split(states, 2, axis=-1)
        for name in ("far", "near"):
            runs = inside * _sum_windows(self._backward(name, runs, gradients), _DILATIONS[name])
        self._backward("words.0", self._backward("words.3", states + runs, gradients), gradients)

    def _linear(self, name: str, inputs: Float[np.ndarray, "... D"]) -> Float[np.ndarray, "... H"]:
        weight, bias = self.layers[name]
        # One matrix multiplication: NumPy computes one per sentence for three axes.
        outputs = inputs.reshape(-1, len(weight)) @ weight
        outputs += bias
        self._inputs[name] = inputs
        return outputs.reshape(*inputs.shape[:-1], -1)

    def _hidden(self, name: str, inputs: Float[np.ndarray, "... D"]) -> Float[np.ndarray, "... H"]:
        """Return the outputs of a hidden layer: linear, ReLU, and dropout in training."""
        outputs = self._linear(name, inputs)
        np.maximum(outputs, 0, out=outputs)
        if self.generator is not None and name not in _DILATIONS:
            outputs *= self.generator.random(outputs.shape, np.float32) >= _DROPOUT
            outputs *= np.float32(1 / (1 - _DROPOUT))
        self._outputs[name] = outputs
        return outputs

    def _backward(
        self, name: str, outputs: Float[np.ndarray, "... H"], gradients: Layers
    ) -> Float[np.ndarray, "... D"]:
        """Write the gradients of a layer, and return those of its inputs, but not of the first layer."""
        inputs, (weight, bias) = self._inputs[name], gradients[name]
        if name in self._outputs:
            outputs = outputs * (self._outputs[name] > 0)
            if self.generator is not None and name not in _DILATIONS:
                outputs *= np.float32(1 / (1 - _DROPOUT))
        flat = outputs.reshape(-1, outputs.shape[-1])
        np.matmul(inputs.reshape(-1, inputs.shape[-1]).T, flat, out=weight)
        flat.sum(axis=0, out=bias)
        return inputs if name == "words.0" else (flat @ self.layers[name][0].T).reshape(inputs.shape)


def _windows(inputs: Float[np.ndarray, "B T D"], step: int) -> Float[np.ndarray, "B T width*D"]:
    """Return the words around each one, at multiples of a distance; a convolution is linear in them."""
    length, reach = inputs.shape[1], step * (_KERNEL_WIDTH // 2)
    padded = np.pad(inputs, ((0, 0), (reach, reach), (0, 0)))
    around = [padded[:, step * place : step * place + length] for place in range(_KERNEL_WIDTH)]
    return np.concatenate(around, axis=-1)


def _sum_windows(windows: Float[np.ndarray, "B T width*D"], step: int) -> Float[np.ndarray, "B T D"]:
    """Return the gradient of `_windows` with respect to its inputs."""
    size, length, width = windows.shape
    reach, width = step * (_KERNEL_WIDTH // 2), width // _KERNEL_WIDTH
    padded = np.zeros((size, length + 2 * reach, width), np.float32)
    for place in range(_KERNEL_WIDTH):
        padded[:, step * place : step * place + length] += windows[..., width * place : width * (place + 1)]
    return padded[:, reach : reach + length]


@dataclass(frozen=True)
class ErrorTagger:
    """A convolutional network on standardized features of words.

    Attributes:
        center: Mean of each feature.
        scale: Standard deviation of each feature.
        parameters: The float32 parameters of the network, by the names and in the forms of PyTorch.
    """

    center: Float[np.ndarray, "F"]
    scale: Float[np.ndarray, "F"]
    parameters: Mapping[str, np.ndarray]

    def logits(
        self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "P+1"]
    ) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "P"]]:
        """Return the log-odds of an error of each word and of each sentence; without words, the lowest."""
        words, sentences = np.zeros(len(features)), np.full(len(offsets) - 1, -_MAX_LOGIT)
        for rows in _batches(offsets):  # few enough sentences for the cache of a processor
            index, mask = _sentence_cells(offsets, rows)
            inputs = _standardize(features[index], self.center, self.scale)
            logits, sentences[rows] = Network(self.layers).forward(inputs, mask)
            words[index[mask]] = logits[mask]
        return np.clip(words, -_MAX_LOGIT, _MAX_LOGIT), np.clip(sentences, -_MAX_LOGIT, _MAX_LOGIT)

    @cached_property
    def layers(self) -> Layers:
        """The layers, [D, H] or [width D, H], of parameters [H, D] or [H, D, width]."""
        layers = {}
        for name, shape in _layer_shapes(len(self.center)).items():
            weight = np.ascontiguousarray(self.parameters[f"{name}.weight"].T.reshape(-1, shape[0]))
            layers[name] = weight, self.parameters[f"{name}.bias"]
        return layers

    @staticmethod
    def array_forms(num_features: int) -> dict[str, ArrayForm]:
        """Return the forms of the arrays of a network, by their names in a file."""
        return {
            "center": ("float64", -MAX_COUNT, MAX_COUNT, num_features),
            "scale": ("float64", _MIN_SCALE, MAX_COUNT, num_features),
            **{
                f"{name}.{part}": ("float32", -_MAX_WEIGHT, _MAX_WEIGHT, *values)
                for name, shape in _layer_shapes(num_features).items()
                for part, values in (("weight", shape), ("bias", shape[:1]))
            },
        }


def _batches(offsets: np.ndarray, generator: np.random.Generator | None = None) -> Iterator[np.ndarray]:
    """Yield the numbers of sentences of similar lengths, without empty ones; shuffled with a generator."""
    lengths = np.diff(offsets).astype(np.float64)
    filled = np.flatnonzero(lengths)
    if generator is not None:
        lengths = lengths + _LENGTH_NOISE * generator.random(len(lengths))
    order = filled[np.argsort(lengths[filled], kind="stable")]
    starts = np.arange(0, len(order), _BATCH_SIZE)
    if generator is not None:
        generator.shuffle(starts)
    for start in starts.tolist():
        rows = order[start : start + _BATCH_SIZE]
        # Padding at most doubles a batch of a text, in which one sentence may be very long.
        changes = np.diff(np.ceil(np.log2(lengths[rows]))) if generator is None else ()
        yield from np.split(rows, np.flatnonzero(changes) + 1)


def _sentence_cells(offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each word of some sentences, and a mask of the words, both [B, T]."""
    starts, lengths = offsets[:-1][rows, None], np.diff(offsets)[rows, None]
    place = np.arange(lengths.max())
    mask = place < lengths
    return np.where(mask, starts + place, 0), mask


def fit_tagger(
    features: Float[np.ndarray, "N F"],
    offsets: Int[np.ndarray, "P+1"],
    labels: tuple[np.ndarray, np.ndarray],
    seed: int,
    progress: Progress = no_progress,
) -> ErrorTagger:
    """Train the network on examples.

    Args:
        features: One row per word.
        offsets: Start of each sentence among the words, and the end of the last one.
        labels: Boolean, whether each word is affected, [N], and whether each sentence is, [P].
        seed: Random seed of weights, dropout and order. It determines the result up to rounding errors.
        progress: Progress display of the batches.
    """
    sample = features[:: 1 + len(features) // _SCALE_SAMPLE].astype(np.float64)
    center, scale = sample.mean(axis=0), sample.std(axis=0) + _MIN_SCALE
    words, sentences = (label.astype(np.float32) for label in labels)
    generator = np.random.default_rng(seed)
    shapes = _layer_shapes(features.shape[1])
    size = sum(math.prod(shape) + shape[0] for shape in shapes.values())
    parameters, gradients, mean, variance = np.zeros((4, size), np.float32)
    layers, layer_gradients = _split_layers(parameters, shapes), _split_layers(gradients, shapes)
    for weight, bias in layers.values():
        limit = len(weight) ** -0.5  # as in PyTorch
        weight[:], bias[:] = (generator.uniform(-limit, limit, values.shape) for values in (weight, bias))
    network = Network(layers, generator)
    num_batches = max(1, -(-len(np.flatnonzero(np.diff(offsets))) // _BATCH_SIZE))
    epochs = min(max(_EPOCHS[0], -(-_MIN_BATCHES // num_batches)), _EPOCHS[1])
    batches = chain.from_iterable(_batches(offsets, generator) for _ in range(epochs))
    for step, rows in enumerate(progress(batches, "classifier", epochs * num_batches), 1):
        index, mask = _sentence_cells(offsets, rows)
        # Batch by batch, because a table of all takes much memory.
        word_logits, sentence_logits = network.forward(_standardize(features[index], center, scale), mask)
        # The gradients of the cross-entropy.
        word_errors = mask * (1 / (1 + np.exp(-word_logits)) - words[index]) / mask.sum(dtype=np.float32)
        sentence_errors = (1 / (1 + np.exp(-sentence_logits)) - sentences[rows]) / np.float32(len(rows))
        network.backward(word_errors, np.float32(_SENTENCE_WEIGHT) * sentence_errors, layer_gradients)
        gradients *= min(1.0, _MAX_GRADIENT / (float(np.linalg.norm(gradients)) + 1e-6))
        # AdamW with the schedule 1cycle of the learning rate and of the first decay.
        rate, decay = _one_cycle(step / (epochs * num_batches))
        mean += np.float32(1 - decay) * (gradients - mean)
        variance += np.float32(1 - _SECOND_DECAY) * (gradients**2 - variance)
        deviation = np.sqrt(variance / np.float32(1 - _SECOND_DECAY**step)) + np.float32(1e-8)
        parameters *= np.float32(1 - rate * _WEIGHT_DECAY)
        parameters -= np.float32(rate / (1 - decay**step)) * (mean / deviation)
    arrays = {f"{name}.bias": bias for name, (_, bias) in layers.items()}
    for name, (weight, _) in layers.items():
        arrays[f"{name}.weight"] = np.ascontiguousarray(weight.reshape(shapes[name][::-1]).T)
    return ErrorTagger(center, scale, arrays)


def _standardize(
    features: Float[np.ndarray, "... F"], center: Float[np.ndarray, "F"], scale: Float[np.ndarray, "F"]
) -> Float[np.ndarray, "... F"]:
    """Return features in standard deviations, float32."""
    inputs = features.astype(np.float32, copy=False) - center.astype(np.float32)
    inputs /= scale.astype(np.float32)
    return np.clip(inputs, -_MAX_FEATURE, _MAX_FEATURE, out=inputs)


def _split_layers(flat: Float[np.ndarray, "P"], shapes: Mapping[str, tuple[int, ...]]) -> Layers:
    """Return views of the weights [D, H] and biases [H] of the layers in a flat array."""
    layers, start = {}, 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        layers[name] = flat[start:end].reshape(-1, shape[0]), flat[end : end + shape[0]]
        start = end + shape[0]
    return layers


def _one_cycle(place: float) -> tuple[float, float]:
    """Return the learning rate and the first decay of Adam at a place of training: Smith & Topin (2019)."""
    phase = min(place / _WARMUP, (1 - place) / (1 - _WARMUP))
    height = (1 - math.cos(math.pi * phase)) / 2
    least = 0.04 if place < _WARMUP else 0.0
    return _LEARNING_RATE * (least + (1 - least) * height), 0.95 - 0.1 * height


@dataclass(frozen=True)
class LogisticRegression:
    """Probability of an event given features: sigmoid(weights . features + bias).

    Attributes:
        weights: Weight of each feature.
        bias: The intercept.
    """

    weights: Float[np.ndarray, "F"]
    bias: float

    @classmethod
    def fit(
        cls,
        features: Float[np.ndarray, "N F"],
        labels: np.ndarray,
        weights: Float[np.ndarray, "N"] | None = None,
    ) -> Self:
        """Fit the weights to examples.

        Args:
            features: One row per example.
            labels: Boolean, whether the event happened. If it happened in none or in all of the examples, the
                probability is constant.
            weights: Weight of each example: an example of weight 2 counts as two. Default: 1.
        """
        weights = np.ones(len(features)) if weights is None else weights
        center = np.average(features, axis=0, weights=weights)
        scale = np.sqrt(np.average((features - center) ** 2, axis=0, weights=weights))
        # A constant feature carries no information and gets the weight 0.
        scale = np.where(scale > 1e-9, scale, np.inf)
        design = np.concatenate([(features - center) / scale, np.ones((len(features), 1))], axis=1)
        target = labels.astype(np.float64)
        beta = np.zeros(design.shape[1])
        penalty = np.full(design.shape[1], _PENALTY)
        # The bias stays almost free; its small penalty keeps the Hessian regular if all labels are equal.
        penalty[-1] = 1e-3
        for _ in range(_ITERATIONS):
            p = 1 / (1 + np.exp(-np.clip(design @ beta, -_MAX_LOGIT, _MAX_LOGIT)))
            gradient = design.T @ (weights * (p - target)) + penalty * beta
            hessian = (design * (weights * p * (1 - p))[:, None]).T @ design + np.diag(penalty)
            step = np.linalg.solve(hessian, gradient)
            # Long steps are shortened, because Newton's method may overshoot on separable examples.
            step *= min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
            beta -= step
            if np.abs(step).max() < 1e-6:
                break
        # The weights apply to features as they are, so scale and center move into weights and bias.
        slopes = beta[:-1] / scale
        return cls(slopes, float(beta[-1] - slopes @ center))

    def logits(self, features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N"]:
        """Return the log-odds of the event for each row of features."""
        return np.clip(features @ self.weights + self.bias, -_MAX_LOGIT, _MAX_LOGIT)

    def probabilities(self, features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N"]:
        """Return the probability of the event for each row of features."""
        return 1 / (1 + np.exp(-self.logits(features)))
