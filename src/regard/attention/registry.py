"""The registry of attention mechanisms.

Each mechanism registers itself with its configuration class (`register_attention`).
"""

from typing import Annotated

from regard.attention.base import Attention
from regard.registry import PartConfig, Registry, subclass_of

__all__ = ["ATTENTION", "AttentionConfig", "attention_class", "build_attention", "register_attention"]

ATTENTION: Registry[type[Attention]] = Registry(
    "attention mechanism",
    default="soft",
    packages=["regard.attention"],
    contract=subclass_of(Attention),
)
register_attention = ATTENTION.register

AttentionConfig = Annotated[PartConfig, ATTENTION]


def attention_class(config: AttentionConfig) -> type[Attention]:
    """Return the class of the mechanism that a config describes."""
    return ATTENTION.part_of(config)


def build_attention(
    config: AttentionConfig, query_size: int, memory_size: int, target_size: int = 0, num_heads: int = 1
) -> Attention:
    """Build the mechanism that a config describes.

    Args:
        config: The configuration of a registered mechanism.
        query_size: Width of the decoder state.
        memory_size: Width of the memory's states.
        target_size: Width of the target embeddings.
        num_heads: Number of consecutive rows of a batch that are the heads of one sentence.
    """
    return attention_class(config).build(config, query_size, memory_size, target_size, num_heads)
