"""Decoders without recurrence: a stack of layers, each with its own cross-attention mechanism.

The mechanism splits a layer into two halves (`LayerQuery`). The first half computes the query from the target
prefix; the second half computes the layer's output from the contexts that the mechanism returns. Training
runs all time steps at once, search runs one. A mechanism with several contexts is in the last layer; that
layer's second half and the distribution over the next token are computed for each context, so that all
computation above such a mechanism is repeated per context.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from regard.attention.base import Attention, AttentionStep, EosConstraint, Memory, Reference, State
from regard.data.batch import Batch
from regard.errors import InfeasibleBoundsError
from regard.layers.batched_state import BatchedState, select_rows
from regard.models.base import ForwardOutput, Memories, OutputAttentions, Prediction, name_infeasible_sentence
from regard.models.output import OutputLayer, predict, score_real_tokens, scored_contexts, top_tokens
from regard.types import Float, Int, Tensor

__all__ = [
    "DecoderStack",
    "LayerQuery",
    "PendingStack",
    "Requested",
    "StackState",
    "continue_state",
]


@dataclass(frozen=True)
class StackState(BatchedState):
    """The state of the decoder after a step.

    Attributes:
        caches: Each layer's cache of the target prefix.
        attentions: The state of each layer's mechanism.
    """

    caches: tuple[BatchedState, ...]
    attentions: tuple[State, ...]


@dataclass(frozen=True)
class PendingStack(BatchedState):
    """The state of the decoder before it is updated with the token of a step."""

    caches: tuple[BatchedState, ...]


@dataclass(frozen=True)
class Requested:
    """The optional results of a forward pass; see `TranslationModel.forward`.

    Attributes:
        mean_log_probs: Whether to compute `ForwardOutput.mean_log_probs`.
        output_attentions: The attention weights to return.
        top_tokens: Whether to compute `ForwardOutput.top_tokens`.
    """

    mean_log_probs: bool
    output_attentions: OutputAttentions
    top_tokens: bool


@dataclass(frozen=True)
class LayerQuery:
    """The first half of a layer, before cross-attention.

    Attributes:
        residual: The residual input of `finish`.
        queries: The queries of the mechanism.
        finish: A function that computes the layer's output from `residual` (whose leading axes may be 1) and
            the contexts.
        self_attention: The layer's self-attention weights, if it has any and they were requested.
    """

    residual: Float[Tensor, "*B D"]
    queries: Float[Tensor, "*B Q"]
    finish: Callable[[Tensor, Tensor], Tensor]
    self_attention: Float[Tensor, "B _ T T"] | None = None


ForwardHalf = Callable[[int, Tensor], LayerQuery]
"""Computes the first half of layer i for a whole target, from [B, T, D]."""
StepHalf = Callable[[int, Tensor], tuple[LayerQuery, BatchedState]]
"""Computes the first half of layer i for one more token, from [B, D], and the updated cache."""


@dataclass(frozen=True)
class _Scored:
    """The scores of the targets, with the last layer's attention if it was requested."""

    log_likelihoods: Float[Tensor, "B T K"]
    mean_log_probs: Float[Tensor, "B T K"]
    attention_step: AttentionStep | None
    top_tokens: Int[Tensor, "B T"] | None = None


@dataclass
class _LayerAttentions:
    """The attention of the layers so far, where it was requested, and the sum of their penalties."""

    penalty: Tensor
    weights: list[Tensor] = field(default_factory=list)
    posteriors: list[Tensor] = field(default_factory=list)
    self_attentions: list[Tensor] = field(default_factory=list)

    def add(self, query: LayerQuery, attention_step: AttentionStep | None) -> None:
        """Add a layer; the step is None if no attention was requested and the mechanism is fast without."""
        if query.self_attention is not None:
            self.self_attentions.append(query.self_attention)
        if attention_step is not None:
            weights, posteriors = attention_step.weights, attention_step.posteriors
            self.weights.append(weights)
            # If a mechanism computes no posterior, its posterior is its prior.
            self.posteriors.append(weights if posteriors is None else posteriors)
            self.penalty = self.penalty + attention_step.penalty


