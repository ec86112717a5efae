"""The contract of an attention mechanism: Memory, State, Reading, and the calls between them.

A decoder asks a mechanism for K contexts and their log-weights, scores the next token under each, and tells
the mechanism which token came (`observe`). Models, search and training know this contract and no mechanism
by name; a new mechanism is one new file, one line in the registry, one test.

B batch, T target, S source, H heads, D width, K contexts. Masks are boolean, True = may be attended.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from regard.layers.rows import Rows
from regard.layers.steps import StepProduct
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "Attention",
    "Ending",
    "Likelihood",
    "Memory",
    "Objective",
    "Reading",
    "Reference",
    "Reward",
    "State",
    "one_step",
    "stack_readings",
]

Objective = Literal["marginal", "bound", "reinforce"]
Likelihood = Callable[[Float[Tensor, "B K D"], int], Float[Tensor, "B K"]]


@dataclass(frozen=True)
class Memory(Rows):
    """What may be attended: the encoder's states of one batch.

    Attributes:
        states: [B, S, D].
        mask: [B, S], True where a word may be attended.
        upper: [B, S], the most attention a word may receive in all (its fertility), inf at the sink; or none.
        lower: [B, S], the least it should receive in all; or none.
        keys: What the scorer made of the states, once a sentence; filled by `Attention.prepare`.
        values: The states as `prepare` opened them for the weighted sums of every step.
        compared: [B, S, D], what queries are compared with, where that is not the states; or none.
        steps: [B, T], True at the steps of the target that are real: where a target is given, for mechanisms
            with bounds, which padded steps must not use up; or none: all are.
    """

    states: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    upper: Float[Tensor, "B S"] | None = None
    lower: Float[Tensor, "B S"] | None = None
    keys: Rows | None = None
    values: StepProduct | None = None
    compared: Float[Tensor, "B S D"] | None = None
    steps: Bool[Tensor, "B T"] | None = None

    @property
    def comparands(self) -> Float[Tensor, "B S D"]:
        """What keys are made of."""
        return self.states if self.compared is None else self.compared

    def with_products(self, keys: Rows, values: StepProduct) -> "Memory":
        """The same memory with its keys made and its values opened."""
        return dataclasses.replace(self, keys=keys, values=values)


@dataclass(frozen=True)
class Reference(Rows):
    """The target of a training sentence, for mechanisms that look at it while they learn.

    Attributes:
        embedded: [B, T, E], the target words, the end symbol among them, without a start.
        mask: [B, T], True at real words.
    """

    embedded: Float[Tensor, "B T E"]
    mask: Bool[Tensor, "B T"]


@dataclass(frozen=True)
class Reward:
    """That what a mechanism draws is rewarded by the BLEU of the tokens that were likeliest then.

    The reward of a step is what its token adds to BLEU (`regard.metrics.prefix_bleu`), its return the sum of
    the rewards from there on.

    Attributes:
        weight: What reward weighs beside likelihood.
        of_others: Whether the mean return of the batch's other sentences is what was expected.
    """

    weight: float
    of_others: bool


@dataclass(frozen=True)
class State(Rows):
    """What a mechanism carries from step to step; mechanisms add fields of their own.

    Attributes:
        weights: [B, H, S], attention as believed after the step (zeros before the first).
        context: [B, D], the context as believed after the step (zeros before the first).
    """

    weights: Float[Tensor, "B H S"]
    context: Float[Tensor, "B D"]

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """Where the step looked, as known now that its token is: what analyses read."""
        return self.weights


@dataclass(frozen=True)
class Ending(Rows):
    """What a mechanism demands of the end of a hypothesis.

    Attributes:
        must: [B], where nothing more can be read, so that only the end symbol may follow.
        may: [B], where the end symbol may follow.
    """

    must: Bool[Tensor, "B"]
    may: Bool[Tensor, "B"]

    @classmethod
    def of_all(cls, endings: "Sequence[Ending | None]") -> "Ending | None":
        """What several readers demand: an end where one must end, else one may come where all may."""
        found = [ending for ending in endings if ending is not None]
        if not found:
            return None
        must = torch.stack([ending.must for ending in found]).any(0)
        return cls(must, torch.stack([ending.may for ending in found]).all(0) | must)


@dataclass(frozen=True)
class Reading(Rows):
    """What one step read, before its output token is known. From `read_all`, with an axis T after B.

    Attributes:
        contexts: [B, K, D].
        log_weights: [B, K], in nats.
        weights: [B, H, S]; a hard selection need not sum to 1.
        log_policy: [B, K], log-probability of what was sampled, in nats; zero where nothing is.
        penalty: [B], in nats (a divergence, an entropy); zero where there is none.
        state: The state to go on with, as far as it does not hang on the token; from `read_all` the last.
        positions: [B, W], which source word each of the first W contexts is; none: none of them is one.
        expected: [B], what the mechanism expects the rewards from here on to come to; or none.
        beliefs: [B, T, H, S], from `read_all`: `State.belief` of every step; none: the weights.
    """

    contexts: Float[Tensor, "B *T K D"]
    log_weights: Float[Tensor, "B *T K"]
    weights: Float[Tensor, "B *T H S"]
    log_policy: Float[Tensor, "B *T K"]
    penalty: Float[Tensor, "B *T"]
    state: State
    positions: Int[Tensor, "B *T W"] | None = dataclasses.field(default=None, kw_only=True)
    expected: Float[Tensor, "B *T"] | None = dataclasses.field(default=None, kw_only=True)
    beliefs: Float[Tensor, "B T H S"] | None = dataclasses.field(default=None, kw_only=True)

    def observe(self, log_likelihood: Float[Tensor, "B K"]) -> State:
        """The state after the output token is known.

        Args:
            log_likelihood: log p(token | context k), in nats.
        """
        return self.state


class Attention(nn.Module, ABC):
    """A mechanism.

    Attributes:
        observes: Whether the state depends on the token that was produced. Where it does not, K is 1,
            `observe` ignores the likelihood and `state.context` is `contexts[:, 0]`, so a decoder may leave
            the likelihoods of all steps to the end.
        reads_reference: Whether `start` looks at the reference in training.
        reads_words: Whether contexts, at least the first, are source words, which `Reading.positions` names.
        projects: Whether it makes projections of queries and memory itself: no heads are put around it.
        enters: Whether `enter` must be called, and so a decoder with recurrence is needed.
        moves_queries: Whether gradients flow into the queries; parameters that make nothing else have none
            where they do not.
        bounded: Whether it keeps within the fertilities of `Memory`.
        objective: The training objective that fits the mechanism.
        reward: What the objective `reinforce` rewards a draw by; none: the likelihood of its token.
        heads: H.
    """

    observes: bool = False
    reads_reference: bool = False
    reads_words: bool = False
    projects: bool = False
    enters: bool = False
    moves_queries: bool = True
    bounded: bool = False
    objective: Objective = "marginal"
    reward: Reward | None = None
    heads: int = 1

    @property
    def has_posterior(self) -> bool:
        """Whether `State.belief` may be other than the weights: as a rule where the token is observed."""
        return self.observes

    @classmethod
    def build(cls, config: Any, query: int, width: int, target: int, heads: int = 1) -> "Attention":
        """The mechanism a config of its kind describes.

        Args:
            config: The config.
            query: Width of the decoder's state.
            width: Width of the memory's states.
            target: Width of the target embeddings, for mechanisms that look at the reference.
            heads: So many rows of a batch, one after the other, are the heads of one sentence.
        """
        return cls(config, query, width)

    def prepare(self, memory: Memory) -> Memory:
        """Make, once a sentence, what every step's reading needs of the memory (keys, values)."""
        return memory

    def start(self, memory: Memory, target: Reference | None = None) -> State:
        """The state before the first step.

        Args:
            memory: A prepared memory.
            target: In training only, the reference, for inference networks.
        """
        batch, length, width = memory.states.shape
        exact = torch.promote_types(torch.float32, memory.states.dtype)
        weights = torch.zeros(batch, self.heads, length, dtype=exact, device=memory.states.device)
        return State(weights, memory.states.new_zeros(batch, width))

    def enter(self, state: State, tokens: Int[Tensor, "B"]) -> State:
        """Learn which token came before, in a decoder with recurrence, and then `read`; few need to know.

        Args:
            state: The state after the step before.
            tokens: The token of that step, the start symbol at first.
        """
        return state

    def glance(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """The one context of each step of a reference, where there is a faster way to it without weights.

        Args:
            queries: The decoder's states.
            memory: A prepared memory.
            state: The state before the first step.

        Returns:
            `read_all(...).contexts[:, :, 0]`, or none: ask `read_all`.
        """
        return None

    @abstractmethod
    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One decoding step.

        Args:
            query: The decoder's state.
            memory: A prepared memory.
            state: The state after the step before.
        """

    def ending(self, memory: Memory, state: State) -> Ending | None:
        """What the mechanism demands of the end of each hypothesis before its next token; or nothing.

        Args:
            memory: A prepared memory.
            state: The state after the step before.
        """
        return None

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Multiply-adds of a forward pass over a batch, for the count of floating-point operations.

        Args:
            source: Source words.
            target: Target tokens.
            pairs: Source words times target tokens, summed over sentences.
        """
        return 0

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """All steps of a reference at once, for decoders without recurrence; equal to T calls of `read`.

        Args:
            queries: The decoder's states.
            memory: A prepared memory.
            state: The state before the first step.
            likelihood: log p(reference token at t | context k) as a function of contexts [B, K, D] and t;
                needed by mechanisms that observe.
        """
        readings: list[Reading] = []
        beliefs: list[Tensor] = []
        for t in range(queries.shape[1]):
            reading = self.read(queries[:, t], memory, state)
            state = reading.state
            if self.observes:
                if likelihood is None:
                    raise TypeError(f"{type(self).__name__}.read_all needs likelihood(contexts, t)")
                state = reading.observe(likelihood(reading.contexts, t))
            if self.has_posterior:
                beliefs.append(state.belief)
            readings.append(reading)
        stacked = stack_readings(readings, state)
        return dataclasses.replace(stacked, beliefs=torch.stack(beliefs, dim=1)) if beliefs else stacked


PARTS = ("contexts", "log_weights", "weights", "log_policy", "penalty")
"""Of a reading, the tensors that every mechanism gives."""


def stack_readings(readings: list[Reading], state: State) -> Reading:
    """The readings of T steps as one, with an axis T after B, and the last state."""
    stacked = {name: torch.stack([getattr(r, name) for r in readings], dim=1) for name in PARTS}
    expected = [reading.expected for reading in readings if reading.expected is not None]
    return Reading(**stacked, state=state, expected=torch.stack(expected, dim=1) if expected else None)


def one_step(reading: Reading) -> Reading:
    """The reading of a single step, without the axis T."""
    parts = {name: getattr(reading, name)[:, 0] for name in PARTS}
    expected = None if reading.expected is None else reading.expected[:, 0]
    return Reading(**parts, state=reading.state, expected=expected)
