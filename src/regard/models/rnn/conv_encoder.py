"""A convolutional encoder for the recurrent decoder (Gehring et al., 2017a).

Two stacks of convolutions read the embeddings e_j = w_j + p_j of tokens and positions. The first stack
computes the keys, the second, shallower one computes the values (Section 3 of the paper):

    z = CNN-a(e),   c_t = sum_j a_tj CNN-c(e)_j.

A layer is a convolution over a window X_k around each token, with a residual connection:

    x' = tanh(W X_k + b + x)
"""

from typing import Literal

import torch
from torch import nn

from regard.config import configclass, option
from regard.layers.cells import CellState
from regard.layers.convolution import concatenate_windows
from regard.layers.linear import Linear
from regard.layers.position_encoding import LearnedPositionConfig, PositionEncoding
from regard.layers.precision import compute_dtype
from regard.types import Bool, Float, Int, Tensor

__all__ = ["ConvEncoder", "ConvEncoderConfig"]


@configclass
class ConvEncoderConfig:
    """A convolutional encoder with two stacks."""

    kind: Literal["conv"] = option(
        default="conv",
        help="Two stacks of convolutions, which compute the attention keys and the values (Gehring et al., "
        "2017a).",
    )
    num_layers: int = option(default=6, help="Number of layers of the key stack.", ge=1, le=256)
    num_value_layers: int = option(default=3, help="Number of layers of the value stack.", ge=1, le=256)
    hidden_size: int = option(default=500, help="Hidden size of both stacks.", ge=1, le=16_384)
    kernel_size: int = option(
        default=3, help="Kernel size of the convolutions, in tokens; an odd number.", ge=1, le=255
    )
    position_encoding: LearnedPositionConfig = option(
        default=LearnedPositionConfig, help="Position encoding."
    )


class ConvStack(nn.Module):
    """A stack of convolutional layers.

    Args:
        inputs: Embedding size.
        config: Hidden size and kernel size.
        layers: Number of layers.
    """

    def __init__(self, inputs: int, config: ConvEncoderConfig, layers: int) -> None:
        """Build the layers, with an input projection if the sizes differ."""
        super().__init__()
        width = config.hidden_size
        # Padding on each side that preserves the length.
        self.padding = config.kernel_size // 2
        self.input_proj = Linear(inputs, width) if inputs != width else None
        self.layers = nn.ModuleList(Linear(config.kernel_size * width, width) for _ in range(layers))

    def forward(self, x: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the states of the highest layer.

        Args:
            x: The embeddings.
            mask: True at real tokens. The convolutions see zeros at padding.
        """
        padding = ~mask.unsqueeze(-1)
        x = x if self.input_proj is None else self.input_proj(x)
        x = x.to(compute_dtype(x))
        for layer in self.layers:
            # In every layer, since a convolution writes into neighboring padding.
            x = x.masked_fill(padding, 0.0)
            x = torch.tanh(layer(concatenate_windows(x, self.padding, self.padding)) + x)
        return x


class ConvEncoder(nn.Module):
    """Two convolutional stacks (keys and values), and learned positions.

    Args:
        config: The configuration.
        inputs: Embedding size.
    """

    def __init__(self, config: ConvEncoderConfig, inputs: int) -> None:
        """Build the stacks."""
        super().__init__()
        self.positions = PositionEncoding(config.position_encoding, inputs)
        self.keys = ConvStack(inputs, config, config.num_layers)
        self.values = ConvStack(inputs, config, config.num_value_layers)

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B S D"], list[CellState]]:
        """Encode a batch of sentences.

        Args:
            x: The sums of token and position embeddings.
            lengths: Number of tokens in each sentence.

        Returns:
            The values; the keys; and the mean of the values, from which the decoder's initial state is
            computed instead of the final states of a recurrent encoder.
        """
        mask = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)
        keys, values = self.keys(x, mask), self.values(x, mask)
        # Mean over real tokens only.
        total = values.masked_fill(~mask.unsqueeze(-1), 0.0).sum(1)
        return values, keys, [(total / lengths.to(total).unsqueeze(1),)]
