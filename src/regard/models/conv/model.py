"""The convolutional model of Gehring et al. (2017), with any attention mechanism in each decoder layer.

The decoder attends to the source once per layer, and each layer is conditioned on the contexts of the layers
below (multi-step attention). Queries are compared with the encoder's outputs z_j. Contexts are expectations
of s (z_j + e_j), where e_j is the word's embedding and s = sqrt(0.5) (Eq. 2). They are multiplied by the
square root of the source length, because averaging S vectors with uniform weights reduces the variance
(Section 3.4). Mechanisms that return single source positions, or that have projections of their own, are not
scaled.

In search, each layer caches the last inputs of its convolution, so a step computes a single window.
"""

from dataclasses import replace

import torch
from torch import nn

from regard.attention.base import Memory
from regard.attention.registry import build_attention
from regard.data.batch import PaddedSequences
from regard.errors import ConfigError
from regard.layers.convolution import WeightNormLinear
from regard.layers.dropout import dropout
from regard.layers.linear import compute_dtype
from regard.layers.position_encoding import PositionEncoding
from regard.models.base import Memories
from regard.models.conv.config import ConvConfig
from regard.models.conv.layers import SQRT_HALF, ConvDecoderLayer, ConvEncoderLayer
from regard.models.registry import register_model
from regard.models.stack import OpenStack, StackModel
from regard.models.stack_layer import check_stack, normal_embedding
from regard.types import Bool, Float, Tensor

__all__ = ["ConvModel"]

EMBEDDING_STD = 0.1
"""Standard deviation of the initial embeddings (Section 3.5)."""


@register_model("conv", ConvConfig)
class ConvModel(StackModel):
    """The model that a `ConvConfig` describes.

    Args:
        config: The configuration.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.

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
        self.decoder = nn.ModuleList(
            ConvDecoderLayer(config, build_attention(attention, embedding, embedding, embedding))
            for attention in config.source_attentions
        )
        self.decoder_output_proj = WeightNormLinear(side.hidden_size, embedding)
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = (
            WeightNormLinear(embedding, target_size, keep_probability, bias=False)
            if config.tie_embeddings == "none"
            else None
        )
        # The last layer's mechanism determines how the model is trained.
        last = self._mechanisms()[-1]
        self.objective, self.reward = last.objective, last.reward

    def _positions(self) -> PositionEncoding:
        positions = PositionEncoding(self.config.position_encoding, self.config.embedding_size)
        nn.init.normal_(positions.table, 0, EMBEDDING_STD)
        return positions

    def _memories(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None,
        lower: Float[Tensor, "B S"] | None,
        target_mask: Bool[Tensor, "B T"] | None = None,
        output_attentions: bool = False,
    ) -> tuple[Memories, list[Tensor]]:
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
        plain = Memory(values, mask, upper, lower, key_states=keys, target_mask=target_mask)
        # The scale of Section 3.4: sqrt(source length).
        root = source.lengths.to(values.dtype).sqrt().view(-1, 1, 1)
        scaled = replace(plain, states=values * root)
        # The contexts of the other mechanisms are no averages of the memory's states.
        return tuple(
            plain if mechanism.observes_tokens or mechanism.has_projections else scaled
            for mechanism in self._mechanisms()
        ), []

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
