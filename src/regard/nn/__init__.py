"""Modules for the transformations, their scans over time steps and their losses.

Each module calls the function of the same name in `regard.functional`.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn

from regard import functional
from regard.functional.entmax import MAX_ALPHA, check_alpha
from regard.functional.fusedmax import check_strength
from regard.functional.losses import Reduction
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "ConstrainedSoftmax",
    "ConstrainedSoftmaxScan",
    "ConstrainedSparsemax",
    "ConstrainedSparsemaxScan",
    "Entmax",
    "Entmax15",
    "Entmax15Loss",
    "EntmaxLoss",
    "Fusedmax",
    "Softmax",
    "Sparsemax",
    "SparsemaxLoss",
]

MIN_LEARNED_ALPHA = 1.0 + 1e-3  # minimum of a learned alpha, because the formula divides by alpha - 1


class _Module(nn.Module):
    """A module that calls a function with its settings, the attributes that `settings` names."""

    # A static method of each subclass: a plain function in a class would get `self` as its scores.
    function: ClassVar[Callable[..., Tensor]]
    settings: ClassVar[tuple[str, ...]]

    def _call(self, *operands: Any, **options: Any) -> Tensor:
        return self.function(*operands, **options, **{name: getattr(self, name) for name in self.settings})

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)


class _AlongDimension(_Module):
    """A transformation along one dimension.

    Args:
        dim: The dimension that sums to 1.
    """

    settings = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class _Normalizer(_AlongDimension):
    """A transformation without bounds along one dimension."""

    def forward(
        self, scores: Float[Tensor, "*B"], *, mask: Bool[Tensor, "*#B"] | None = None
    ) -> Float[Tensor, "*B"]:
        """Transform `scores`; the mask is True where a position may be attended."""
        return self._call(scores, mask=mask)


class Softmax(_Normalizer):
    """Module for `regard.functional.softmax`."""

    function = staticmethod(functional.softmax)


class Sparsemax(_Normalizer):
    """Module for `regard.functional.sparsemax`."""

    function = staticmethod(functional.sparsemax)


class Entmax15(_Normalizer):
    """Module for `regard.functional.entmax15`."""

    function = staticmethod(functional.entmax15)


class Entmax(_Normalizer):
    """Module for `regard.functional.entmax`, with alpha fixed or learned: Correia et al. (2019), Section 3.

    Args:
        alpha: A value in (1, 4]; larger values give sparser results. The initial value if alpha is learned.
        dim: The dimension that sums to 1.
        learnable: Whether alpha is a parameter: alpha = 1 + 3 sigmoid(logit).

    Raises:
        ValueError: Alpha is not in (1, 4], or is learnable and too close to an end to receive a gradient.
    """

    function = staticmethod(functional.entmax)
    settings = ("alpha", "dim")
    logit: nn.Parameter | None

    def __init__(self, alpha: float = 1.5, dim: int = -1, *, learnable: bool = False) -> None:
        """Check alpha, and create a parameter if it is learned."""
        super().__init__(dim)
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

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        alpha = float(torch.as_tensor(self.alpha).detach())
        return f"alpha={alpha:g}, learnable={self.logit is not None}, dim={self.dim}"


class Fusedmax(_Normalizer):
    """Module for `regard.functional.fusedmax`.

    Args:
        strength: Strength lambda, at least 0; larger values make more weights equal.
        dim: The dimension that sums to 1.

    Raises:
        ValueError: The strength is negative, infinite or NaN.
    """

    function = staticmethod(functional.fusedmax)
    settings = ("strength", "dim")

    def __init__(self, strength: float = 0.1, dim: int = -1) -> None:
        """Check the strength."""
        super().__init__(dim)
        check_strength(strength)
        self.strength = strength


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
        return self._call(scores, upper, lower, mask=mask)


class ConstrainedSoftmax(_ConstrainedNormalizer):
    """Module for `regard.functional.constrained_softmax`."""

    function = staticmethod(functional.constrained_softmax)


class ConstrainedSparsemax(_ConstrainedNormalizer):
    """Module for `regard.functional.constrained_sparsemax`."""

    function = staticmethod(functional.constrained_sparsemax)


class _Scan(_Module):
    """A constrained transformation over all time steps.

    Args:
        exhaustion: Exhaustion strength c >= 0; larger values prefer tokens with more remaining fertility.
    """

    settings = ("exhaustion",)

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
        return self._call(scores, fertility, mask=mask)


class ConstrainedSoftmaxScan(_Scan):
    """Module for `regard.functional.constrained_softmax_scan`."""

    function = staticmethod(functional.constrained_softmax_scan)


class ConstrainedSparsemaxScan(_Scan):
    """Module for `regard.functional.constrained_sparsemax_scan`."""

    function = staticmethod(functional.constrained_sparsemax_scan)


class _Loss(_Module):
    """A loss over classes, with arguments like those of `torch.nn.CrossEntropyLoss`.

    Args:
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".
    """

    settings = ("ignore_index", "reduction")

    def __init__(self, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the transformation of the scores."""
        return self._call(scores, targets)


class SparsemaxLoss(_Loss):
    """Module for `regard.functional.sparsemax_loss`."""

    function = staticmethod(functional.sparsemax_loss)


class Entmax15Loss(_Loss):
    """Module for `regard.functional.entmax15_loss`."""

    function = staticmethod(functional.entmax15_loss)


class EntmaxLoss(_Loss):
    """Module for `regard.functional.entmax_loss`.

    Args:
        alpha: A value in (1, 4]. The other arguments are those of `SparsemaxLoss`.

    Raises:
        ValueError: Alpha is out of range.
    """

    function = staticmethod(functional.entmax_loss)
    settings = ("alpha", "ignore_index", "reduction")

    def __init__(self, alpha: float = 1.5, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        """Check alpha."""
        super().__init__(ignore_index, reduction)
        check_alpha(alpha)
        self.alpha = alpha
