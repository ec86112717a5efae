"""Models whose decoder has no recurrence: a stack of layers, each with its own cross-attention mechanism.

The mechanism splits a layer into two halves (`LayerQuery`). The first half computes the query from the target
prefix; the second half computes the layer's output from the contexts that the mechanism returns. Training
runs all time steps at once, search runs one. A mechanism with several contexts is in the last layer; that
layer's second half and the distribution over the next token are computed for each context, so that all
computation above such a mechanism is repeated per context.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from regard.attention.base import (
    Attention,
    AttentionStep,
    EosConstraint,
    Likelihood,
    Memory,
    Reference,
    State,
)
from regard.data.batch import Batch, PaddedSequences
from regard.errors import InfeasibleBoundsError
from regard.kernels.dropout import dropout
from regard.layers.batched_state import BatchedState, select_rows
from regard.layers.position_encoding import PositionEncoding
from regard.models.base import (
    ForwardOutput,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
    name_infeasible_sentence,
    shift_right,
)
from regard.models.output import OutputLayer, predict, score_real_tokens, scored_contexts, top_tokens
from regard.models.stack_layer import LayerQuery, StackLayer
from regard.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class OpenStack:
    """The decoder, prepared for one forward pass or one search.

    Attributes:
        prepared: The result of `StackLayer.prepare` of each layer, lowest first.
        input_proj: A function from the embeddings to the input of the lowest layer.
        final_norm: A function from the last layer's states to the input of the output layer.
        output: The output layer.
    """

    prepared: tuple[Any, ...]
    input_proj: Callable[[Tensor], Tensor]
    final_norm: Callable[[Tensor], Tensor]
    output: OutputLayer


@dataclass(frozen=True)
class StackState(BatchedState):
    """The state of the decoder after a step.

    Attributes:
        caches: Each layer's cache of the target prefix.
        attentions: The state of each layer's mechanism. Empty before the update with the token of a step.
        length: Number of steps so far.
        opened: The prepared decoder, shared by all rows.
    """

    caches: tuple[BatchedState, ...]
    attentions: tuple[State, ...] = ()
    length: int = 0
    opened: OpenStack | None = None


class StackModel(TranslationModel, ABC):
    """Base class of the models with a stack of decoder layers, lowest first; see `TranslationModel`."""

    config: Any
    target_embedding: nn.Embedding
    source_positions: PositionEncoding
    target_positions: PositionEncoding
    decoder: nn.ModuleList
    embedding_scale: float = 1.0
    scales_embeddings = True

    @abstractmethod
    def _encode(self, source: PaddedSequences, output_attentions: bool) -> tuple[Memories, list[Tensor]]:
        """Encode the sources.

        Returns:
            Each decoder layer's memory, without bounds and not prepared, and, with `output_attentions`, the
            encoder's self-attention of each layer.
        """

    @abstractmethod
    def _open(self) -> OpenStack:
        """Prepare the decoder for one forward pass or one search."""

    def _layers(self) -> list[StackLayer]:
        return [layer for layer in self.decoder if isinstance(layer, StackLayer)]

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens, given by the learned positions; see `TranslationModel.max_length`."""
        return self.source_positions.max_length

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
        embedded = embedding(tokens) * self.embedding_scale
        if source is not None:
            embedded = source.scale_embeddings(embedded)
        embedded = embedded + positions(start, tokens.shape[1], embedded)
        return dropout(embedded, self.config.dropout, self.training)

    # --- search ---------------------------------------------------------------------------------------

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, StackState]:
        """Encode the source sentences; see `TranslationModel.begin`."""
        plain, _ = self._encode(source, False)
        memories = [replace(memory, upper=upper, lower=lower) for memory in plain]
        mechanisms = [layer.cross_attention for layer in self._layers()]
        prepared = tuple(part.prepare(memory) for part, memory in zip(mechanisms, memories, strict=True))
        attentions = tuple(part.start(memory) for part, memory in zip(mechanisms, prepared, strict=True))
        opened = self._open()
        layers = zip(self._layers(), opened.prepared, strict=True)
        caches = tuple(layer.empty_cache(len(source), weights) for layer, weights in layers)
        return prepared, StackState(caches, attentions, 0, opened)

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the next token; see `TranslationModel.step`."""
        assert isinstance(state, StackState) and state.opened is not None
        opened, layers = state.opened, self._layers()
        attention_steps: list[AttentionStep] = []
        caches: list[BatchedState] = []
        eos_constraints: list[EosConstraint | None] = []
        embedded = self._embed(
            self.target_embedding, self.target_positions, tokens.unsqueeze(1), state.length
        )[:, 0]
        hidden = opened.input_proj(embedded).unsqueeze(1)
        for layer, weights, memory, attention, before in zip(
            layers, opened.prepared, memories, state.attentions, state.caches, strict=True
        ):
            # Only the last layer may have K > 1 contexts, so every layer's input has K = 1.
            query, cache = layer.step(hidden[:, 0], before, embedded, weights)
            attention_step = layer.cross_attention.read(query.queries, memory, attention)
            hidden = query.finish(query.residual.unsqueeze(1), attention_step.contexts)  # (B, K, D)
            attention_steps.append(attention_step)
            caches.append(cache)
            # The constraint depends on the state before this step, not on the attention of this step.
            eos_constraints.append(layer.cross_attention.eos_constraint(memory, attention))
        return predict(
            opened.final_norm(hidden),
            opened.output,
            tuple(attention_steps),
            StackState(tuple(caches), (), state.length + 1, opened),
            EosConstraint.combine(eos_constraints),
            layers[-1].cross_attention.observes_tokens,
        )

    def update(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> StackState:
        """Return the state of the continued hypotheses; see `TranslationModel.update`."""
        return continue_state(prediction, rows, tokens, self._layers()[-1].cross_attention.observes_tokens)

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets; see `TranslationModel.forward`.

        Raises:
            InfeasibleBoundsError: if the fertilities of a sentence are exhausted. The message names the
                sentence.
        """
        assert batch.target is not None
        targets, layers = batch.target.tokens, self._layers()
        memories, encoder_attentions = self._encode(batch.source, output_attentions == "all")
        upper, lower = batch.upper_bounds, batch.lower_bounds
        target_mask = None if upper is None else batch.target.mask
        embedded = self._embed(self.target_embedding, self.target_positions, shift_right(targets))
        reference = None
        if self.training and layers[-1].cross_attention.uses_reference:
            # The inference network reads the targets themselves, not the shifted input of the decoder.
            words = self._embed(self.target_embedding, self.target_positions, targets)
            reference = Reference(words, batch.target.mask)
        opened = self._open()
        hidden = opened.input_proj(embedded).unsqueeze(2)
        queries: list[LayerQuery] = []
        steps: list[AttentionStep | None] = []
        scorer: _StepScorer | None = None
        try:
            for layer, weights, memory in zip(layers, opened.prepared, memories, strict=True):
                mechanism = layer.cross_attention
                query = layer.query(hidden[:, :, 0], embedded, weights, output_attentions == "all")
                if mechanism.observes_tokens:  # only in the last layer
                    scorer = _StepScorer(opened, query, batch.target, mean_log_probs)
                memory = replace(memory, upper=upper, lower=lower, target_mask=target_mask)
                contexts, step = _attend(mechanism, query, memory, output_attentions, reference, scorer)
                queries.append(query)
                steps.append(step)
                # Some mechanisms score each token on its own; the others are scored together below.
                if scorer is None or not scorer.scores:
                    hidden = query.finish(query.residual.unsqueeze(2), contexts)  # (B, T, K, D)
        except InfeasibleBoundsError as error:
            raise name_infeasible_sentence(batch, error) from None
        predicted = None
        if self.training and self.reward is not None:
            predicted = top_tokens(opened.final_norm(hidden[:, :, 0]), opened.output)
        if scorer is not None and scorer.scores:
            log_likelihoods, means = (torch.stack(items, dim=1) for items in zip(*scorer.scores, strict=True))
        else:
            log_likelihoods, means = score_real_tokens(
                hidden,
                opened.output,
                targets,
                batch.scored if scorer is None and batch.scored is not None else batch.target.mask,
                mean_log_probs,
                None if scorer is None or steps[-1] is None else scored_contexts(steps[-1]),
                opened.final_norm,
            )
        shared = batch.target.mask, queries, steps, encoder_attentions
        return replace(_forward_output(log_likelihoods, means, *shared), top_tokens=predicted)


