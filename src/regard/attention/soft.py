"""Soft attention: the context is the expectation of the encoder states under the attention weights.

    a_t = map(z_t),   c_t = sum_j a_tj h_j      Bahdanau et al. (2015), Eq. 5; Malaviya et al. (2018), Eq. 2

The map transforms scores into weights. It is softmax; sparsemax (Martins & Astudillo, 2016), which gives
most positions exactly zero; 1.5-entmax (Peters et al., 2019), between these two; or fusedmax (Niculae &
Blondel, 2017), a sparsemax that encourages equal weights of neighboring positions.
"""

from functools import partial
from typing import Literal

from regard.attention.base import Attention, Likelihood, Memory, Reading, State, one_step
from regard.attention.expectation import expectation
from regard.attention.scorers import HIDDEN_HELP, SCORER_HELP, DotScorer, ScorerKind, build_scorer
from regard.config import config, option
from regard.functional import entmax15, fusedmax, softmax, sparsemax
from regard.functional.masking import exact_dtype
from regard.kernels.attention import fused_attention
from regard.kernels.cached import fits, word_attention
from regard.layers.steps import StepProduct
from regard.types import Float, Tensor

__all__ = ["SoftAttention", "SoftAttentionConfig"]

MAPS = {"softmax": softmax, "entmax15": entmax15, "sparsemax": sparsemax}
FUSION = 0.1


@config
class SoftAttentionConfig:
    """Soft attention, an expectation over all source positions."""

    kind: Literal["soft"] = option(
        default="soft", help="Attention mechanism: an expectation over the source positions."
    )
    map: Literal["softmax", "entmax15", "sparsemax", "fusedmax"] = option(
        default="softmax",
        help="Transformation of scores into weights: softmax (dense), entmax15, sparsemax (sparsest), or "
        "fusedmax (sparse, equal weights of neighbors).",
    )
    fusion: float = option(
        default=FUSION,
        help="Strength lambda of fusedmax: larger values make neighbors more equal. 0 is sparsemax.",
        ge=0,
        le=1e6,
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)

    def __post_init__(self) -> None:
        """Reject a fusedmax strength together with another transformation."""
        if self.fusion != FUSION and self.map != "fusedmax":
            raise ValueError(
                f"fusion = {self.fusion:g} requires map = 'fusedmax', but the map is '{self.map}': "
                "change the map or remove fusion"
            )


class SoftAttention(Attention):
    """Soft attention with a masked transformation of the scores.

    Args:
        config: The transformation and the scorer.
        query: Width of the decoder state.
        width: Width of the memory's states.
    """

    def __init__(self, config: SoftAttentionConfig, query: int, width: int) -> None:
        """Build the scorer and select the transformation."""
        super().__init__()
        self.map = partial(fusedmax, strength=config.fusion) if config.map == "fusedmax" else MAPS[config.map]
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)
        self.fused = config.map == "softmax" and isinstance(self.scorer, DotScorer)

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values."""
        return memory.with_products(self.scorer.keys(memory.comparands), StepProduct.open(memory.states))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Count the scorer, and a weighted sum of the states for each step."""
        return self.scorer.multiply_adds(source, target, pairs) + pairs * self.width

    def glance(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """Use PyTorch's fused attention for softmax and scores that are dot products of queries and keys."""
        if not self.fused:
            return None
        assert isinstance(memory.keys, StepProduct) and memory.values is not None
        # Scorers apply their scale to the keys, hence scale = 1.
        keys, values = memory.keys.matrix.transpose(1, 2), memory.values.matrix
        mask = memory.mask[:, None, None]
        parts = (x.unsqueeze(1) for x in (queries.to(keys.dtype), keys, values))
        return fused_attention(*parts, mask=mask, scale=1.0)[:, 0]

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """Attend for one time step, with a fused kernel if it supports the tensors."""
        # The kernel indexes the sentences' memory, so that it is not copied for every hypothesis.
        whole, rows = memory.shared()
        if self.fused and isinstance(whole.keys, StepProduct) and whole.values is not None:
            keys, values = whole.keys.matrix.transpose(1, 2), whole.values.matrix
            query = query.to(keys.dtype)
            if fits(query, keys, values):
                return _step(*word_attention(query, keys, values, whole.mask, rows))
        return one_step(self.read_all(query.unsqueeze(1), memory, state))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """Attend for all steps in parallel, as no state carries over between steps."""
        assert memory.keys is not None
        scores = self.scorer(queries, memory.keys)
        scores = scores.to(exact_dtype(scores.dtype))
        return expectation(self.map(scores, mask=memory.mask.unsqueeze(1)), memory)


def _step(context: Float[Tensor, "B D"], weights: Float[Tensor, "B S"]) -> Reading:
    """Build the reading of one step from its context and weights."""
    zeros = weights.new_zeros(len(weights), 1)
    after = State(weights.unsqueeze(1), context)
    return Reading(context.unsqueeze(1), zeros, weights.unsqueeze(1), zeros, zeros[:, 0], after)
