"""The Transformer (Vaswani et al. 2017), with any attention mechanism between decoder and source.

Every layer of the decoder asks its own mechanism, H heads around it (`regard.attention.multihead`), for what
it reads of the source. A mechanism of several contexts stands in the last layer, where everything after it is
made for each context: the rest of the layer, and the distribution over the next token.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.attention.base import Attention, Ending, Memory, Reading, Reference, State
from regard.attention.multihead import MultiHeadAttention
from regard.attention.registry import AttentionConfig, build_attention, mechanism
from regard.attention.self_attention import Cache
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import BOS, PAD
from regard.errors import InfeasibleBounds
from regard.layers.dropout import dropout
from regard.layers.position import Positions
from regard.layers.precision import compute_dtype
from regard.layers.rows import Rows, select_rows
from regard.models.base import Look, Memories, Outcome, Prediction, TranslationModel, used_up
from regard.models.output import likeliest_tokens, predict, real_tokens, score_tokens, spread
from regard.models.transformer_config import TransformerConfig, check
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, LayerShape, Norm
from regard.types import Bool, Float, Int, Tensor

__all__ = ["TransformerModel"]


@dataclass(frozen=True)
class TransformerState(Rows):
    """The decoder after a step: what each layer keeps of the words so far, and each mechanism's state."""

    caches: tuple[Cache, ...]
    attentions: tuple[State, ...]


@dataclass(frozen=True)
class _Pending(Rows):
    """The decoder between a step and its token."""

    caches: tuple[Cache, ...]


@dataclass(frozen=True)
class _Scored:
    """The last layer's reading, where somebody looks, and what the output layer makes of it."""

    log_likelihoods: Float[Tensor, "B T K"]
    average: Float[Tensor, "B T K"]
    reading: Reading | None
    likeliest: Int[Tensor, "B T"] | None = None


