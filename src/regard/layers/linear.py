"""A linear layer with weights stored as [in, out], and the dtype of matrix multiplications.

Parameters keep the dtype they are stored in. Matrix multiplications are computed in autocast's dtype if
autocast is enabled. Layers cast explicitly with these functions, because autocast leaves recurrent cells in
float32.
"""

import torch
from torch import nn

from regard.kernels.matmul import linear
from regard.types import Float, Tensor

__all__ = ["Linear", "compute_dtype", "to_compute"]


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """Return the dtype of matrix multiplications with `tensor`: autocast's if enabled, otherwise its own."""
    device = tensor.device.type
    if tensor.dtype.is_floating_point and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return tensor.dtype


def to_compute(tensor: Tensor) -> Tensor:
    """Cast `tensor` to its compute dtype; returns `tensor` itself if it has that dtype."""
    return tensor.to(compute_dtype(tensor))


class Linear(nn.Module):
    """x W + b, with W initialized by Xavier uniform (Glorot & Bengio, 2010) and b zero.

    Args:
        in_features: Width of x.
        out_features: Width of the result.
        num_parts: Number of layers of equal width whose results are concatenated; each is initialized
            separately.
        bias: Whether there is a bias b.
    """

    def __init__(self, in_features: int, out_features: int, num_parts: int = 1, bias: bool = True) -> None:
        """Create the parameters."""
        super().__init__()
        # The bound of Xavier's initialization depends on the output width, here that of one part.
        parts = [
            nn.init.xavier_uniform_(torch.empty(in_features, out_features // num_parts))
            for _ in range(num_parts)
        ]
        self.weight = nn.Parameter(torch.cat(parts, dim=1))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        weight, bias = self.weight, self.bias
        dtype = compute_dtype(weight)
        # Calls of `to` that change nothing would still take a measurable share of the time in search.
        if not x.dtype == weight.dtype == dtype or (bias is not None and bias.dtype != dtype):
            x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        return linear(x, weight, bias)
