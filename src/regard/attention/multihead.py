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

from regard.attention.base import Attention, Ending, Likelihood, Memory, Reading, Reference, State
from regard.attention.registry import AttentionConfig, build_attention, mechanism
from regard.errors import InfeasibleBounds
from regard.layers.linear import Linear
from regard.layers.rows import Rows
from regard.types import Float, Int, Tensor

__all__ = ["Heads", "MultiHeadAttention"]


@dataclass(frozen=True)
class Heads(Rows):
    """The batch rows of all heads; `select` takes indices of sentences.

    Attributes:
        rows: B H rows; the heads of a sentence are consecutive.
        count: H.
    """

    rows: Any
    count: int

    def select(self, index: Int[Tensor, "N"]) -> "Heads":
        """Select the rows of the sentences `index`."""
        places = index.unsqueeze(1) * self.count + torch.arange(self.count, device=index.device)
        return Heads(self.rows.select(places.flatten()), self.count)


@dataclass(frozen=True)
class HeadsState(State):
    """The state of multi-head attention, with the mechanism's state of each head."""

    heads: Heads

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """The attention of each head given the token that was produced."""
        return _of_sentences(self.heads.rows.belief.squeeze(1), self.heads.count)


@dataclass(frozen=True)
class HeadsReading(Reading):
    """The reading of a mechanism with one head, whose state still depends on the token.

    Attributes:
        inner: The reading of the mechanism.
        output: W^O.
    """

    inner: Reading
    output: Linear

    def observe(self, log_likelihood: Float[Tensor, "B K"]) -> HeadsState:
        """Pass the likelihood to the mechanism and return the new state."""
        after = self.inner.observe(log_likelihood)
        return HeadsState(after.weights, self.output(after.context), Heads(after, 1))


class MultiHeadAttention(Attention):
    """Multi-head attention around a mechanism.

    Args:
        config: The config of the mechanism.
        query: Width of the decoder state, and of the contexts.
        width: Width of the memory's states.
        heads: H; ignored for mechanisms with several contexts, which get one head.
        target: Width of the target embeddings.
    """

    def __init__(self, config: AttentionConfig, query: int, width: int, heads: int, target: int = 0) -> None:
        """Build the mechanism and the projections."""
        super().__init__()
        kind = mechanism(config)
        self.heads = 1 if kind.observes else heads
        if getattr(config, "scorer", "none") is None:
            # Heads have their own projections, so the scorer needs no matrix W.
            config = dataclasses.replace(config, scorer="scaled_dot")
        each = query // self.heads
        self.inner = build_attention(config, each, each, target, self.heads)
        self.observes = self.inner.observes
        self.reads_reference = self.inner.reads_reference
        self.reads_words = self.inner.reads_words
        self.objective, self.reward = self.inner.objective, self.inner.reward
        self.query = Linear(query, query)
        self.memory = Linear(width, 2 * query, parts=2)  # keys and values
        self.output = Linear(query, query)

    @property
    def has_posterior(self) -> bool:
        """Whether the mechanism has a posterior."""
        return self.inner.has_posterior

    def _split(self, x: Float[Tensor, "B T N"], parts: int = 1) -> Float[Tensor, "P R T E"]:
        """Split the last axis into parts, and fold the heads of each part into the batch axis."""
        batch, steps, width = x.shape
        each = width // parts // self.heads
        split = x.view(batch, steps, parts, self.heads, each).permute(2, 0, 3, 1, 4)
        return split.reshape(parts, batch * self.heads, steps, each)

    def _joined(self, x: Float[Tensor, "R T E"]) -> Float[Tensor, "B T D"]:
        """Concatenate the contexts of the heads and apply W^O."""
        return self.output(_of_sentences(x, self.heads).transpose(1, 2).flatten(2))

    @contextmanager
    def _naming_sentences(self) -> Generator[None]:
        """Convert the row of a head in an `InfeasibleBounds` error to the row of its sentence."""
        try:
            yield
        except InfeasibleBounds as error:
            row = (error.row[0] // self.heads, *error.row[1:]) if error.row else error.row
            raise InfeasibleBounds(str(error), row) from None

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and values of every head and prepare the mechanism's memory."""
        keys, values = self._split(self.memory(memory.states), parts=2)
        mask, upper, lower, steps = (
            None if x is None else x.repeat_interleave(self.heads, dim=0)
            for x in (memory.mask, memory.upper, memory.lower, memory.steps)
        )
        assert mask is not None
        inner = self.inner.prepare(Memory(values, mask, upper, lower, compared=keys, steps=steps))
        return dataclasses.replace(memory, keys=Heads(inner, self.heads))

    def start(self, memory: Memory, target: Reference | None = None) -> HeadsState:
        """Return the initial state of every head."""
        first = self.inner.start(_inner(memory), target)
        exact = first.weights.new_zeros(len(memory.states), self.heads, memory.states.shape[1])
        context = memory.states.new_zeros(len(memory.states), self.output.weight.shape[1])
        return HeadsState(exact, context, Heads(first, self.heads))

    def ending(self, memory: Memory, state: State) -> Ending | None:
        """Require the end if one head requires it; otherwise allow it if all heads allow it."""
        assert isinstance(state, HeadsState)
        found = self.inner.ending(_inner(memory), state.heads.rows)
        if found is None:
            return None
        must, may = (_of_sentences(x, self.heads) for x in (found.must, found.may))
        return Ending(must.any(1), may.all(1) | must.any(1))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Count the projections, and the mechanism in each head."""
        made = source * self.memory.weight.numel()
        made += target * (self.query.weight.numel() + self.output.weight.numel())
        return made + self.heads * self.inner.multiply_adds(source, target, pairs)

    def glance(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """Compute the contexts without weights, if the mechanism has a faster way; see `Attention.glance`."""
        assert isinstance(state, HeadsState)
        found = self.inner.glance(self._split(self.query(queries))[0], _inner(memory), state.heads.rows)
        return None if found is None else self._joined(found)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """Attend for one time step."""
        assert isinstance(state, HeadsState)
        asked = self.query(query).reshape(len(query) * self.heads, -1)  # (B H, E)
        with self._naming_sentences():
            found = self.inner.read(asked, _inner(memory), state.heads.rows)
        if self.observes:  # one head, several contexts
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
        """Attend for all steps, with the mechanism's own `read_all`."""
        assert isinstance(state, HeadsState)

        # The decoder's likelihood function expects contexts after W^O.
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
    """Return the memory that the mechanism prepared."""
    assert isinstance(memory.keys, Heads)
    return memory.keys.rows


def _of_sentences(x: Tensor, heads: int) -> Tensor:
    """Reshape rows [B H, ...] to [B, H, ...]."""
    return x.reshape(-1, heads, *x.shape[1:])


def _parts(found: Reading, contexts: Tensor) -> dict[str, Tensor]:
    """Return the tensor fields of a reading with one head, with its contexts replaced."""
    return {
        "contexts": contexts,
        "log_weights": found.log_weights,
        "weights": found.weights,
        "log_policy": found.log_policy,
        "penalty": found.penalty,
    }


def _alone(contexts: Tensor, weights: Tensor, penalty: Tensor, state: State) -> Reading:
    """Build a reading with one context per step."""
    zeros = weights.new_zeros(contexts.shape[:-1])
    return Reading(contexts, zeros, weights, zeros, penalty, state)
