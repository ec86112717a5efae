"""Hard monotonic attention: a pointer to one source word, moved on by a token of the target.

Aharoni & Goldberg (2017), Section 2: the target is a sequence of actions, which are characters to write and
`step`, after which the pointer stands one word further; the decoder reads x_a, the word it stands on, and
nothing else of the source. Where it stands is a function of the actions alone, so that training on actions
made from alignments (`regard.alignment.actions`) is plain maximum likelihood, and search is search over
actions. Their decoder is fed x_a and writes from its state: `query = "previous"` and `feed = "context"`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from regard.attention.base import Attention, Memory, Reading, Reference, State
from regard.config import config, option
from regard.types import Float, Int, Tensor

__all__ = ["PointerAttention", "PointerAttentionConfig", "PointerState"]


@config
class PointerAttentionConfig:
    """Hard monotonic attention."""

    target_tokenizer: ClassVar[str] = "actions"

    kind: Literal["pointer"] = option(
        default="pointer", help="The mechanism: a pointer that the target's steps move, tokenizer `actions`."
    )
    step: int = option(
        default=5,
        help="The id of the token that is a step; tokenizer `actions` gives it the first.",
        ge=0,
        le=10_000,
    )


@dataclass(frozen=True)
class PointerState(State):
    """The state, and where the pointer stands.

    Attributes:
        position: [B], the source word, counted from 0; beyond the last word the last is read.
    """

    position: Int[Tensor, "B"]


class PointerAttention(Attention):
    """Hard monotonic attention; it has nothing to learn.

    Args:
        config: Which token is a step.
        query: Width of the decoder's state; not used.
        width: Width of the memory's states; not used.
    """

    enters = True

    def __init__(self, config: PointerAttentionConfig, query: int, width: int) -> None:
        """Nothing to build."""
        super().__init__()
        self.step = config.step

    def start(self, memory: Memory, target: Reference | None = None) -> PointerState:
        """The pointer stands on the first word."""
        first = super().start(memory)
        position = torch.zeros(len(memory.states), dtype=torch.long, device=memory.states.device)
        return PointerState(first.weights, first.context, position)

    def enter(self, state: State, tokens: Int[Tensor, "B"]) -> PointerState:
        """Move the pointer where the token before was a step."""
        assert isinstance(state, PointerState)
        return replace(state, position=state.position + (tokens == self.step))

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One step: the word that the pointer stands on."""
        assert isinstance(state, PointerState)
        last = memory.mask.sum(1) - 1
        place = torch.minimum(state.position, last).unsqueeze(1)  # (B, 1)
        weights = torch.zeros_like(state.weights[:, 0]).scatter(1, place, 1.0).unsqueeze(1)
        contexts = memory.states.gather(1, place.unsqueeze(-1).expand(-1, -1, memory.states.shape[-1]))
        zeros = torch.zeros_like(weights[:, :, 0])
        after = PointerState(weights, contexts[:, 0], state.position)
        return Reading(contexts, zeros, weights, zeros, zeros[:, 0], after)
