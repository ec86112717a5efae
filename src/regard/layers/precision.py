"""The dtype of a layer's matrix multiplications, with support for autocast.

Parameters keep the dtype they are stored in. Matrix multiplications are computed in autocast's dtype if
autocast is enabled. Layers cast explicitly with these functions, because autocast leaves recurrent cells in
float32.
"""

import torch

from regard.types import Tensor

__all__ = ["compute_dtype", "to_compute"]


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix multiplications with `tensor`: autocast's if enabled, otherwise its own."""
    device = tensor.device.type
    if tensor.dtype.is_floating_point and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def to_compute(tensor: Tensor) -> Tensor:
    """Cast `tensor` to its compute dtype; returns `tensor` itself if it has that dtype."""
    return tensor.to(compute_dtype(tensor))
