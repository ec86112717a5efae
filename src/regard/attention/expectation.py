"""Helpers of the soft mechanisms: the expected context, and a state that accumulates received attention."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import Memory, Reading, State
from regard.types import Float, Tensor

__all__ = ["ReceivedState", "expectation", "nothing_received"]


@dataclass(frozen=True)
class ReceivedState(State):
    """A state that also holds the attention that each source token has received.

    Attributes:
        received: [B, S], the sum of the attention weights so far, in float32 or better.
    """

    received: Float[Tensor, "B S"]


def nothing_received(state: State) -> ReceivedState:
    """Return the state before the first step, with zero received attention."""
    return ReceivedState(state.weights, state.context, torch.zeros_like(state.weights[:, 0]))


def expectation(
    weights: Float[Tensor, "B T S"], memory: Memory, state: Callable[[Tensor, Tensor], State] = State
) -> Reading:
    """Return a reading with an axis T and one context per step, c_t = sum_j a_tj h_j, for one head.

    Args:
        weights: Attention weights.
        memory: A prepared memory.
        state: Function that returns the state after the last step, given its weights [B, 1, S] and its
            context [B, D].
    """
    assert memory.values is not None
    contexts = memory.values(weights)  # (B, T, D)
    # A single context has log-weight 0, nothing was sampled and there is no penalty.
    zeros = weights.new_zeros(weights.shape[0], weights.shape[1], 1)
    return Reading(
        contexts=contexts.unsqueeze(2),
        log_weights=zeros,
        weights=weights.unsqueeze(2),
        log_policy=zeros,
        penalty=zeros.squeeze(2),
        state=state(weights[:, -1:], contexts[:, -1]),
    )
