"""Modules for the losses of sparse output distributions, with arguments like `torch.nn.CrossEntropyLoss`."""

from torch import nn

from regard.functional import entmax15_loss, sparsemax_loss
from regard.functional.losses import Reduction
from regard.types import Float, Int, Tensor

__all__ = ["Entmax15Loss", "SparsemaxLoss"]


class _Loss(nn.Module):
    """A loss over classes.

    Args:
        ignore_index: Target of ignored positions.
        reduction: "mean" over the targets that are not ignored, "sum" or "none".
    """

    def __init__(self, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"ignore_index={self.ignore_index}, reduction={self.reduction!r}"


class SparsemaxLoss(_Loss):
    """Module for `regard.functional.sparsemax_loss`."""

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the sparsemax of the scores."""
        return sparsemax_loss(scores, targets, ignore_index=self.ignore_index, reduction=self.reduction)


class Entmax15Loss(_Loss):
    """Module for `regard.functional.entmax15_loss`."""

    def forward(self, scores: Float[Tensor, "*N V"], targets: Int[Tensor, "*N"]) -> Float[Tensor, "*#N"]:
        """Compute the loss of the targets under the 1.5-entmax of the scores."""
        return entmax15_loss(scores, targets, ignore_index=self.ignore_index, reduction=self.reduction)
