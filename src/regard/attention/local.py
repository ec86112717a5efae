"""Local attention: softmax over a window of source positions, Luong et al. (2015), Section 3.2.

At time step t the window contains the positions s with p_t - D <= s <= p_t + D, where

    monotonic   p_t = t                                                               (local-m)
    predictive  p_t = S sigmoid(v . tanh(W s_t)),                                     (local-p, Eq. 9)
                a_t(s) = softmax in the window * exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2.  (Eq. 10)

Positions and steps count from 0; S is the length of the source sentence. Positions of the window outside the
sentence are ignored. A monotonic window that lies entirely outside the sentence is moved back so that it
contains the last position. As in the paper, the weights of local-p are not renormalized after the Gaussian
factor: they sum to less than 1. The center p_t is trained through the Gaussian only, because the limits of
the window are not differentiable.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import nn

from regard.attention.base import AttentionStep, Likelihood, Memory, Reference, State, squeeze_step
from regard.attention.registry import NORMALIZER_HELP, NORMALIZERS, get_normalizer, register_attention
from regard.attention.scored import ScorerAttention, ScorerKeys, expected_context
from regard.attention.scorers import SCORE_FUNCTION_HELP, ScoreFunction
from regard.config import configclass, option
from regard.functional.dispatch import accumulation_dtype
from regard.layers.linear import StepLinear
from regard.types import Float, Int, Tensor

__all__ = ["LocalAttention", "LocalAttentionConfig", "LocalState"]


@configclass
class LocalAttentionConfig:
    """Local attention, over a window of source positions."""

    kind: Literal["local"] = option(default="local", help="An expectation over a window of source positions.")
    variant: Literal["monotonic", "predictive"] = option(
        default="predictive",
        help="Center of the window: the index of the time step (monotonic, local-m), or a position predicted "
        "from the decoder state (predictive, local-p).",
    )
    window_size: int = option(
        default=10,
        help="Half-width D of the window: number of source positions on each side of its center.",
        ge=1,
        le=100_000,
    )
    normalizer: Annotated[str, NORMALIZERS] = option(default="softmax", help=NORMALIZER_HELP)
    score_function: ScoreFunction = option(default=None, help=SCORE_FUNCTION_HELP)


@dataclass(frozen=True)
class LocalState(State):
    """A state with the index of the next time step.

    Attributes:
        step: [B], the index of the next time step, from 0.
    """

    step: Int[Tensor, "B"]


@register_attention("local", LocalAttentionConfig)
class LocalAttention(ScorerAttention):
    """Local attention, over a window of source positions."""

    def __init__(self, config: LocalAttentionConfig, query_size: int, memory_size: int) -> None:
        """Build the scorer and, for predictive windows, W and v."""
        super().__init__(query_size, memory_size, config.score_function)
        self.normalizer = get_normalizer(config.normalizer)
        self.window = config.window_size
        predicts = config.variant == "predictive"
        self.position_weight = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(query_size, query_size))) if predicts else None
        )
        self.position_vector = (
            nn.Parameter(nn.init.normal_(torch.empty(query_size), 0, query_size**-0.5)) if predicts else None
        )

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values."""
        position_weight = None if self.position_weight is None else StepLinear.prepare(self.position_weight)
        keys = ScorerKeys(self.scorer.compute_keys(memory.key_inputs), position_weight)
        return memory.with_projections(keys, StepLinear.prepare(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> LocalState:
        """Return the initial state, at time step 0."""
        first = super().start(memory)
        step = torch.zeros(len(memory.states), dtype=torch.long, device=memory.states.device)
        return LocalState(first.weights, first.context, step)

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step."""
        return squeeze_step(self.read_all(query.unsqueeze(1), memory, state))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps in parallel; only the index of the step carries over between steps."""
        keys = memory.keys
        assert isinstance(state, LocalState) and isinstance(keys, ScorerKeys)
        scores = self.compute_scores(queries, keys.keys)
        center = self._window_centers(queries, memory, keys, state.step).to(scores.dtype)  # (B, T)
        positions = torch.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)
        distance = positions - center.unsqueeze(-1)  # (B, T, S)
        inside = (distance.abs() <= self.window) & memory.mask.unsqueeze(1)
        weights = self.normalizer(scores, mask=inside)
        if self.position_weight is not None:
            # As in the paper, the weights are not renormalized.
            weights = weights * torch.exp(-(distance**2) / (2 * (self.window / 2) ** 2))
        after = state.step + queries.shape[1]
        return expected_context(weights, memory, lambda last, context: LocalState(last, context, after))

    def _window_centers(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, keys: ScorerKeys, step: Int[Tensor, "B"]
    ) -> Tensor:
        """Return the center p_t of each window: [B, T]."""
        lengths = memory.mask.sum(-1, keepdim=True)
        if keys.weight is not None and self.position_vector is not None:
            hidden = torch.tanh(keys.weight(queries))
            exact = hidden.to(accumulation_dtype(hidden.dtype))
            # Half precision cannot represent long positions exactly: p_t would move in jumps.
            with torch.autocast(exact.device.type, enabled=False):
                return lengths * torch.sigmoid(exact @ self.position_vector.to(exact.dtype))
        steps = step.unsqueeze(1) + torch.arange(queries.shape[1], device=queries.device)
        # Further to the right, the window would contain no position of the sentence.
        return torch.minimum(steps, lengths - 1 + self.window)
