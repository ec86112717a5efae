"""Modules for the losses of sparse output distributions.

Each module calls the function of the same name in `regard.functional`.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import nn

from regard import functional
from regard.functional.entmax import check_alpha
from regard.functional.losses import Reduction
from regard.functional.normmax import check_norm_alpha
from regard.nn.modules import check_count
from regard.types import Float, Int, Tensor

__all__ = ["Entmax15Loss", "EntmaxLoss", "NormmaxLoss", "SparsemaxLoss"]


class _Loss(nn.Module):
    """A loss over classes, with arguments like those of `torch.nn.CrossEntropyLoss`.

    Args:
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the transformation of the scores."""
        return self.function(scores, targets, ignore_index=self.ignore_index, reduction=self.reduction)

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"ignore_index={self.ignore_index}, reduction={self.reduction!r}"


class _TopLoss(_Loss):
    """A loss that can be restricted to the largest scores.

    Args:
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".
        k: The number of largest scores to which the computation is first restricted; see
            `regard.functional.sparsemax`. Default: None, all scores at once.

    Raises:
        ValueError: k is less than 1.
    """

    def __init__(
        self, ignore_index: int = -100, reduction: Reduction = "mean", *, k: int | None = None
    ) -> None:
        super().__init__(ignore_index, reduction)
        check_count(k)
        self.k = k

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the transformation of the scores."""
        return self.function(
            scores, targets, k=self.k, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return super().extra_repr() + ("" if self.k is None else f", k={self.k}")


class SparsemaxLoss(_TopLoss):
    """Module for `regard.functional.sparsemax_loss`."""

    function = staticmethod(functional.sparsemax_loss)


class Entmax15Loss(_TopLoss):
    """Module for `regard.functional.entmax15_loss`."""

    function = staticmethod(functional.entmax15_loss)


class _AlphaLoss(_Loss):
    """A loss with a parameter alpha, given before those of `_Loss`."""

    def __init__(self, alpha: float, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__(ignore_index, reduction)
        self.alpha = alpha

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the transformation of the scores."""
        return self.function(
            scores, targets, self.alpha, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"alpha={self.alpha:g}, {super().extra_repr()}"


class EntmaxLoss(_AlphaLoss):
    """Module for `regard.functional.entmax_loss`.

    Args:
        alpha: A value in (1, 4].
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".

    Raises:
        ValueError: Alpha is out of range.
    """

    function = staticmethod(functional.entmax_loss)

    def __init__(self, alpha: float = 1.5, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        """Check alpha."""
        check_alpha(alpha)
        super().__init__(alpha, ignore_index, reduction)


class NormmaxLoss(_AlphaLoss):
    """Module for `regard.functional.normmax_loss`.

    Args:
        alpha: A value in (1, 10,000].
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".

    Raises:
        ValueError: Alpha is out of range.
    """

    function = staticmethod(functional.normmax_loss)

    def __init__(self, alpha: float = 2.0, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        """Check alpha."""
        check_norm_alpha(alpha)
        super().__init__(alpha, ignore_index, reduction)
