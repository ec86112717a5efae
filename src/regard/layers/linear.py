"""A linear map whose weights are stored [in, out] and whose products are made in the compute dtype."""

import torch
from torch import nn

from regard.kernels.products import linear
from regard.layers.precision import compute_dtype
from regard.types import Float, Tensor

__all__ = ["Linear"]


class Linear(nn.Module):
    """x W + b, W drawn uniformly as Glorot & Bengio (2010) say, b zero.

    Args:
        inputs: Width of x.
        outputs: Width of the result.
        parts: The result stands for so many maps side by side, each drawn for a width of its own share.
        bias: Whether there is b.
    """

    def __init__(self, inputs: int, outputs: int, parts: int = 1, bias: bool = True) -> None:
        """Make the parameters."""
        super().__init__()
        each = [nn.init.xavier_uniform_(torch.empty(inputs, outputs // parts)) for _ in range(parts)]
        self.weight = nn.Parameter(torch.cat(each, dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """The product, in the compute dtype."""
        weight, bias = self.weight, self.bias
        dtype = compute_dtype(weight)
        # Casts to what is there already would add up in search.
        if not x.dtype == weight.dtype == dtype or (bias is not None and bias.dtype != dtype):
            x, weight, bias = x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        return linear(x, weight, bias)
