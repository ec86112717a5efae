"""Helpers of the soft mechanisms: the expected context, and a state that accumulates received attention."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import AttentionStep, Memory, State
from regard.types import Float, Tensor

__all__ = ["CoverageState", "expected_context", "initial_coverage"]


@dataclass(frozen=True)
class CoverageState(State):
    """A state that also holds the attention that each source token has received.

    Attributes:
        coverage: [B, S], the sum of the attention weights so far, in float32 or better.
    """

    coverage: Float[Tensor, "B S"]


def initial_coverage(state: State) -> CoverageState:
    """Return the state before the first step, with zero received attention."""
    return CoverageState(state.weights, state.context, torch.zeros_like(state.weights[:, 0]))


def expected_context(
    weights: Float[Tensor, "B T S"], memory: Memory, make_state: Callable[[Tensor, Tensor], State] = State
) -> AttentionStep:
    """Return an attention step with an axis T and one context per step, c_t = sum_j a_tj h_j, for one head.

    Args:
        weights: Attention weights.
        memory: A prepared memory.
        make_state: Function that returns the state after the last step, given its weights [B, 1, S] and its
            context [B, D].
    """
    assert memory.values is not None
    contexts = memory.values(weights)  # (B, T, D)
    # A single context has log-weight 0, nothing was sampled and there is no penalty.
    zeros = weights.new_zeros(weights.shape[0], weights.shape[1], 1)
    return AttentionStep(
        contexts=contexts.unsqueeze(2),
        log_weights=zeros,
        weights=weights.unsqueeze(2),
        log_policy=zeros,
        penalty=zeros.squeeze(2),
        state=make_state(weights[:, -1:], contexts[:, -1]),
    )
