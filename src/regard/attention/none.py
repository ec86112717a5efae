"""The mechanism without attention: every context is zero.

The decoder receives the source only through its initial state, as in the encoder-decoder of Sutskever et al.
(2014). Implementing this as a mechanism spares models a special case.
"""

from typing import Literal

from regard.attention.base import Attention, AttentionStep, Memory, State
from regard.attention.registry import register_attention
from regard.config import configclass, option
from regard.types import Float, Tensor

__all__ = ["NoAttention", "NoAttentionConfig"]


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
