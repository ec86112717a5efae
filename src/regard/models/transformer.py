"""The Transformer (Vaswani et al., 2017), with any attention mechanism as cross-attention.

Each decoder layer has its own mechanism, applied to H heads (`regard.attention.multihead`). A mechanism with
several contexts is allowed only in the last layer. The rest of that layer and the distribution over the next
token are then computed for each context.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reference
from regard.attention.cache import Cache
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, build_attention, mechanism
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import BOS, PAD
from regard.layers.dropout import dropout
from regard.layers.position import Positions
from regard.layers.precision import compute_dtype
from regard.layers.rows import Rows, select_rows
from regard.models.base import Look, Memories, Outcome, Prediction, TranslationModel, real_steps
from regard.models.stack import Asking, SourceStack, StackState, observed
from regard.models.transformer_config import TransformerConfig, check
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, LayerShape, Norm
from regard.types import Float, Int, Tensor

__all__ = ["Reader", "TransformerModel"]


class Reader(nn.Module, ABC):
    """Base class of pre-trained encoders that replace a Transformer's encoder."""

    @property
    @abstractmethod
    def longest(self) -> int | None:
        """Maximum number of source tokens, sinks included. None means no maximum."""

    @abstractmethod
    def forward(self, source: Sequences, look: bool) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the states, and the self-attention of each layer, [B, H, S, S], if `look` is True."""

    @abstractmethod
    def multiply_adds(self, lengths: Int[Tensor, "B"]) -> int:
        """Return the multiply-adds of a forward pass over sentences of the given lengths."""

    @abstractmethod
    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the pre-trained parameters by layer; see `TranslationModel.pretrained_layers`."""


@dataclass(frozen=True)
class _Pending(Rows):
    """The state of the decoder before it is updated with the token of a step."""

    caches: tuple[Rows, ...]


