"""The convolutional model (Gehring et al. 2017), with any attention mechanism in each layer of the decoder.

The decoder attends in several steps, once a layer, each knowing what those below found. A mechanism compares
with the encoder's outputs z_j and finds expectations of s (z_j + e_j), e_j the word's embedding and s =
sqrt(0.5) (Eq. 2), times the root of the number of words, by which an even expectation has less variance than
they have (Section 3.4). A mechanism that finds words themselves, or has projections of its own, needs no such
scale and gets none.

In search a layer keeps the last words that its convolution sees, so that a step is one window.
"""

from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reference
from regard.attention.registry import build_attention
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import BOS, PAD
from regard.layers.convolution import NormalisedLinear, OpenLinear
from regard.layers.dropout import dropout
from regard.layers.position import Positions
from regard.layers.precision import compute_dtype
from regard.layers.rows import Rows, select_rows
from regard.models.base import Look, Memories, Outcome, Prediction, TranslationModel, real_steps
from regard.models.conv_config import ConvConfig, check
from regard.models.conv_layers import (
    HALF,
    ConvDecoderLayer,
    ConvEncoderLayer,
    OpenDecoderLayer,
    Past,
    scale_gradient,
)
from regard.models.output import Layer
from regard.models.stack import Asking, SourceStack, StackState, observed
from regard.types import Bool, Float, Int, Tensor

__all__ = ["ConvModel"]

SPREAD = 0.1
"""Standard deviation of embeddings (Section 3.5)."""


@dataclass(frozen=True)
class Opened:
    """The decoder with its weights made: for one forward pass, or for one search.

    Attributes:
        enter: From embeddings to the lowest layer.
        layers: The layers.
        leave: From the last layer to what the output layer reads.
        output: The output layer.
    """

    enter: OpenLinear
    layers: tuple[OpenDecoderLayer, ...]
    leave: OpenLinear
    output: Layer


@dataclass(frozen=True)
class ConvState(StackState):
    """The decoder after a step.

    Attributes:
        length: How many steps there were.
        opened: The decoder's weights, the same in every row.
    """

    length: int
    opened: Opened


@dataclass(frozen=True)
class _Pending(Rows):
    """The decoder between a step and its token."""

    caches: tuple[Rows, ...]
    length: int
    opened: Opened


