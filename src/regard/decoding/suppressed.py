"""Tokens and sequences of tokens that are never generated, as a model's directory lists them.

The semantics are those of `bad_words_ids`, `suppress_tokens` and `begin_suppress_tokens` of transformers: a
sequence is suppressed by its last token where the hypothesis ends in the others and at least one token stands
before them.
"""

import torch

from regard.decoding.config import SearchConfig
from regard.models.base import Constraints
from regard.types import Float, Int, Tensor

__all__ = ["Suppressed"]

_NEVER = -float("inf")


class Suppressed:
    """What a model's directory excludes from its translations.

    Args:
        constraints: The tokens and sequences.
        config: Whether they are suppressed.
        device: Where the log-probabilities are.

    Attributes:
        sequences: Sequences of two or more tokens.
    """

    def __init__(self, constraints: Constraints, config: SearchConfig, device: torch.device) -> None:
        """Take what applies."""
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
        """The same with minus infinity at every token that would complete one of them."""
        never = self._first if step == 0 else self._never
        if len(never):
            log_probs = log_probs.index_fill(1, never, _NEVER)
        for sequence in self.sequences:
            size = len(sequence) - 1
            if history is not None and history.shape[1] > size:
                said = (history[:, -size:] == sequence[:-1]).all(dim=1)
                log_probs = log_probs.clone()
                log_probs[said, sequence[-1]] = _NEVER
        return log_probs
