"""Bases of the mechanisms with a scorer, the expected context, and helpers of latent positions.

z_tj = score(q_t, h_j),   a_t = normalize(z_t),   c_t = sum_j a_tj h_j

The contexts of mechanisms with a latent position are the states of single source positions.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import Attention, AttentionStep, Likelihood, Memory, State, squeeze_step
from regard.attention.scorers import DEFAULT_SCORE_FUNCTION, SCORE_FUNCTIONS
from regard.functional.dispatch import accumulation_dtype, mask_scores, usable_positions
from regard.layers.batched_state import BatchedState
from regard.layers.linear import StepLinear
from regard.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class CoverageState(State):
    """A state that also holds the attention that each source token has received.

    Attributes:
        coverage: [B, S], the sum of the attention weights so far, in float32 or better.
    """

    coverage: Float[Tensor, "B S"]


def expected_context(
    weights: Float[Tensor, "B T S"], memory: Memory, make_state: Callable[[Tensor, Tensor], State] = State
) -> AttentionStep:
    """Return an attention step with an axis T and one context per step, c_t = sum_j a_tj h_j, for one head.

    `make_state` returns the state after the last step, given its weights [B, 1, S] and its context [B, D].
    """
    assert memory.values is not None
    # One multiplication for all steps, whose gradient is accumulated once (`StepLinear`).
    contexts = memory.values(weights)  # (B, T, D)
    state = make_state(weights[:, -1:], contexts[:, -1])
    return AttentionStep.with_one_context(contexts.unsqueeze(2), weights.unsqueeze(2), state)


class ScorerAttention(Attention):
    """Attention that compares the decoder state with each source position by a scorer.

    Args:
        query_size: Width of the decoder state.
        memory_size: Width of the memory's states.
        score_function: Name of the score function. Default: scaled_bilinear.
    """

    def __init__(self, query_size: int, memory_size: int, score_function: str | None = None) -> None:
        """Build the scorer."""
        super().__init__()
        self.score_function = score_function or DEFAULT_SCORE_FUNCTION
        scorer = SCORE_FUNCTIONS.get(self.score_function)
        assert scorer is not None, score_function  # the config has checked the name
        self.scorer = scorer(query_size, memory_size)

    def prepare(self, memory: Memory) -> Memory:
        """Compute the keys and prepare the values."""
        inputs = memory.states if memory.key_states is None else memory.key_states
        keys, values = self.scorer.compute_keys(inputs), StepLinear.prepare(memory.states)
        return dataclasses.replace(memory, keys=keys, values=values)

    def compute_scores(
        self, queries: Float[Tensor, "B T Q"], keys: BatchedState | None
    ) -> Float[Tensor, "B T S"]:
        """Compute the score of every source position for each query, in float32 or better."""
        assert keys is not None
        scores = self.scorer(queries, keys)
        # A sum of exponentials, or of many small weights, would be too inexact in half precision.
        return scores.to(accumulation_dtype(scores.dtype))


class ScoredAttention(ScorerAttention):
    """Attention whose weights are a function of the scores of one time step; a subclass defines it."""

    @abstractmethod
    def normalize(
        self, scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B 1 S"]
    ) -> Float[Tensor, "B T S"]:
        """Return the attention weights.

        Args:
            scores: The scores, at least in float32.
            mask: True at positions that may be attended. The weights of the others must be 0.
        """

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> AttentionStep:
        """Attend for one time step."""
        return squeeze_step(self.read_all(query.unsqueeze(1), memory, state))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps in parallel, as no state carries over between steps."""
        scores = self.compute_scores(queries, memory.keys)
        return expected_context(self.normalize(scores, memory.mask.unsqueeze(1)), memory)


def masked_log_softmax(scores: Float[Tensor, "*B S"], mask: Bool[Tensor, "*#B S"]) -> Float[Tensor, "*B S"]:
    """Compute the log of a masked softmax, in float32 or better; -inf where masked."""
    usable = usable_positions(scores, mask)
    masked = mask_scores(scores.to(accumulation_dtype(scores.dtype)), usable)
    return torch.log_softmax(masked, dim=-1).masked_fill(~usable, -torch.inf)


def top_k_positions(
    log_probs: Float[Tensor, "*B S"], k: int
) -> tuple[Float[Tensor, "*B K"], Int[Tensor, "*B K"]]:
    """Return the log-probabilities and indices of the top K positions; of all if there are fewer or K is 0.

    Masked positions have log-probability -inf and index 0, which is always valid.
    """
    num_positions = log_probs.shape[-1]
    top_log_probs, positions = log_probs.topk(min(k or num_positions, num_positions), dim=-1)
    return top_log_probs, positions.masked_fill(torch.isneginf(top_log_probs), 0)


def gather_states(memory: Memory, positions: Int[Tensor, "B K"]) -> Float[Tensor, "B K D"]:
    """Gather the states at the given positions."""
    return memory.states.gather(1, positions.unsqueeze(-1).expand(-1, -1, memory.states.shape[-1]))


def posterior_over_positions(
    log_weights: Float[Tensor, "B C"],
    log_likelihood: Float[Tensor, "B C"],
    positions: Int[Tensor, "B K"],
    num_positions: int,
    tail_weights: Float[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Compute the posterior over source positions: proportional to weight times likelihood.

    The first K contexts are single positions. If `tail_weights` is given, one more context is a mean with
    these shares of the positions.
    """
    posterior = torch.softmax(log_weights + log_likelihood.to(log_weights.dtype), dim=-1)
    # scatter_add: masked positions all have index 0, but a posterior of zero.
    if tail_weights is None:
        return posterior.new_zeros(len(posterior), num_positions).scatter_add(1, positions, posterior)
    return (posterior[:, -1:] * tail_weights).scatter_add(1, positions, posterior[:, :-1])
