"""The position-wise feed-forward network, Vaswani et al. (2017), Eq. 2: FFN(x) = relu(x W1 + b1) W2 + b2."""

from typing import Literal

from torch import nn
from torch.nn import functional as F

from regard.config import config, option
from regard.layers.dropout import dropout, relu_dropout
from regard.layers.linear import Linear
from regard.types import Float, Tensor

__all__ = ["FeedForward", "FeedForwardConfig"]


@config
class FeedForwardConfig:
    """The feed-forward network of the Transformer layers."""

    width: int = option(default=2048, help="Width of the hidden layer.", ge=1, le=65_536)
    activation: Literal["relu", "gelu"] = option(
        default="relu", help="Activation function of the hidden layer."
    )
    dropout: float = option(default=0.0, help="Dropout probability of the hidden layer.", ge=0, lt=1)


class FeedForward(nn.Module):
    """The position-wise feed-forward network.

    Args:
        config: Settings of the hidden layer.
        width: Width of the input and of the result.
    """

    def __init__(self, config: FeedForwardConfig, width: int) -> None:
        """Create the parameters."""
        super().__init__()
        self.config = config
        self.enter = Linear(width, config.width)
        self.leave = Linear(config.width, width)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Apply the network to each position."""
        hidden = self.enter(x)
        if self.config.activation == "relu":
            return self.leave(relu_dropout(hidden, self.config.dropout, self.training))
        return self.leave(dropout(F.gelu(hidden), self.config.dropout, self.training))
