"""A convolutional encoder for the recurrent decoder (Gehring et al. 2017a).

Two stacks read the embeddings e_j = w_j + p_j of words and positions: what the first makes of a word is what
queries are compared with, what the second makes is what contexts are expectations of (their Section 3),

    z = CNN-a(e),   c_t = sum_j a_tj CNN-c(e)_j,

the second the shallower. A layer is a convolution over the words around each, summed with its input:

    x' = tanh(W X_k + b + x)
"""

from typing import Literal

import torch
from torch import nn

from regard.config import config, option
from regard.layers.cells import CellState
from regard.layers.convolution import windows
from regard.layers.linear import Linear
from regard.layers.position import LearnedConfig, Positions
from regard.layers.precision import compute_dtype
from regard.types import Bool, Float, Int, Tensor

__all__ = ["ConvEncoder", "ConvEncoderConfig"]


@config
class ConvEncoderConfig:
    """A convolutional encoder of two stacks."""

    kind: Literal["conv"] = option(default="conv", help="The encoder: two stacks of convolutions.")
    layers: int = option(default=6, help="Layers of the stack that queries are compared with.", ge=1, le=256)
    value_layers: int = option(default=3, help="Layers of the stack that contexts are made of.", ge=1, le=256)
    width: int = option(default=500, help="Width of both.", ge=1, le=16_384)
    kernel: int = option(default=3, help="How many words a convolution sees: an odd number.", ge=1, le=255)
    positions: LearnedConfig = option(default=LearnedConfig, help="How words know where they stand.")


class ConvStack(nn.Module):
    """Convolutions, one above the other.

    Args:
        inputs: Width of the embeddings.
        config: Width and kernel.
        layers: How many.
    """

    def __init__(self, inputs: int, config: ConvEncoderConfig, layers: int) -> None:
        """Make the layers, with a linear map below where widths differ."""
        super().__init__()
        width = config.width
        self.each_side = config.kernel // 2
        self.enter = Linear(inputs, width) if inputs != width else None
        self.layers = nn.ModuleList(Linear(config.kernel * width, width) for _ in range(layers))

    def forward(self, x: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """The highest layer's states.

        Args:
            x: The embeddings.
            mask: True at real words: beyond them convolutions see zeros.
        """
        hidden = ~mask.unsqueeze(-1)
        x = x if self.enter is None else self.enter(x)
        x = x.to(compute_dtype(x))
        for layer in self.layers:
            x = x.masked_fill(hidden, 0.0)
            x = torch.tanh(layer(windows(x, self.each_side, self.each_side)) + x)
        return x


class ConvEncoder(nn.Module):
    """Two stacks, and positions.

    Args:
        config: Their sizes.
        inputs: Width of the embeddings.
    """

    def __init__(self, config: ConvEncoderConfig, inputs: int) -> None:
        """Build the stacks."""
        super().__init__()
        self.positions = Positions(config.positions, inputs)
        self.keys = ConvStack(inputs, config, config.layers)
        self.values = ConvStack(inputs, config, config.value_layers)

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"], list[CellState]]:
        """Encode.

        Args:
            x: The embeddings of words and positions.
            lengths: Words in each sentence.

        Returns:
            What contexts are made of; what queries are compared with; and, for the decoder's first state, the
            mean of the former, which stands for the states that a recurrence would end with.
        """
        mask = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)
        keys, values = self.keys(x, mask), self.values(x, mask)
        total = values.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)
        return values, keys, [(total / lengths.to(total).unsqueeze(1),)]
