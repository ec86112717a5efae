"""What mechanisms share whose contexts are single source words: which words, and which of them it was."""

import torch

from regard.attention.base import Memory
from regard.functional.masking import exact_dtype, hide
from regard.types import Bool, Float, Int, Tensor

__all__ = ["bayes", "likeliest", "masked_log_softmax", "words_at"]


def masked_log_softmax(scores: Float[Tensor, "*B S"], mask: Bool[Tensor, "*#B S"]) -> Float[Tensor, "*B S"]:
    """The log of a masked softmax, float32 at least; -inf where masked."""
    hidden = hide(scores.to(exact_dtype(scores.dtype)), mask)
    return torch.log_softmax(hidden, dim=-1).masked_fill(~mask, -torch.inf)


def likeliest(log_probs: Float[Tensor, "B S"], count: int) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"]]:
    """Log-probabilities and places of the K likeliest words, or of all where there are no more.

    Words that cannot be read have -inf and all stand for the first one.

    Args:
        log_probs: -inf where masked.
        count: K; 0: as many as there are words.
    """
    words = log_probs.shape[1]
    found, positions = log_probs.topk(min(count or words, words), dim=-1)
    return found, positions.masked_fill(torch.isneginf(found), 0)


def words_at(memory: Memory, positions: Int[Tensor, "B K"]) -> Float[Tensor, "B K D"]:
    """The words at some places."""
    return memory.states.gather(1, positions.unsqueeze(-1).expand(-1, -1, memory.states.shape[-1]))


def bayes(
    log_weights: Float[Tensor, "B C"],
    log_likelihood: Float[Tensor, "B C"],
    positions: Int[Tensor, "B K"],
    words: int,
    others: Float[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Which word a token was read from, over all words: proportional to weight times likelihood.

    Args:
        log_weights: Of the contexts: K, and one more with `others`.
        log_likelihood: Log p(token | context k).
        positions: Which word each of the first K contexts is.
        words: S.
        others: What share of the last context each word has; none: there is no such context.
    """
    believed = torch.softmax(log_weights + log_likelihood.to(log_weights.dtype), dim=-1)
    if others is None:
        return believed.new_zeros(len(believed), words).scatter_add(1, positions, believed)
    return (believed[:, -1:] * others).scatter_add(1, positions, believed[:, :-1])
