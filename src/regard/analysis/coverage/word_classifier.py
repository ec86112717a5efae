"""A small neural network that gives the log-odds that a word is affected by an error.

The features of a word interact: weak links are expected of a function word, but not if its neighbors are
linked to adjacent words. A linear model cannot express that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from regard.types import Float

__all__ = ["WordClassifier"]

_HIDDEN = 64
_DROPOUT = 0.1
_EPOCHS = 8
_BATCH_SIZE = 1024
_LEARNING_RATE = 3e-3
_WEIGHT_DECAY = 1e-4
_MAX_LOGIT = 30.0
_MAX_FEATURE = 8.0  # standard deviations, so that text of another domain does not leave the known range


@dataclass(frozen=True)
class WordClassifier:
    """A network with two hidden layers on standardized features.

    Attributes:
        center: Mean of each feature.
        scale: Standard deviation of each feature.
        network: The network, [N, F] to [N, 1].
    """

    center: Float[np.ndarray, "F"]
    scale: Float[np.ndarray, "F"]
    network: nn.Module

    @classmethod
    def fit(cls, features: Float[np.ndarray, "N F"], labels: np.ndarray, seed: int) -> Self:
        """Train the network on examples.

        Args:
            features: One row per word.
            labels: Boolean, whether the word is affected.
            seed: Random seed of weights, dropout and order. It determines the result up to rounding errors.
        """
        center, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
        inputs = _standardize(features, center, scale)
        targets = torch.from_numpy(labels.astype(np.float32))
        # The random numbers of the caller stay as they are.
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            network = _build(features.shape[1])
            optimizer = torch.optim.AdamW(network.parameters(), _LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
            steps = _EPOCHS * -(-len(inputs) // _BATCH_SIZE)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=steps)
            for _ in range(_EPOCHS):
                for rows in torch.randperm(len(inputs)).split(_BATCH_SIZE):
                    logits = network(inputs[rows])[:, 0]
                    loss = functional.binary_cross_entropy_with_logits(logits, targets[rows])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()
        return cls(center, scale, network.eval())

    def logits(self, features: Float[np.ndarray, "N F"]) -> Float[np.ndarray, "N"]:
        """Return the log-odds of each row of features."""
        with torch.no_grad():
            found = self.network(_standardize(features, self.center, self.scale))[:, 0]
        return np.clip(found.numpy().astype(np.float64), -_MAX_LOGIT, _MAX_LOGIT)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters to save."""
        found = {"center": self.center, "scale": self.scale}
        return found | {name: value.numpy() for name, value in self.network.state_dict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the classifier with parameters from `arrays`.

        Raises:
            KeyError, ValueError, RuntimeError: if parameters are missing or have other shapes.
        """
        center, scale = arrays["center"], arrays["scale"]
        network = _build(len(center))
        weights = {name: torch.from_numpy(value) for name, value in arrays.items() if "." in name}
        network.load_state_dict(weights)
        return cls(center, scale, network.eval())


def _build(num_features: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(num_features, _HIDDEN),
        nn.ReLU(),
        nn.Dropout(_DROPOUT),
        nn.Linear(_HIDDEN, _HIDDEN),
        nn.ReLU(),
        nn.Dropout(_DROPOUT),
        nn.Linear(_HIDDEN, 1),
    )


def _standardize(features: np.ndarray, center: np.ndarray, scale: np.ndarray) -> torch.Tensor:
    standardized = np.clip((features - center) / scale, -_MAX_FEATURE, _MAX_FEATURE)
    return torch.from_numpy(standardized.astype(np.float32))
