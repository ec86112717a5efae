"""Constrained attention: no word receives more than its fertility (Malaviya et al. 2018).

With f the fertility of each source word (`Memory.upper`, infinite at the sink), beta_{t-1} the attention it
has received and z_t the scores,

    u_t = max(0, f - beta_{t-1}),   a_t = map(z_t + c u_t, u_t),   beta_t = beta_{t-1} + a_t   (Eq. 5,
    Section 4),

the exhaustion c adding where f is finite, without gradient. The gradient flows through beta. The map is
constrained softmax (Martins & Kreutzer 2017) or constrained sparsemax.

A lower fertility L (`Memory.lower`) is a demand on the sentence: d max(0, L - beta_{t-1}) is added to a
word's score, d the `demand`, and a hypothesis may not end while a word has received less than L - 0.5. Where
less than 1 is left of all fertilities a hypothesis must end, and the step of its end symbol shares out what
is left, scaled. A given target that goes on beyond that is refused (`InfeasibleBounds`), in training as in
evaluation.

In heads each head may give a word its fertility, or (`budget = "layer"`) the heads of a layer share it: beta
is then the mean of theirs.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from regard.attention.base import Attention, Ending, Likelihood, Memory, Reading, Reference, State, one_step
from regard.attention.expectation import ReceivedState, expectation, nothing_received
from regard.attention.scorers import HIDDEN_HELP, SCORER_HELP, ScorerKind, build_scorer
from regard.config import config, option
from regard.errors import ConfigError, InfeasibleBounds
from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
)
from regard.functional.masking import exact_dtype
from regard.functional.scans import exhausted, remaining
from regard.kernels.maps import mean_of_heads
from regard.layers.steps import StepProduct
from regard.types import Bool, Float, Tensor

__all__ = ["HALF", "ConstrainedAttention", "ConstrainedAttentionConfig"]

MAPS = {
    "softmax": (constrained_softmax, constrained_softmax_scan),
    "sparsemax": (constrained_sparsemax, constrained_sparsemax_scan),
}
ENOUGH = 1 - 1e-5  # of attention left: what rounding takes of a whole one is not missed
HALF = 0.5
"""So much less than a word demands is enough."""


@config
class ConstrainedAttentionConfig:
    """Attention within fertilities; needs `data.fertility`."""

    kind: Literal["constrained"] = option(
        default="constrained", help="The mechanism: no source word receives more than its fertility."
    )
    map: Literal["softmax", "sparsemax"] = option(
        default="sparsemax", help="From scores and bounds to weights."
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)
    exhaustion: float = option(
        default=0.0, help="c: times what is left of a word's fertility, added to its score.", ge=0, le=1e6
    )
    demand: float = option(
        default=1.0,
        help="d: times what a word still lacks of its lower fertility, added to its score.",
        ge=0,
        le=1e6,
    )
    budget: Literal["head", "layer"] = option(
        default="head", help="In heads: whether a fertility is each head's own, or shared by a layer's."
    )


@dataclass(frozen=True)
class ConstrainedState(ReceivedState):
    """The state with what each word has received.

    Attributes:
        ahead: [B, T], True at the steps to come that are real; see `Memory.steps`.
    """

    ahead: Bool[Tensor, "B T"] | None = None


class ConstrainedAttention(Attention):
    """Attention within fertilities.

    Args:
        config: The map, the scorer, the strengths.
        query: Width of the decoder's state.
        width: Width of the memory's states.
        heads: So many neighbouring rows are heads that may share a budget.
    """

    bounded = True

    def __init__(self, config: ConstrainedAttentionConfig, query: int, width: int, heads: int = 1) -> None:
        """Build the scorer."""
        super().__init__()
        self.sharers = heads if config.budget == "layer" else 1
        self.map, self.scan = MAPS[config.map]
        self.config = config
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)

    @classmethod
    def build(
        cls, config: ConstrainedAttentionConfig, query: int, width: int, target: int, heads: int = 1
    ) -> "ConstrainedAttention":
        """The mechanism of a config; see `Attention.build`."""
        return cls(config, query, width, heads)

    def prepare(self, memory: Memory) -> Memory:
        """Make the keys, open the values.

        Raises:
            ConfigError: The memory has no fertilities.
        """
        if memory.upper is None:
            raise ConfigError(
                "attention 'constrained' needs to know how much each word may receive: set data.fertility"
            )
        return memory.with_products(self.scorer.keys(memory.comparands), StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> ConstrainedState:
        """Nothing has been received."""
        none = nothing_received(super().start(memory))
        return ConstrainedState(none.weights, none.context, none.received, memory.steps)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """The scorer's, and a weighted sum of the words for each step."""
        return self.scorer.multiply_adds(source, target, pairs) + pairs * self.width

    def ending(self, memory: Memory, state: State) -> Ending:
        """An end where fertilities are used up, and none while a word lacks what it must receive."""
        assert isinstance(state, ReceivedState) and memory.upper is not None
        must = self._left(memory, state).sum(-1) < ENOUGH
        may = torch.ones_like(must)
        if memory.lower is not None:
            may = ~((state.received < memory.lower - HALF) & memory.mask).any(-1)
        return Ending(must, may | must)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One step; one after the target's end reads nothing."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        mask, ahead = memory.mask, state.ahead
        if ahead is not None:
            mask, ahead = mask & ahead[:, :1], ahead[:, 1:]
        scores = self._scores(query.unsqueeze(1), memory)[:, 0]
        upper = memory.upper.to(scores.dtype)
        if memory.lower is not None:
            lacking = (memory.lower - state.received).clamp_min(0).to(scores.dtype)
            scores = scores + self.config.demand * lacking
        bound = remaining(upper, state.received)
        if not self.training:
            # What is left may be too little for the end symbol's step: it is shared out all the same.
            left = self._left(memory, state).sum(-1, keepdim=True)
            if state.ahead is not None and state.ahead.shape[1] > 1:
                self._check_left(left, state.ahead[:, 1])
            shared = torch.where(torch.isfinite(bound), bound, 0) / left.clamp_min(1e-6) + (left <= 1e-6)
            bound = torch.where(left < ENOUGH, shared, bound)
        weights = self.map(exhausted(scores, bound, self.config.exhaustion), bound, mask=mask)
        received = state.received + mean_of_heads(weights, self.sharers)
        return one_step(self._reading(weights.unsqueeze(1), memory, received, ahead))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """All steps in one scan, where nothing is demanded and nobody has to end early."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        if memory.lower is not None or not self.training:
            return super().read_all(queries, memory, state, likelihood)
        usable, ahead = memory.mask.unsqueeze(1), state.ahead
        if ahead is not None:
            count = queries.shape[1]
            usable, ahead = usable & ahead[:, :count].unsqueeze(2), ahead[:, count:]
        scores = self._scores(queries, memory)
        left = memory.upper.to(scores.dtype) - state.received
        grouped, bounds, mask = (x.reshape(-1, self.sharers, *x.shape[1:]) for x in (scores, left, usable))
        scanned = self.scan(grouped, bounds, exhaustion=self.config.exhaustion, mask=mask, shared=True)
        weights = scanned.flatten(0, 1)  # (B, T, S)
        received = state.received + mean_of_heads(weights.sum(1), self.sharers)
        return self._reading(weights, memory, received, ahead)

    def _check_left(self, left: Float[Tensor, "B 1"], goes_on: Bool[Tensor, "B"]) -> None:
        """Refuse a given target that goes on where no attention is left, which search would not let it do.

        Raises:
            InfeasibleBounds: names the first row.
        """
        short = (left.squeeze(1) < ENOUGH) & goes_on
        if bool(short.any()):
            row = int(short.nonzero()[0])
            raise InfeasibleBounds(f"row {row}: less than one unit of attention is left", (row,))

    def _scores(self, queries: Float[Tensor, "B T Q"], memory: Memory) -> Float[Tensor, "B T S"]:
        """The scores in float32 at least."""
        assert memory.keys is not None
        scores = self.scorer(queries, memory.keys)
        return scores.to(exact_dtype(scores.dtype))

    def _left(self, memory: Memory, state: ReceivedState) -> Float[Tensor, "B S"]:
        """What is left of each word's fertility."""
        assert memory.upper is not None
        return (memory.upper - state.received).clamp_min(0).masked_fill(~memory.mask, 0)

    def _reading(
        self,
        weights: Float[Tensor, "B N S"],
        memory: Memory,
        received: Float[Tensor, "B S"],
        ahead: Bool[Tensor, "B T"] | None,
    ) -> Reading:
        """The expectation of the memory under the weights."""
        return expectation(
            weights, memory, lambda last, context: ConstrainedState(last, context, received, ahead)
        )
