"""Tokens and sequences of tokens that a model's directory excludes from generation.

The semantics are those of `bad_words_ids`, `suppress_tokens` and `begin_suppress_tokens` of transformers. The
last token of a sequence is excluded if the hypothesis ends in the other tokens of the sequence and at least
one token precedes them.
"""

import torch

from regard.generation.config import GenerationConfig
from regard.models.base import GenerationConstraints
from regard.types import Float, Int, Tensor

__all__ = ["SuppressedTokens"]

_NEG_INF = -float("inf")


class SuppressedTokens:
    """Tokens and sequences excluded from the translations of a model.

    Args:
        constraints: The tokens and sequences.
        config: Search settings, which may turn suppression off.
        device: Device of the log-probabilities.

    Attributes:
        sequences: Sequences of two or more tokens.
    """

    def __init__(
        self, constraints: GenerationConstraints, config: GenerationConfig, device: torch.device
    ) -> None:
        """Store the tokens and sequences that apply."""
        enabled = config.scheme.hf_compatible and config.scheme.suppress_tokens
        never = constraints.suppressed if enabled else ()
        self._never = torch.tensor(never, dtype=torch.long, device=device)
        first = (*never, *constraints.suppressed_first) if enabled else ()
        self._first = torch.tensor(first, dtype=torch.long, device=device)
        found = constraints.banned_sequences if enabled else ()
        self.sequences = [torch.tensor(sequence, dtype=torch.long, device=device) for sequence in found]

    def mask(
        self, log_probs: Float[Tensor, "R V"], step: int, history: Int[Tensor, "R T"] | None
    ) -> Float[Tensor, "R V"]:
        """Return the log-probabilities, minus infinity for excluded tokens and ends of excluded sequences."""
        never = self._first if step == 0 else self._never
        if len(never):
            log_probs = log_probs.index_fill(1, never, _NEG_INF)
        for sequence in self.sequences:
            size = len(sequence) - 1
            if history is not None and history.shape[1] > size:
                matches = (history[:, -size:] == sequence[:-1]).all(dim=1)
                # Copy, because the caller's tensor must not change.
                log_probs = log_probs.clone()
                log_probs[matches, sequence[-1]] = _NEG_INF
        return log_probs
