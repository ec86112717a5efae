"""The position-wise feed-forward network, Vaswani et al. (2017), Eq. 2: FFN(x) = relu(x W1 + b1) W2 + b2."""

from typing import Literal

from torch import nn
from torch.nn import functional as F

from regard.config import configclass, option
from regard.layers.dropout import dropout, relu_dropout
from regard.layers.linear import Linear
from regard.types import Float, Tensor

__all__ = ["FeedForward", "FeedForwardConfig"]


@configclass
class FeedForwardConfig:
    """The feed-forward network of the Transformer layers."""

    ffn_size: int = option(default=2048, help="Width of the hidden layer.", ge=1, le=65_536)
    activation: Literal["relu", "gelu"] = option(
        default="relu", help="Activation function of the hidden layer."
    )
    dropout: float = option(default=0.0, help="Dropout probability of the hidden layer.", ge=0, lt=1)


class FeedForward(nn.Module):
    """The position-wise feed-forward network.

    Args:
        config: Settings of the hidden layer.
        d_model: Width of the input and of the result.
    """

    def __init__(self, config: FeedForwardConfig, d_model: int) -> None:
        """Create the parameters."""
        super().__init__()
        self.config = config
        self.linear1 = Linear(d_model, config.ffn_size)
        self.linear2 = Linear(config.ffn_size, d_model)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Apply the network to each position."""
        hidden = self.linear1(x)
        if self.config.activation == "relu":
            return self.linear2(relu_dropout(hidden, self.config.dropout, self.training))
        return self.linear2(dropout(F.gelu(hidden), self.config.dropout, self.training))
