"""Modules for the transformations and their scans over time steps.

Each module calls the function of the same name in `regard.functional`.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import nn

from regard import functional
from regard.functional.entmax import MAX_ALPHA, check_alpha
from regard.functional.fusedmax import check_strength
from regard.functional.normmax import check_norm_alpha
from regard.types import Bool, Float, Tensor

__all__ = [
    "ConstrainedSoftmax",
    "ConstrainedSoftmaxScan",
    "ConstrainedSparsemax",
    "ConstrainedSparsemaxScan",
    "Entmax",
    "Entmax15",
    "Fusedmax",
    "Normmax",
    "Oscarmax",
    "Softmax",
    "Sparsemax",
]

MIN_LEARNED_ALPHA = 1.0 + 1e-3  # minimum of a learned alpha, because the formula divides by alpha - 1


class _AlongDimension(nn.Module):
    """A transformation along one dimension.

    Args:
        dim: The dimension that sums to 1.
    """

    # A static method of each subclass: a plain function in a class would get `self` as its scores.
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"dim={self.dim}"


class _Normalizer(_AlongDimension):
    """A transformation without bounds along one dimension."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Transform `scores`; the mask is True where a position may be attended."""
        return self.function(scores, mask=mask, dim=self.dim)


class Softmax(_Normalizer):
    """Module for `regard.functional.softmax`."""

    function = staticmethod(functional.softmax)


class _TopNormalizer(_AlongDimension):
    """A sparse transformation along one dimension.

    Args:
        dim: The dimension that sums to 1.
        k: The number of largest scores to which the computation is first restricted; see
            `regard.functional.sparsemax`. Default: None, all scores at once.

    Raises:
        ValueError: k is less than 1.
    """

    def __init__(self, dim: int = -1, k: int | None = None) -> None:
        super().__init__(dim)
        check_count(k)
        self.k = k

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Transform `scores`; the mask is True where a position may be attended."""
        return self.function(scores, self.dim, self.k, mask=mask)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return super().extra_repr() + ("" if self.k is None else f", k={self.k}")


def check_count(k: int | None) -> None:
    """Raise `ValueError` unless k is None or at least 1, at the place where it was given."""
    if k is not None and k < 1:
        raise ValueError(f"k is {k}, but must be at least 1")


class Sparsemax(_TopNormalizer):
    """Module for `regard.functional.sparsemax`."""

    function = staticmethod(functional.sparsemax)


class Entmax15(_TopNormalizer):
    """Module for `regard.functional.entmax15`."""

    function = staticmethod(functional.entmax15)


class Entmax(_Normalizer):
    """Module for `regard.functional.entmax`, with alpha fixed or learned: Correia et al. (2019), Section 3.

    Args:
        alpha: A value in (1, 4]; larger values give sparser results. The initial value if alpha is learned.
        dim: The dimension that sums to 1.
        k: The number of largest scores to which the computation is first restricted; see
            `regard.functional.sparsemax`. Default: None, all scores at once.
        learnable: Whether alpha is a parameter: alpha = 1 + 3 sigmoid(logit).

    Raises:
        ValueError: k is less than 1, or alpha is not in (1, 4], or is learnable and too close to an end to
            receive a gradient.
    """

    logit: nn.Parameter | None

    def __init__(
        self, alpha: float = 1.5, dim: int = -1, k: int | None = None, *, learnable: bool = False
    ) -> None:
        """Check alpha, and create a parameter if it is learned."""
        super().__init__(dim)
        check_count(k)
        self.k = k
        # Checked here and not at the first call, so that the traceback shows where the value was given.
        check_alpha(alpha)
        # At the ends, the clamp would give no gradient or the logit would be infinite.
        if learnable and not MIN_LEARNED_ALPHA <= alpha < MAX_ALPHA:
            raise ValueError(
                f"alpha is {alpha}, but a learnable alpha must start in [{MIN_LEARNED_ALPHA:g}, "
                f"{MAX_ALPHA:g})"
            )
        self.initial_alpha = alpha
        self.logit = None
        if learnable:
            # The inverse of `alpha`, whose sigmoid keeps alpha in range at any step size.
            self.logit = nn.Parameter(torch.tensor(math.log((alpha - 1) / (MAX_ALPHA - alpha))))

    @property
    def alpha(self) -> Tensor | float:
        """The current alpha; differentiable if it is learned."""
        if self.logit is None:
            return self.initial_alpha
        # The sigmoid of a very negative logit underflows, and alpha = 1 would divide by zero.
        return (1 + (MAX_ALPHA - 1) * torch.sigmoid(self.logit)).clamp_min(MIN_LEARNED_ALPHA)

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the alpha-entmax of `scores`; the mask is True where a position may be attended."""
        return functional.entmax(scores, self.alpha, self.dim, self.k, mask=mask)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        alpha = float(torch.as_tensor(self.alpha).detach())
        return f"alpha={alpha:g}, learnable={self.logit is not None}, dim={self.dim}"


