"""No attention: every context is zero, and a decoder knows the source by its initial state alone.

The encoder-decoder of Sutskever et al. (2014), as a mechanism, so that no model asks whether it has one.
"""

from typing import Literal

from regard.attention.base import Attention, Memory, Reading, State
from regard.config import config, option
from regard.types import Float, Tensor

__all__ = ["NoAttention", "NoAttentionConfig"]


@config
class NoAttentionConfig:
    """No attention at all."""

    kind: Literal["none"] = option(
        default="none", help="No attention: the decoder knows the source by its first state."
    )


class NoAttention(Attention):
    """Contexts of zeros.

    Args:
        config: Nothing to set.
        query: Width of the decoder's state; not used.
        width: Width of the memory's states; not used.
    """

    projects = True
    moves_queries = False

    def __init__(self, config: NoAttentionConfig, query: int, width: int) -> None:
        """Nothing to build."""
        super().__init__()

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One step, which reads nothing."""
        zero = state.weights.new_zeros(query.shape[0], 1)
        return Reading(
            contexts=state.context.unsqueeze(1),
            log_weights=zero,
            weights=state.weights,
            log_policy=zero,
            penalty=zero.squeeze(1),
            state=state,
        )
