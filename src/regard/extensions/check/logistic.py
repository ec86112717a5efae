"""Logistic regression, fitted by Newton's method with an L2 penalty on standardized features."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float

__all__ = ["LogisticRegression"]

_PENALTY = 1.0
_ITERATIONS = 50
_MAX_LOGIT = 30.0


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
            p = _sigmoid(design @ beta)
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
        return _sigmoid(self.logits(features))

    def to_data(self) -> dict[str, Any]:
        """Return the weights as JSON values."""
        return {"weights": [float(weight) for weight in self.weights], "bias": self.bias}

    @classmethod
    def from_data(cls, weights: list[float], bias: float) -> Self:
        """Return the regression with weights from `to_data`."""
        return cls(np.array(weights, dtype=np.float64), bias)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -_MAX_LOGIT, _MAX_LOGIT)))
