"""Maps from scores to distributions as modules."""

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

GREATEST = 4.0  # alpha lies in (1, GREATEST]
LEAST = 1.0 + 1e-3  # how near a learned alpha comes to 1, where the formula divides by alpha - 1


class _Map(nn.Module):
    """A map along a dimension.

    Args:
        dim: The dimension that sums to 1.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"dim={self.dim}"


class Softmax(_Map):
    """`regard.functional.softmax` as a module."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """The softmax of `scores`; the mask is True where a position may be attended."""
        return softmax(scores, mask=mask, dim=self.dim)


class Sparsemax(_Map):
    """`regard.functional.sparsemax` as a module."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """The sparsemax of `scores`; the mask is True where a position may be attended."""
        return sparsemax(scores, mask=mask, dim=self.dim)


class Entmax15(_Map):
    """`regard.functional.entmax15` as a module."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """The 1.5-entmax of `scores`; the mask is True where a position may be attended."""
        return entmax15(scores, mask=mask, dim=self.dim)


class Entmax(_Map):
    """`regard.functional.entmax` as a module, its alpha fixed or learned (Correia et al. 2019, Sec. 3).

    Args:
        alpha: In (1, 4]: the greater, the sparser; where the learning starts, if it is learned.
        dim: The dimension that sums to 1.
        learnable: Whether alpha is a parameter: alpha = 1 + 3 sigmoid(logit).

    Raises:
        ValueError: alpha is not in (1, 4], or is learnable and so near an end that it would not move.
    """

    logit: nn.Parameter | None

    def __init__(self, alpha: float = 1.5, dim: int = -1, *, learnable: bool = False) -> None:
        """Check alpha, and make a parameter of it if it is to be learned."""
        super().__init__(dim)
        if not 1 < alpha <= GREATEST:
            raise ValueError(f"alpha is {alpha:g}; entmax has it in (1, {GREATEST:g}]")
        if learnable and not LEAST <= alpha < GREATEST:
            raise ValueError(f"alpha is {alpha:g}; a learnable one starts in [{LEAST:g}, {GREATEST:g})")
        self.start = alpha
        self.logit = None
        if learnable:
            self.logit = nn.Parameter(torch.tensor(math.log((alpha - 1) / (GREATEST - alpha))))

    @property
    def alpha(self) -> Tensor | float:
        """Alpha as it stands: with a gradient if it is learned."""
        if self.logit is None:
            return self.start
        return (1 + (GREATEST - 1) * torch.sigmoid(self.logit)).clamp_min(LEAST)

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """The alpha-entmax of `scores`; the mask is True where a position may be attended."""
        return entmax(scores, self.alpha, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        alpha = float(torch.as_tensor(self.alpha).detach())
        return f"alpha={alpha:g}, learnable={self.logit is not None}, dim={self.dim}"


class Fusedmax(_Map):
    """`regard.functional.fusedmax` as a module.

    Args:
        strength: How strongly the weights of neighbours are pulled together; at least 0.
        dim: The dimension that sums to 1, along which neighbours stand.

    Raises:
        ValueError: The strength is negative, infinite or not a number.
    """

    def __init__(self, strength: float = 0.1, dim: int = -1) -> None:
        """Check the strength."""
        super().__init__(dim)
        check_strength(strength)
        self.strength = strength

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """The fusedmax of `scores`; the mask is True where a position may be attended."""
        return fusedmax(scores, self.strength, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"strength={self.strength:g}, dim={self.dim}"


class ConstrainedSoftmax(_Map):
    """`regard.functional.constrained_softmax` as a module."""

    def forward(
        self,
        scores: Float[Tensor, "*B"],
        upper: Float[Tensor, "*#B"] | float | int,
        lower: Float[Tensor, "*#B"] | float | int | None = None,
        *,
        mask: Bool[Tensor, "*#B"] | None = None,
    ) -> Float[Tensor, "*B"]:
        """The constrained softmax of `scores` between the bounds; the mask is True where one may attend."""
        return constrained_softmax(scores, upper, lower, mask=mask, dim=self.dim)


class ConstrainedSparsemax(_Map):
    """`regard.functional.constrained_sparsemax` as a module."""

    def forward(
        self,
        scores: Float[Tensor, "*B"],
        upper: Float[Tensor, "*#B"] | float | int,
        lower: Float[Tensor, "*#B"] | float | int | None = None,
        *,
        mask: Bool[Tensor, "*#B"] | None = None,
    ) -> Float[Tensor, "*B"]:
        """The constrained sparsemax of `scores` between the bounds; the mask is True where one may attend."""
        return constrained_sparsemax(scores, upper, lower, mask=mask, dim=self.dim)