@dataclass
class _StepScorer:
    """The likelihood function of a mechanism that observes tokens; it keeps the scores of the steps."""

    opened: OpenStack
    query: LayerQuery
    target: PaddedSequences
    mean_log_probs: bool
    scores: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __call__(self, contexts: Float[Tensor, "B K D"], t: int) -> Float[Tensor, "B K"]:
        """Return the log-likelihood of the reference token of step `t` under each context."""
        query, opened, at = self.query, self.opened, slice(t, t + 1)
        hidden = query.finish(query.residual[:, t].unsqueeze(1), contexts).unsqueeze(1)
        tokens, mask = self.target.tokens[:, at], self.target.mask[:, at]
        scores, means = score_real_tokens(
            hidden, opened.output, tokens, mask, self.mean_log_probs, norm=opened.final_norm
        )
        self.scores.append((scores[:, 0], means[:, 0]))
        return scores[:, 0]


def _attend(
    mechanism: Attention,
    query: LayerQuery,
    memory: Memory,
    output_attentions: OutputAttentions,
    reference: Reference | None,
    likelihood: Likelihood | None,
) -> tuple[Float[Tensor, "B T K D"], AttentionStep | None]:
    """Return the contexts of all steps, and the attention if it was requested or computed."""
    prepared = mechanism.prepare(memory)
    state = mechanism.start(prepared, reference)
    # Without weights some mechanisms have a faster path, which returns None where it does not apply.
    if output_attentions == "nothing":
        contexts = mechanism.fast_context(query.queries, prepared, state)
        if contexts is not None:
            return contexts.unsqueeze(2), None
    attention_step = mechanism.read_all(query.queries, prepared, state, likelihood)
    return attention_step.contexts, attention_step


