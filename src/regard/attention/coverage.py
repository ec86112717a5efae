"""Soft attention with a coverage vector (Tu et al., 2016).

The score of a source token depends on the attention it has already received. With s_t the decoder state, h_j
an encoder state and beta_{t-1,j} the attention received before step t, the scores follow Malaviya et al.
(2018), Section 5, for bilinear attention:

    z_tj = s_t^T (W h_j + v beta_{t-1,j}),   a_t = map(z_t),   beta_t = beta_{t-1} + a_t,   beta_0 = 0.

This is the linguistic coverage of Tu et al. (2016) without their fertility model. With `scaled_general`,
z_tj is divided by sqrt(D). If s_t^T v is negative, the score of a token decreases with the attention it has
received. The gradient flows through beta.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Attention, Memory, Reading, Reference, State, one_step
from regard.attention.expectation import ReceivedState, expectation, nothing_received
from regard.attention.scorers import SCORER_HELP, ScaledGeneralScorer, build_scorer
from regard.attention.soft import MAPS
from regard.config import config, option
from regard.functional.masking import exact_dtype
from regard.layers.rows import Rows
from regard.layers.steps import StepProduct
from regard.types import Float, Tensor

__all__ = ["CoverageAttention", "CoverageAttentionConfig"]


@config
class CoverageAttentionConfig:
    """Soft attention with a coverage vector."""

    kind: Literal["coverage"] = option(
        default="coverage", help="Attention mechanism: soft attention with a coverage vector."
    )
    map: Literal["softmax", "entmax15", "sparsemax"] = option(
        default="softmax",
        help="Transformation of scores into weights: softmax (dense), entmax15 or sparsemax (sparsest).",
    )
    scorer: Literal["dot", "bilinear", "scaled_dot", "scaled_bilinear"] | None = option(
        default=None, help=SCORER_HELP
    )


@dataclass(frozen=True)
class CoverageKeys(Rows):
    """W h_j for each source token, and v, both prepared for the time steps."""

    words: Rows
    coverage: StepProduct


class CoverageAttention(Attention):
    """Soft attention with a coverage vector.

    Args:
        config: The transformation and the scorer.
        query: Width of the decoder state.
        width: Width of the memory's states.
        heads: Number of heads; each has its own v.
    """

    def __init__(self, config: CoverageAttentionConfig, query: int, width: int, heads: int = 1) -> None:
        """Create the parameters W and v."""
        super().__init__()
        self.map = MAPS[config.map]
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width)
        self.scale = query**-0.5 if isinstance(self.scorer, ScaledGeneralScorer) else 1.0
        self.vector = nn.Parameter(nn.init.uniform_(torch.empty(query, heads), -(query**-0.5), query**-0.5))

    @classmethod
    def build(
        cls, config: CoverageAttentionConfig, query: int, width: int, target: int, heads: int = 1
    ) -> "CoverageAttention":
        """Build the mechanism from its config; see `Attention.build`."""
        return cls(config, query, width, heads)

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values."""
        keys = CoverageKeys(self.scorer.keys(memory.comparands), StepProduct.open(self.vector))
        return memory.with_products(keys, StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> ReceivedState:
        """Return the initial state, in which no token has received attention."""
        return nothing_received(super().start(memory))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Count the scorer, s^T v for each step, and a weighted sum of the states for each step."""
        made = self.scorer.multiply_adds(source, target, pairs)
        return made + target * self.vector.numel() + pairs * self.width

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """Attend for one time step."""
        keys = memory.keys
        assert isinstance(state, ReceivedState) and isinstance(keys, CoverageKeys)
        scores = self.scorer(query.unsqueeze(1), keys.words)[:, 0]
        dtype = exact_dtype(scores.dtype)
        felt = self.scale * keys.coverage(query).to(dtype)  # (B, heads)
        if self.vector.shape[1] > 1:
            # Rows are heads here: row i of a sentence belongs to head i and uses column i of v.
            felt = felt.view(-1, felt.shape[1], felt.shape[1]).diagonal(dim1=1, dim2=2).reshape(-1, 1)
        scores = scores.to(dtype) + felt * state.received
        weights = self.map(scores, mask=memory.mask)  # (B, S)
        received = state.received + weights
        reading = expectation(
            weights.unsqueeze(1), memory, lambda last, context: ReceivedState(last, context, received)
        )
        return one_step(reading)
