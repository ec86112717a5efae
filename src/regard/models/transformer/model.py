"""The Transformer (Vaswani et al., 2017), with any attention mechanism as cross-attention.

Each decoder layer has its own mechanism, applied to H heads (`regard.attention.multihead`). A mechanism with
several contexts is allowed only in the last layer. The rest of that layer and the distribution over the next
token are then computed for each context.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reference
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, attention_class, build_attention
from regard.attention.self_attention import KVCache
from regard.data.batch import Batch, PaddedSequences
from regard.layers.batched_state import BatchedState
from regard.layers.dropout import dropout
from regard.layers.linear import compute_dtype
from regard.layers.position_encoding import PositionEncoding
from regard.models.base import (
    ForwardOutput,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
    shift_right,
    target_step_mask,
)
from regard.models.registry import register_model
from regard.models.stack import DecoderStack, LayerQuery, Requested, StackState, continue_state
from regard.models.transformer.config import TransformerConfig, check_transformer
from regard.models.transformer.layers import DecoderLayer, EncoderLayer, LayerNorm, LayerSettings
from regard.text.vocabulary import PAD
from regard.types import Float, Int, Tensor

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
    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the pre-trained parameters by layer; see `TranslationModel.pretrained_layers`."""


@register_model("transformer", TransformerConfig)
class TransformerModel(TranslationModel):
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
        check_transformer(config, source_size, target_size)
        self.config, self.pretrained_encoder = config, pretrained_encoder
        # Localness (a bias toward nearby positions) is applied in the lowest layers only.
        settings = LayerSettings(
            config.d_model, config.num_heads, config.feed_forward, config.norm_position, config.dropout
        )
        local = replace(settings, local=True)
        if pretrained_encoder is None:
            self.source_embedding = self._embedding(source_size)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings == "all" else self._embedding(target_size)
        )
        self.source_positions = PositionEncoding(config.position_encoding, config.d_model)
        self.target_positions = PositionEncoding(config.position_encoding, config.d_model)
        layers = range(config.encoder.num_layers if pretrained_encoder is None else 0)
        self.encoder = nn.ModuleList(
            EncoderLayer(local if i < config.encoder.num_localness_layers else settings) for i in layers
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(
                local if i < config.decoder.num_localness_layers else settings,
                self._source_attention(attention),
            )
            for i, attention in enumerate(config.source_attentions)
        )
        # With pre-norm the residual stream is not normalized, so one more LayerNorm follows each stack.
        pre = config.norm_position == "pre"
        self.encoder_norm = LayerNorm(config.d_model) if pre and pretrained_encoder is None else nn.Identity()
        self.decoder_norm = LayerNorm(config.d_model) if pre else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = None
        if config.tie_embeddings == "none":
            weight = torch.empty(target_size, config.d_model)
            self.output = nn.Parameter(nn.init.normal_(weight, 0, config.d_model**-0.5))
        last = self._layers()[-1].cross_attention
        self.objective, self.reward = last.objective, last.reward

    def _embedding(self, size: int) -> nn.Embedding:
        """Return embeddings from N(0, 1/D), which are multiplied by sqrt(D) when used (Section 3.4)."""
        embedding = nn.Embedding(size, self.config.d_model, padding_idx=PAD)
        nn.init.normal_(embedding.weight, 0, self.config.d_model**-0.5)
        with torch.no_grad():
            # `normal_` also overwrites the zero vector of the padding symbol.
            embedding.weight[PAD] = 0
        return embedding

    def _source_attention(self, config: AttentionConfig) -> Attention:
        """Return a multi-head mechanism, or a single-head one if it has its own projections."""
        width, heads = self.config.d_model, self.config.num_heads
        # Mechanisms with projections of their own are not split into heads.
        if attention_class(config).has_projections:
            return build_attention(config, width, width, width)
        return MultiHeadAttention(config, width, width, heads, width)

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the learned positions; see `TranslationModel.max_length`."""
        return (
            self.source_positions.max_length
            if self.pretrained_encoder is None
            else self.pretrained_encoder.max_length
        )

    @property
    def scales_embeddings(self) -> bool:
        """Whether source embeddings can be scaled: always; see `TranslationModel.scales_embeddings`."""
        return True

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the encoder's pre-trained parameters; see `TranslationModel.pretrained_layers`."""
        layers = () if self.pretrained_encoder is None else self.pretrained_encoder.pretrained_layers()
        return tuple(tuple(f"pretrained_encoder.{name}" for name in layer) for layer in layers)

    def _embed(
        self,
        embedding: nn.Embedding,
        positions: PositionEncoding,
        tokens: Int[Tensor, "B T"],
        start: int = 0,
        source: PaddedSequences | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Embed tokens at positions `start`, `start + 1`, ..., with dropout.

        `source` is given for source tokens, whose embeddings may be scaled.
        """
        embedded = embedding(tokens) * math.sqrt(self.config.d_model)
        if source is not None:
            embedded = source.scale_embeddings(embedded)
        embedded = embedded + positions(start, tokens.shape[1], embedded)
        return dropout(embedded, self.config.dropout, self.training)

    # --- encoding -------------------------------------------------------------------------------------

    def _encode(
        self, source: PaddedSequences, output_attentions: bool = False
    ) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the encoder's states, and its self-attention if `output_attentions` is True."""
        if self.pretrained_encoder is not None:
            return self.pretrained_encoder(source, output_attentions)
        x = self._embed(self.source_embedding, self.source_positions, source.tokens, source=source)
        self_attentions: list[Tensor] = []
        mask = source.mask
        for layer in self.encoder:
            x, weights = layer(x, mask, output_attentions)
            if weights is not None:
                self_attentions.append(weights)
        return self.encoder_norm(x), self_attentions

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, StackState]:
        """Encode the source sentences; see `TranslationModel.begin`."""
        states, _ = self._encode(source)
        layers = self._layers()
        memories, started = self._stack().begin((Memory(states, source.mask, upper, lower),) * len(layers))
        # The caches have the compute dtype, which may be bfloat16.
        like = states.to(compute_dtype(layers[0].self_attention.in_proj.weight))
        caches = tuple(layer.self_attention.empty_cache(len(source), like) for layer in layers)
        return memories, StackState(caches, started)

    # --- search ---------------------------------------------------------------------------------------

    def _stack(self) -> DecoderStack:
        return DecoderStack(
            [layer.cross_attention for layer in self._layers()], self.decoder_norm, self._output()
        )

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, StackState)
        layers, caches = self._layers(), state.caches

        # `Tensor` without a shape, because an annotated shape would be parsed at each step.
        def half(i: int, x: Tensor) -> tuple[LayerQuery, BatchedState]:
            cache = caches[i]
            assert isinstance(cache, KVCache)
            return layers[i].query_step(x, cache)

        # The caches of all layers have the same length, which is the position of the new token.
        first = caches[0]
        assert isinstance(first, KVCache)
        x = self._embed(self.target_embedding, self.target_positions, tokens.unsqueeze(1), first.length)
        return self._stack().step(x[:, 0], memories, state.attentions, half)

    def update(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> StackState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        observes = self._layers()[-1].cross_attention.observes_tokens
        return continue_state(prediction, rows, tokens, observes)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        layers, targets = self._layers(), batch.target.tokens
        states, encoder_attentions = self._encode(batch.source, output_attentions == "all")
        memory = Memory(
            states,
            batch.source.mask,
            batch.upper_bounds,
            batch.lower_bounds,
            target_mask=target_step_mask(batch),
        )
        shifted = shift_right(targets)
        x = self._embed(self.target_embedding, self.target_positions, shifted)
        reference = None
        if self.training and layers[-1].cross_attention.uses_reference:
            # The inference network reads the targets themselves, not the shifted input of the decoder.
            embedded = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(embedded, batch.target.mask)
        requested = Requested(mean_log_probs, output_attentions, self.training and self.reward is not None)
        return self._stack().forward(
            x,
            # All layers attend to the same encoder states.
            (memory,) * len(layers),
            lambda i, x: layers[i].query(x, output_attentions == "all"),
            batch,
            requested,
            reference,
            tuple(encoder_attentions),
        )

    def _output(self) -> tuple[Tensor, Tensor]:
        """Return the output layer's weights and biases."""
        weight = self.target_embedding.weight if self.output is None else self.output
        dtype = compute_dtype(weight)
        return weight.to(dtype), self.output_bias.to(dtype)
