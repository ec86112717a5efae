"""Convolutions over a sequence, and linear layers, with weight normalization.

The weight w of an output is stored as a direction v and a length g, Salimans & Kingma (2016), Eq. 2:

    w = g v / |v|

A convolution with kernel size k applies the same linear layer to each window of k concatenated tokens.
`prepare` computes w once for a forward pass or a search.
"""

from dataclasses import dataclass

import torch
from torch import nn

from regard.kernels.matmul import linear
from regard.layers.linear import to_compute
from regard.types import Float, Tensor

__all__ = ["PreparedLinear", "WeightNormLinear", "concatenate_windows"]


@dataclass(frozen=True)
class PreparedLinear:
    """x w + b, with the weight w computed.

    Attributes:
        weight: [in, out], in the compute dtype.
        bias: [out], in the compute dtype, or None.
    """

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, "O"] | None

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias)


class WeightNormLinear(nn.Module):
    """x w + b with w = g v / |v| for each output.

    Initially v is sampled from N(0, gain / inputs), g is the length of v and b is zero.

    Args:
        in_features: Width of x.
        out_features: Width of the result.
        gain: Ratio of the variance of the result to the variance of x, after initialization.
        bias: Whether there is a bias b.
    """

    def __init__(self, in_features: int, out_features: int, gain: float = 1.0, bias: bool = True) -> None:
        """Initialize the parameters."""
        super().__init__()
        self.weight_v = nn.Parameter(
            nn.init.normal_(torch.empty(in_features, out_features), 0, (gain / in_features) ** 0.5)
        )
        self.weight_g = nn.Parameter(self.weight_v.detach().norm(dim=0))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    @property
    def weight(self) -> Float[Tensor, "I O"]:
        """The weight w, in the dtype of v."""
        return self.weight_v * (self.weight_g / self.weight_v.norm(dim=0))

    def prepare(self) -> PreparedLinear:
        """Compute w, for all matrix multiplications of a forward pass or a search."""
        weight = to_compute(self.weight)
        return PreparedLinear(weight, None if self.bias is None else self.bias.to(weight.dtype))

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply the layer, in the compute dtype."""
        return self.prepare()(x)


def concatenate_windows(x: Float[Tensor, "B T D"], before: int, after: int) -> Float[Tensor, "B T W"]:
    """Concatenate each token with its neighbors, from left to right; positions outside are zeros.

    Args:
        x: The token representations.
        before: Number of neighbors on the left.
        after: Number of neighbors on the right.
    """
    if not before and not after:
        return x
    padded = nn.functional.pad(x, (0, 0, before, after))
    return torch.cat([padded[:, i : i + x.shape[1]] for i in range(before + after + 1)], dim=-1)
