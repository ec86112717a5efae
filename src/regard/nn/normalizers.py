"""Modules for the transformations of scores into probability distributions."""

import math

import torch
from torch import nn

from regard.functional import (
    constrained_softmax,
    constrained_sparsemax,
    entmax,
    entmax15,
    fusedmax,
    softmax,
    sparsemax,
)
from regard.functional.entmax import MAX_ALPHA
from regard.functional.fusedmax import check_strength
from regard.types import Bool, Float, Tensor

__all__ = [
    "ConstrainedSoftmax",
    "ConstrainedSparsemax",
    "Entmax",
    "Entmax15",
    "Fusedmax",
    "Softmax",
    "Sparsemax",
]

MIN_LEARNED_ALPHA = 1.0 + 1e-3  # minimum of a learned alpha, because the formula divides by alpha - 1


class _Normalizer(nn.Module):
    """A transformation along one dimension.

    Args:
        dim: The dimension that sums to 1.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"dim={self.dim}"


class Softmax(_Normalizer):
    """Module for `regard.functional.softmax`."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the softmax of `scores`; the mask is True where a position may be attended."""
        return softmax(scores, mask=mask, dim=self.dim)


class Sparsemax(_Normalizer):
    """Module for `regard.functional.sparsemax`."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the sparsemax of `scores`; the mask is True where a position may be attended."""
        return sparsemax(scores, mask=mask, dim=self.dim)


class Entmax15(_Normalizer):
    """Module for `regard.functional.entmax15`."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the 1.5-entmax of `scores`; the mask is True where a position may be attended."""
        return entmax15(scores, mask=mask, dim=self.dim)


class Entmax(_Normalizer):
    """Module for `regard.functional.entmax`, with alpha fixed or learned: Correia et al. (2019), Section 3.

    Args:
        alpha: A value in (1, 4]; larger values give sparser results. The initial value if alpha is learned.
        dim: The dimension that sums to 1.
        learnable: Whether alpha is a parameter: alpha = 1 + 3 sigmoid(logit).

    Raises:
        ValueError: Alpha is not in (1, 4], or is learnable and too close to an end to receive a gradient.
    """

    logit: nn.Parameter | None

    def __init__(self, alpha: float = 1.5, dim: int = -1, *, learnable: bool = False) -> None:
        """Check alpha, and create a parameter if it is learned."""
        super().__init__(dim)
        if not 1 < alpha <= MAX_ALPHA:
            raise ValueError(f"alpha is {alpha:g}, but entmax requires alpha in (1, {MAX_ALPHA:g}]")
        if learnable and not MIN_LEARNED_ALPHA <= alpha < MAX_ALPHA:
            raise ValueError(
                f"alpha is {alpha:g}, but a learnable alpha must start in [{MIN_LEARNED_ALPHA:g}, "
                f"{MAX_ALPHA:g})"
            )
        self.initial_alpha = alpha
        self.logit = None
        if learnable:
            self.logit = nn.Parameter(torch.tensor(math.log((alpha - 1) / (MAX_ALPHA - alpha))))

    @property
    def alpha(self) -> Tensor | float:
        """The current alpha; differentiable if it is learned."""
        if self.logit is None:
            return self.initial_alpha
        return (1 + (MAX_ALPHA - 1) * torch.sigmoid(self.logit)).clamp_min(MIN_LEARNED_ALPHA)

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the alpha-entmax of `scores`; the mask is True where a position may be attended."""
        return entmax(scores, self.alpha, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        alpha = float(torch.as_tensor(self.alpha).detach())
        return f"alpha={alpha:g}, learnable={self.logit is not None}, dim={self.dim}"


class Fusedmax(_Normalizer):
    """Module for `regard.functional.fusedmax`.

    Args:
        strength: Strength lambda, at least 0; larger values make neighboring weights more equal.
        dim: The dimension that sums to 1, along which positions are neighbors.

    Raises:
        ValueError: The strength is negative, infinite or NaN.
    """

    def __init__(self, strength: float = 0.1, dim: int = -1) -> None:
        """Check the strength."""
        super().__init__(dim)
        check_strength(strength)
        self.strength = strength

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the fusedmax of `scores`; the mask is True where a position may be attended."""
        return fusedmax(scores, self.strength, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"strength={self.strength:g}, dim={self.dim}"


class ConstrainedSoftmax(_Normalizer):
    """Module for `regard.functional.constrained_softmax`."""

    def forward(
        self,
        scores: Float[Tensor, "*B"],
        upper: Float[Tensor, "*#B"] | float | int,
        lower: Float[Tensor, "*#B"] | float | int | None = None,
        *,
        mask: Bool[Tensor, "*#B"] | None = None,
    ) -> Float[Tensor, "*B"]:
        """Compute the constrained softmax of `scores`; the mask is True where attention is allowed."""
        return constrained_softmax(scores, upper, lower, mask=mask, dim=self.dim)


class ConstrainedSparsemax(_Normalizer):
    """Module for `regard.functional.constrained_sparsemax`."""

    def forward(
        self,
        scores: Float[Tensor, "*B"],
        upper: Float[Tensor, "*#B"] | float | int,
        lower: Float[Tensor, "*#B"] | float | int | None = None,
        *,
        mask: Bool[Tensor, "*#B"] | None = None,
    ) -> Float[Tensor, "*B"]:
        """Compute the constrained sparsemax of `scores`; the mask is True where attention is allowed."""
        return constrained_sparsemax(scores, upper, lower, mask=mask, dim=self.dim)
