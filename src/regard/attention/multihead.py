"""Heads around any mechanism: multi-head attention (Vaswani et al. 2017, Section 3.2.2).

    head_h = mechanism(q W_h^Q, x W_h^K, x W_h^V),   context = [head_1; ...; head_H] W^O

The heads of a sentence stand one after the other among the rows of one batch, B H rows in all, so that a
mechanism knows nothing of heads and all of them are computed together. A mechanism with several contexts has
one head, as wide as all: with H it would have K^H contexts.
"""

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.base import Attention, Ending, Likelihood, Memory, Reading, Reference, State
from regard.attention.registry import AttentionConfig, build_attention, mechanism
from regard.errors import InfeasibleBounds
from regard.layers.linear import Linear
from regard.layers.rows import Rows
from regard.types import Float, Int, Tensor

__all__ = ["Heads", "MultiHeadAttention"]


@dataclass(frozen=True)
class Heads(Rows):
    """Rows of all heads, selected by sentence.

    Attributes:
        rows: B H rows, the heads of a sentence one after the other.
        count: H.
    """

    rows: Any
    count: int

    def select(self, index: Int[Tensor, "N"]) -> "Heads":
        """The rows of the sentences `index`."""
        places = index.unsqueeze(1) * self.count + torch.arange(self.count, device=index.device)
        return Heads(self.rows.select(places.flatten()), self.count)


@dataclass(frozen=True)
class HeadsState(State):
    """The state, and the mechanism's own for each head."""

    heads: Heads

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """Where the heads looked, as known now that the token is."""
        return _of_sentences(self.heads.rows.belief.squeeze(1), self.heads.count)


@dataclass(frozen=True)
class HeadsReading(Reading):
    """A reading of one head that waits for its token.

    Attributes:
        inner: The mechanism's own.
        output: W^O.
    """

    inner: Reading
    output: Linear

    def observe(self, log_likelihood: Float[Tensor, "B K"]) -> HeadsState:
        """Tell the mechanism."""
        after = self.inner.observe(log_likelihood)
        return HeadsState(after.weights, self.output(after.context), Heads(after, 1))


