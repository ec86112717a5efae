"""The layers behind `regard.models.transformer`: residual sums, encoder and decoder layers.

A sublayer f is put around x as in Vaswani et al. (2017), Section 3.1 (`post`), or as in Xiong et al. (2020),
which trains without a warm-up and in deeper stacks (`pre`):

    post   LayerNorm(x + dropout(f(x)))
    pre    x + dropout(f(LayerNorm(x))), and one more LayerNorm after the last layer
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Attention
from regard.attention.cache import Cache
from regard.attention.self_attention import SelfAttention
from regard.layers.dropout import add_dropout
from regard.layers.feedforward import FeedForward, FeedForwardConfig
from regard.models.stack import Asking
from regard.types import Bool, Float, Tensor

__all__ = ["DecoderLayer", "EncoderLayer", "LayerShape", "Norm"]


@dataclass(frozen=True)
class LayerShape:
    """What all layers of a model share.

    Attributes:
        width: D.
        heads: H.
        feed_forward: The feed-forward network.
        norm: Where sublayers are normalised.
        dropout: Probability of dropping a number that a sublayer found.
        local: Whether self-attention has a bias towards near words.
    """

    width: int
    heads: int
    feed_forward: FeedForwardConfig
    norm: Literal["post", "pre"]
    dropout: float
    local: bool = False


class Norm(nn.Module):
    """Layer normalisation (Ba et al. 2016), in float32 at least.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        """Scale 1, shift 0."""
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Mean 0 and variance 1 along the last axis, scaled and shifted."""
        scale, shift = self.scale, self.shift
        if x.dtype != scale.dtype:
            x = x.to(torch.promote_types(x.dtype, scale.dtype))
            scale, shift = scale.to(x.dtype), shift.to(x.dtype)
        return torch.layer_norm(x, scale.shape, scale, shift)


class Residual(nn.Module):
    """What stands around a sublayer.

    Args:
        shape: Width, place of the normalisation, dropout.
    """

    def __init__(self, shape: LayerShape) -> None:
        """Make the normalisation."""
        super().__init__()
        self.norm = Norm(shape.width)
        self.pre = shape.norm == "pre"
        self.dropout = shape.dropout

    def before(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """What the sublayer reads."""
        return self.norm(x) if self.pre else x

    def after(self, x: Float[Tensor, "*#B D"], found: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """What goes on, given what the sublayer found."""
        summed = add_dropout(x, found, self.dropout, self.training)
        return summed if self.pre else self.norm(summed)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

    Args:
        shape: Its sizes.
    """

    def __init__(self, shape: LayerShape) -> None:
        """Build the sublayers."""
        super().__init__()
        self.attention = SelfAttention(shape.width, shape.heads, shape.local)
        self.feed = FeedForward(shape.feed_forward, shape.width)
        self.around_attention, self.around_feed = Residual(shape), Residual(shape)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], look: bool
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        """The layer's states, and its attention where it is looked at."""
        found, weights = self.attention(self.around_attention.before(x), mask, look=look)
        x = self.around_attention.after(x, found)
        return self.around_feed.after(x, self.feed(self.around_feed.before(x))), weights


class DecoderLayer(nn.Module):
    """Self-attention to the words before, attention to the source, then the feed-forward network.

    Args:
        shape: Its sizes.
        source: Attention to the source.
    """

    def __init__(self, shape: LayerShape, source: Attention) -> None:
        """Build the sublayers."""
        super().__init__()
        self.attention = SelfAttention(shape.width, shape.heads, shape.local)
        self.source = source
        self.feed = FeedForward(shape.feed_forward, shape.width)
        self.around_attention, self.around_source = Residual(shape), Residual(shape)
        self.around_feed = Residual(shape)

    def ask(self, x: Float[Tensor, "B T D"], look: bool) -> Asking:
        """Self-attention over a whole text, its weights where they are looked at."""
        found, weights = self.attention(self.around_attention.before(x), None, look=look)
        return self._asking(self.around_attention.after(x, found), weights)

    def advance(self, x: Float[Tensor, "B D"], cache: Cache) -> tuple[Asking, Cache]:
        """The same of one more word."""
        found, cache = self.attention.step(self.around_attention.before(x), cache)
        return self._asking(self.around_attention.after(x, found)), cache

    def _asking(self, x: Tensor, seen: Tensor | None = None) -> Asking:
        return Asking(x, self.around_source.before(x), self.finish, seen)

    def finish(self, x: Float[Tensor, "*#B D"], contexts: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """The layer's states, given what was read of the source."""
        x = self.around_source.after(x, contexts)
        return self.around_feed.after(x, self.feed(self.around_feed.before(x)))
