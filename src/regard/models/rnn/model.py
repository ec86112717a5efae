"""A recurrent encoder-decoder with any attention mechanism.

With `query = "current"` (Luong et al., 2015, and the code of Malaviya et al., 2018) the recurrence runs
first. The new state s_t is the query, y_t is predicted from tanh(W [context; s_t]), and this vector, or the
context, is fed to the next step. With `query = "previous"` (Bahdanau et al., 2015) the query is s_{t-1}, the
context is an input of the recurrence, and y_t is predicted from s_t alone.
"""

import torch
from torch import nn

from regard.attention.base import Memory, Reference, stack_steps
from regard.attention.registry import build_attention
from regard.data.batch import Batch, PaddedSequences
from regard.errors import InfeasibleBoundsError
from regard.kernels.dropout import dropout
from regard.layers.batched_state import BatchedState
from regard.layers.linear import compute_dtype
from regard.models.base import (
    ForwardOutput,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
    name_infeasible_sentence,
    shift_right,
)
from regard.models.output import (
    predict,
    score_real_tokens,
    score_tokens,
    scored_contexts,
    top_tokens,
)
from regard.models.registry import register_model
from regard.models.rnn.config import RnnConfig, check_rnn
from regard.models.rnn.layers import (
    OpenDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    RnnState,
    RnnStep,
    StateInit,
    initialize_uniform,
)
from regard.models.rnn.readout import ReadoutMemory, SourceReadout
from regard.text.vocabulary import PAD
from regard.types import Float, Int, Tensor


