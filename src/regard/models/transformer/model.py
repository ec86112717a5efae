"""The Transformer (Vaswani et al., 2017), with any attention mechanism as cross-attention.

Each decoder layer has its own mechanism, applied to H heads (`regard.attention.multihead`). A mechanism with
several contexts is allowed only in the last layer. The rest of that layer and the distribution over the next
token are then computed for each context.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import nn

from regard.attention.base import Attention, Memory
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, attention_class, build_attention
from regard.data.batch import PaddedSequences
from regard.errors import ConfigError
from regard.layers.linear import compute_dtype
from regard.layers.position_encoding import PositionEncoding
from regard.models.base import Memories
from regard.models.registry import register_model
from regard.models.stack import OpenStack, StackModel
from regard.models.stack_layer import check_stack, normal_embedding
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.layers import DecoderLayer, EncoderLayer, LayerNorm
from regard.types import Bool, Float, Tensor

__all__ = ["SourceEncoder", "TransformerModel"]


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
    """The model that a `TransformerConfig` describes.

    Args:
        config: The configuration.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.
        pretrained_encoder: A pre-trained encoder that replaces the one that the config describes.

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
            DecoderLayer(config, self._source_attention(attention)) for attention in config.source_attentions
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
        last = self._mechanisms()[-1]
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

    def _memories(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None,
        lower: Float[Tensor, "B S"] | None,
        target_mask: Bool[Tensor, "B T"] | None = None,
        output_attentions: bool = False,
    ) -> tuple[Memories, list[Tensor]]:
        """Encode the sources; all layers attend to the same states."""
        self_attentions: list[Tensor] = []
        if self.pretrained_encoder is not None:
            states, self_attentions = self.pretrained_encoder(source, output_attentions)
        else:
            x, mask = (
                self._embed(self.source_embedding, self.source_positions, source.tokens, 0, source),
                source.mask,
            )
            for layer in self.encoder:
                x, weights = layer(x, mask, output_attentions)
                if weights is not None:
                    self_attentions.append(weights)
            states = self.encoder_norm(x)
        memory = Memory(states, source.mask, upper, lower, target_mask=target_mask)
        return (memory,) * len(self.decoder), self_attentions

    def _open(self) -> OpenStack:
        weight = self.target_embedding.weight if self.output is None else self.output
        dtype = compute_dtype(weight)
        output = weight.to(dtype), self.output_bias.to(dtype)
        return OpenStack(
            tuple(layer.prepare() for layer in self._layers()), nn.Identity(), self.decoder_norm, output
        )