class MultiHeadAttention(Attention):
    """Heads around a mechanism.

    Args:
        config: The mechanism.
        query: Width of the decoder's state, and of the contexts.
        width: Width of the memory's states.
        heads: H; of a mechanism with several contexts 1, whatever is asked for.
        target: Width of the target embeddings.
    """

    def __init__(self, config: AttentionConfig, query: int, width: int, heads: int, target: int = 0) -> None:
        """Build the mechanism and the projections."""
        super().__init__()
        kind = mechanism(config)
        self.heads = 1 if kind.observes else heads
        if getattr(config, "scorer", "none") is None:
            config = dataclasses.replace(config, scorer="scaled")
        each = query // self.heads
        self.inner = build_attention(config, each, each, target, self.heads)
        self.observes = self.inner.observes
        self.reads_reference = self.inner.reads_reference
        self.reads_words = self.inner.reads_words
        self.objective, self.reward = self.inner.objective, self.inner.reward
        self.query = Linear(query, query)
        self.memory = Linear(width, 2 * query, parts=2)
        self.output = Linear(query, query)

    @property
    def has_posterior(self) -> bool:
        """Whether the mechanism's heads have one."""
        return self.inner.has_posterior

    def _split(self, x: Float[Tensor, "B T N"], parts: int = 1) -> Float[Tensor, "P R T E"]:
        """Parts of the last axis, each with its heads among the rows."""
        batch, steps, width = x.shape
        each = width // parts // self.heads
        split = x.view(batch, steps, parts, self.heads, each).permute(2, 0, 3, 1, 4)
        return split.reshape(parts, batch * self.heads, steps, each)

    def _joined(self, x: Float[Tensor, "R T E"]) -> Float[Tensor, "B T D"]:
        """What the heads found, side by side, through W^O."""
        return self.output(_of_sentences(x, self.heads).transpose(1, 2).flatten(2))

    @contextmanager
    def _naming_sentences(self) -> Generator[None]:
        """A context in which an error about a head's row is one about its sentence."""
        try:
            yield
        except InfeasibleBounds as error:
            row = (error.row[0] // self.heads, *error.row[1:]) if error.row else error.row
            raise InfeasibleBounds(str(error), row) from None

    def prepare(self, memory: Memory) -> Memory:
        """Make keys and values of every head, and what the mechanism makes of them."""
        keys, values = self._split(self.memory(memory.states), parts=2)
        mask, upper, lower, steps = (
            None if x is None else x.repeat_interleave(self.heads, dim=0)
            for x in (memory.mask, memory.upper, memory.lower, memory.steps)
        )
        assert mask is not None
        inner = self.inner.prepare(Memory(values, mask, upper, lower, compared=keys, steps=steps))
        return dataclasses.replace(memory, keys=Heads(inner, self.heads))

    def start(self, memory: Memory, target: Reference | None = None) -> HeadsState:
        """The mechanism's own start in every head."""
        first = self.inner.start(_inner(memory), target)
        exact = first.weights.new_zeros(len(memory.states), self.heads, memory.states.shape[1])
        context = memory.states.new_zeros(len(memory.states), self.output.weight.shape[1])
        return HeadsState(exact, context, Heads(first, self.heads))

    def ending(self, memory: Memory, state: State) -> Ending | None:
        """An end where one head must end; else it may come where all heads may."""
        assert isinstance(state, HeadsState)
        found = self.inner.ending(_inner(memory), state.heads.rows)
        if found is None:
            return None
        must, may = (_of_sentences(x, self.heads) for x in (found.must, found.may))
        return Ending(must.any(1), may.all(1) | must.any(1))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """The projections', and the mechanism's in each head."""
        made = source * self.memory.weight.numel()
        made += target * (self.query.weight.numel() + self.output.weight.numel())
        return made + self.heads * self.inner.multiply_adds(source, target, pairs)

    def glance(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """The contexts alone, where the mechanism has a faster way to them."""
        assert isinstance(state, HeadsState)
        found = self.inner.glance(self._split(self.query(queries))[0], _inner(memory), state.heads.rows)
        return None if found is None else self._joined(found)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One step."""
        assert isinstance(state, HeadsState)
        asked = self.query(query).reshape(len(query) * self.heads, -1)  # (B H, E)
        with self._naming_sentences():
            found = self.inner.read(asked, _inner(memory), state.heads.rows)
        if self.observes:
            parts = _parts(found, self.output(found.contexts))
            return HeadsReading(
                **parts, state=state, positions=found.positions, inner=found, output=self.output
            )
        context = self._joined(found.contexts)  # (B, 1, D)
        weights = _of_sentences(found.weights.squeeze(1), self.heads)
        after = HeadsState(weights, context[:, 0], Heads(found.state, self.heads))
        return _alone(context, weights, _of_sentences(found.penalty, self.heads).sum(1), after)

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """All steps, as the mechanism has it."""
        assert isinstance(state, HeadsState)

        def of_contexts(contexts: Float[Tensor, "B K E"], t: int) -> Float[Tensor, "B K"]:
            assert likelihood is not None
            return likelihood(self.output(contexts), t)

        asked = self._split(self.query(queries))[0]
        with self._naming_sentences():
            found = self.inner.read_all(
                asked, _inner(memory), state.heads.rows, None if likelihood is None else of_contexts
            )
        after = Heads(found.state, self.heads)
        if self.observes:
            last = HeadsState(found.state.weights, self.output(found.state.context), after)
            parts = _parts(found, self.output(found.contexts))
            return Reading(**parts, state=last, positions=found.positions, beliefs=found.beliefs)
        contexts = self._joined(found.contexts.squeeze(2)).unsqueeze(2)  # (B, T, 1, D)
        weights = _of_sentences(found.weights.squeeze(2), self.heads).transpose(1, 2)  # (B, T, H, S)
        last = HeadsState(weights[:, -1], contexts[:, -1, 0], after)
        alone = _alone(contexts, weights, _of_sentences(found.penalty, self.heads).sum(1), last)
        if found.beliefs is None:
            return alone
        beliefs = _of_sentences(found.beliefs.squeeze(2), self.heads).transpose(1, 2)
        return dataclasses.replace(alone, beliefs=beliefs)


def _inner(memory: Memory) -> Memory:
    """The mechanism's memory."""
    assert isinstance(memory.keys, Heads)
    return memory.keys.rows


def _of_sentences(x: Tensor, heads: int) -> Tensor:
    """Rows [B H, ...] as [B, H, ...]."""
    return x.reshape(-1, heads, *x.shape[1:])


def _parts(found: Reading, contexts: Tensor) -> dict[str, Tensor]:
    """What a reading of one head holds, with other contexts."""
    return {
        "contexts": contexts,
        "log_weights": found.log_weights,
        "weights": found.weights,
        "log_policy": found.log_policy,
        "penalty": found.penalty,
    }


def _alone(contexts: Tensor, weights: Tensor, penalty: Tensor, state: State) -> Reading:
    """A reading of one context a step."""
    zeros = weights.new_zeros(contexts.shape[:-1])
    return Reading(contexts, zeros, weights, zeros, penalty, state)
