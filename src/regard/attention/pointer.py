"""Hard monotonic attention: a pointer to one source token, advanced by a token of the target.

In Aharoni & Goldberg (2017), Section 2, the target is a sequence of actions: characters to write, and
`step`, which moves the pointer to the next source token. The context is the encoder state at the pointer. The
pointer position is a function of the actions alone. Training on actions derived from alignments
(`regard.alignment.pointer_actions`) is therefore plain maximum likelihood, and search is a search over
actions. Their decoder receives the context as input and predicts from its state: `query = "previous"` and
`input_feeding = "context"`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from regard.attention.base import Attention, AttentionStep, Memory, Reference, State
from regard.attention.registry import register_attention
from regard.attention.scored import gather_states
from regard.config import configclass, option
from regard.types import Float, Int, Tensor

STEP_TOKEN = 5
"""Token id of the step action: the first id after the special tokens. The tokenizer `actions` assigns it."""


@configclass
class PointerAttentionConfig:
    """Hard monotonic attention."""

    target_tokenizer: ClassVar[str] = "actions"

    kind: Literal["pointer"] = option(
        default="pointer",
        help="A pointer to one source position, advanced by steps in the target; requires model.kind = "
        '"rnn" and the target tokenizer `actions`.',
    )


@dataclass(frozen=True)
class PointerState(State):
    """A state with the position of the pointer.

    Attributes:
        position: [B], the source position, from 0. Values beyond the last position refer to the last one.
    """

    position: Int[Tensor, "B"]


@register_attention("pointer", PointerAttentionConfig)
class PointerAttention(Attention):
    """Hard monotonic attention; it has no parameters."""

    needs_advance = True

    def __init__(self, config: PointerAttentionConfig, query_size: int, memory_size: int) -> None:
        """Create the mechanism; there are no parameters."""
        super().__init__()

    def start(self, memory: Memory, target: Reference | None = None) -> PointerState:
        """Return the initial state, with the pointer at position 0."""
        first = super().start(memory)
        position = torch.zeros(len(memory.states), dtype=torch.long, device=memory.states.device)
        return PointerState(first.weights, first.context, position)

    def advance(self, state: State, tokens: Int[Tensor, "B"]) -> PointerState:
        """Advance the pointer if the previous token was a step."""
        assert isinstance(state, PointerState)
        # The position may exceed the sentence; `read` clips it to the last token.
        return replace(state, position=state.position + (tokens == STEP_TOKEN))

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend to the source position of the pointer, for one time step."""
        assert isinstance(state, PointerState)
        last = memory.mask.sum(1) - 1
        position = torch.minimum(state.position, last).unsqueeze(1)  # (B, 1)
        weights = torch.zeros_like(state.weights[:, 0]).scatter(1, position, 1.0).unsqueeze(1)
        contexts = gather_states(memory, position)
        after = PointerState(weights, contexts[:, 0], state.position)
        return AttentionStep.with_one_context(contexts, weights, after)