@register_model("rnn", RnnConfig)
class RnnModel(TranslationModel):
    """The model that an `RnnConfig` describes.

    Raises:
        ConfigError: if parts of the configuration are incompatible.
    """

    scales_embeddings = True

    def __init__(self, config: RnnConfig, source_size: int, target_size: int) -> None:
        """Build the parts."""
        super().__init__()
        check_rnn(config)
        decoder, width, memory_size = config.decoder, config.decoder.hidden_size, config.encoder.hidden_size
        self.config = config
        self.source_embedding = nn.Embedding(source_size, config.embedding_size, padding_idx=PAD)
        self.target_embedding = (
            self.source_embedding
            if config.tie_embeddings == "all"
            else nn.Embedding(target_size, config.embedding_size, padding_idx=PAD)
        )
        self.encoder = RecurrentEncoder(config.encoder, config.embedding_size, config.dropout)
        self.state_init = StateInit(config)
        self.attention = build_attention(config.attention, width, memory_size, config.embedding_size)
        self.objective, self.reward = self.attention.objective, self.attention.reward
        # A linear output layer permits the factorization of `regard.models.rnn.readout`.
        self.linear_readout = self.attention.attends_to_single_positions and decoder.output_layer == "linear"
        # Size of the vector that is concatenated to the embedding in the recurrence.
        feed_size = {"attentional": width, "context": memory_size, "none": 0}[decoder.input_feeding]
        self.decoder = RecurrentDecoder(config, feed_size)
        self.combine = None
        if decoder.query == "current":
            self.combine = nn.Parameter(nn.init.xavier_uniform_(torch.empty(memory_size + width, width)))
        self.output_bias = nn.Parameter(torch.zeros(target_size))
        self.output = None
        if config.tie_embeddings == "none":
            self.output = nn.Parameter(nn.init.xavier_uniform_(torch.empty(target_size, width)))
        if config.init_range:
            initialize_uniform(self, config.init_range)  # overrides the initializations above

    def _embed(
        self, embedding: nn.Embedding, tokens: Int[Tensor, "*B"], source: PaddedSequences | None = None
    ) -> Float[Tensor, "*B E"]:
        """Embed tokens and apply dropout; embeddings of a source may be scaled."""
        embedded = embedding(tokens)
        if source is not None:
            embedded = source.scale_embeddings(embedded)
        probability = self.config.embedding_dropout
        return dropout(embedded, self.config.dropout if probability is None else probability, self.training)

    # --- encoding -------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, RnnState]:
        """Encode the source sentences; see `TranslationModel.begin`."""
        memory, state = self._begin(source, upper, lower)
        if self.linear_readout and self.combine is not None:
            output = self._output(compute_dtype(self.combine))
            memory = ReadoutMemory.of(memory, self.combine, output, self._dropout)
        return (memory,), state

    def _begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None,
        lower: Float[Tensor, "B S"] | None,
        target: PaddedSequences | None = None,
    ) -> tuple[Memory, RnnState]:
        """Encode the source sentences and prepare the mechanism; the target is given in training."""
        reference = None
        if target is not None and self.training and self.attention.uses_reference:
            reference = Reference(self._embed(self.target_embedding, target.tokens), target.mask)
        x = self._embed(self.source_embedding, source.tokens, source)
        states, finals = self.encoder(x, source.lengths)
        # Only mechanisms with bounds need the target's mask.
        target_mask = None if target is None or upper is None else target.mask
        memory = self.attention.prepare(Memory(states, source.mask, upper, lower, target_mask=target_mask))
        layers = self.state_init(finals)
        feed = states.new_zeros(len(source), self.decoder.feed)
        return memory, RnnState(tuple(layers), self.attention.start(memory, reference), feed)

    # --- one step -------------------------------------------------------------------------------------

    def _attentional(
        self, opened: OpenDecoder, contexts: Float[Tensor, "B K D"], top: Float[Tensor, "B Q"]
    ) -> Float[Tensor, "B K Q"]:
        """Return tanh(W [context; s_t]) (or without tanh) for each context, with dropout."""
        assert opened.combine is not None
        both = torch.cat([contexts, top.unsqueeze(1).expand(-1, contexts.shape[1], -1)], dim=-1)
        combined = opened.combine(both)
        if self.config.decoder.output_layer == "tanh":
            combined = torch.tanh(combined)
        return self._dropout(combined)

    def _dropout(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)

    def _advance(
        self,
        opened: OpenDecoder,
        tokens: Int[Tensor, "B"],
        gates: Float[Tensor, "B G"],
        memory: Memory,
        state: RnnState,
    ) -> RnnStep:
        """Run the recurrence and the attention mechanism, in the order that `query` specifies."""
        # Some mechanisms depend on the previous token.
        attention_state = self.attention.advance(state.attention, tokens)
        if self.config.decoder.query == "previous":
            attention_step = self.attention.read(state.layers[-1][0], memory, attention_state)
            layers, top = self.decoder.advance(opened, gates, attention_step.contexts[:, 0], state.layers)
            outputs = self._dropout(top).unsqueeze(1)
        else:
            layers, top = self.decoder.advance(opened, gates, state.input_feed, state.layers)
            attention_step = self.attention.read(top, memory, attention_state)
            contexts, outputs = attention_step.contexts, None
            if self.linear_readout and attention_step.positions is not None:
                # The linear readout scores the single source positions, so only other contexts remain.
                contexts = contexts[:, attention_step.positions.shape[1] :]
            if contexts.shape[1]:
                outputs = self._attentional(opened, contexts, top)
        return RnnStep(layers, top, attention_step, outputs)

    def _finish(
        self, opened: OpenDecoder, step: RnnStep, log_likelihood: Float[Tensor, "B K"] | None
    ) -> RnnState:
        """Return the state after the token is known."""
        attention = step.attention_step.state
        if log_likelihood is not None:
            attention = step.attention_step.update(log_likelihood)
        if self.config.decoder.input_feeding == "context":
            feed = attention.context
        elif log_likelihood is not None:
            # Attention is now conditioned on the token, so the attentional vector is computed again.
            feed = self._attentional(opened, attention.context.unsqueeze(1), step.top)[:, 0]
        else:
            assert step.outputs is not None
            feed = step.outputs[:, 0]
        return RnnState(step.layers, attention, feed)

    # --- search ---------------------------------------------------------------------------------------

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, RnnState)
        opened = self.decoder.open(self.combine)
        gates = self.decoder.project(self.target_embedding(tokens))
        step = self._advance(opened, tokens, gates, memories[0], state)
        source_mixture = None
        if isinstance(memories[0], ReadoutMemory) and self.combine is not None:
            weight, _ = self._output(compute_dtype(self.combine))
            source_mixture = memories[0].mix(
                step.top, step.attention_step, self.combine, weight, self._dropout
            )
        return predict(
            step.outputs,
            self._output(step.top.dtype if step.outputs is None else step.outputs.dtype),
            (step.attention_step,),
            step,
            self.attention.eos_constraint(memories[0], state.attention),
            self.attention.observes_tokens,
            source_mixture,
        )

    def update(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> RnnState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        step = prediction.state.select(rows)
        assert isinstance(step, RnnStep)
        log_likelihoods = prediction.token_log_probs(rows, tokens) if self.attention.observes_tokens else None
        return self._finish(self.decoder.open(self.combine), step, log_likelihoods)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`."""
        assert batch.target is not None
        targets = batch.target.tokens
        memory, state = self._begin(batch.source, batch.upper_bounds, batch.lower_bounds, batch.target)
        shifted = shift_right(targets)
        embedded = self._embed(self.target_embedding, shifted)
        # All embeddings are known in training, so their part of the gates is one matrix multiplication.
        gates = self.decoder.project(embedded).unbind(1)
        source_readout = None
        if self.linear_readout:
            assert self.combine is not None
            output = self._output(compute_dtype(self.combine))
            source_readout = SourceReadout.open(memory.states, self.combine, *output, targets, self._dropout)
        opened = self.decoder.open(self.combine)
        steps: list[RnnStep] = []
        scored: list[tuple[Tensor, Tensor]] = []
        posteriors: list[Tensor] = []
        for t, step_gates in enumerate(gates):
            try:
                step = self._advance(opened, shifted[:, t], step_gates, memory, state)
            except InfeasibleBoundsError as error:
                raise name_infeasible_sentence(batch, error, t) from None
            log_likelihoods = None
            # Other mechanisms do not need the likelihoods for the next step: all are scored at once below.
            if self.attention.observes_tokens:
                scored.append(self._score(source_readout, step, targets[:, t], t, mean_log_probs))
                log_likelihoods = scored[-1][0]
            state = self._finish(opened, step, log_likelihoods)
            posteriors.append(state.attention.posteriors)
            steps.append(step)
        attention_step = stack_steps([step.attention_step for step in steps], state.attention, posteriors)
        mask, top = batch.target.mask, None
        if self.attention.observes_tokens:
            # Steps after the end of a shorter sentence were scored too; mask them.
            scores, means = (
                torch.stack(items, dim=1).masked_fill(~mask.unsqueeze(-1), 0.0)
                for items in zip(*scored, strict=True)
            )
        else:
            hidden = torch.stack([step.outputs for step in steps if step.outputs is not None], dim=1)
            output = self._output(hidden.dtype)
            scores, means = score_real_tokens(hidden, output, targets, mask, mean_log_probs)
            if self.training and self.reward is not None:
                top = top_tokens(hidden[:, :, 0], output)
        return ForwardOutput(
            log_likelihoods=scores,
            mean_log_probs=means,
            log_weights=attention_step.log_weights,
            log_policy=attention_step.log_policy,
            penalty=attention_step.penalty,
            mask=mask,
            cross_attentions=(attention_step.weights,),
            posteriors=() if attention_step.posteriors is None else (attention_step.posteriors,),
            top_tokens=top,
        )

    def _output(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return the output layer's weights and biases."""
        weight = self.target_embedding.weight if self.output is None else self.output
        return weight.to(dtype), self.output_bias.to(dtype)

    def _score(
        self,
        source_readout: SourceReadout | None,
        step: RnnStep,
        targets: Int[Tensor, "B"],
        t: int,
        mean_log_probs: bool,
    ) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]]:
        """Return log p(y_t | context k), and its mean over the vocabulary, for one step."""
        scored: list[tuple[Tensor, Tensor]] = []
        if source_readout is not None:
            positions = step.attention_step.positions
            assert positions is not None
            log_likelihoods, means = source_readout.score(step.top, targets, t)
            scored.append((log_likelihoods.gather(1, positions), means.gather(1, positions)))
        if step.outputs is not None:
            output = self._output(step.outputs.dtype)
            # With `linear_readout` these contexts are not single source positions: score all of them.
            contexts = None if self.linear_readout else scored_contexts(step.attention_step)
            scored.append(score_tokens(step.outputs, output, targets, mean_log_probs, contexts))
        log_likelihoods, means = (torch.cat(parts, dim=1) for parts in zip(*scored, strict=True))
        return log_likelihoods, means
