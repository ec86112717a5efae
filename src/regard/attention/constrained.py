"""Constrained attention: no source token receives more attention than its fertility (Malaviya et al., 2018).

With f the fertility of each source token (`Memory.upper`, infinite at the sink), beta_{t-1} the attention
received before step t and z_t the scores (Eq. 5 and Section 4),

    u_t = max(0, f - beta_{t-1}),   a_t = map(z_t + c u_t, u_t),   beta_t = beta_{t-1} + a_t.

The exhaustion term c u_t is only added where f is finite, and has no gradient. The gradient flows through
beta. The map is constrained softmax (Martins & Kreutzer, 2017) or constrained sparsemax.

A lower fertility L (`Memory.lower`) is a constraint on the whole sentence: d max(0, L - beta_{t-1}) is added
to the score of a token, where d is `demand`, and a hypothesis may not end while a token has received less
than L - 0.5. If the remaining fertilities sum to less than 1, a hypothesis must end. The step of its end
symbol then distributes the remaining attention, rescaled to sum to 1. If a given target continues beyond this
point, `InfeasibleBounds` is raised, in training and in evaluation.

In multi-head attention, each head has its own budget per token, or (`budget = "per_layer"`) the heads of a layer
share one: beta is then the mean over heads.
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
ENOUGH = 1 - 1e-5  # minimum remaining attention for another step; the margin allows for rounding
HALF = 0.5
"""Tolerance of the lower bounds: a token may receive this much less than its lower fertility."""


@config
class ConstrainedAttentionConfig:
    """Attention bounded by fertilities; requires `data.fertility`."""

    kind: Literal["constrained"] = option(
        default="constrained",
        help="Attention mechanism: no source token receives more attention than its fertility.",
    )
    map: Literal["softmax", "sparsemax"] = option(
        default="sparsemax", help="Transformation of scores and bounds into weights."
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)
    exhaustion: float = option(
        default=0.0,
        help="Exhaustion strength c: c times the remaining fertility of a token is added to its score.",
        ge=0,
        le=1e6,
    )
    demand: float = option(
        default=1.0,
        help="Strength d of the lower bounds: d times the attention that a token lacks to reach its lower "
        "fertility is added to its score.",
        ge=0,
        le=1e6,
    )
    budget: Literal["per_head", "per_layer"] = option(
        default="per_head",
        help="Sharing of fertilities in multi-head attention: one budget per head, or one for all heads of a "
        "layer.",
    )


@dataclass(frozen=True)
class ConstrainedState(ReceivedState):
    """A state with the received attention and the real target positions ahead.

    Attributes:
        ahead: [B, T], True at future time steps that are real; see `Memory.steps`.
    """

    ahead: Bool[Tensor, "B T"] | None = None


class ConstrainedAttention(Attention):
    """Attention bounded by fertilities.

    Args:
        config: The transformation, the scorer and the strengths.
        query: Width of the decoder state.
        width: Width of the memory's states.
        heads: Number of consecutive rows that are heads of one sentence and may share a budget.
    """

    bounded = True

    def __init__(self, config: ConstrainedAttentionConfig, query: int, width: int, heads: int = 1) -> None:
        """Build the scorer and select the transformation."""
        super().__init__()
        self.sharers = heads if config.budget == "per_layer" else 1
        self.map, self.scan = MAPS[config.map]
        self.config = config
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)

    @classmethod
    def build(
        cls, config: ConstrainedAttentionConfig, query: int, width: int, target: int, heads: int = 1
    ) -> "ConstrainedAttention":
        """Build the mechanism from its config; see `Attention.build`."""
        return cls(config, query, width, heads)

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values.

        Raises:
            ConfigError: The memory has no fertilities.
        """
        if memory.upper is None:
            raise ConfigError(
                "attention 'constrained' needs a fertility for each source token: set data.fertility"
            )
        return memory.with_products(self.scorer.keys(memory.comparands), StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> ConstrainedState:
        """Return the initial state, in which no token has received attention."""
        none = nothing_received(super().start(memory))
        return ConstrainedState(none.weights, none.context, none.received, memory.steps)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Count the scorer, and a weighted sum of the states for each step."""
        return self.scorer.multiply_adds(source, target, pairs) + pairs * self.width

    def ending(self, memory: Memory, state: State) -> Ending:
        """Require the end if the fertilities are exhausted; forbid it while a lower bound is not met."""
        assert isinstance(state, ReceivedState) and memory.upper is not None
        must = self._left(memory, state).sum(-1) < ENOUGH
        may = torch.ones_like(must)
        if memory.lower is not None:
            may = ~((state.received < memory.lower - HALF) & memory.mask).any(-1)
        return Ending(must, may | must)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """Attend for one time step; padded steps after the end of the target get zero weights."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        mask, ahead = memory.mask, state.ahead
        if ahead is not None:
            mask, ahead = mask & ahead[:, :1], ahead[:, 1:]
        scores = self._scores(query.unsqueeze(1), memory)[:, 0]
        upper = memory.upper.to(scores.dtype)
        if memory.lower is not None:
            missing = (memory.lower - state.received).clamp_min(0).to(scores.dtype)
            scores = scores + self.config.demand * missing
        bound = remaining(upper, state.received)
        if not self.training:
            # The remaining attention may be less than the 1 that the step of the end symbol needs. It is
            # then rescaled to sum to 1.
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
        """Attend for all steps with one scan in training without lower bounds; otherwise step by step."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        # The scan supports neither lower bounds nor the rescaling of the last step in evaluation.
        if memory.lower is not None or not self.training:
            return super().read_all(queries, memory, state, likelihood)
        usable, ahead = memory.mask.unsqueeze(1), state.ahead
        if ahead is not None:
            count = queries.shape[1]
            usable, ahead = usable & ahead[:, :count].unsqueeze(2), ahead[:, count:]
        scores = self._scores(queries, memory)
        left = memory.upper.to(scores.dtype) - state.received
        # [B, H, ...] if the heads share a budget, otherwise [B H, 1, ...]
        grouped, bounds, mask = (x.reshape(-1, self.sharers, *x.shape[1:]) for x in (scores, left, usable))
        scanned = self.scan(grouped, bounds, exhaustion=self.config.exhaustion, mask=mask, shared=True)
        weights = scanned.flatten(0, 1)  # (B, T, S)
        received = state.received + mean_of_heads(weights.sum(1), self.sharers)
        return self._reading(weights, memory, received, ahead)

    def _check_left(self, left: Float[Tensor, "B 1"], goes_on: Bool[Tensor, "B"]) -> None:
        """Reject a given target that continues although no attention is left, as search would have ended it.

        Raises:
            InfeasibleBounds: The message names the first such row.
        """
        short = (left.squeeze(1) < ENOUGH) & goes_on
        if bool(short.any()):
            row = int(short.nonzero()[0])
            raise InfeasibleBounds(
                f"row {row}: less than one unit of attention is left, but the target continues", (row,)
            )

    def _scores(self, queries: Float[Tensor, "B T Q"], memory: Memory) -> Float[Tensor, "B T S"]:
        """Compute the scores in float32 or better."""
        assert memory.keys is not None
        scores = self.scorer(queries, memory.keys)
        return scores.to(exact_dtype(scores.dtype))

    def _left(self, memory: Memory, state: ReceivedState) -> Float[Tensor, "B S"]:
        """Compute the remaining fertility of each source token."""
        assert memory.upper is not None
        return (memory.upper - state.received).clamp_min(0).masked_fill(~memory.mask, 0)

    def _reading(
        self,
        weights: Float[Tensor, "B N S"],
        memory: Memory,
        received: Float[Tensor, "B S"],
        ahead: Bool[Tensor, "B T"] | None,
    ) -> Reading:
        """Return the expectation of the memory under the weights as a reading."""
        return expectation(
            weights, memory, lambda last, context: ConstrainedState(last, context, received, ahead)
        )
