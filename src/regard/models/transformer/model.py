"""The Transformer (Vaswani et al., 2017), with any attention mechanism as cross-attention.

Each decoder layer has its own mechanism, applied to H heads (`regard.attention.multihead`). A mechanism with
several contexts is allowed only in the last layer. The rest of that layer and the distribution over the next
token are then computed for each context.

The layer normalization around a sublayer f is placed as in Vaswani et al. (2017), Section 3.1 (`post`), or as
in Xiong et al. (2020), which trains without a warm-up and with more layers (`pre`):

    post   LayerNorm(x + dropout(f(x)))
    pre    x + dropout(f(LayerNorm(x))), with one more LayerNorm after the last layer
"""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Attention, Memory
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, attention_class, build_attention
from regard.attention.self_attention import KVCache, SelfAttention
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.data.batch import PaddedSequences
from regard.errors import ConfigError
from regard.kernels.dropout import dropout
from regard.layers.batched_state import BatchedState
from regard.layers.linear import Linear, compute_dtype
from regard.layers.position_encoding import PositionEncoding, PositionEncodingConfig, SinusoidalPositionConfig
from regard.models.base import TIE_EMBEDDINGS_HELP, Memories
from regard.models.registry import register_model
from regard.models.stack import OpenStack, StackModel
from regard.models.stack_layer import (
    ATTENTION_HELP,
    LAYER_ATTENTION_HELP,
    LayerQuery,
    StackLayer,
    check_exclusive,
    check_stack,
    layer_mechanisms,
    normal_embedding,
)
from regard.types import Bool, Float, Tensor


@configclass
class FeedForwardConfig:
    """The feed-forward network of the Transformer layers."""

    ffn_size: int = option(default=2048, help="Width of the hidden layer.", ge=1, le=65_536)
    dropout: float = option(default=0.0, help="Dropout probability of the hidden layer.", ge=0, lt=1)


@configclass
class TransformerEncoderConfig:
    """The encoder of a Transformer."""

    num_layers: int = option(default=6, help="Number of layers.", ge=1, le=256)
    num_localness_layers: int = option(
        default=0,
        help="Number of layers, counted from the lowest, whose self-attention has a learned bias toward "
        "nearby positions (Yang et al., 2018, use 3). 0 disables the bias.",
        ge=0,
        le=256,
    )


@configclass
class TransformerDecoderConfig:
    """The decoder of a Transformer."""

    num_layers: int = option(default=6, help="Number of layers.", ge=1, le=256)


@configclass
class TransformerConfig:
    """A Transformer. The defaults are the base model of Vaswani et al. (2017), Table 3."""

    kind: Literal["transformer"] = option(default="transformer", help="A Transformer.")
    d_model: int = option(
        default=512, help="Model dimension (d_model), a multiple of `num_heads`.", ge=2, le=16_384
    )
    num_heads: int = option(default=8, help="Number of attention heads.", ge=1, le=256)
    feed_forward: FeedForwardConfig = option(default=FeedForwardConfig, help="The feed-forward networks.")
    encoder: TransformerEncoderConfig = option(default=TransformerEncoderConfig, help="The encoder.")
    decoder: TransformerDecoderConfig = option(default=TransformerDecoderConfig, help="The decoder.")
    norm_position: Literal["post", "pre"] = option(
        default="post",
        help="Layer normalization after each residual sum, as in the paper (post), or before each sublayer "
        "(pre).",
    )
    position_encoding: PositionEncodingConfig = option(
        default=SinusoidalPositionConfig, help="Position encoding."
    )
    attention: AttentionConfig = option(default=SoftAttentionConfig, help=ATTENTION_HELP)
    layer_attention: tuple[AttentionConfig, ...] = option(default=(), help=LAYER_ATTENTION_HELP)
    dropout: float = option(
        default=0.1, help="Dropout probability on embeddings and on the output of each sublayer.", ge=0, lt=1
    )
    tie_embeddings: Literal["none", "decoder", "all"] = option(default="decoder", help=TIE_EMBEDDINGS_HELP)

    def __post_init__(self) -> None:
        """Check that `attention` and `layer_attention` are not both set."""
        check_exclusive(self)


class LayerNorm(nn.Module):
    """Layer normalization (Ba et al., 2016), computed in float32 or float64."""

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
    """The residual connection, layer normalization and dropout around a sublayer."""

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
        summed = dropout(output, self.dropout, self.training, residual=x)
        return summed if self.pre else self.norm(summed)


class FeedForward(nn.Module):
    """The feed-forward network, FFN(x) = relu(x W1 + b1) W2 + b2 (Vaswani et al. (2017), Eq. 2)."""

    def __init__(self, config: FeedForwardConfig, d_model: int) -> None:
        """Create the parameters."""
        super().__init__()
        self.dropout = config.dropout
        self.linear1 = Linear(d_model, config.ffn_size)
        self.linear2 = Linear(config.ffn_size, d_model)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Apply the network to each position."""
        # ReLU and its dropout are a single operation, which needs one pass over memory on a CPU.
        return self.linear2(dropout(self.linear1(x), self.dropout, self.training, relu=True))


class EncoderLayer(nn.Module):
    """Self-attention, with or without a bias toward nearby positions, then the feed-forward network."""

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
    """Causal self-attention, attention to the source, then the feed-forward network."""

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
        x = self.around_attention.add(x, attended)
        return LayerQuery(x, self.around_source.prepare(x), self.finish, weights)

    # `Tensor` without a shape, because an annotated shape would be parsed at each step.
    def step(
        self, x: Tensor, cache: BatchedState, embedded: Tensor, prepared: None
    ) -> tuple[LayerQuery, KVCache]:
        """Run self-attention for one more token."""
        assert isinstance(cache, KVCache)
        attended, cache = self.self_attention.step(self.around_attention.prepare(x), cache)
        x = self.around_attention.add(x, attended)
        return LayerQuery(x, self.around_source.prepare(x), self.finish), cache

    def empty_cache(self, batch: int, prepared: None) -> KVCache:
        """Return an empty cache of the self-attention."""
        weight = self.self_attention.in_proj.weight
        # The compute dtype may be bfloat16.
        return KVCache.empty(batch, weight.new_empty(0, 2 * len(weight), dtype=compute_dtype(weight)))

    def finish(self, x: Float[Tensor, "*#B D"], contexts: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Return the states of the layer, given the contexts of the attention to the source."""
        x = self.around_source.add(x, contexts)
        return self.around_feed.add(x, self.feed_forward(self.around_feed.prepare(x)))


