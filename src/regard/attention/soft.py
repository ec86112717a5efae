"""Soft attention, whose context is the expectation of the encoder states, and the absence of attention.

    a_t = normalizer(z_t),  c_t = sum_j a_tj h_j  Bahdanau et al. (2015), Eq. 5; Malaviya et al. (2018), Eq. 2

The normalizer transforms scores into weights. It is softmax; sparsemax (Martins & Astudillo, 2016), which
gives most positions exactly zero; 1.5-entmax (Peters et al., 2019), between these two; or fusedmax (Niculae
& Blondel, 2017), a sparsemax that encourages equal weights of neighboring positions.

Without attention (`NoAttention`), every context is zero: the decoder receives the source only through its
initial state, as in the encoder-decoder of Sutskever et al. (2014). As a mechanism, it is no special case of
the models.
"""

from typing import Annotated, Literal

from regard.attention.base import Attention, AttentionStep, Memory, State
from regard.attention.registry import NORMALIZER_HELP, NORMALIZERS, get_normalizer, register_attention
from regard.attention.scored import ScoredAttention
from regard.attention.scorers import SCORE_FUNCTION_HELP, DotScorer, ScoreFunction
from regard.config import configclass, option
from regard.kernels.attention import fused_attention, source_attention, supports_attention
from regard.layers.linear import StepLinear
from regard.types import Bool, Float, Tensor


@configclass
class SoftAttentionConfig:
    """Soft attention, an expectation over all source positions."""

    kind: Literal["soft"] = option(default="soft", help="An expectation over the source positions.")
    normalizer: Annotated[str, NORMALIZERS] = option(default="softmax", help=NORMALIZER_HELP)
    score_function: ScoreFunction = option(default=None, help=SCORE_FUNCTION_HELP)


@register_attention("soft", SoftAttentionConfig)
class SoftAttention(ScoredAttention):
    """Soft attention with a masked transformation of the scores."""

    def __init__(self, config: SoftAttentionConfig, query_size: int, memory_size: int) -> None:
        """Build the scorer and select the transformation."""
        super().__init__(query_size, memory_size, config.score_function)
        self.normalizer = get_normalizer(config.normalizer)
        self.is_softmax = config.normalizer == "softmax"

    @property
    def fused(self) -> bool:
        """Whether the fused kernels apply, which compute dot products and softmax only.

        Models of other libraries replace the scorer.
        """
        return self.is_softmax and isinstance(self.scorer, DotScorer)

    def normalize(
        self, scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B T S"]:
        """Transform the scores."""
        return self.normalizer(scores, mask=mask)

    def fast_context(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, state: State
    ) -> Float[Tensor, "B T D"] | None:
        """Use PyTorch's fused attention for softmax and scores that are dot products of queries and keys."""
        if not self.fused:
            return None
        assert isinstance(memory.keys, StepLinear) and memory.values is not None
        # Scorers apply their scale to the keys, hence scale = 1.
        keys, values = memory.keys.weight.transpose(1, 2), memory.values.weight
        mask = memory.mask[:, None, None]
        parts = (x.unsqueeze(1) for x in (queries.to(keys.dtype), keys, values))
        return fused_attention(*parts, mask=mask, scale=1.0)[:, 0]

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step, with a fused kernel if it supports the tensors."""
        # The kernel indexes the sentences' memory, so that it is not copied for every hypothesis.
        base, rows = memory.base_and_index()
        if self.fused and isinstance(base.keys, StepLinear) and base.values is not None:
            keys, values = base.keys.weight.transpose(1, 2), base.values.weight
            query = query.to(keys.dtype)
            if supports_attention(query, keys, values):
                context, weights = source_attention(query, keys, values, base.mask, rows)
                weights = weights.unsqueeze(1)
                return AttentionStep.with_one_context(context.unsqueeze(1), weights, State(weights, context))
        return super().read(query, memory, state)


@configclass
class NoAttentionConfig:
    """No attention."""

    kind: Literal["none"] = option(
        default="none",
        help="No attention: the decoder receives the source only through its initial state, or not at all "
        'if model.kind is not "rnn".',
    )


@register_attention("none", NoAttentionConfig)
class NoAttention(Attention):
    """Contexts of zeros."""

    has_projections = True
    trains_queries = False

    def __init__(self, config: NoAttentionConfig, query_size: int, memory_size: int) -> None:
        """Initialize the module; there are no parameters."""
        super().__init__()

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Return a context of zeros for one time step."""
        return AttentionStep.with_one_context(state.context.unsqueeze(1), state.weights, state)
