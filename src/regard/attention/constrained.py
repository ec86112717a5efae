"""Constrained attention: no source token receives more attention than its fertility (Malaviya et al., 2018).

With f the fertility of each source token (`Memory.upper`, infinite at the sink), beta_{t-1} the attention
received before step t and z_t the scores (Eq. 5 and Section 4),

    u_t = max(0, f - beta_{t-1}),   a_t = normalizer(z_t + c u_t, u_t),   beta_t = beta_{t-1} + a_t.

The exhaustion term c u_t is only added where f is finite, and has no gradient. The gradient flows through
beta. The normalizer is constrained softmax (Martins & Kreutzer, 2017) or constrained sparsemax.

A lower fertility L (`Memory.lower`) is a constraint on the whole sentence: d max(0, L - beta_{t-1}) is added
to the score of a token, where d is `lower_bound_bonus`, and a hypothesis may not end while a token has
received less than L - 0.5. If the remaining fertilities sum to less than 1, a hypothesis must end. The step
of its end symbol then distributes the remaining attention, rescaled to sum to 1. If a given target continues
beyond this point, `InfeasibleBoundsError` is raised, in training and in evaluation.

In multi-head attention, each head has its own budget per token, or (`fertility_sharing = "per_layer"`) the
heads of a layer share one: beta is then the mean over heads.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from regard.attention.base import (
    AttentionStep,
    EosConstraint,
    Likelihood,
    Memory,
    Reference,
    State,
    squeeze_step,
)
from regard.attention.registry import register_attention
from regard.attention.scored import CoverageState, ScorerAttention, expected_context
from regard.attention.scorers import SCORE_FUNCTION_HELP, ScoreFunction
from regard.config import configclass, option
from regard.errors import ConfigError, InfeasibleBoundsError
from regard.functional import (
    constrained_softmax,
    constrained_softmax_scan,
    constrained_sparsemax,
    constrained_sparsemax_scan,
)
from regard.functional.scans import add_exhaustion, remaining_bound
from regard.kernels.normalizers import mean_over_heads
from regard.types import Bool, Float, Tensor

CONSTRAINED_NORMALIZERS = {
    "softmax": (constrained_softmax, constrained_softmax_scan),
    "sparsemax": (constrained_sparsemax, constrained_sparsemax_scan),
}
MIN_ATTENTION_LEFT = 1 - 1e-5  # minimum remaining attention for another step; the margin allows for rounding
LOWER_BOUND_TOLERANCE = 0.5
"""Tolerance of the lower bounds: a token may receive this much less than its lower fertility."""


@configclass
class ConstrainedAttentionConfig:
    """Attention bounded by fertilities; requires `data.fertility`."""

    kind: Literal["constrained"] = option(
        default="constrained",
        help="Soft attention in which no source token receives more attention than its fertility "
        "([data.fertility]).",
    )
    normalizer: Literal["softmax", "sparsemax"] = option(
        default="sparsemax", help="Transformation of scores and bounds into weights."
    )
    score_function: ScoreFunction = option(default=None, help=SCORE_FUNCTION_HELP)
    exhaustion: float = option(
        default=0.0,
        help="Exhaustion strength c: c times the remaining fertility of a token is added to its score.",
        ge=0,
        le=1e6,
    )
    lower_bound_bonus: float = option(
        default=1.0,
        help="Strength d of the lower bounds: d times the attention that a token lacks to reach its lower "
        "fertility is added to its score. Lower fertilities are given in translation (`--fertilities`).",
        ge=0,
        le=1e6,
    )
    fertility_sharing: Literal["per_head", "per_layer"] = option(
        default="per_head",
        help="Sharing of fertilities in multi-head attention: one budget per head, or one for all heads of a "
        "layer.",
    )


@dataclass(frozen=True)
class ConstrainedState(CoverageState):
    """A state with the received attention and the mask of the time steps ahead; see `Memory.target_mask`."""

    remaining_target_mask: Bool[Tensor, "B T"] | None = None


@register_attention("constrained", ConstrainedAttentionConfig)
class ConstrainedAttention(ScorerAttention):
    """Attention bounded by fertilities."""

    bounded = True

    def __init__(
        self, config: ConstrainedAttentionConfig, query_size: int, memory_size: int, num_heads: int = 1
    ) -> None:
        """Build the scorer and select the transformation."""
        super().__init__(query_size, memory_size, config.score_function)
        self.heads_per_budget = num_heads if config.fertility_sharing == "per_layer" else 1
        self.normalizer, self.scan = CONSTRAINED_NORMALIZERS[config.normalizer]
        self.config = config

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values.

        Raises:
            ConfigError: The memory has no fertilities.
        """
        if memory.upper is None:
            raise ConfigError(
                "attention 'constrained' needs a fertility for each source token: set data.fertility"
            )
        return super().prepare(memory)

    def start(self, memory: Memory, target: Reference | None = None) -> ConstrainedState:
        """Return the initial state, in which no token has received attention."""
        first = super().start(memory)
        coverage = torch.zeros_like(first.weights[:, 0])
        return ConstrainedState(first.weights, first.context, coverage, memory.target_mask)

    def eos_constraint(self, memory: Memory, state: State) -> EosConstraint:
        """Require the end if the fertilities are exhausted; forbid it while a lower bound is not met."""
        assert isinstance(state, CoverageState) and memory.upper is not None
        # A further step would need one unit of attention.
        remaining = (memory.upper - state.coverage).clamp_min(0).masked_fill(~memory.mask, 0)
        required = remaining.sum(-1) < MIN_ATTENTION_LEFT
        allowed = torch.ones_like(required)
        if memory.lower is not None:
            allowed = ~((state.coverage < memory.lower - LOWER_BOUND_TOLERANCE) & memory.mask).any(-1)
        # A hypothesis without attention left must end, even if a lower bound is not met.
        return EosConstraint(required, allowed | required)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step; padded steps after the end of the target get zero weights."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        mask, later_mask = memory.mask, state.remaining_target_mask
        if later_mask is not None:
            mask, later_mask = mask & later_mask[:, :1], later_mask[:, 1:]
        scores = self.compute_scores(query.unsqueeze(1), memory.keys)[:, 0]
        upper = memory.upper.to(scores.dtype)
        if memory.lower is not None:
            missing = (memory.lower - state.coverage).clamp_min(0).to(scores.dtype)
            scores = scores + self.config.lower_bound_bonus * missing
        bound = remaining_bound(upper, state.coverage)
        if not self.training:
            # The remaining attention may be less than the 1 that the step of the end symbol needs. It is
            # then rescaled to sum to 1.
            left = (upper - state.coverage).clamp_min(0)
            remaining = left.masked_fill(~memory.mask, 0).sum(-1, keepdim=True)
            if later_mask is not None and later_mask.shape[1]:
                # Search would have ended such a target.
                exhausted = (remaining.squeeze(1) < MIN_ATTENTION_LEFT) & later_mask[:, 0]
                if bool(exhausted.any()):
                    row = int(exhausted.nonzero()[0])
                    raise InfeasibleBoundsError(
                        f"row {row}: less than one unit of attention is left, but the target continues",
                        (row,),
                    )
            # The quotient of an infinite bound and an infinite sum would be NaN.
            finite = torch.where(torch.isfinite(bound), bound, 0)
            # If almost nothing remains, each bound is at least 1, so that the step has a valid result.
            rescaled = finite / remaining.clamp_min(1e-6) + (remaining <= 1e-6)
            bound = torch.where(remaining < MIN_ATTENTION_LEFT, rescaled, bound)
        weights = self.normalizer(add_exhaustion(scores, bound, self.config.exhaustion), bound, mask=mask)
        # Heads that share a budget each spend their share of it.
        received = state.coverage + mean_over_heads(weights, self.heads_per_budget)
        step = expected_context(
            weights.unsqueeze(1),
            memory,
            lambda last, context: ConstrainedState(last, context, received, later_mask),
        )
        return squeeze_step(step)

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps with one scan in training without lower bounds; otherwise step by step."""
        assert isinstance(state, ConstrainedState) and memory.upper is not None
        # The scan supports neither lower bounds nor the rescaling of the last step in evaluation.
        if memory.lower is not None or not self.training:
            return super().read_all(queries, memory, state, likelihood)
        step_mask, later_mask = memory.mask.unsqueeze(1), state.remaining_target_mask
        if later_mask is not None:
            count = queries.shape[1]
            step_mask, later_mask = step_mask & later_mask[:, :count].unsqueeze(2), later_mask[:, count:]
        scores = self.compute_scores(queries, memory.keys)
        left = memory.upper.to(scores.dtype) - state.coverage
        # [B, H, ...] if the heads share a budget, otherwise [B H, 1, ...]
        grouped, bounds, mask = (
            x.reshape(-1, self.heads_per_budget, *x.shape[1:]) for x in (scores, left, step_mask)
        )
        scanned = self.scan(
            grouped, bounds, exhaustion=self.config.exhaustion, mask=mask, share_fertility=True
        )
        weights = scanned.flatten(0, 1)  # (B, T, S)
        received = state.coverage + mean_over_heads(weights.sum(1), self.heads_per_budget)
        return expected_context(
            weights, memory, lambda last, context: ConstrainedState(last, context, received, later_mask)
        )