class SourceEncoder(nn.Module, ABC):
    """Base class of pre-trained encoders that replace a Transformer's encoder."""

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """Maximum number of source tokens, sinks included. None means no maximum."""

    @abstractmethod
    def forward(
        self, source: PaddedSequences, output_attentions: bool
    ) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states and, with `output_attentions`, the self-attention of each layer, [B, H, S, S]."""

    @abstractmethod
    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return the names of the pre-trained parameters; see `TranslationModel.pretrained_parameters`."""


@register_model("transformer", TransformerConfig)
class TransformerModel(StackModel):
    """The model that a `TransformerConfig` describes; a pre-trained encoder replaces that of the config.

    Raises:
        ConfigError: if parts of the configuration are incompatible.
    """

    def __init__(
        self,
        config: TransformerConfig,
        source_size: int,
        target_size: int,
        pretrained_encoder: SourceEncoder | None = None,
    ) -> None:
        """Build the parts."""
        super().__init__()
        if config.d_model % config.num_heads:
            raise ConfigError(
                f"model.d_model = {config.d_model} is not a multiple of model.num_heads = {config.num_heads}"
            )
        check_stack(config)
        self.config, self.pretrained_encoder = config, pretrained_encoder
        # Embeddings from N(0, 1/D) are multiplied by sqrt(D) when used (Section 3.4).
        std, self.embedding_scale = config.d_model**-0.5, math.sqrt(config.d_model)
        if pretrained_encoder is None:
            self.source_embedding = normal_embedding(source_size, config.d_model, std)
        self.target_embedding = (
            self.source_embedding
            if config.tie_embeddings == "all"
            else normal_embedding(target_size, config.d_model, std)
        )
        self.source_positions = PositionEncoding(config.position_encoding, config.d_model)
        self.target_positions = PositionEncoding(config.position_encoding, config.d_model)
        layers = range(config.encoder.num_layers if pretrained_encoder is None else 0)
        # Localness is applied in the lowest layers only.
        self.encoder = nn.ModuleList(
            EncoderLayer(config, i < config.encoder.num_localness_layers) for i in layers
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(config, self._source_attention(attention)) for attention in layer_mechanisms(config)
        )
        # With pre-norm the residual stream is not normalized, so one more LayerNorm follows each stack.
        pre = config.norm_position == "pre"
        self.encoder_norm = LayerNorm(config.d_model) if pre and pretrained_encoder is None else nn.Identity()
        self.decoder_norm = LayerNorm(config.d_model) if pre else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = None
        if config.tie_embeddings == "none":
            weight = torch.empty(target_size, config.d_model)
            self.output = nn.Parameter(nn.init.normal_(weight, 0, std))
        last = self._layers()[-1].cross_attention
        self.objective, self.reward = last.objective, last.reward

    def _source_attention(self, config: AttentionConfig) -> Attention:
        """Return a multi-head mechanism, or a single-head one if it has its own projections."""
        width, heads = self.config.d_model, self.config.num_heads
        # Mechanisms with projections of their own are not split into heads.
        if attention_class(config).has_projections:
            return build_attention(config, width, width, width)
        return MultiHeadAttention(config, width, width, heads, width)

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the learned positions; see `TranslationModel.max_length`."""
        return super().max_length if self.pretrained_encoder is None else self.pretrained_encoder.max_length

    def pretrained_parameters(self) -> tuple[str, ...]:
        """Return those of a pre-trained encoder; see `TranslationModel.pretrained_parameters`."""
        names = () if self.pretrained_encoder is None else self.pretrained_encoder.pretrained_parameters()
        return tuple(f"pretrained_encoder.{name}" for name in names)

    def _encode(self, source: PaddedSequences, output_attentions: bool) -> tuple[Memories, list[Tensor]]:
        """Encode the sources; all layers attend to the same states."""
        self_attentions: list[Tensor] = []
        if self.pretrained_encoder is not None:
            states, self_attentions = self.pretrained_encoder(source, output_attentions)
        else:
            x = self._embed(self.source_embedding, self.source_positions, source.tokens, source=source)
            for layer in self.encoder:
                x, weights = layer(x, source.mask, output_attentions)
                if weights is not None:
                    self_attentions.append(weights)
            states = self.encoder_norm(x)
        return (Memory(states, source.mask),) * len(self.decoder), self_attentions

    def _open(self) -> OpenStack:
        weight = self.target_embedding.weight if self.output is None else self.output
        dtype = compute_dtype(weight)
        output = weight.to(dtype), self.output_bias.to(dtype)
        return OpenStack(
            tuple(layer.prepare() for layer in self._layers()), nn.Identity(), self.decoder_norm, output
        )
