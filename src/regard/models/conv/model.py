"""The convolutional model of Gehring et al. (2017), with any attention mechanism in each decoder layer.

The decoder attends to the source once per layer, and each layer is conditioned on the contexts of the layers
below (multi-step attention). Queries are compared with the encoder's outputs z_j. Contexts are expectations
of s (z_j + e_j), where e_j is the word's embedding and s = sqrt(0.5) (Eq. 2). They are multiplied by the
square root of the source length, because averaging S vectors with uniform weights reduces the variance
(Section 3.4). Mechanisms that return single source positions, or that have projections of their own, are not
scaled.

An encoder block computes, with its input X, the convolution W X_k and s = sqrt(0.5),

    [A; B] = W X_k + b,   H = A * sigmoid(B),   H' = s (H + X)                       (Section 3.2, 3.4)

A decoder block attends to the source in between, where g is the embedding of the previous target token:

    D = s (W_d H + b_d + g),   H' = s (s (H + W_c c(D) + b_c) + X)                  (Eq. 1, Section 3.3, 3.4)

Its convolution sees only the current and earlier inputs. Section 3.4 multiplies every sum of two terms by
sqrt(0.5). Weights are normalized, and initialized so that the variance is preserved: four times as large
before a gated linear unit, and smaller after dropout (Section 3.5).

In search, each layer caches the last inputs of its convolution, so a step computes a single window.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Attention, Memory
from regard.attention.registry import AttentionConfig, build_attention, with_default_score_function
from regard.attention.soft import SoftAttentionConfig
from regard.config import configclass, option
from regard.data.batch import PaddedSequences
from regard.errors import ConfigError
from regard.kernels.dropout import dropout
from regard.layers.batched_state import BatchedState
from regard.layers.linear import PreparedLinear, WeightNormLinear, compute_dtype, concatenate_windows
from regard.layers.position_encoding import LearnedPositionConfig, PositionEncoding
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
class ConvSideConfig:
    """One side of a convolutional model."""

    num_layers: int = option(default=20, help="Number of layers.", ge=1, le=256)
    hidden_size: int = option(default=512, help="Hidden size of the layers.", ge=1, le=16_384)
    kernel_size: int = option(
        default=3, help="Kernel size of the convolutions, in tokens; odd in the encoder.", ge=1, le=255
    )


@configclass
class ConvConfig:
    """A convolutional model. The defaults are those of Gehring et al. (2017), Section 5.1 (En-Ro)."""

    kind: Literal["conv"] = option(default="conv", help="A convolutional encoder-decoder.")
    embedding_size: int = option(
        default=512,
        help="Size of the embeddings, of the attention queries and of the output layer's input.",
        ge=1,
        le=16_384,
    )
    encoder: ConvSideConfig = option(default=ConvSideConfig, help="The encoder.")
    decoder: ConvSideConfig = option(default=ConvSideConfig, help="The decoder.")
    position_encoding: LearnedPositionConfig = option(
        default=LearnedPositionConfig, help="Position encoding."
    )
    attention: AttentionConfig = option(default=SoftAttentionConfig, help=ATTENTION_HELP)
    layer_attention: tuple[AttentionConfig, ...] = option(default=(), help=LAYER_ATTENTION_HELP)
    dropout: float = option(
        default=0.1,
        help="Dropout probability on embeddings, on the input of each convolution and on the input of the "
        "output layer.",
        ge=0,
        lt=1,
    )
    tie_embeddings: Literal["none", "decoder", "all"] = option(default="none", help=TIE_EMBEDDINGS_HELP)
    scale_encoder_gradient: bool = option(
        default=True,
        help="Divide the gradient of the encoder by twice the number of attention layers, as in the paper.",
    )

    def __post_init__(self) -> None:
        """Check that `attention` and `layer_attention` are not both set."""
        check_exclusive(self)


SQRT_HALF = math.sqrt(0.5)
"""Preserves the variance of a sum of two terms."""
GLU_GAIN = 4.0
"""Variance of the weights before a gated linear unit, which reduces the variance to about a quarter."""
EMBEDDING_STD = 0.1
"""Standard deviation of the initial embeddings (Section 3.5)."""


@dataclass(frozen=True)
class ConvCache(BatchedState):
    """The latest kernel - 1 inputs of a decoder layer's convolution; zeros before the first token."""

    inputs: Float[Tensor, "B _ D"]


