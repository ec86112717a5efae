"""Classifiers of errors: a small neural network for words and sentences, and a logistic regression.

The features of a word interact: weak links are expected of a function word, but not if its neighbors are
linked to adjacent words. Errors affect runs of words, so the network reads the words around each one. PyTorch
trains it, and only this needs PyTorch; NumPy suffices to apply it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.text.array_files import MAX_COUNT, ArrayForm

_HIDDEN = (96, 64)
_SENTENCE_HIDDEN = 48
_KERNEL_WIDTH = 5  # words that a convolution reads
_DILATIONS = {"near": 1, "far": 2}
_LENGTH_NOISE = 4.0  # words by which the lengths of the sentences of a batch may differ through shuffling
_MAX_LOGIT = 30.0
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
_MAX_GRADIENT = 1.0
_SENTENCE_WEIGHT = 0.3  # weight of the loss of sentences; that of words is 1
_PENALTY = 1.0
_ITERATIONS = 50


def _parameter_shapes(num_features: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters of the network, by the names of PyTorch's modules."""
    first, size = _HIDDEN
    linear = {
        "words.0": (first, num_features),
        "words.3": (size, first),
        "near": (size, size, _KERNEL_WIDTH),
        "far": (size, size, _KERNEL_WIDTH),
        "word_output": (1, 2 * size),
        "sentence_output.0": (_SENTENCE_HIDDEN, 4 * size + 4),
        "sentence_output.3": (1, _SENTENCE_HIDDEN),
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
        words, sentences = np.zeros(len(features)), np.full(len(offsets) - 1, -_MAX_LOGIT)
        center, scale = self.center.astype(np.float32), self.scale.astype(np.float32)
        # Sentences of similar lengths, few enough for the cache of a processor.
        for rows in _sentence_batches(offsets, _BATCH_SIZE):
            index, mask = _sentence_cells(offsets, rows)
            inputs = features[index] - center
            inputs /= scale
            np.clip(inputs, -_MAX_FEATURE, _MAX_FEATURE, out=inputs)
            logits, sentences[rows] = self._forward(inputs, mask)
            words[index[mask]] = logits[mask]
        return np.clip(words, -_MAX_LOGIT, _MAX_LOGIT), np.clip(sentences, -_MAX_LOGIT, _MAX_LOGIT)

    def _forward(
        self, features: Float[np.ndarray, "B T F"], mask: Bool[np.ndarray, "B T"]
    ) -> tuple[Float[np.ndarray, "B T"], Float[np.ndarray, "B"]]:
        """Return the log-odds of words, -inf where there is none, and of sentences, as `build_network`."""
        inside, length = mask[..., None], mask.sum(axis=1, dtype=np.float32, keepdims=True)
        words = self._linear("words.3", self._linear("words.0", features))
        runs = self._convolve("far", self._convolve("near", words * inside) * inside)
        hidden = np.concatenate([words, runs], axis=-1)
        logits = self._linear("word_output", hidden, is_output=True)[..., 0]
        logits[~mask] = -np.inf
        highest, probability = logits.max(axis=1, keepdims=True), 1 / (1 + np.exp(-logits))
        weights = np.exp(logits - highest)
        weights /= weights.sum(axis=1, keepdims=True)
        means = np.stack([weights, mask / length], axis=1) @ hidden
        summary = [
            means.reshape(len(mask), -1),
            highest,
            probability.sum(axis=1, keepdims=True),
            np.log1p(-np.minimum(probability, 1 - 1e-6)).sum(axis=1, keepdims=True),
            np.log(length),
        ]
        outputs = self._linear("sentence_output.0", np.concatenate(summary, axis=-1))
        return logits, self._linear("sentence_output.3", outputs, is_output=True)[:, 0]

    def _linear(
        self, name: str, inputs: Float[np.ndarray, "... D"], is_output: bool = False
    ) -> Float[np.ndarray, "... H"]:
        """Return a linear layer, with ReLU if it is none of the outputs."""
        weight = self._weights[name]
        # One matrix multiplication: NumPy computes one per sentence for three axes.
        outputs = inputs.reshape(-1, len(weight)) @ weight
        outputs += self.parameters[f"{name}.bias"]
        if not is_output:
            np.maximum(outputs, 0, out=outputs)
        return outputs.reshape(*inputs.shape[:-1], -1)

    def _convolve(self, name: str, inputs: Float[np.ndarray, "B T D"]) -> Float[np.ndarray, "B T D"]:
        """Return a convolution with ReLU, as a linear layer of the words around each one."""
        step, length = _DILATIONS[name], inputs.shape[1]
        reach = step * (_KERNEL_WIDTH // 2)
        padded = np.pad(inputs, ((0, 0), (reach, reach), (0, 0)))
        around = [padded[:, step * place : step * place + length] for place in range(_KERNEL_WIDTH)]
        return self._linear(name, np.concatenate(around, axis=-1))

    @cached_property
    def _weights(self) -> dict[str, Float[np.ndarray, "D H"]]:
        """The weights of linear layers; of a convolution, those of all words that it reads."""
        return {
            # From [H, D] or [H, D, width] to [D, H] or [width D, H].
            name.removesuffix(".weight"): np.ascontiguousarray(values.T.reshape(-1, len(values)))
            for name, values in self.parameters.items()
            if name.endswith(".weight")
        }

    @staticmethod
    def array_forms(num_features: int) -> dict[str, ArrayForm]:
        """Return the forms of the arrays of a network, by their names in a file."""
        return {
            "center": ("float64", -MAX_COUNT, MAX_COUNT, num_features),
            "scale": ("float64", _MIN_SCALE, MAX_COUNT, num_features),
            **{
                name: ("float32", -_MAX_WEIGHT, _MAX_WEIGHT, *shape)
                for name, shape in _parameter_shapes(num_features).items()
            },
        }


def _sentence_batches(
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
) -> ErrorTagger:
    """Train the network on examples.

    Args:
        features: One row per word.
        offsets: Start of each sentence among the words, and the end of the last one.
        labels: Boolean, whether each word is affected, [N], and whether each sentence is, [P].
        seed: Random seed of weights, dropout and order. It determines the result up to rounding errors.
    """
    import torch
    from torch import nn

    sample = features[:: 1 + len(features) // _SCALE_SAMPLE].astype(np.float64)
    center, scale = sample.mean(axis=0), sample.std(axis=0) + _MIN_SCALE
    inputs = torch.from_numpy(features)
    shift, factor = (torch.from_numpy(values.astype(np.float32)) for values in (center, 1 / scale))
    words, sentences = (torch.from_numpy(label.astype(np.float32)) for label in labels)
    generator = np.random.default_rng(seed)
    # The random numbers of the caller stay as they are.
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        network = build_network(features.shape[1])
        optimizer = torch.optim.AdamW(network.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        size = max(1, sum(1 for _ in _sentence_batches(offsets, _BATCH_SIZE)))
        epochs = min(max(_EPOCHS[0], -(-_MIN_BATCHES // size)), _EPOCHS[1])
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=epochs * size)
        for _ in range(epochs):
            for rows in _sentence_batches(offsets, _BATCH_SIZE, generator):
                index, mask = map(torch.from_numpy, _sentence_cells(offsets, rows))
                # Batch by batch, because a table of all takes much memory.
                batch = ((inputs[index].float() - shift) * factor).clamp_(-_MAX_FEATURE, _MAX_FEATURE)
                word_logits, sentence_logits = network(batch, mask)
                loss = nn.functional.binary_cross_entropy_with_logits(word_logits[mask], words[index][mask])
                loss = loss + _SENTENCE_WEIGHT * nn.functional.binary_cross_entropy_with_logits(
                    sentence_logits, sentences[torch.from_numpy(rows)]
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), _MAX_GRADIENT)
                optimizer.step()
                schedule.step()
    return ErrorTagger(
        center, scale, {name: value.detach().numpy() for name, value in network.state_dict().items()}
    )


def build_network(num_features: int) -> Any:
    """Return the network as a PyTorch module with random parameters."""
    import torch
    from torch import nn

    class Network(nn.Module):
        """Two layers for each word, two convolutions over the sentence, and two outputs."""

        def __init__(self) -> None:
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
            self.near = nn.Conv1d(size, size, _KERNEL_WIDTH, padding="same")
            self.far = nn.Conv1d(size, size, _KERNEL_WIDTH, padding="same", dilation=_DILATIONS["far"])
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
            # Positions without a word must look like those beyond the sentence, so padding has no effect.
            runs = nn.functional.relu(self.near((words * inside).mT))
            runs = nn.functional.relu(self.far(runs * inside.mT)).mT
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

    return Network()


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
