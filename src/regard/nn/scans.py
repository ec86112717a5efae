"""Modules for the constrained transformations over all time steps."""

from torch import nn

from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan
from regard.types import Bool, Float, Tensor

__all__ = ["ConstrainedSoftmaxScan", "ConstrainedSparsemaxScan"]


class _Scan(nn.Module):
    """A constrained transformation over all time steps.

    Args:
        exhaustion: Exhaustion strength c >= 0; larger values prefer tokens with more remaining fertility.
    """

    def __init__(self, exhaustion: float = 0.0) -> None:
        super().__init__()
        self.exhaustion = exhaustion

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return f"exhaustion={self.exhaustion:g}"


class ConstrainedSoftmaxScan(_Scan):
    """Module for `regard.functional.constrained_softmax_scan`."""

    def forward(
        self,
        scores: Float[Tensor, "*B T S"],
        fertility: Float[Tensor, "*#B S"] | float | int,
        *,
        mask: Bool[Tensor, "*M S"] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """Compute the attention of every step; the mask is True where a token may be attended."""
        return constrained_softmax_scan(scores, fertility, exhaustion=self.exhaustion, mask=mask)


class ConstrainedSparsemaxScan(_Scan):
    """Module for `regard.functional.constrained_sparsemax_scan`."""

    def forward(
        self,
        scores: Float[Tensor, "*B T S"],
        fertility: Float[Tensor, "*#B S"] | float | int,
        *,
        mask: Bool[Tensor, "*M S"] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """Compute the attention of every step; the mask is True where a token may be attended."""
        return constrained_sparsemax_scan(scores, fertility, exhaustion=self.exhaustion, mask=mask)
