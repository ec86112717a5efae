"""Convolutions over a text, and linear maps, with normalised weights.

A weight w of an output is stored as a direction v and a length g (weight normalisation, Salimans & Kingma
2016, Eq. 2):

    w = g v / |v|

A convolution of kernel k is the same map applied to each window of k words, side by side. What a forward pass
or a search needs of a map, w itself, is made once: `open`.
"""

from dataclasses import dataclass

import torch
from torch import nn

from regard.kernels.int8 import is_kept, keep_int8
from regard.kernels.products import linear
from regard.layers.precision import to_compute
from regard.types import Float, Tensor

__all__ = ["NormalisedLinear", "OpenLinear", "windows"]


@dataclass(frozen=True)
class OpenLinear:
    """x w + b, with w made.

    Attributes:
        weight: [in, out], in the compute dtype.
        bias: [out], in the same, or none.
    """

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, "O"] | None

    def __call__(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """The product, in the compute dtype."""
        return linear(x.to(self.weight.dtype), self.weight, self.bias)


class NormalisedLinear(nn.Module):
    """x w + b with w = g v / |v| for each output; v from N(0, gain / inputs), g its length, b zero.

    Args:
        inputs: Width of x.
        outputs: Width of the result.
        gain: By how much the variance of what comes out exceeds that of what goes in.
        bias: Whether there is b.
    """

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0, bias: bool = True) -> None:
        """Draw the directions."""
        super().__init__()
        self.direction = nn.Parameter(
            nn.init.normal_(torch.empty(inputs, outputs), 0, (gain / inputs) ** 0.5)
        )
        self.length = nn.Parameter(self.direction.detach().norm(dim=0))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    @property
    def weight(self) -> Float[Tensor, "I O"]:
        """w, in the precision that v is stored in; its products are in eight bits where v's are to be."""
        made = self.direction * (self.length / self.direction.norm(dim=0))
        if is_kept(self.direction):
            keep_int8([made])
        return made

    def open(self) -> OpenLinear:
        """Make w, for all products of a forward pass or of a search."""
        weight = to_compute(self.weight)
        return OpenLinear(weight, None if self.bias is None else self.bias.to(weight.dtype))

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """The product, in the compute dtype."""
        return self.open()(x)


def windows(x: Float[Tensor, "B T D"], before: int, after: int) -> Float[Tensor, "B T W"]:
    """Each word with its neighbours, side by side, from the first to the last; beyond the text are zeros.

    Args:
        x: The words.
        before: How many neighbours on the left.
        after: How many on the right.
    """
    if not before and not after:
        return x
    padded = nn.functional.pad(x, (0, 0, before, after))
    return torch.cat([padded[:, i : i + x.shape[1]] for i in range(before + after + 1)], dim=-1)
