"""Top-k attention: the softmax of the k highest scores, and zero elsewhere."""

from typing import Literal

import regard
from regard.attention import ScoredAttention
from regard.functional import softmax


@regard.configclass
class TopKAttentionConfig:
    """Top-k attention."""

    kind: Literal["topk"] = regard.option(default="topk", help="Softmax of the k highest scores.")
    k: int = regard.option(default=8, help="Maximum number of source positions with attention.", ge=1)
    score_function: str | None = regard.option(
        default=None, help="Score function. Default: that of the model."
    )


@regard.register_attention("topk", TopKAttentionConfig)
class TopKAttention(ScoredAttention):
    """Attention to the k positions with the highest scores; equal scores may give more than k."""

    def __init__(self, config: TopKAttentionConfig, query_size: int, memory_size: int) -> None:
        """Build the scorer."""
        super().__init__(query_size, memory_size, config.score_function)
        self.k = config.k

    def normalize(self, scores, mask):
        """Return weights [B, T, S] from scores [B, T, S]; the mask [B, 1, S] is True at real positions."""
        allowed = scores.masked_fill(~mask, float("-inf"))
        lowest = allowed.topk(min(self.k, scores.shape[-1]), dim=-1).values[..., -1:]
        return softmax(scores, mask=mask & (allowed >= lowest))
