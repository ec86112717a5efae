"""The registry of attention mechanisms.

To register a mechanism, add its config to `AttentionConfig` and its class to `ATTENTION_CLASSES`.
"""

from typing import Annotated, Any

from regard.attention.base import Attention
from regard.attention.constrained import ConstrainedAttention, ConstrainedAttentionConfig
from regard.attention.coverage import CoverageAttention, CoverageAttentionConfig
from regard.attention.hard import HardAttention, HardAttentionConfig
from regard.attention.local import LocalAttention, LocalAttentionConfig
from regard.attention.none import NoAttention, NoAttentionConfig
from regard.attention.pointer import PointerAttention, PointerAttentionConfig
from regard.attention.posterior import PosteriorAttention, PosteriorAttentionConfig
from regard.attention.soft import SoftAttention, SoftAttentionConfig
from regard.attention.variational import VariationalAttention, VariationalAttentionConfig
from regard.config import TaggedUnion

__all__ = ["ATTENTION_CLASSES", "AttentionConfig", "attention_class", "build_attention"]

AttentionConfig = Annotated[
    SoftAttentionConfig
    | CoverageAttentionConfig
    | ConstrainedAttentionConfig
    | PosteriorAttentionConfig
    | VariationalAttentionConfig
    | LocalAttentionConfig
    | HardAttentionConfig
    | PointerAttentionConfig
    | NoAttentionConfig,
    TaggedUnion("soft"),
]

ATTENTION_CLASSES: dict[type[Any], type[Attention]] = {
    SoftAttentionConfig: SoftAttention,
    CoverageAttentionConfig: CoverageAttention,
    ConstrainedAttentionConfig: ConstrainedAttention,
    PosteriorAttentionConfig: PosteriorAttention,
    VariationalAttentionConfig: VariationalAttention,
    LocalAttentionConfig: LocalAttention,
    HardAttentionConfig: HardAttention,
    PointerAttentionConfig: PointerAttention,
    NoAttentionConfig: NoAttention,
}


def attention_class(config: AttentionConfig) -> type[Attention]:
    """Return the class of the mechanism that a config describes."""
    return ATTENTION_CLASSES[type(config)]


def build_attention(
    config: AttentionConfig, query_size: int, memory_size: int, target_size: int = 0, num_heads: int = 1
) -> Attention:
    """Build the mechanism that a config describes.

    Args:
        config: A member of the union.
        query_size: Width of the decoder state.
        memory_size: Width of the memory's states.
        target_size: Width of the target embeddings.
        num_heads: Number of consecutive rows of a batch that are the heads of one sentence.
    """
    return attention_class(config).build(config, query_size, memory_size, target_size, num_heads)