class ConvModel(TranslationModel):
    """The model a `ConvConfig` describes.

    Args:
        config: Its sizes and parts.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.

    Raises:
        ConfigError: if the parts do not fit together.
    """

    def __init__(self, config: ConvConfig, source_size: int, target_size: int) -> None:
        """Build the parts."""
        super().__init__()
        check(config, source_size, target_size)
        self.config = config
        embedding, kept = config.embedding, 1 - config.dropout
        self.source_embedding = self._embedding(source_size)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else self._embedding(target_size)
        )
        self.source_positions = self._positions()
        self.target_positions = self._positions()
        side = config.encoder
        self.encoder_enter = NormalisedLinear(embedding, side.width, kept)
        self.encoder = nn.ModuleList(
            ConvEncoderLayer(side.width, side.kernel, config.dropout) for _ in range(side.layers)
        )
        self.encoder_leave = NormalisedLinear(side.width, embedding)
        side = config.decoder
        self.decoder_enter = NormalisedLinear(embedding, side.width, kept)
        self.decoder = nn.ModuleList(
            ConvDecoderLayer(
                side.width,
                side.kernel,
                embedding,
                config.dropout,
                build_attention(one, embedding, embedding, embedding),
            )
            for one in config.source_attentions
        )
        self.decoder_leave = NormalisedLinear(side.width, embedding)
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = (
            NormalisedLinear(embedding, target_size, kept, bias=False) if config.tied == "none" else None
        )
        last = self._layers()[-1].source
        self.objective, self.reward = last.objective, last.reward

    def _embedding(self, size: int) -> nn.Embedding:
        made = nn.Embedding(size, self.config.embedding, padding_idx=PAD)
        nn.init.normal_(made.weight, 0, SPREAD)
        with torch.no_grad():
            made.weight[PAD] = 0
        return made

    def _positions(self) -> Positions:
        made = Positions(self.config.positions, self.config.embedding)
        nn.init.normal_(made.table, 0, SPREAD)
        return made

    def _layers(self) -> list[ConvDecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, ConvDecoderLayer)]

    @property
    def longest(self) -> int | None:
        """As many as there are positions; see `TranslationModel.longest`."""
        return self.source_positions.longest

    def _dropout(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

    def _embed(
        self, embedding: nn.Embedding, positions: Positions, tokens: Int[Tensor, "B T"], start: int = 0
    ) -> Float[Tensor, "B T E"]:
        """Embed tokens that stand at positions `start`, `start + 1`..., with dropout."""
        found = embedding(tokens)
        return self._dropout(found + positions(start, tokens.shape[1], found))

    # --- encoding -------------------------------------------------------------------------------------

    def _memories(
        self,
        source: Sequences,
        upper: Float[Tensor, "B S"] | None,
        lower: Float[Tensor, "B S"] | None,
        steps: Bool[Tensor, "B T"] | None = None,
    ) -> Memories:
        """Each layer's memory, not prepared."""
        embedded = self._embed(self.source_embedding, self.source_positions, source.tokens)
        mask = source.mask
        x = self.encoder_enter(embedded).to(embedded.dtype)
        for layer in self.encoder:
            x = layer(x, mask)
        keys = self.encoder_leave(x)
        if self.config.shared_gradient:
            keys = scale_gradient(keys, 1 / (2 * self.config.decoder.layers))
        values = (keys + embedded) * HALF
        plain = Memory(values, mask, upper, lower, compared=keys, steps=steps)
        root = source.lengths.to(values.dtype).sqrt().view(-1, 1, 1)
        scaled = replace(plain, states=values * root)
        return tuple(scaled if _averages(layer.source) else plain for layer in self._layers())

    def begin(
        self,
        source: Sequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, ConvState]:
        """Encode the sources; see `TranslationModel.begin`."""
        sources = [layer.source for layer in self._layers()]
        bare = self._memories(source, upper, lower)
        memories = tuple(one.prepare(memory) for one, memory in zip(sources, bare, strict=True))
        started = tuple(one.start(memory) for one, memory in zip(sources, memories, strict=True))
        opened = self._open()
        caches = tuple(layer.begin(len(source), like=bare[0].states) for layer in opened.layers)
        return memories, ConvState(caches, started, 0, opened)

    # --- search ---------------------------------------------------------------------------------------

    def _open(self) -> Opened:
        """Make the decoder's weights."""
        weight = self.target_embedding.weight if self.output is None else self.output.weight.t()
        dtype = compute_dtype(weight)
        return Opened(
            self.decoder_enter.open(),
            tuple(layer.open() for layer in self._layers()),
            self.decoder_leave.open(),
            (weight.to(dtype), self.output_bias.to(dtype)),
        )

    def _stack(self, opened: Opened) -> SourceStack:
        return SourceStack(
            [layer.source for layer in self._layers()],
            lambda hidden: self._dropout(opened.leave(hidden)),
            opened.output,
        )

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: Rows) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, ConvState)
        opened, caches = state.opened, state.caches
        embedded = self._embed(
            self.target_embedding, self.target_positions, tokens.unsqueeze(1), state.length
        )[:, 0]

        def half(i: int, x: Float[Tensor, "B D"]) -> tuple[Asking, Rows]:
            past = caches[i]
            assert isinstance(past, Past)
            return opened.layers[i].step(x, past, embedded)

        stack = self._stack(opened)
        x = opened.enter(embedded).to(embedded.dtype)
        advanced = stack.advance(x, memories, state.attentions, half)
        return stack.predict(advanced, _Pending(advanced.caches, state.length + 1, opened))

    def observe(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> ConvState:
        """The state of hypotheses that go on; see `TranslationModel.observe`."""
        pending = prediction.state
        assert isinstance(pending, _Pending)
        attentions = observed(prediction, rows, tokens, self._layers()[-1].source.observes)
        return ConvState(select_rows(pending.caches, rows), attentions, pending.length, pending.opened)

    # --- training -------------------------------------------------------------------------------------

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Teacher forcing; see `TranslationModel.forward`."""
        assert batch.target is not None
        targets, opened = batch.target.tokens, self._open()
        memories = self._memories(batch.source, batch.upper, batch.lower, real_steps(batch))
        shifted = torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)
        embedded = self._embed(self.target_embedding, self.target_positions, shifted)
        reference = None
        if self.training and self._layers()[-1].source.reads_reference:
            words = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(words, batch.target.mask)
        return self._stack(opened).outcome(
            opened.enter(embedded).to(embedded.dtype),
            memories,
            lambda i, x: opened.layers[i].over(x, self._dropout(x), embedded),
            batch,
            average=average,
            look=look,
            likeliest=self.training and self.reward is not None,
            reference=reference,
        )

    def flops(self, batch: Batch) -> float:
        """Of the products: two operations a multiply-add, three products a step, real tokens only.

        Each token is counted as if it were read from one context; making normalised weights is left out.
        """
        assert batch.target is not None
        words, tokens = int(batch.source.lengths.sum()), batch.target_tokens
        pairs = int((batch.source.lengths * batch.target.lengths).sum())
        config, layers = self.config, self._layers()
        side = config.encoder
        made = words * side.layers * 2 * side.kernel * side.width**2
        made += 2 * words * side.width * config.embedding
        made += tokens * sum(layer.multiply_adds() for layer in layers)
        made += tokens * config.embedding * (2 * config.decoder.width + len(self.output_bias))
        return 6.0 * (made + sum(layer.source.multiply_adds(words, tokens, pairs) for layer in layers))


def _averages(source: Attention) -> bool:
    """Whether what a mechanism finds is an expectation of the memory's states."""
    return not (source.observes or source.projects)
