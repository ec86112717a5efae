"""The constrained maps over the steps of decoding as modules."""

from torch import nn

from regard.functional import constrained_softmax_scan, constrained_sparsemax_scan
from regard.types import Bool, Float, Tensor

__all__ = ["ConstrainedSoftmaxScan", "ConstrainedSparsemaxScan"]


class _Scan(nn.Module):
    """A constrained map over steps.

    Args:
        exhaustion: c >= 0: how strongly words with much of their fertility left are preferred.
    """

    def __init__(self, exhaustion: float = 0.0) -> None:
        super().__init__()
        self.exhaustion = exhaustion

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"exhaustion={self.exhaustion:g}"


class ConstrainedSoftmaxScan(_Scan):
    """`regard.functional.constrained_softmax_scan` as a module."""

    def forward(
        self,
        scores: Float[Tensor, "*B T S"],
        fertility: Float[Tensor, "*#B S"] | float | int,
        *,
        mask: Bool[Tensor, "*M S"] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """The attention of every step; the mask is True where a word may be attended."""
        return constrained_softmax_scan(scores, fertility, exhaustion=self.exhaustion, mask=mask)


class ConstrainedSparsemaxScan(_Scan):
    """`regard.functional.constrained_sparsemax_scan` as a module."""

    def forward(
        self,
        scores: Float[Tensor, "*B T S"],
        fertility: Float[Tensor, "*#B S"] | float | int,
        *,
        mask: Bool[Tensor, "*M S"] | None = None,
    ) -> Float[Tensor, "*B T S"]:
        """The attention of every step; the mask is True where a word may be attended."""
        return constrained_sparsemax_scan(scores, fertility, exhaustion=self.exhaustion, mask=mask)
