"""Soft attention with a coverage vector (Tu et al., 2016).

The score of a source token depends on the attention it has already received. With s_t the decoder state, h_j
an encoder state and beta_{t-1,j} the attention received before step t, the scores follow Malaviya et al.
(2018), Section 5, for bilinear attention:

    z_tj = s_t^T (W h_j + v beta_{t-1,j}),   a_t = normalizer(z_t),   beta_t = beta_{t-1} + a_t,   beta_0 = 0.

This is the linguistic coverage of Tu et al. (2016) without their fertility model. With `scaled_bilinear`,
z_tj is divided by sqrt(D). If s_t^T v is negative, the score of a token decreases with the attention it has
received. The gradient flows through beta.
"""

from typing import Annotated, Literal

import torch
from torch import nn

from regard.attention.base import AttentionStep, Memory, Reference, State, squeeze_step
from regard.attention.registry import NORMALIZER_HELP, NORMALIZERS, get_normalizer, register_attention
from regard.attention.scored import CoverageState, ScorerAttention, expected_context
from regard.attention.scorers import SCORE_FUNCTION_HELP, ScaledBilinearScorer
from regard.config import configclass, option
from regard.layers.linear import to_compute
from regard.types import Float, Tensor


@configclass
class CoverageAttentionConfig:
    """Soft attention with a coverage vector."""

    kind: Literal["coverage"] = option(default="coverage", help="Soft attention with a coverage vector.")
    normalizer: Annotated[str, NORMALIZERS] = option(default="softmax", help=NORMALIZER_HELP)
    score_function: Literal["dot", "bilinear", "scaled_dot", "scaled_bilinear"] | None = option(
        default=None, help=SCORE_FUNCTION_HELP
    )


@register_attention("coverage", CoverageAttentionConfig)
class CoverageAttention(ScorerAttention):
    """Soft attention with a coverage vector, for which each head has its own v."""

    def __init__(
        self, config: CoverageAttentionConfig, query_size: int, memory_size: int, num_heads: int = 1
    ) -> None:
        """Create the parameters W and v."""
        super().__init__(query_size, memory_size, config.score_function)
        self.normalizer = get_normalizer(config.normalizer)
        # The scorer divides z_tj by sqrt(D), so the coverage term needs the same factor.
        self.scale = query_size**-0.5 if isinstance(self.scorer, ScaledBilinearScorer) else 1.0
        self.coverage_weight = nn.Parameter(
            nn.init.uniform_(torch.empty(query_size, num_heads), -(query_size**-0.5), query_size**-0.5)
        )

    def start(self, memory: Memory, target: Reference | None = None) -> CoverageState:
        """Return the initial state, in which no token has received attention."""
        first = super().start(memory)
        return CoverageState(first.weights, first.context, torch.zeros_like(first.weights[:, 0]))

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step."""
        assert isinstance(state, CoverageState)
        scores = self.compute_scores(query.unsqueeze(1), memory.keys)[:, 0]
        weight = to_compute(self.coverage_weight)
        sensitivity = self.scale * (query.to(weight.dtype) @ weight).to(scores.dtype)  # (B, heads)
        if self.coverage_weight.shape[1] > 1:
            # Rows are heads here: row i of a sentence belongs to head i and uses column i of v.
            heads = sensitivity.shape[1]
            sensitivity = sensitivity.view(-1, heads, heads).diagonal(dim1=1, dim2=2).reshape(-1, 1)
        scores = scores + sensitivity * state.coverage
        weights = self.normalizer(scores, mask=memory.mask)  # (B, S)
        received = state.coverage + weights
        step = expected_context(
            weights.unsqueeze(1), memory, lambda last, context: CoverageState(last, context, received)
        )
        return squeeze_step(step)