class DecoderStack:
    """The mechanisms of all layers, and the output layer.

    Args:
        mechanisms: Each layer's mechanism, lowest layer first.
        final_norm: A function from the last layer's states to the input of the output layer.
        output: The output layer.
    """

    def __init__(
        self, mechanisms: Sequence[Attention], final_norm: Callable[[Tensor], Tensor], output: OutputLayer
    ) -> None:
        """Store the parts."""
        self.mechanisms, self.final_norm, self.output = mechanisms, final_norm, output

    # --- search ---------------------------------------------------------------------------------------

    def begin(self, memories: Memories) -> tuple[Memories, tuple[State, ...]]:
        """Prepare each layer's memory, and return the initial states of the mechanisms too."""
        prepared = tuple(
            mechanism.prepare(memory) for mechanism, memory in zip(self.mechanisms, memories, strict=True)
        )
        return prepared, tuple(
            mechanism.start(memory) for mechanism, memory in zip(self.mechanisms, prepared, strict=True)
        )

    def step(
        self,
        x: Float[Tensor, "B D"],
        memories: Memories,
        attentions: tuple[State, ...],
        half: StepHalf,
        make_pending: Callable[[tuple[BatchedState, ...]], PendingStack] = PendingStack,
    ) -> Prediction:
        """Run one step of all layers, and compute the distribution over the next token.

        Args:
            x: The input of the lowest layer.
            memories: Each layer's prepared memory.
            attentions: Each mechanism's state after the previous step.
            half: A function that computes the first half of a layer.
            make_pending: A function from the updated caches to the decoder's state before the update.
        """
        attention_steps: list[AttentionStep] = []
        caches: list[BatchedState] = []
        eos_constraints: list[EosConstraint | None] = []
        hidden = x.unsqueeze(1)
        for i, (mechanism, memory, state) in enumerate(
            zip(self.mechanisms, memories, attentions, strict=True)
        ):
            # Only the last layer may have K > 1 contexts, so every layer's input has K = 1.
            query, cache = half(i, hidden[:, 0])
            attention_step = mechanism.read(query.queries, memory, state)
            hidden = query.finish(query.residual.unsqueeze(1), attention_step.contexts)  # (B, K, D)
            attention_steps.append(attention_step)
            caches.append(cache)
            # The constraint depends on the state before this step, not on the attention of this step.
            eos_constraints.append(mechanism.eos_constraint(memory, state))
        return predict(
            self.final_norm(hidden),
            self.output,
            tuple(attention_steps),
            make_pending(tuple(caches)),
            EosConstraint.combine(eos_constraints),
            self.mechanisms[-1].observes_tokens,
        )

    # --- training -------------------------------------------------------------------------------------

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memories: Memories,
        half: ForwardHalf,
        batch: Batch,
        requested: Requested,
        reference: Reference | None,
        encoder_attentions: tuple[Tensor, ...] = (),
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets (teacher forcing).

        Args:
            x: The input of the lowest layer.
            memories: Each layer's memory, not prepared.
            half: A function that computes the first half of a layer.
            batch: Sources and targets.
            requested: The optional results.
            reference: The target embeddings, for mechanisms with an inference network.
            encoder_attentions: `ForwardOutput.encoder_attentions`.

        Raises:
            InfeasibleBoundsError: if the fertilities of a sentence are exhausted. The message names the
                sentence.
        """
        assert batch.target is not None
        attentions = _LayerAttentions(torch.zeros((), device=x.device))
        try:
            for i, memory in enumerate(memories[:-1]):
                query = half(i, x)
                contexts, attention_step = _attend(self.mechanisms[i], query, memory, requested)
                x = query.finish(query.residual, contexts)
                attentions.add(query, attention_step)
            query = half(len(memories) - 1, x)
            # Mechanisms that observe tokens have several contexts, which are scored one by one.
            score = self._score_contexts if self.mechanisms[-1].observes_tokens else self._score
            scored = score(query, memories[-1], batch, requested, reference)
        except InfeasibleBoundsError as error:
            raise name_infeasible_sentence(batch, error) from None
        last = scored.attention_step
        attentions.add(query, last)
        zeros = torch.zeros_like(scored.log_likelihoods)
        return ForwardOutput(
            log_likelihoods=scored.log_likelihoods,
            mean_log_probs=scored.mean_log_probs,
            log_weights=zeros if last is None else last.log_weights,
            log_policy=zeros if last is None else last.log_policy,
            # Without any penalty it is still a scalar zero.
            penalty=attentions.penalty.expand(batch.target.tokens.shape),
            mask=batch.target.mask,
            cross_attentions=tuple(attentions.weights),
            posteriors=tuple(attentions.posteriors),
            top_tokens=scored.top_tokens,
            encoder_attentions=encoder_attentions,
            decoder_attentions=tuple(attentions.self_attentions),
        )

    def _score(
        self,
        query: LayerQuery,
        memory: Memory,
        batch: Batch,
        requested: Requested,
        reference: Reference | None,
    ) -> _Scored:
        """Attend in a last layer with one context, and score the targets."""
        assert batch.target is not None
        contexts, attention_step = _attend(self.mechanisms[-1], query, memory, requested)
        hidden = query.finish(query.residual, contexts).unsqueeze(2)
        predicted = (
            top_tokens(self.final_norm(hidden[:, :, 0]), self.output) if requested.top_tokens else None
        )
        scores = score_real_tokens(
            hidden,
            self.output,
            batch.target.tokens,
            batch.scored_mask,
            requested.mean_log_probs,
            norm=self.final_norm,
        )
        return _Scored(*scores, attention_step, predicted)

    def _score_contexts(
        self,
        query: LayerQuery,
        memory: Memory,
        batch: Batch,
        requested: Requested,
        reference: Reference | None,
    ) -> _Scored:
        """Attend in a last layer with several contexts, and score the targets under each of them."""
        assert batch.target is not None
        tokens, mask, mean_log_probs = batch.target.tokens, batch.target.mask, requested.mean_log_probs
        mechanism = self.mechanisms[-1]
        prepared = mechanism.prepare(memory)
        steps: list[tuple[Tensor, Tensor]] = []

        def likelihood(contexts: Float[Tensor, "B K D"], t: int) -> Float[Tensor, "B K"]:
            hidden = query.finish(query.residual[:, t].unsqueeze(1), contexts).unsqueeze(1)
            at = slice(t, t + 1)
            step_scores = score_real_tokens(
                hidden, self.output, tokens[:, at], mask[:, at], mean_log_probs, norm=self.final_norm
            )
            steps.append((step_scores[0][:, 0], step_scores[1][:, 0]))
            return steps[-1][0]

        state = mechanism.start(prepared, reference)
        attention_step = mechanism.read_all(query.queries, prepared, state, likelihood)
        # Some mechanisms call `likelihood` once per step; the others are scored for all steps at once.
        if steps:
            log_likelihoods, means = (torch.stack(items, dim=1) for items in zip(*steps, strict=True))
            return _Scored(log_likelihoods, means, attention_step)
        hidden = query.finish(query.residual.unsqueeze(2), attention_step.contexts)
        scores = score_real_tokens(
            hidden,
            self.output,
            tokens,
            mask,
            mean_log_probs,
            scored_contexts(attention_step),
            self.final_norm,
        )
        return _Scored(*scores, attention_step)


def continue_state(
    prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"], observes: bool
) -> StackState:
    """Return the state of the hypotheses that are continued.

    Args:
        prediction: The result of `DecoderStack.step`.
        rows: The row of the prediction that each hypothesis extends.
        tokens: The token that each hypothesis is extended with.
        observes: Whether the last layer's mechanism is updated with the token.
    """
    pending = prediction.state
    assert isinstance(pending, PendingStack)
    # Only the last layer's mechanism may depend on the token.
    *lower, last = prediction.attention_steps
    attentions = [select_rows(attention_step.state, rows) for attention_step in lower]
    if observes:
        attentions.append(last.select(rows).update(prediction.token_log_probs(rows, tokens)))
    else:
        attentions.append(last.state.select(rows))
    return StackState(select_rows(pending.caches, rows), tuple(attentions))


def _attend(
    mechanism: Attention, query: LayerQuery, memory: Memory, requested: Requested
) -> tuple[Float[Tensor, "B T D"], AttentionStep | None]:
    """Return the contexts of a layer with one context per step, and the attention if it was requested."""
    prepared = mechanism.prepare(memory)
    state = mechanism.start(prepared)
    # Without weights some mechanisms have a faster path, which returns None where it does not apply.
    if requested.output_attentions == "nothing":
        contexts = mechanism.fast_context(query.queries, prepared, state)
        if contexts is not None:
            return contexts, None
    attention_step = mechanism.read_all(query.queries, prepared, state)
    return attention_step.contexts[:, :, 0], attention_step
