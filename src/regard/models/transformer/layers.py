"""The layers of `regard.models.transformer.model`: residual connections, encoder layers and decoder layers.

The layer normalization around a sublayer f is placed as in Vaswani et al. (2017), Section 3.1 (`post`), or as
in Xiong et al. (2020), which trains without a warm-up and with more layers (`pre`):

    post   LayerNorm(x + dropout(f(x)))
    pre    x + dropout(f(LayerNorm(x))), with one more LayerNorm after the last layer
"""

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Attention
from regard.attention.self_attention import KVCache, SelfAttention
from regard.layers.batched_state import BatchedState
from regard.layers.dropout import add_dropout, dropout, relu_dropout
from regard.layers.linear import Linear
from regard.models.stack_layer import LayerQuery, StackLayer
from regard.models.transformer.config import FeedForwardConfig, TransformerConfig
from regard.types import Bool, Float, Tensor

__all__ = ["DecoderLayer", "EncoderLayer", "LayerNorm"]


class LayerNorm(nn.Module):
    """Layer normalization (Ba et al., 2016), computed in float32 or float64.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        """Initialize the scale to 1 and the shift to 0."""
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Normalize to mean 0 and variance 1 along the last axis, then scale and shift."""
        scale, shift = self.scale, self.shift
        # Normalization in bfloat16 would be too inexact.
        if x.dtype != scale.dtype:
            x = x.to(torch.promote_types(x.dtype, scale.dtype))
            scale, shift = scale.to(x.dtype), shift.to(x.dtype)
        return torch.layer_norm(x, scale.shape, scale, shift)


class Residual(nn.Module):
    """The residual connection, layer normalization and dropout around a sublayer.

    Args:
        config: The configuration of the model.
    """

    def __init__(self, config: TransformerConfig) -> None:
        """Build the normalization."""
        super().__init__()
        self.norm = LayerNorm(config.d_model)
        self.pre = config.norm_position == "pre"
        self.dropout = config.dropout

    def prepare(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the input of the sublayer."""
        return self.norm(x) if self.pre else x

    def add(self, x: Float[Tensor, "*#B D"], output: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the result, given the sublayer's output `output`."""
        summed = add_dropout(x, output, self.dropout, self.training)
        return summed if self.pre else self.norm(summed)


class FeedForward(nn.Module):
    """The feed-forward network, FFN(x) = relu(x W1 + b1) W2 + b2 (Vaswani et al. (2017), Eq. 2).

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
        # ReLU and its dropout are a single operation, which needs one pass over memory on a CPU.
        if self.config.activation == "relu":
            return self.linear2(relu_dropout(hidden, self.config.dropout, self.training))
        return self.linear2(dropout(F.gelu(hidden), self.config.dropout, self.training))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

    Args:
        config: The configuration of the model.
        use_localness: Whether self-attention has a bias toward nearby positions.
    """

    def __init__(self, config: TransformerConfig, use_localness: bool) -> None:
        """Build the sublayers."""
        super().__init__()
        self.self_attention = SelfAttention(config.d_model, config.num_heads, use_localness)
        self.feed_forward = FeedForward(config.feed_forward, config.d_model)
        self.around_attention, self.around_feed = Residual(config), Residual(config)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], output_attentions: bool
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        """Return the states of the layer, and its self-attention if `output_attentions` is True."""
        attended, weights = self.self_attention(
            self.around_attention.prepare(x), mask, return_weights=output_attentions
        )
        x = self.around_attention.add(x, attended)
        return self.around_feed.add(x, self.feed_forward(self.around_feed.prepare(x))), weights


class DecoderLayer(StackLayer):
    """Causal self-attention, attention to the source, then the feed-forward network.

    Args:
        config: The configuration of the model.
        cross_attention: The mechanism of the attention to the source.
    """

    def __init__(self, config: TransformerConfig, cross_attention: Attention) -> None:
        """Build the sublayers."""
        super().__init__()
        self.self_attention = SelfAttention(config.d_model, config.num_heads)
        self.cross_attention = cross_attention
        self.feed_forward = FeedForward(config.feed_forward, config.d_model)
        self.around_attention, self.around_source = Residual(config), Residual(config)
        self.around_feed = Residual(config)

    def query(self, x: Tensor, embedded: Tensor, prepared: None, output_attentions: bool) -> LayerQuery:
        """Run self-attention over a whole target; its weights are returned if `output_attentions` is True."""
        attended, weights = self.self_attention(
            self.around_attention.prepare(x), None, return_weights=output_attentions
        )
        return self._query(self.around_attention.add(x, attended), weights)

    # `Tensor` without a shape, because an annotated shape would be parsed at each step.
    def step(
        self, x: Tensor, cache: BatchedState, embedded: Tensor, prepared: None
    ) -> tuple[LayerQuery, KVCache]:
        """Run self-attention for one more token."""
        assert isinstance(cache, KVCache)
        attended, cache = self.self_attention.step(self.around_attention.prepare(x), cache)
        return self._query(self.around_attention.add(x, attended)), cache

    def empty_cache(self, batch: int, prepared: None) -> KVCache:
        """Return an empty cache of the self-attention."""
        return self.self_attention.empty_cache(batch)

    def _query(self, x: Tensor, self_attention: Tensor | None = None) -> LayerQuery:
        return LayerQuery(x, self.around_source.prepare(x), self.finish, self_attention)

    def finish(self, x: Float[Tensor, "*#B D"], contexts: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the states of the layer, given the contexts of the attention to the source."""
        x = self.around_source.add(x, contexts)
        return self.around_feed.add(x, self.feed_forward(self.around_feed.prepare(x)))
