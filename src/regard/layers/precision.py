"""The precision in which the products of a layer are made.

Parameters stay in the precision they are stored in; products are made in autocast's where autocast is on.
Layers ask here and cast explicitly, because autocast leaves recurrent cells in float32.
"""

import torch

from regard.types import Tensor

__all__ = ["compute_dtype", "to_compute"]


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which a product with `tensor` is made: autocast's if it is on, else the tensor's own."""
    device = tensor.device.type
    if tensor.dtype.is_floating_point and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def to_compute(tensor: Tensor) -> Tensor:
    """`tensor` in its compute dtype; itself where that is its own."""
    return tensor.to(compute_dtype(tensor))
