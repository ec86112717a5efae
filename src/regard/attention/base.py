"""The interface of an attention mechanism: Memory, State, AttentionStep, and the methods that connect them.

At each time step a decoder asks the mechanism for K context vectors and their log-weights, computes the
distribution of the next token under each context, and passes the likelihood of the chosen token back to the
mechanism (`update`). Models, search and training depend only on this interface. To add a mechanism, register
its class (`regard.attention.registry`), in the package or in a plugin; `docs/extend.md` is a tutorial.

Dimensions: B batch, T target, S source, H heads, D width, K contexts. Masks are boolean, True = may be
attended.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.layers.batched_state import BatchedState
from regard.layers.linear import StepLinear
from regard.types import Bool, Float, Int, Tensor

Objective = Literal["marginal", "bound", "reinforce"]
Likelihood = Callable[[Float[Tensor, "B K D"], int], Float[Tensor, "B K"]]


@dataclass(frozen=True)
class Memory(BatchedState):
    """The encoder states of one batch, with their masks, fertilities and projections.

    Attributes:
        states: [B, S, D], the encoder states.
        mask: [B, S], True where a position may be attended.
        upper: [B, S], the maximum total attention of each source token (its fertility), inf at the sink.
            None if there are no upper bounds.
        lower: [B, S], the minimum total attention that each source token should receive. None if there are
            no lower bounds.
        keys: The scorer's projection of the states, computed once per sentence by `Attention.prepare`.
        values: The states, prepared for the weighted sums of all time steps by `Attention.prepare`.
        key_states: [B, S, D], the states that keys are computed from. None means `states`.
        target_mask: [B, T], True at real (unpadded) target positions. Only set if a target is given, because
            mechanisms with bounds must not spend fertility on padding. None means all positions are real.
    """

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    upper: Float[Tensor, "B S"] | None = None
    lower: Float[Tensor, "B S"] | None = None
    keys: BatchedState | None = None
    values: StepLinear | None = None
    key_states: Float[Tensor, "B S D"] | None = None
    target_mask: Bool[Tensor, "B T"] | None = None


@dataclass(frozen=True)
class Reference(BatchedState):
    """The target side of a training batch, for mechanisms with an inference network.

    Attributes:
        embeddings: [B, T, E], embeddings of the target tokens, with the end symbol, without the start symbol.
        mask: [B, T], True at real tokens.
    """

    embeddings: Float[Tensor, "B T E"]
    mask: Bool[Tensor, "B T"]


@dataclass(frozen=True)
class Reward:
    """Settings of the reward for sampled attention: the BLEU of the tokens with the highest probability.

    The reward of a time step is the increase in BLEU that its token causes
    (`regard.metrics.translation.prefix_bleu`). The return of a time step is the sum of the
    rewards from that step onward.

    Attributes:
        weight: Weight of the reward term relative to the log-likelihood.
        batch_baseline: Whether the baseline is the mean return of the other sentences of the batch.
    """

    weight: float
    batch_baseline: bool


@dataclass(frozen=True)
class State(BatchedState):
    """The recurrent state of a mechanism; subclasses add fields.

    Attributes:
        weights: [B, H, S], the attention weights after the step (zeros before the first step). If the
            mechanism observes tokens, these weights include the correction by the token.
        context: [B, D], the context vector after the step (zeros before the first step).
        posterior: [B, S], the posterior of the source position, given the token that was produced. None if
            it equals the weights, and before the first step.
    """

    weights: Float[Tensor, "B H S"]
    context: Float[Tensor, "B D"]
    posterior: Float[Tensor, "B S"] | None = dataclasses.field(default=None, kw_only=True)

    @property
    def posteriors(self) -> Float[Tensor, "B H S"]:
        """The attention given the token that was produced, used for analysis."""
        return self.weights if self.posterior is None else self.posterior.unsqueeze(1)


@dataclass(frozen=True)
class EosConstraint(BatchedState):
    """Constraints on the end symbol at the next time step.

    Attributes:
        required: [B], True where only the end symbol may follow, because no attention is left.
        allowed: [B], True where the end symbol may follow.
    """

    required: Bool[Tensor, "B"]
    allowed: Bool[Tensor, "B"]

    @classmethod
    def combine(cls, constraints: "Sequence[EosConstraint | None]") -> "EosConstraint | None":
        """Combine the constraints of several mechanisms; None if there are none.

        The end symbol is required if one mechanism requires it. It is allowed if it is required or if all
        mechanisms allow it.
        """
        active = [constraint for constraint in constraints if constraint is not None]
        if not active:
            return None
        required = torch.stack([constraint.required for constraint in active]).any(0)
        return cls(required, torch.stack([constraint.allowed for constraint in active]).all(0) | required)


@dataclass(frozen=True)
class AttentionStep(BatchedState):
    """The result of one attention step, before its output token is known.

    `read_all` returns the same fields with an additional axis T after B.

    Attributes:
        contexts: [B, K, D], the context vectors.
        log_weights: [B, K], the log-weights of the contexts in the mixture, in nats.
        weights: [B, H, S], the attention weights. Weights of a hard selection need not sum to 1.
        log_policy: [B, K], log-probability of the sampled choice, in nats; zero if nothing was sampled.
        penalty: [B], a term added to the loss, in nats (a divergence or a negative entropy); zero if there is
            none.
        state: The state after the step, before the output token is observed. From `read_all`, the state after
            the last step.
        positions: [B, W], the source positions of the first W contexts. None if no context is the state of a
            single position.
        posteriors: [B, T, H, S], from `read_all` only: `State.posteriors` of every step. None means the
            weights.
    """

    contexts: Float[Tensor, "B *T K D"]
    log_weights: Float[Tensor, "B *T K"]
    weights: Float[Tensor, "B *T H S"]
    log_policy: Float[Tensor, "B *T K"]
    penalty: Float[Tensor, "B *T"]
    state: State
    positions: Int[Tensor, "B *T W"] | None = dataclasses.field(default=None, kw_only=True)
    posteriors: Float[Tensor, "B T H S"] | None = dataclasses.field(default=None, kw_only=True)

    @classmethod
    def with_one_context(
        cls,
        contexts: Float[Tensor, "B *T 1 D"],
        weights: Float[Tensor, "B *T H S"],
        state: State,
        penalty: Float[Tensor, "B *T"] | None = None,
    ) -> "AttentionStep":
        """Return a step with one context, whose log-weight is 0, and without a sampled choice."""
        zeros = weights.new_zeros(contexts.shape[:-1])
        return cls(contexts, zeros, weights, zeros, zeros[..., 0] if penalty is None else penalty, state)

    def update(self, log_likelihood: Float[Tensor, "B K"]) -> State:
        """Return the state after the output token is known.

        Args:
            log_likelihood: log p(token | context k), in nats.
        """
        return self.state


class Attention(nn.Module, ABC):
    """Base class of all attention mechanisms.

    `regard.attention.registry.build_attention` has the arguments of the constructor of a mechanism.

    Attributes:
        observes_tokens: Whether the state depends on the token that was produced. If not, K is 1, `update`
            ignores the likelihood and `state.context` equals `contexts[:, 0]`, so a decoder may compute the
            likelihoods of all time steps at the end.
        uses_reference: Whether `start` uses the reference in training.
        attends_to_single_positions: Whether the contexts, or at least the first ones, are the states of
            single source positions, which are listed in `AttentionStep.positions`.
        has_projections: Whether the mechanism has its own projections of queries and memory. If so, it is not
            wrapped in multi-head attention.
        needs_advance: Whether `advance` must be called before each step. This requires a recurrent decoder.
        trains_queries: Whether gradients flow into the queries. If not, parameters that only produce queries
            receive no gradient.
        bounded: Whether the mechanism respects the fertilities in `Memory`.
        objective: The training objective of the mechanism.
        reward: The reward for the objective `reinforce`. None means the log-likelihood of the token.
        num_heads: H.
    """

    observes_tokens: bool = False
    uses_reference: bool = False
    attends_to_single_positions: bool = False
    has_projections: bool = False
    needs_advance: bool = False
    trains_queries: bool = True
    bounded: bool = False
    objective: Objective = "marginal"
    reward: Reward | None = None
    num_heads: int = 1

    @property
    def has_posterior(self) -> bool:
        """Whether `State.posteriors` may differ from the weights; by default, whether tokens are observed."""
        return self.observes_tokens

    def prepare(self, memory: Memory) -> Memory:
        """Compute the tensors that all time steps share (keys, values), once per sentence."""
        return memory

    def start(self, memory: Memory, target: Reference | None = None) -> State:
        """Return the state before the first time step.

        Args:
            memory: A prepared memory.
            target: The reference, for inference networks; only given in training.
        """
        batch, length, width = memory.states.shape
        # Attention accumulates over time steps, so the weights are kept in float32 or better.
        exact = torch.promote_types(torch.float32, memory.states.dtype)
        weights = torch.zeros(batch, self.num_heads, length, dtype=exact, device=memory.states.device)
        return State(weights, memory.states.new_zeros(batch, width))

    def advance(self, state: State, tokens: Int[Tensor, "B"]) -> State:
        """Update the state with the previous token, before `read`; only needed where `needs_advance` is True.

        Args:
            state: The state after the previous step.
            tokens: The token produced by the previous step; the start symbol at the first step.
        """
        return state

    def fast_context(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """Compute the context of each time step without the weights, if there is a faster way.

        Args:
            queries: The decoder states.
            memory: A prepared memory.
            state: The state before the first step.

        Returns:
            The same tensor as `read_all(...).contexts[:, :, 0]`, or None if there is no faster way than
            `read_all`.
        """
        return None

    @abstractmethod
    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step.

        Args:
            query: The decoder state.
            memory: A prepared memory.
            state: The state after the previous step.
        """

    def eos_constraint(self, memory: Memory, state: State) -> EosConstraint | None:
        """Return the constraints on the end symbol at the next time step; None if there are none.

        Args:
            memory: A prepared memory.
            state: The state after the previous step.
        """
        return None

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all time steps of a reference at once; equivalent to T calls of `read`.

        This is for decoders without recurrence, whose queries do not depend on the contexts.

        Args:
            queries: The decoder states.
            memory: A prepared memory.
            state: The state before the first step.
            likelihood: Function of contexts [B, K, D] and t that returns log p(reference token at t | context
                k) as [B, K]. Required by mechanisms that observe tokens.
        """
        steps: list[AttentionStep] = []
        posteriors: list[Tensor] = []
        for t in range(queries.shape[1]):
            step = self.read(queries[:, t], memory, state)
            state = step.state
            if self.observes_tokens:
                # The next step depends on this token, so its likelihood is needed now.
                assert likelihood is not None, f"{type(self).__name__}.read_all needs `likelihood`"
                state = step.update(likelihood(step.contexts, t))
            if self.has_posterior:
                posteriors.append(state.posteriors)
            steps.append(step)
        return stack_steps(steps, state, posteriors)


STEP_FIELDS = ("contexts", "log_weights", "weights", "log_policy", "penalty")
"""The tensor fields of an AttentionStep that every mechanism sets."""


def stack_steps(
    steps: list[AttentionStep], state: State, posteriors: list[Tensor] | None = None
) -> AttentionStep:
    """Stack T attention steps along a new axis T after B.

    Args:
        steps: The attention steps.
        state: The state after the last step.
        posteriors: `State.posteriors` after each step; None if they are the weights.
    """
    fields = {name: torch.stack([getattr(step, name) for step in steps], dim=1) for name in STEP_FIELDS}
    stacked_posteriors = torch.stack(posteriors, dim=1) if posteriors else None
    return AttentionStep(**fields, state=state, posteriors=stacked_posteriors)


def squeeze_step(step: AttentionStep) -> AttentionStep:
    """Remove the axis T, of length 1, from an attention step."""
    parts = {name: getattr(step, name)[:, 0] for name in STEP_FIELDS}
    return AttentionStep(**parts, state=step.state)
