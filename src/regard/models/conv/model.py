"""The convolutional model of Gehring et al. (2017), with any attention mechanism in each decoder layer.

The decoder attends to the source once per layer, and each layer is conditioned on the contexts of the layers
below (multi-step attention). Queries are compared with the encoder's outputs z_j. Contexts are expectations
of s (z_j + e_j), where e_j is the word's embedding and s = sqrt(0.5) (Eq. 2). They are multiplied by the
square root of the source length, because averaging S vectors with uniform weights reduces the variance
(Section 3.4). Mechanisms that return single source positions, or that have projections of their own, are not
scaled.

In search, each layer caches the last inputs of its convolution, so a step computes a single window.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reference
from regard.attention.registry import build_attention
from regard.data.batch import Batch, PaddedSequences
from regard.layers.batched_state import BatchedState
from regard.layers.convolution import PreparedLinear, WeightNormLinear
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
from regard.models.conv.config import ConvConfig, check_conv
from regard.models.conv.layers import (
    SQRT_HALF,
    ConvCache,
    ConvDecoderLayer,
    ConvEncoderLayer,
    OpenDecoderLayer,
    scale_gradient,
)
from regard.models.output import OutputLayer
from regard.models.registry import register_model
from regard.models.stack import DecoderStack, LayerQuery, PendingStack, Requested, StackState, continue_state
from regard.text.vocabulary import PAD
from regard.types import Bool, Float, Int, Tensor

__all__ = ["ConvModel"]

EMBEDDING_STD = 0.1
"""Standard deviation of the initial embeddings (Section 3.5)."""


@dataclass(frozen=True)
class OpenConvDecoder:
    """The decoder's layers with normalized weights, computed once per forward pass or per search.

    Attributes:
        input_proj: The projection from the embeddings to the lowest layer.
        layers: The layers.
        output_proj: The projection from the last layer to the input of the output layer.
        output: The output layer.
    """

    input_proj: PreparedLinear
    layers: tuple[OpenDecoderLayer, ...]
    output_proj: PreparedLinear
    output: OutputLayer


@dataclass(frozen=True)
class ConvState(StackState):
    """The state of the decoder after a step.

    Attributes:
        length: Number of steps so far.
        opened: The decoder's weights, shared by all rows.
    """

    length: int
    opened: OpenConvDecoder


@dataclass(frozen=True)
class _PendingState(PendingStack):
    """The state of the decoder before it is updated with the token of a step."""

    length: int
    opened: OpenConvDecoder


@register_model("conv", ConvConfig)
class ConvModel(TranslationModel):
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
        check_conv(config, source_size, target_size)
        self.config = config
        embedding, keep_probability = config.embedding_size, 1 - config.dropout
        self.source_embedding = self._embedding(source_size)
        self.target_embedding = (
            self.source_embedding if config.tie_embeddings == "all" else self._embedding(target_size)
        )
        self.source_positions = self._positions()
        self.target_positions = self._positions()
        side = config.encoder
        self.encoder_input_proj = WeightNormLinear(embedding, side.hidden_size, keep_probability)
        self.encoder = nn.ModuleList(
            ConvEncoderLayer(side.hidden_size, side.kernel_size, config.dropout)
            for _ in range(side.num_layers)
        )
        self.encoder_output_proj = WeightNormLinear(side.hidden_size, embedding)
        side = config.decoder
        self.decoder_input_proj = WeightNormLinear(embedding, side.hidden_size, keep_probability)
        self.decoder = nn.ModuleList(
            ConvDecoderLayer(
                side.hidden_size,
                side.kernel_size,
                embedding,
                config.dropout,
                build_attention(attention, embedding, embedding, embedding),
            )
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
        last = self._layers()[-1].cross_attention
        self.objective, self.reward = last.objective, last.reward

    def _embedding(self, size: int) -> nn.Embedding:
        embedding = nn.Embedding(size, self.config.embedding_size, padding_idx=PAD)
        nn.init.normal_(embedding.weight, 0, EMBEDDING_STD)
        with torch.no_grad():
            # `normal_` also overwrites the zero vector of the padding symbol.
            embedding.weight[PAD] = 0
        return embedding

    def _positions(self) -> PositionEncoding:
        positions = PositionEncoding(self.config.position_encoding, self.config.embedding_size)
        nn.init.normal_(positions.table, 0, EMBEDDING_STD)
        return positions

    def _layers(self) -> list[ConvDecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, ConvDecoderLayer)]

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the learned positions; see `TranslationModel.max_length`."""
        return self.source_positions.max_length

    @property
    def scales_embeddings(self) -> bool:
        """Whether source embeddings can be scaled: always; see `TranslationModel.scales_embeddings`."""
        return True

    def _dropout(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

    def _embed(
        self,
        embedding: nn.Embedding,
        positions: PositionEncoding,
        tokens: Int[Tensor, "B T"],
        start: int = 0,
        source: PaddedSequences | None = None,
    ) -> Float[Tensor, "B T E"]:
        """Embed tokens at positions `start`, `start + 1`, ..., with dropout.

        `source` is given for source tokens, whose embeddings may be scaled.
        """
        embedded = embedding(tokens)
        if source is not None:
            embedded = source.scale_embeddings(embedded)
        return self._dropout(embedded + positions(start, tokens.shape[1], embedded))

    # --- encoding -------------------------------------------------------------------------------------

    def _memories(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None,
        lower: Float[Tensor, "B S"] | None,
        steps: Bool[Tensor, "B T"] | None = None,
    ) -> Memories:
        """Encode the sources and return the memory of each layer, not prepared."""
        embedded = self._embed(self.source_embedding, self.source_positions, source.tokens, source=source)
        mask = source.mask
        x = self.encoder_input_proj(embedded).to(embedded.dtype)
        for layer in self.encoder:
            x = layer(x, mask)
        keys = self.encoder_output_proj(x)
        # Each layer that attends adds to this gradient; see `scale_encoder_gradient` (Section 3.3).
        if self.config.scale_encoder_gradient:
            keys = scale_gradient(keys, 1 / (2 * self.config.decoder.num_layers))
        values = (keys + embedded) * SQRT_HALF
        plain = Memory(values, mask, upper, lower, key_states=keys, target_mask=steps)
        # The scale of Section 3.4: sqrt(source length).
        root = source.lengths.to(values.dtype).sqrt().view(-1, 1, 1)
        scaled = replace(plain, states=values * root)
        return tuple(scaled if _averages(layer.cross_attention) else plain for layer in self._layers())

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, ConvState]:
        """Encode the source sentences; see `TranslationModel.begin`."""
        unprepared = self._memories(source, upper, lower)
        opened = self._open()
        memories, started = self._stack(opened).begin(unprepared)
        caches = tuple(layer.begin(len(source), like=unprepared[0].states) for layer in opened.layers)
        return memories, ConvState(caches, started, 0, opened)

    # --- search ---------------------------------------------------------------------------------------

    def _open(self) -> OpenConvDecoder:
        """Compute the decoder's normalized weights."""
        # With tied embeddings there is no output matrix.
        weight = self.target_embedding.weight if self.output is None else self.output.weight.t()
        dtype = compute_dtype(weight)
        return OpenConvDecoder(
            self.decoder_input_proj.prepare(),
            tuple(layer.open() for layer in self._layers()),
            self.decoder_output_proj.prepare(),
            (weight.to(dtype), self.output_bias.to(dtype)),
        )

    def _stack(self, opened: OpenConvDecoder) -> DecoderStack:
        return DecoderStack(
            [layer.cross_attention for layer in self._layers()],
            lambda hidden: self._dropout(opened.output_proj(hidden)),
            opened.output,
        )

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, ConvState)
        opened, caches = state.opened, state.caches
        embedded = self._embed(
            self.target_embedding, self.target_positions, tokens.unsqueeze(1), state.length
        )[:, 0]

        def half(i: int, x: Float[Tensor, "B D"]) -> tuple[LayerQuery, BatchedState]:
            past = caches[i]
            assert isinstance(past, ConvCache)
            return opened.layers[i].step(x, past, embedded)

        def make_pending(new: tuple[BatchedState, ...]) -> _PendingState:
            return _PendingState(new, state.length + 1, opened)

        x = opened.input_proj(embedded).to(embedded.dtype)
        return self._stack(opened).step(x, memories, state.attentions, half, make_pending)

    def update(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> ConvState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        pending = prediction.state
        assert isinstance(pending, _PendingState)
        observes = self._layers()[-1].cross_attention.observes_tokens
        state = continue_state(prediction, rows, tokens, observes)
        return ConvState(state.caches, state.attentions, pending.length, pending.opened)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        targets, opened = batch.target.tokens, self._open()
        memories = self._memories(
            batch.source, batch.upper_bounds, batch.lower_bounds, target_step_mask(batch)
        )
        shifted = shift_right(targets)
        embedded = self._embed(self.target_embedding, self.target_positions, shifted)
        reference = None
        if self.training and self._layers()[-1].cross_attention.uses_reference:
            # The inference network reads the targets themselves, not the shifted input of the decoder.
            words = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(words, batch.target.mask)
        requested = Requested(mean_log_probs, output_attentions, self.training and self.reward is not None)
        return self._stack(opened).forward(
            opened.input_proj(embedded).to(embedded.dtype),
            memories,
            lambda i, x: opened.layers[i].query(x, self._dropout(x), embedded),
            batch,
            requested,
            reference,
        )


def _averages(mechanism: Attention) -> bool:
    """Return whether the contexts of a mechanism are averages of the memory's states."""
    return not (mechanism.observes_tokens or mechanism.has_projections)
