"""The layers of `regard.models.conv.model` (Gehring et al., 2017, Sections 3.2 to 3.5).

An encoder block computes, with its input X, the convolution W X_k and s = sqrt(0.5),

    [A; B] = W X_k + b,   H = A * sigmoid(B),   H' = s (H + X)                       (Section 3.2, 3.4)

A decoder block attends to the source in between, where g is the embedding of the previous target token:

    D = s (W_d H + b_d + g),   H' = s (s (H + W_c c(D) + b_c) + X)                  (Eq. 1, Section 3.3, 3.4)

Its convolution sees only the current and earlier inputs. Section 3.4 multiplies every sum of two terms by
sqrt(0.5). Weights are normalized, and initialized so that the variance is preserved: four times as large
before a gated linear unit, and smaller after dropout (Section 3.5).
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import Attention
from regard.layers.batched_state import BatchedState
from regard.layers.convolution import PreparedLinear, WeightNormLinear, concatenate_windows
from regard.layers.dropout import dropout
from regard.models.conv.config import ConvConfig, ConvSideConfig
from regard.models.stack_layer import LayerQuery, StackLayer
from regard.types import Bool, Float, Tensor

__all__ = ["SQRT_HALF", "ConvCache", "ConvDecoderLayer", "ConvEncoderLayer"]

SQRT_HALF = math.sqrt(0.5)
"""Preserves the variance of a sum of two terms."""
GLU_GAIN = 4.0
"""Variance of the weights before a gated linear unit, which reduces the variance to about a quarter."""


@dataclass(frozen=True)
class ConvCache(BatchedState):
    """The cache of a decoder layer: the latest inputs of its convolution.

    Attributes:
        inputs: [B, kernel - 1, D]; zeros before the first token.
    """

    inputs: Float[Tensor, "B _ D"]


def _convolution(side: ConvSideConfig, dropout: float) -> WeightNormLinear:
    # Twice the width, because the gated linear unit halves it.
    width = side.hidden_size
    return WeightNormLinear(side.kernel_size * width, 2 * width, GLU_GAIN * (1 - dropout))


class ConvEncoderLayer(nn.Module):
    """A gated convolution over a window centered on each token.

    Args:
        config: The configuration of the model.
    """

    def __init__(self, config: ConvConfig) -> None:
        """Build the convolution."""
        super().__init__()
        self.kernel, self.dropout = config.encoder.kernel_size, config.dropout
        self.convolution = _convolution(config.encoder, config.dropout)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Return the states of the layer.

        Args:
            x: The states of the layer below.
            mask: True at real tokens. The convolution sees zeros at padding.
        """
        # Padding must be zero, since the windows of real tokens at the end overlap it.
        real = dropout(x, self.dropout, self.training).masked_fill(~mask.unsqueeze(-1), 0.0)
        convolve, each_side = self.convolution.prepare(), self.kernel // 2
        convolved = convolve(concatenate_windows(real.to(convolve.weight.dtype), each_side, each_side))
        return (F.glu(convolved, dim=-1) + x) * SQRT_HALF


class ConvDecoderLayer(StackLayer):
    """A gated convolution over the target prefix, and attention to the source.

    Args:
        config: The configuration of the model.
        cross_attention: The attention mechanism.
    """

    def __init__(self, config: ConvConfig, cross_attention: Attention) -> None:
        """Build the convolution and the projections."""
        super().__init__()
        width, embedding = config.decoder.hidden_size, config.embedding_size
        self.kernel, self.dropout = config.decoder.kernel_size, config.dropout
        self.convolution = _convolution(config.decoder, config.dropout)
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
        return _query(x, concatenate_windows(seen, self.kernel - 1, 0), embedded, *prepared)

    def step(
        self, x: Tensor, cache: BatchedState, embedded: Tensor, prepared: tuple[PreparedLinear, ...]
    ) -> tuple[LayerQuery, ConvCache]:
        """Compute the first half of the layer for one more token, and the updated cache."""
        assert isinstance(cache, ConvCache)
        inputs = torch.cat([cache.inputs, x.to(cache.inputs.dtype).unsqueeze(1)], dim=1)  # (B, kernel, D)
        # The oldest input is outside the window of the next token, so it leaves the cache.
        return _query(x, inputs.flatten(1), embedded, *prepared), ConvCache(inputs[:, 1:])

    def empty_cache(self, batch: int, prepared: tuple[PreparedLinear, ...]) -> ConvCache:
        """Return an empty cache, whose zeros equal the padding at the start of a whole target."""
        weight = prepared[0].weight
        return ConvCache(weight.new_zeros(batch, self.kernel - 1, len(weight) // self.kernel))


def _query(
    x: Float[Tensor, "*B D"],
    seen: Float[Tensor, "*B W"],
    embedded: Float[Tensor, "*B E"],
    convolve: PreparedLinear,
    query_proj: PreparedLinear,
    context_proj: PreparedLinear,
) -> LayerQuery:
    """Return the first half of a layer, given the windows of its convolution."""
    hidden = F.glu(convolve(seen), dim=-1)
    queries = (query_proj(hidden) + embedded) * SQRT_HALF

    def finish(residual: Float[Tensor, "*#B D"], contexts: Float[Tensor, "*B E"]) -> Float[Tensor, "*B D"]:
        # 0.5 = s * s, because the context is inside two scaled sums.
        return residual + context_proj(contexts) * 0.5

    # The residual of H' is independent of the contexts: s (s H + X).
    return LayerQuery((hidden * SQRT_HALF + x) * SQRT_HALF, queries, finish)
