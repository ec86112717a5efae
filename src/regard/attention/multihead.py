"""Multi-head attention around any mechanism, Vaswani et al. (2017), Section 3.2.2.

    head_h = mechanism(q W_h^Q, x W_h^K, x W_h^V),   context = [head_1; ...; head_H] W^O

The heads are folded into the batch axis: the heads of a sentence are consecutive rows, B H rows in all. All
heads are computed together, and a mechanism needs no code for heads. A mechanism with several contexts gets a
single head of full width, because H heads would require K^H combinations of contexts.
"""

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.base import (
    Attention,
    AttentionStep,
    EosConstraint,
    Likelihood,
    Memory,
    Reference,
    State,
)
from regard.attention.registry import (
    AttentionConfig,
    attention_class,
    build_attention,
    with_default_score_function,
)
from regard.errors import InfeasibleBoundsError
from regard.layers.batched_state import BatchedState
from regard.layers.linear import Linear
from regard.types import Float, Int, Tensor


@dataclass(frozen=True)
class FoldedHeads(BatchedState):
    """The B H batch rows of all heads; `select` takes indices of sentences."""

    folded: Any
    num_heads: int

    def select(self, index: Int[Tensor, "N"]) -> "FoldedHeads":
        """Select the rows of the sentences `index`."""
        places = index.unsqueeze(1) * self.num_heads + torch.arange(self.num_heads, device=index.device)
        return FoldedHeads(self.folded.select(places.flatten()), self.num_heads)


@dataclass(frozen=True)
class MultiHeadState(State):
    """The state of multi-head attention, with the mechanism's state of each head."""

    heads: FoldedHeads

    @property
    def posteriors(self) -> Float[Tensor, "B H S"]:
        """The attention of each head given the token that was produced."""
        return _unfold_heads(self.heads.folded.posteriors.squeeze(1), self.heads.num_heads)


@dataclass(frozen=True)
class MultiHeadStep(AttentionStep):
    """The attention step of a mechanism with one head, whose state still depends on the token."""

    mechanism_step: AttentionStep
    out_proj: Linear

    def update(self, log_likelihood: Float[Tensor, "B K"]) -> MultiHeadState:
        """Pass the likelihood to the mechanism and return the new state."""
        after = self.mechanism_step.update(log_likelihood)
        return MultiHeadState(after.weights, self.out_proj(after.context), FoldedHeads(after, 1))