class TransformerModel(TranslationModel):
    """The model that a `TransformerConfig` describes.

    Args:
        config: The configuration.
        source_size: Size of the source vocabulary.
        target_size: Size of the target vocabulary.
        reader: A pre-trained encoder that replaces the one that the config describes.

    Raises:
        ConfigError: if parts of the configuration are incompatible.
    """

    def __init__(
        self, config: TransformerConfig, source_size: int, target_size: int, reader: Reader | None = None
    ) -> None:
        """Build the parts."""
        super().__init__()
        check(config, source_size, target_size)
        self.config, self.reader = config, reader
        # Localness (a bias toward nearby positions) is applied in the lowest layers only.
        shape = LayerShape(config.width, config.heads, config.feed_forward, config.norm, config.dropout)
        local = replace(shape, local=True)
        if reader is None:
            self.source_embedding = self._embedding(source_size)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else self._embedding(target_size)
        )
        self.source_positions = Positions(config.positions, config.width)
        self.target_positions = Positions(config.positions, config.width)
        layers = range(config.encoder.layers if reader is None else 0)
        self.encoder = nn.ModuleList(
            EncoderLayer(local if i < config.encoder.local else shape) for i in layers
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(local if i < config.decoder.local else shape, self._source_attention(one))
            for i, one in enumerate(config.source_attentions)
        )
        # With pre-norm the residual stream is not normalized, so one more LayerNorm follows each stack.
        pre = config.norm == "pre"
        self.encoder_norm = Norm(config.width) if pre and reader is None else nn.Identity()
        self.decoder_norm = Norm(config.width) if pre else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        if config.tied == "none":
            self.output = nn.Parameter(torch.empty(target_size, config.width))
            nn.init.normal_(self.output, 0, config.width**-0.5)
        else:
            self.register_parameter("output", None)
        last = self._layers()[-1].source
        self.objective, self.reward = last.objective, last.reward

    def _embedding(self, size: int) -> nn.Embedding:
        """Return embeddings from N(0, 1/D), which are multiplied by sqrt(D) when used (Section 3.4)."""
        made = nn.Embedding(size, self.config.width, padding_idx=PAD)
        nn.init.normal_(made.weight, 0, self.config.width**-0.5)
        with torch.no_grad():
            made.weight[PAD] = 0
        return made

    def _source_attention(self, one: AttentionConfig) -> Attention:
        """Return a multi-head mechanism, or a single-head one if it has its own projections."""
        width, heads = self.config.width, self.config.heads
        # Mechanisms with projections of their own are not split into heads.
        if mechanism(one).projects:
            return build_attention(one, width, width, width)
        return MultiHeadAttention(one, width, width, heads, width)

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens, given by the learned positions; see `TranslationModel.longest`."""
        return self.source_positions.longest if self.reader is None else self.reader.longest

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the encoder's pre-trained parameters; see `TranslationModel.pretrained_layers`."""
        found = () if self.reader is None else self.reader.pretrained_layers()
        return tuple(tuple(f"reader.{name}" for name in layer) for layer in found)

    def _embed(
        self, embedding: nn.Embedding, positions: Positions, tokens: Int[Tensor, "B T"], start: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Embed tokens at positions `start`, `start + 1`, ..., with dropout."""
        found = embedding(tokens) * math.sqrt(self.config.width)
        found = found + positions(start, tokens.shape[1], found)
        return dropout(found, self.config.dropout, self.training)

    # --- encoding -------------------------------------------------------------------------------------

    def _encode(self, source: Sequences, look: bool = False) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """Return the encoder's states, and its self-attention if `look` is True."""
        if self.reader is not None:
            return self.reader(source, look)
        x = self._embed(self.source_embedding, self.source_positions, source.tokens)
        seen: list[Tensor] = []
        mask = source.mask
        for layer in self.encoder:
            x, weights = layer(x, mask, look)
            if weights is not None:
                seen.append(weights)
        return self.encoder_norm(x), seen

    def begin(
        self,
        source: Sequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, StackState]:
        """Encode the source sentences; see `TranslationModel.begin`."""
        states, _ = self._encode(source)
        bare = Memory(states, source.mask, upper, lower)
        layers = self._layers()
        memories = tuple(layer.source.prepare(bare) for layer in layers)
        started = tuple(layer.source.start(memory) for layer, memory in zip(layers, memories, strict=True))
        # The caches have the compute dtype, which may be bfloat16.
        like = states.to(compute_dtype(layers[0].attention.enter.weight))
        caches = tuple(layer.attention.begin(len(source), like) for layer in layers)
        return memories, StackState(caches, started)

    # --- search ---------------------------------------------------------------------------------------

    def _stack(self) -> SourceStack:
        return SourceStack([layer.source for layer in self._layers()], self.decoder_norm, self._output())

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: Rows) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, StackState)
        layers, caches, stack = self._layers(), state.caches, self._stack()

        def half(i: int, x: Tensor) -> tuple[Asking, Rows]:  # an annotated shape would be parsed at each step
            cache = caches[i]
            assert isinstance(cache, Cache)
            return layers[i].advance(x, cache)

        first = caches[0]
        assert isinstance(first, Cache)
        x = self._embed(self.target_embedding, self.target_positions, tokens.unsqueeze(1), first.length)
        advanced = stack.advance(x[:, 0], memories, state.attentions, half)
        return stack.predict(advanced, _Pending(advanced.caches))

    def observe(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> StackState:
        """Return the state of the continued hypotheses; see `TranslationModel.observe`."""
        pending = prediction.state
        assert isinstance(pending, _Pending)
        attentions = observed(prediction, rows, tokens, self._layers()[-1].source.observes)
        return StackState(select_rows(pending.caches, rows), attentions)

    # --- training -------------------------------------------------------------------------------------

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        layers, targets = self._layers(), batch.target.tokens
        states, encoder = self._encode(batch.source, look == "all")
        memory = Memory(states, batch.source.mask, batch.upper, batch.lower, steps=real_steps(batch))
        shifted = torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)
        x = self._embed(self.target_embedding, self.target_positions, shifted)
        reference = None
        if self.training and layers[-1].source.reads_reference:
            embedded = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(embedded, batch.target.mask)
        return self._stack().outcome(
            x,
            # All layers attend to the same encoder states.
            (memory,) * len(layers),
            lambda i, x: layers[i].ask(x, look == "all"),
            batch,
            average=average,
            look=look,
            likeliest=self.training and self.reward is not None,
            reference=reference,
            encoder=tuple(encoder),
        )

    def _output(self) -> tuple[Tensor, Tensor]:
        """Return the output layer's weights and biases."""
        weight = self.target_embedding.weight if self.output is None else self.output
        dtype = compute_dtype(weight)
        return weight.to(dtype), self.output_bias.to(dtype)

    def flops(self, batch: Batch) -> float:
        """Return the floating-point operations of one training step on the non-padding tokens.

        Counts 2 operations per multiply-add and 3 matrix multiplications (one forward, two backward). Each
        token is counted with one context.
        """
        assert batch.target is not None
        config = self.config
        source, target = batch.source.lengths.double(), batch.target.lengths.double()
        words, tokens, pairs = int(source.sum()), int(target.sum()), int((source * target).sum())
        feed = 2 * config.width * config.feed_forward.width
        # Query, key, value and output projections.
        own = 4 * config.width**2
        made = len(self.encoder) * (words * (own + feed) + 2 * config.width * int((source**2).sum()))
        made += 0 if self.reader is None else self.reader.multiply_adds(batch.source.lengths)
        # Causal self-attention computes half of the pairs that the encoder's does.
        made += config.decoder.layers * (tokens * (own + feed) + config.width * int((target**2).sum()))
        made += sum(layer.source.multiply_adds(words, tokens, pairs) for layer in self._layers())
        return 6.0 * (made + tokens * len(self.output_bias) * config.width)