def _forward_output(
    log_likelihoods: Float[Tensor, "B T K"],
    means: Float[Tensor, "B T K"],
    mask: Bool[Tensor, "B T"],
    queries: list[LayerQuery],
    steps: list[AttentionStep | None],
    encoder_attentions: list[Tensor],
) -> ForwardOutput:
    """Return the output of a forward pass, given each layer's query and, where computed, its attention."""
    last, zeros = steps[-1], torch.zeros_like(log_likelihoods)
    known = [step for step in steps if step is not None]
    # If a mechanism computes no posterior, its posterior is its prior.
    posteriors = (step.weights if step.posteriors is None else step.posteriors for step in known)
    self_attentions = (query.self_attention for query in queries)
    penalty = sum((step.penalty for step in known), torch.zeros((), device=mask.device))
    return ForwardOutput(
        log_likelihoods=log_likelihoods,
        mean_log_probs=means,
        log_weights=zeros if last is None else last.log_weights,
        log_policy=zeros if last is None else last.log_policy,
        # Without any penalty it is still a scalar zero.
        penalty=penalty.expand(mask.shape),
        mask=mask,
        cross_attentions=tuple(step.weights for step in known),
        posteriors=tuple(posteriors),
        encoder_attentions=tuple(encoder_attentions),
        decoder_attentions=tuple(weights for weights in self_attentions if weights is not None),
    )


def continue_state(
    prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"], observes: bool
) -> StackState:
    """Return the state of the hypotheses that are continued; see `TranslationModel.update`.

    `observes` is whether the last layer's mechanism is updated with the token.
    """
    pending = prediction.state
    assert isinstance(pending, StackState)
    # Only the last layer's mechanism may depend on the token.
    *lower, last = prediction.attention_steps
    attentions = [select_rows(attention_step.state, rows) for attention_step in lower]
    if observes:
        attentions.append(last.select(rows).update(prediction.token_log_probs(rows, tokens)))
    else:
        attentions.append(last.state.select(rows))
    return StackState(select_rows(pending.caches, rows), tuple(attentions), pending.length, pending.opened)
