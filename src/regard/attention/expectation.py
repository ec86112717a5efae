"""What soft mechanisms share: contexts that are expectations, and a state of what words received."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import Memory, Reading, State
from regard.types import Float, Tensor

__all__ = ["ReceivedState", "expectation", "nothing_received"]


@dataclass(frozen=True)
class ReceivedState(State):
    """The state with what each word has received.

    Attributes:
        received: [B, S], the sum of the attention so far: float32 at least.
    """

    received: Float[Tensor, "B S"]


def nothing_received(state: State) -> ReceivedState:
    """The state before the first step."""
    return ReceivedState(state.weights, state.context, torch.zeros_like(state.weights[:, 0]))


def expectation(
    weights: Float[Tensor, "B T S"], memory: Memory, state: Callable[[Tensor, Tensor], State] = State
) -> Reading:
    """A reading with an axis T of one context a step, c_t = sum_j a_tj h_j, for one head.

    Args:
        weights: Attention.
        memory: A prepared memory, its values open.
        state: Makes the state after the last step from its weights [B, 1, S] and its context [B, D].
    """
    assert memory.values is not None
    contexts = memory.values(weights)  # (B, T, D)
    zeros = weights.new_zeros(weights.shape[0], weights.shape[1], 1)
    return Reading(
        contexts=contexts.unsqueeze(2),
        log_weights=zeros,
        weights=weights.unsqueeze(2),
        log_policy=zeros,
        penalty=zeros.squeeze(2),
        state=state(weights[:, -1:], contexts[:, -1]),
    )