class MultiHeadAttention(Attention):
    """Multi-head attention around a mechanism.

    Args:
        config: The config of the mechanism.
        query_size: Width of the decoder state, and of the contexts.
        memory_size: Width of the memory's states.
        num_heads: H; ignored for mechanisms with several contexts, which get one head.
        target_size: Width of the target embeddings.
    """

    def __init__(
        self, config: AttentionConfig, query_size: int, memory_size: int, num_heads: int, target_size: int = 0
    ) -> None:
        """Build the mechanism and the projections."""
        super().__init__()
        kind = attention_class(config)
        self.num_heads = 1 if kind.observes_tokens else num_heads
        # Heads have their own projections, so the scorer needs no matrix W.
        config = with_default_score_function(config, "scaled_dot")
        head_size = query_size // self.num_heads
        self.mechanism = build_attention(config, head_size, head_size, target_size, self.num_heads)
        self.observes_tokens = self.mechanism.observes_tokens
        self.uses_reference = self.mechanism.uses_reference
        self.attends_to_single_positions = self.mechanism.attends_to_single_positions
        self.objective, self.reward = self.mechanism.objective, self.mechanism.reward
        self.query_proj = Linear(query_size, query_size)
        self.key_value_proj = Linear(memory_size, 2 * query_size, num_parts=2)  # keys and values
        self.out_proj = Linear(query_size, query_size)

    @property
    def has_posterior(self) -> bool:
        """Whether the mechanism has a posterior."""
        return self.mechanism.has_posterior

    def _split_heads(self, x: Float[Tensor, "B T N"], parts: int = 1) -> Float[Tensor, "P R T E"]:
        """Split the last axis into parts, and fold the heads of each part into the batch axis."""
        batch, steps, width = x.shape
        head_size = width // parts // self.num_heads
        split = x.view(batch, steps, parts, self.num_heads, head_size).permute(2, 0, 3, 1, 4)
        return split.reshape(parts, batch * self.num_heads, steps, head_size)

    def _join_steps(self, inner: AttentionStep) -> AttentionStep:
        """Return the steps of all heads, [B, T, ...], from those of the mechanism, [B H, T, ...]."""
        head_contexts = _unfold_heads(inner.contexts.squeeze(2), self.num_heads)  # (B, H, T, E)
        contexts = self.out_proj(head_contexts.transpose(1, 2).flatten(2)).unsqueeze(2)  # (B, T, 1, D)
        weights = _unfold_heads(inner.weights.squeeze(2), self.num_heads).transpose(1, 2)  # (B, T, H, S)
        last = MultiHeadState(weights[:, -1], contexts[:, -1, 0], FoldedHeads(inner.state, self.num_heads))
        penalty = _unfold_heads(inner.penalty, self.num_heads).sum(1)
        return AttentionStep.with_one_context(contexts, weights, last, penalty)

    @contextmanager
    def _map_error_rows(self) -> Generator[None]:
        """Convert the row of a head in an `InfeasibleBoundsError` to the row of its sentence."""
        try:
            yield
        except InfeasibleBoundsError as error:
            row = (error.row[0] // self.num_heads, *error.row[1:]) if error.row else error.row
            raise InfeasibleBoundsError(str(error), row) from None

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and values of every head and prepare the mechanism's memory."""
        keys, values = self._split_heads(self.key_value_proj(memory.states), parts=2)
        mask, upper, lower, target_mask = (
            None if x is None else x.repeat_interleave(self.num_heads, dim=0)
            for x in (memory.mask, memory.upper, memory.lower, memory.target_mask)
        )
        assert mask is not None
        # The mechanism compares queries with `key_states` and averages `states`: a head's keys and values.
        inner = self.mechanism.prepare(
            Memory(values, mask, upper, lower, key_states=keys, target_mask=target_mask)
        )
        return dataclasses.replace(memory, keys=FoldedHeads(inner, self.num_heads))

    def start(self, memory: Memory, target: Reference | None = None) -> MultiHeadState:
        """Return the initial state of every head."""
        # The mechanism's state has one row per head; the weights shown outside have an axis of heads.
        first = self.mechanism.start(_mechanism_memory(memory), target)
        weights = first.weights.new_zeros(len(memory.states), self.num_heads, memory.states.shape[1])
        context = memory.states.new_zeros(len(memory.states), self.out_proj.weight.shape[1])
        return MultiHeadState(weights, context, FoldedHeads(first, self.num_heads))

    def eos_constraint(self, memory: Memory, state: State) -> EosConstraint | None:
        """Require the end if one head requires it; otherwise allow it if all heads allow it."""
        assert isinstance(state, MultiHeadState)
        constraint = self.mechanism.eos_constraint(_mechanism_memory(memory), state.heads.folded)
        if constraint is None:
            return None
        required, allowed = (
            _unfold_heads(x, self.num_heads) for x in (constraint.required, constraint.allowed)
        )
        return EosConstraint(required.any(1), allowed.all(1) | required.any(1))

    def fast_context(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """Compute the contexts without weights, if possible; see `Attention.fast_context`."""
        assert isinstance(state, MultiHeadState)
        contexts = self.mechanism.fast_context(
            self._split_heads(self.query_proj(queries))[0], _mechanism_memory(memory), state.heads.folded
        )
        if contexts is None:
            return None
        return self.out_proj(_unfold_heads(contexts, self.num_heads).transpose(1, 2).flatten(2))

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step."""
        assert isinstance(state, MultiHeadState)
        head_queries = self.query_proj(query).reshape(len(query) * self.num_heads, -1)  # (B H, E)
        with self._map_error_rows():
            inner = self.mechanism.read(head_queries, _mechanism_memory(memory), state.heads.folded)
        if self.observes_tokens:  # one head, several contexts
            return MultiHeadStep(
                self.out_proj(inner.contexts),
                inner.log_weights,
                inner.weights,
                inner.log_policy,
                inner.penalty,
                state,
                positions=inner.positions,
                mechanism_step=inner,
                out_proj=self.out_proj,
            )
        # The heads of a sentence are consecutive rows, so that a view concatenates their contexts.
        context = self.out_proj(inner.contexts.reshape(len(query), 1, -1))  # (B, 1, D)
        weights = _unfold_heads(inner.weights.squeeze(1), self.num_heads)
        after = MultiHeadState(weights, context[:, 0], FoldedHeads(inner.state, self.num_heads))
        penalty = _unfold_heads(inner.penalty, self.num_heads).sum(1)
        return AttentionStep.with_one_context(context, weights, after, penalty)

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps, with the mechanism's own `read_all`."""
        assert isinstance(state, MultiHeadState)
        head_queries = self._split_heads(self.query_proj(queries))[0]
        with self._map_error_rows():
            inner = self.mechanism.read_all(
                head_queries,
                _mechanism_memory(memory),
                state.heads.folded,
                # The decoder's likelihood function expects contexts after W^O.
                None if likelihood is None else lambda contexts, t: likelihood(self.out_proj(contexts), t),
            )
        if self.observes_tokens:
            after = FoldedHeads(inner.state, self.num_heads)
            last = MultiHeadState(inner.state.weights, self.out_proj(inner.state.context), after)
            return dataclasses.replace(inner, contexts=self.out_proj(inner.contexts), state=last)
        step = self._join_steps(inner)
        if inner.posteriors is None:
            return step
        posteriors = _unfold_heads(inner.posteriors.squeeze(2), self.num_heads).transpose(1, 2)
        return dataclasses.replace(step, posteriors=posteriors)


def _mechanism_memory(memory: Memory) -> Memory:
    """Return the memory that the mechanism prepared."""
    assert isinstance(memory.keys, FoldedHeads)
    return memory.keys.folded


def _unfold_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape rows [B H, ...] to [B, H, ...]."""
    return x.reshape(-1, heads, *x.shape[1:])
