"""Helpers of mechanisms whose contexts are single source positions: top-k selection and Bayes' rule."""

import torch

from regard.attention.base import Memory
from regard.functional.dispatch import accumulation_dtype, mask_scores, usable_positions
from regard.types import Bool, Float, Int, Tensor

__all__ = ["gather_states", "masked_log_softmax", "posterior_over_positions", "top_k_positions"]


def masked_log_softmax(scores: Float[Tensor, "*B S"], mask: Bool[Tensor, "*#B S"]) -> Float[Tensor, "*B S"]:
    """Compute the log of a masked softmax, in float32 or better; -inf where masked."""
    usable = usable_positions(scores, mask)
    masked = mask_scores(scores.to(accumulation_dtype(scores.dtype)), usable)
    return torch.log_softmax(masked, dim=-1).masked_fill(~usable, -torch.inf)


def top_k_positions(
    log_probs: Float[Tensor, "*B S"], k: int
) -> tuple[Float[Tensor, "*B K"], Int[Tensor, "*B K"]]:
    """Return the log-probabilities and indices of the top K positions, or of all if there are fewer.

    Masked positions have log-probability -inf and index 0, which is always valid.

    Args:
        log_probs: Log-probabilities, -inf where masked.
        k: K; 0 returns all positions.
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

    Args:
        log_weights: Log-weights of the contexts: K, or K + 1 if `tail_weights` is given.
        log_likelihood: Log p(token | context k).
        positions: Source position of each of the first K contexts.
        num_positions: S.
        tail_weights: The share of each position in the last context, a mean of positions. None if there is no
            such context.
    """
    posterior = torch.softmax(log_weights + log_likelihood.to(log_weights.dtype), dim=-1)
    # scatter_add: masked positions all have index 0, but a posterior of zero.
    if tail_weights is None:
        return posterior.new_zeros(len(posterior), num_positions).scatter_add(1, positions, posterior)
    return (posterior[:, -1:] * tail_weights).scatter_add(1, positions, posterior[:, :-1])
