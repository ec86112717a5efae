"""A linear layer with weights stored as [in, out] and computed in autocast's dtype, if there is one."""

import torch
from torch import nn

from regard.kernels.matmul import linear
from regard.layers.precision import compute_dtype
from regard.types import Float, Tensor

__all__ = ["Linear"]


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
