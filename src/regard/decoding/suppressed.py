"""Tokens and sequences of tokens that a model's directory excludes from generation.

The semantics are those of `bad_words_ids`, `suppress_tokens` and `begin_suppress_tokens` of transformers. The
last token of a sequence is excluded if the hypothesis ends in the other tokens of the sequence and at least
one token precedes them.
"""

import torch

from regard.decoding.config import SearchConfig
from regard.models.base import Constraints
from regard.types import Float, Int, Tensor

__all__ = ["Suppressed"]

_NEVER = -float("inf")


class Suppressed:
    """Tokens and sequences excluded from the translations of a model.

    Args:
        constraints: The tokens and sequences.
        config: Search settings, which may turn suppression off.
        device: Device of the log-probabilities.

    Attributes:
        sequences: Sequences of two or more tokens.
    """

    def __init__(self, constraints: Constraints, config: SearchConfig, device: torch.device) -> None:
        """Store the tokens and sequences that apply."""
        on = config.scheme.transformers and config.scheme.suppress
        never = constraints.never if on else ()
        self._never = torch.tensor(never, dtype=torch.long, device=device)
        first = (*never, *constraints.never_first) if on else ()
        self._first = torch.tensor(first, dtype=torch.long, device=device)
        found = constraints.sequences if on else ()
        self.sequences = [torch.tensor(sequence, dtype=torch.long, device=device) for sequence in found]

    def masked(
        self, log_probs: Float[Tensor, "R V"], step: int, history: Int[Tensor, "R T"] | None
    ) -> Float[Tensor, "R V"]:
        """Set the log-probabilities of tokens that would complete an excluded sequence to minus infinity."""
        never = self._first if step == 0 else self._never
        if len(never):
            log_probs = log_probs.index_fill(1, never, _NEVER)
        for sequence in self.sequences:
            size = len(sequence) - 1
            if history is not None and history.shape[1] > size:
                matches = (history[:, -size:] == sequence[:-1]).all(dim=1)
                # Copy, because the caller's tensor must not change.
                log_probs = log_probs.clone()
                log_probs[matches, sequence[-1]] = _NEVER
        return log_probs