class _GroupedNormalizer(_AlongDimension):
    """A transformation with equal weights within groups of positions.

    Args:
        strength: Strength lambda, at least 0; larger values make more weights equal.
        dim: The dimension that sums to 1.

    Raises:
        ValueError: The strength is negative, infinite or NaN.
    """

    def __init__(self, strength: float = 0.1, dim: int = -1) -> None:
        """Check the strength."""
        super().__init__(dim)
        # A wrong strength fails here, at its origin, and not at the first call.
        check_strength(strength)
        self.strength = strength

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Transform `scores`; the mask is True where a position may be attended."""
        return self.function(scores, self.strength, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"strength={self.strength:g}, dim={self.dim}"


class Fusedmax(_GroupedNormalizer):
    """Module for `regard.functional.fusedmax`; neighbors are along `dim`."""

    function = staticmethod(functional.fusedmax)


class Oscarmax(_GroupedNormalizer):
    """Module for `regard.functional.oscarmax`."""

    function = staticmethod(functional.oscarmax)


class Normmax(_AlongDimension):
    """Module for `regard.functional.normmax`.

    Args:
        alpha: The exponent of the norm, in (1, 10,000].
        dim: The dimension that sums to 1.

    Raises:
        ValueError: Alpha is out of range.
    """

    def __init__(self, alpha: float = 2.0, dim: int = -1) -> None:
        """Check alpha."""
        super().__init__(dim)
        check_norm_alpha(alpha)
        self.alpha = alpha

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Compute the normmax of `scores`; the mask is True where a position may be attended."""
        return functional.normmax(scores, self.alpha, mask=mask, dim=self.dim)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"alpha={self.alpha:g}, dim={self.dim}"


class _ConstrainedNormalizer(_AlongDimension):
    """A constrained transformation along one dimension."""

    def forward(
        self,
        scores: Float[Tensor, "*B"],
        upper: Float[Tensor, "*#B"] | float | int,
        lower: Float[Tensor, "*#B"] | float | int | None = None,
        *,
        mask: Bool[Tensor, "*#B"] | None = None,
    ) -> Float[Tensor, "*B"]:
        """Transform `scores` within the bounds; the mask is True where a position may be attended."""
        return self.function(scores, upper, lower, mask=mask, dim=self.dim)


class ConstrainedSoftmax(_ConstrainedNormalizer):
    """Module for `regard.functional.constrained_softmax`."""

    function = staticmethod(functional.constrained_softmax)


class ConstrainedSparsemax(_ConstrainedNormalizer):
    """Module for `regard.functional.constrained_sparsemax`."""

    function = staticmethod(functional.constrained_sparsemax)


class _Scan(nn.Module):
    """A constrained transformation over all time steps.

    Args:
        exhaustion: Exhaustion strength c >= 0; larger values prefer tokens with more remaining fertility.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, exhaustion: float = 0.0) -> None:
        super().__init__()
        self.exhaustion = exhaustion

    def forward(
        self,
        scores: Float[Tensor, "*B T S"],
        fertility: Float[Tensor, "*#B S"] | float | int,
        *,
        mask: Bool[Tensor, "*M S"] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """Compute the attention of every step; the mask is True where a token may be attended."""
        return self.function(scores, fertility, exhaustion=self.exhaustion, mask=mask)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"exhaustion={self.exhaustion:g}"


class ConstrainedSoftmaxScan(_Scan):
    """Module for `regard.functional.constrained_softmax_scan`."""

    function = staticmethod(functional.constrained_softmax_scan)


class ConstrainedSparsemaxScan(_Scan):
    """Module for `regard.functional.constrained_sparsemax_scan`."""

    function = staticmethod(functional.constrained_sparsemax_scan)
