"""The interface that the CPU and GPU kernels of the transformations share."""

from collections.abc import Callable
from dataclasses import dataclass

from regard.types import Tensor

__all__ = ["Backend"]


@dataclass(frozen=True)
class Backend:
    """The forward and backward passes of the transformations, on one kind of device.

    Attributes:
        forward: Transform the rows of scores, [..., S]. Returns the weights, and the status of each position
            for normalizers with bounds.
        backward: Compute the gradients of the scores and, on request, of the upper and lower bounds.
        scan_forward: Transform the scores of all time steps of a sentence in turn, [B, T, S]. The weights of
            a step are subtracted from the fertilities. Returns the weights and the status.
        scan_backward: Compute the gradients of the scores and of the fertilities.
    """

    forward: Callable[..., tuple[Tensor, Tensor | None]]
    backward: Callable[..., tuple[Tensor, Tensor | None, Tensor | None]]
    scan_forward: Callable[..., tuple[Tensor, Tensor]]
    scan_backward: Callable[..., tuple[Tensor, Tensor]]
