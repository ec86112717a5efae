"""The registry of attention mechanisms.

To register a mechanism, add its config to `AttentionConfig` and its class to `MECHANISMS`.
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
from regard.config import Kinds

__all__ = ["MECHANISMS", "AttentionConfig", "build_attention", "mechanism"]

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
    Kinds("soft"),
]

MECHANISMS: dict[type[Any], type[Attention]] = {
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


def mechanism(config: AttentionConfig) -> type[Attention]:
    """Return the class of the mechanism that a config describes."""
    return MECHANISMS[type(config)]


def build_attention(
    config: AttentionConfig, query: int, width: int, target: int = 0, heads: int = 1
) -> Attention:
    """Build the mechanism that a config describes.

    Args:
        config: A member of the union.
        query: Width of the decoder state.
        width: Width of the memory's states.
        target: Width of the target embeddings.
        heads: Number of consecutive rows of a batch that are the heads of one sentence.
    """
    return mechanism(config).build(config, query, width, target, heads)