class ConvEncoderLayer(nn.Module):
    """A gated convolution over a window centered on each token."""

    def __init__(self, config: ConvConfig) -> None:
        """Build the convolution."""
        super().__init__()
        width = config.encoder.hidden_size
        self.kernel, self.dropout = config.encoder.kernel_size, config.dropout
        # Twice the width, because the gated linear unit halves it.
        self.convolution = WeightNormLinear(self.kernel * width, 2 * width, GLU_GAIN * (1 - config.dropout))

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the states of the layer, given those of the layer below and the mask of real tokens."""
        # Padding must be zero, since the windows of real tokens at the end overlap it.
        real = dropout(x, self.dropout, self.training).masked_fill(~mask.unsqueeze(-1), 0.0)
        convolve, each_side = self.convolution.prepare(), self.kernel // 2
        convolved = convolve(concatenate_windows(real.to(convolve.weight.dtype), each_side, each_side))
        return (F.glu(convolved, dim=-1) + x) * SQRT_HALF


class ConvDecoderLayer(StackLayer):
    """A gated convolution over the target prefix, and attention to the source."""

    def __init__(self, config: ConvConfig, cross_attention: Attention) -> None:
        """Build the convolution and the projections."""
        super().__init__()
        width, embedding = config.decoder.hidden_size, config.embedding_size
        self.kernel, self.dropout = config.decoder.kernel_size, config.dropout
        self.convolution = WeightNormLinear(self.kernel * width, 2 * width, GLU_GAIN * (1 - config.dropout))
        self.cross_attention = cross_attention
        self.query_proj = WeightNormLinear(width, embedding)
        self.context_proj = WeightNormLinear(embedding, width)

    def prepare(self) -> tuple[PreparedLinear, PreparedLinear, PreparedLinear]:
        """Compute the normalized weights of the convolution, W_d and W_c."""
        return self.convolution.prepare(), self.query_proj.prepare(), self.context_proj.prepare()

    def query(
        self, x: Tensor, embedded: Tensor, prepared: tuple[PreparedLinear, ...], output_attentions: bool
    ) -> LayerQuery:
        """Compute the first half of the layer for a whole target; there is no self-attention."""
        seen = dropout(x, self.dropout, self.training).to(prepared[0].weight.dtype)
        # Windows of the previous kernel - 1 inputs and the current one: a causal convolution.
        return _query(x, concatenate_windows(seen, self.kernel - 1, 0), embedded, prepared)

    def step(
        self, x: Tensor, cache: BatchedState, embedded: Tensor, prepared: tuple[PreparedLinear, ...]
    ) -> tuple[LayerQuery, ConvCache]:
        """Compute the first half of the layer for one more token, and the updated cache."""
        assert isinstance(cache, ConvCache)
        inputs = torch.cat([cache.inputs, x.to(cache.inputs.dtype).unsqueeze(1)], dim=1)  # (B, kernel, D)
        # The oldest input is outside the window of the next token, so it leaves the cache.
        return _query(x, inputs.flatten(1), embedded, prepared), ConvCache(inputs[:, 1:])

    def empty_cache(self, batch: int, prepared: tuple[PreparedLinear, ...]) -> ConvCache:
        """Return an empty cache, whose zeros equal the padding at the start of a whole target."""
        weight = prepared[0].weight
        return ConvCache(weight.new_zeros(batch, self.kernel - 1, len(weight) // self.kernel))


def _query(
    x: Float[Tensor, "*B D"],
    seen: Float[Tensor, "*B W"],
    embedded: Float[Tensor, "*B E"],
    prepared: tuple[PreparedLinear, ...],
) -> LayerQuery:
    """Return the first half of a layer, given the windows of its convolution."""
    convolve, query_proj, context_proj = prepared
    hidden = F.glu(convolve(seen), dim=-1)
    # The residual of H' is independent of the contexts: s (s H + X).
    return LayerQuery(
        (hidden * SQRT_HALF + x) * SQRT_HALF,
        (query_proj(hidden) + embedded) * SQRT_HALF,
        # 0.5 = s * s, because the context is inside two scaled sums.
        lambda residual, contexts: residual + context_proj(contexts) * 0.5,
    )


@register_model("conv", ConvConfig)
class ConvModel(StackModel):
    """The model that a `ConvConfig` describes.

    Raises:
        ConfigError: if parts of the configuration are incompatible.
    """

    def __init__(self, config: ConvConfig, source_size: int, target_size: int) -> None:
        """Build the parts."""
        super().__init__()
        if config.encoder.kernel_size % 2 == 0:
            raise ConfigError(
                "model.encoder.kernel_size must be odd, so that windows are centered on a word; "
                f"got {config.encoder.kernel_size}"
            )
        check_stack(config)
        self.config = config
        embedding, keep_probability = config.embedding_size, 1 - config.dropout
        self.source_embedding = normal_embedding(source_size, embedding, EMBEDDING_STD)
        self.target_embedding = (
            self.source_embedding
            if config.tie_embeddings == "all"
            else normal_embedding(target_size, embedding, EMBEDDING_STD)
        )
        self.source_positions, self.target_positions = self._positions(), self._positions()
        side = config.encoder
        self.encoder_input_proj = WeightNormLinear(embedding, side.hidden_size, keep_probability)
        self.encoder = nn.ModuleList(ConvEncoderLayer(config) for _ in range(side.num_layers))
        self.encoder_output_proj = WeightNormLinear(side.hidden_size, embedding)
        side = config.decoder
        self.decoder_input_proj = WeightNormLinear(embedding, side.hidden_size, keep_probability)
        # The paper compares by dot products (Eq. 1).
        mechanisms = (with_default_score_function(part, "dot") for part in layer_mechanisms(config))
        self.decoder = nn.ModuleList(
            ConvDecoderLayer(config, build_attention(attention, embedding, embedding, embedding))
            for attention in mechanisms
        )
        self.decoder_output_proj = WeightNormLinear(side.hidden_size, embedding)
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = (
            WeightNormLinear(embedding, target_size, keep_probability, bias=False)
            if config.tie_embeddings == "none"
            else None
        )
        # The last layer's mechanism determines how the model is trained.
        last = self._layers()[-1].cross_attention
        self.objective, self.reward = last.objective, last.reward

    def _positions(self) -> PositionEncoding:
        positions = PositionEncoding(self.config.position_encoding, self.config.embedding_size)
        nn.init.normal_(positions.table, 0, EMBEDDING_STD)
        return positions

    def _encode(self, source: PaddedSequences, output_attentions: bool) -> tuple[Memories, list[Tensor]]:
        """Encode the sources; there is no self-attention."""
        embedded = self._embed(self.source_embedding, self.source_positions, source.tokens, source=source)
        mask = source.mask
        x = self.encoder_input_proj(embedded).to(embedded.dtype)
        for layer in self.encoder:
            x = layer(x, mask)
        keys = self.encoder_output_proj(x)
        # Each layer that attends adds to this gradient; see `scale_encoder_gradient` (Section 3.3).
        if self.config.scale_encoder_gradient and keys.requires_grad:
            scale = 1 / (2 * self.config.decoder.num_layers)
            keys = keys.view_as(keys)
            keys.register_hook(lambda gradient: gradient * scale)
        values = (keys + embedded) * SQRT_HALF
        plain = Memory(values, mask, key_states=keys)
        # The scale of Section 3.4: sqrt(source length).
        root = source.lengths.to(values.dtype).sqrt().view(-1, 1, 1)
        scaled = replace(plain, states=values * root)
        # The contexts of the other mechanisms are no averages of the memory's states.
        mechanisms = [layer.cross_attention for layer in self._layers()]
        return tuple(plain if m.observes_tokens or m.has_projections else scaled for m in mechanisms), []

    def _open(self) -> OpenStack:
        """Compute the decoder's normalized weights."""
        # With tied embeddings there is no output matrix.
        weight = self.target_embedding.weight if self.output is None else self.output.weight.t()
        dtype = compute_dtype(weight)
        input_proj, output_proj = self.decoder_input_proj.prepare(), self.decoder_output_proj.prepare()
        return OpenStack(
            tuple(layer.prepare() for layer in self._layers()),
            lambda embedded: input_proj(embedded).to(embedded.dtype),
            lambda hidden: dropout(output_proj(hidden), self.config.dropout, self.training),
            (weight.to(dtype), self.output_bias.to(dtype)),
        )
