"""A small attention mechanism that implements the whole contract of `regard.attention.base`."""

from dataclasses import dataclass

import torch
from torch import nn

from regard.attention.base import Attention, AttentionStep, Memory, State


@dataclass(frozen=True)
class TwoReading(AttentionStep):
    """Two contexts, each with its own attention weights.

    The likelihood of the generated token updates the probabilities of the two contexts.
    """

    both: torch.Tensor

    def update(self, log_likelihood: torch.Tensor) -> State:
        posterior = torch.softmax(self.log_weights + log_likelihood, dim=-1)
        weights = torch.einsum("bk,bkhs->bhs", posterior, self.both)
        context = torch.einsum("bk,bkd->bd", posterior, self.contexts)
        return State(weights, context)


class TwoContexts(Attention):
    """A mechanism with a flat and a sharp distribution over the source, combined with Bayes' rule.

    The flat one is the softmax of the scores, the sharp one is the softmax of five times the scores.
    """

    observes_tokens = True

    def __init__(self, query: int, width: int) -> None:
        super().__init__()
        self.scores = nn.Linear(query, width)
        self.prior = nn.Linear(query, 2)

    def read(self, query: torch.Tensor, memory: Memory, state: State) -> AttentionStep:
        scores = torch.einsum("bd,bsd->bs", self.scores(query), memory.states) + state.weights[:, 0]
        hidden = scores.masked_fill(~memory.mask, -1e9)
        both = torch.stack([torch.softmax(hidden, -1), torch.softmax(5 * hidden, -1)], dim=1)
        contexts = both @ memory.states
        log_weights = torch.log_softmax(self.prior(query), dim=-1)
        weights = torch.einsum("bk,bks->bs", log_weights.exp(), both).unsqueeze(1)
        zeros = torch.zeros_like(log_weights)
        return TwoReading(contexts, log_weights, weights, zeros, zeros[:, 0], state, both.unsqueeze(2))