class TransformerModel(TranslationModel):
    """The model a `TransformerConfig` describes.

    Args:
        config: Its sizes and parts.
        source_size: Words in the source vocabulary.
        target_size: Words in the target vocabulary.

    Raises:
        ConfigError: if the parts do not fit together.
    """

    def __init__(self, config: TransformerConfig, source_size: int, target_size: int) -> None:
        """Build the parts."""
        super().__init__()
        check(config, source_size, target_size)
        self.config = config
        self.source_embedding = self._embedding(source_size)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else self._embedding(target_size)
        )
        self.source_positions = Positions(config.positions, config.width)
        self.target_positions = Positions(config.positions, config.width)
        shape = LayerShape(config.width, config.heads, config.feed_forward, config.norm, config.dropout)
        local = replace(shape, local=True)
        self.encoder = nn.ModuleList(
            EncoderLayer(local if i < config.encoder.local else shape) for i in range(config.encoder.layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(local if i < config.decoder.local else shape, self._source_attention(one))
            for i, one in enumerate(config.source_attentions)
        )
        pre = config.norm == "pre"
        self.encoder_norm = Norm(config.width) if pre else nn.Identity()
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
        """Embeddings from N(0, 1/D); what goes in is sqrt(D) times as long (ibid., Section 3.4)."""
        made = nn.Embedding(size, self.config.width, padding_idx=PAD)
        nn.init.normal_(made.weight, 0, self.config.width**-0.5)
        with torch.no_grad():
            made.weight[PAD] = 0
        return made

    def _source_attention(self, one: AttentionConfig) -> Attention:
        """A mechanism with heads around it, unless it makes projections of its own."""
        width, heads = self.config.width, self.config.heads
        if mechanism(one).projects:
            return build_attention(one, width, width, width)
        return MultiHeadAttention(one, width, width, heads, width)

    def _layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]

    @property
    def longest(self) -> int | None:
        """As many as there are learned positions; see `TranslationModel.longest`."""
        return self.source_positions.longest

    def _embed(
        self, embedding: nn.Embedding, positions: Positions, tokens: Int[Tensor, "B T"], start: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Embed tokens that stand at positions `start`, `start + 1`..., with dropout."""
        found = embedding(tokens) * math.sqrt(self.config.width)
        found = found + positions(start, tokens.shape[1], found)
        return dropout(found, self.config.dropout, self.training)

    # --- encoding -------------------------------------------------------------------------------------

    def _encode(self, source: Sequences, look: bool = False) -> tuple[Float[Tensor, "B S D"], list[Tensor]]:
        """The encoder's states, and its attention where it is looked at."""
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
    ) -> tuple[Memories, TransformerState]:
        """Encode the sources; see `TranslationModel.begin`."""
        states, _ = self._encode(source)
        bare = Memory(states, source.mask, upper, lower)
        layers = self._layers()
        memories = tuple(layer.source.prepare(bare) for layer in layers)
        started = tuple(layer.source.start(memory) for layer, memory in zip(layers, memories, strict=True))
        like = states.to(compute_dtype(layers[0].attention.enter.weight))
        caches = tuple(layer.attention.begin(len(source), like) for layer in layers)
        return memories, TransformerState(caches, started)

    # --- search ---------------------------------------------------------------------------------------

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: Rows) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, TransformerState)
        start = state.caches[0].length
        x = self._embed(self.target_embedding, self.target_positions, tokens.unsqueeze(1), start)[:, 0]
        readings: list[Reading] = []
        caches: list[Cache] = []
        endings: list[Ending | None] = []
        hidden = x.unsqueeze(1)
        for layer, memory, cache, before in zip(
            self._layers(), memories, state.caches, state.attentions, strict=True
        ):
            x, cache = layer.advance(hidden[:, 0], cache)
            reading = layer.source.read(layer.around_source.before(x), memory, before)
            hidden = layer.finish(x.unsqueeze(1), reading.contexts)  # (B, K, D)
            readings.append(reading)
            caches.append(cache)
            endings.append(layer.source.ending(memory, before))
        hidden = self.decoder_norm(hidden)
        pending, several = _Pending(tuple(caches)), self._layers()[-1].source.observes
        return predict(hidden, self._output(), tuple(readings), pending, Ending.of_all(endings), several)

    def observe(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> TransformerState:
        """The state of hypotheses that go on; see `TranslationModel.observe`."""
        pending = prediction.state
        assert isinstance(pending, _Pending)
        attentions = [select_rows(reading.state, rows) for reading in prediction.readings[:-1]]
        last = prediction.readings[-1]
        if self._layers()[-1].source.observes:
            attentions.append(last.select(rows).observe(prediction.likelihood(rows, tokens)))
        else:
            attentions.append(last.state.select(rows))
        return TransformerState(select_rows(pending.caches, rows), tuple(attentions))

    # --- training -------------------------------------------------------------------------------------

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Teacher forcing; see `TranslationModel.forward`."""
        assert batch.target is not None
        targets, mask = batch.target.tokens, batch.target.mask
        states, encoder = self._encode(batch.source, look == "all")
        memory = Memory(states, batch.source.mask, batch.upper, batch.lower)
        shifted = torch.cat([torch.full_like(targets[:, :1], BOS), targets[:, :-1]], dim=1)
        x = self._embed(self.target_embedding, self.target_positions, shifted)
        weights: list[Tensor] = []
        beliefs: list[Tensor] = []
        decoder: list[Tensor] = []
        penalty = torch.zeros((), device=x.device)
        *below, last = self._layers()
        try:
            for layer in below:
                x, seen = layer.attend(x, look == "all")
                contexts, reading = self._read(layer, x, memory, look)
                x = layer.finish(x, contexts)
                if reading is not None:
                    weights.append(reading.weights)
                    beliefs.append(reading.weights)
                    penalty = penalty + reading.penalty
                if seen is not None:
                    decoder.append(seen)
            x, seen = last.attend(x, look == "all")
            if seen is not None:
                decoder.append(seen)
            scored = self._score_last(last, x, memory, batch, average, look)
        except InfeasibleBounds as error:
            raise used_up(batch, error) from None
        if scored.reading is not None:
            weights.append(scored.reading.weights)
            found = scored.reading.beliefs
            beliefs.append(scored.reading.weights if found is None else found)
            penalty = penalty + scored.reading.penalty
        zeros = torch.zeros_like(scored.log_likelihoods)
        return Outcome(
            log_likelihoods=scored.log_likelihoods,
            average=scored.average,
            log_weights=zeros if scored.reading is None else scored.reading.log_weights,
            log_policy=zeros if scored.reading is None else scored.reading.log_policy,
            penalty=penalty.expand(mask.shape),
            mask=mask,
            weights=tuple(weights),
            beliefs=tuple(beliefs),
            likeliest=scored.likeliest,
            expected=None if scored.reading is None else scored.reading.expected,
            encoder=tuple(encoder),
            decoder=tuple(decoder),
        )

    def _read(
        self, layer: DecoderLayer, x: Float[Tensor, "B T D"], memory: Memory, look: Look
    ) -> tuple[Float[Tensor, "B T D"], Reading | None]:
        """What a layer with one context a step reads, and the reading where somebody looks."""
        prepared = layer.source.prepare(memory)
        state = layer.source.start(prepared)
        queries = layer.around_source.before(x)
        if look == "nothing":
            contexts = layer.source.glance(queries, prepared, state)
            if contexts is not None:
                return contexts, None
        reading = layer.source.read_all(queries, prepared, state)
        return reading.contexts[:, :, 0], reading

    def _score_last(
        self,
        layer: DecoderLayer,
        x: Float[Tensor, "B T D"],
        memory: Memory,
        batch: Batch,
        average: bool,
        look: Look,
    ) -> _Scored:
        """Read the source in the last layer, and score the targets under each context."""
        assert batch.target is not None
        targets, mask = batch.target.tokens, batch.target.mask
        if not layer.source.observes:
            contexts, reading = self._read(layer, x, memory, look)
            hidden = layer.finish(x, contexts).unsqueeze(2)
            likeliest = None
            if self.training and self.reward is not None:
                likeliest = likeliest_tokens(self.decoder_norm(hidden[:, :, 0]), self._output())
            return _Scored(*self._score_real(hidden, targets, mask, average), reading, likeliest)
        reference = None
        if self.training and layer.source.reads_reference:
            embedded = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(embedded, mask)
        prepared = layer.source.prepare(memory)
        steps: list[tuple[Tensor, Tensor]] = []

        def likelihood(contexts: Float[Tensor, "B K D"], t: int) -> Float[Tensor, "B K"]:
            hidden = layer.finish(x[:, t].unsqueeze(1), contexts).unsqueeze(1)
            found = self._score_real(hidden, targets[:, t : t + 1], mask[:, t : t + 1], average)
            steps.append((found[0][:, 0], found[1][:, 0]))
            return steps[-1][0]

        queries = layer.around_source.before(x)
        state = layer.source.start(prepared, reference)
        reading = layer.source.read_all(queries, prepared, state, likelihood)
        if steps:
            found, means = (torch.stack(items, dim=1) for items in zip(*steps, strict=True))
            return _Scored(found, means, reading)
        hidden = layer.finish(x.unsqueeze(2), reading.contexts)
        return _Scored(*self._score_real(hidden, targets, mask, average), reading)

    def _output(self) -> tuple[Tensor, Tensor]:
        """The output layer's weights and biases."""
        weight = self.target_embedding.weight if self.output is None else self.output
        dtype = compute_dtype(weight)
        return weight.to(dtype), self.output_bias.to(dtype)

    def _score_real(
        self,
        hidden: Float[Tensor, "B T K D"],
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
        average: bool,
    ) -> tuple[Float[Tensor, "B T K"], Float[Tensor, "B T K"]]:
        """Log p(y_t | context k), and the mean over the vocabulary, of real tokens; zero elsewhere."""
        real, picked = self.decoder_norm(real_tokens(hidden, mask)), real_tokens(targets, mask)
        found, means = (spread(x, mask) for x in score_tokens(real, self._output(), picked, average))
        return found, means

    def flops(self, batch: Batch) -> float:
        """Of the products: two operations a multiply-add, three products a step, real tokens only.

        Each token is counted as if it were read from one context.
        """
        assert batch.target is not None
        config = self.config
        source, target = batch.source.lengths.double(), batch.target.lengths.double()
        words, tokens, pairs = int(source.sum()), int(target.sum()), int((source * target).sum())
        feed = 2 * config.width * config.feed_forward.width
        own = 4 * config.width**2
        made = config.encoder.layers * (words * (own + feed) + 2 * config.width * int((source**2).sum()))
        made += config.decoder.layers * (tokens * (own + feed) + config.width * int((target**2).sum()))
        made += sum(layer.source.multiply_adds(words, tokens, pairs) for layer in self._layers())
        return 6.0 * (made + tokens * len(self.output_bias) * config.width)
