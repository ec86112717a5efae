"""Local attention: softmax over the words of a window alone (Luong et al. 2015, Section 3.2).

At step t the window is the words s with p_t - D <= s <= p_t + D:

    monotonic   p_t = t                                                               (local-m)
    predictive  p_t = S sigmoid(v . tanh(W s_t)),                                     (local-p, Eq. 9)
                a_t(s) = softmax in the window * exp(-(s - p_t)^2 / (2 sigma^2)), sigma = D / 2   (Eq. 10)

words and steps counted from 0, S the words of the sentence. What of a window lies outside the sentence is
left out; a monotonic window that lies outside altogether stays with the last word. As printed, the weights of
local-p are not normalised again: they sum to less than 1, the less the farther they lie from p_t, which is
learned through the Gaussian alone: the ends of the window have no gradient.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Attention, Likelihood, Memory, Reading, Reference, State, one_step
from regard.attention.expectation import expectation
from regard.attention.scorers import HIDDEN_HELP, SCORER_HELP, ScorerKind, build_scorer
from regard.attention.soft import MAPS
from regard.config import config, option
from regard.functional.masking import exact_dtype
from regard.layers.rows import Rows
from regard.layers.steps import StepProduct
from regard.types import Float, Int, Tensor

__all__ = ["LocalAttention", "LocalAttentionConfig", "LocalState"]


@config
class LocalAttentionConfig:
    """Local attention."""

    kind: Literal["local"] = option(
        default="local", help="The mechanism: an expectation over the words of a window."
    )
    variant: Literal["monotonic", "predictive"] = option(
        default="predictive",
        help="Where the window is: at the step's own number (local-m), or where the state says (local-p).",
    )
    window: int = option(
        default=10, help="D: the window has so many words on each side of its middle.", ge=1, le=100_000
    )
    map: Literal["softmax", "entmax15", "sparsemax"] = option(
        default="softmax", help="From scores to weights, from the fullest to the sparsest."
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)


@dataclass(frozen=True)
class LocalState(State):
    """The state, and where in the target it is.

    Attributes:
        step: [B], the number of the next step, from 0.
    """

    step: Int[Tensor, "B"]


@dataclass(frozen=True)
class LocalKeys(Rows):
    """The scorer's keys, and W opened for the steps where the window's place is predicted."""

    words: Rows
    place: StepProduct | None


class LocalAttention(Attention):
    """Local attention.

    Args:
        config: The window, the map, the scorer.
        query: Width of the decoder's state.
        width: Width of the memory's states.
    """

    def __init__(self, config: LocalAttentionConfig, query: int, width: int) -> None:
        """Build the scorer, and W and v where the window's place is predicted."""
        super().__init__()
        self.map = MAPS[config.map]
        self.window = config.window
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)
        predicts = config.variant == "predictive"
        self.place = nn.Parameter(nn.init.xavier_uniform_(torch.empty(query, query))) if predicts else None
        self.vector = nn.Parameter(nn.init.normal_(torch.empty(query), 0, query**-0.5)) if predicts else None

    def prepare(self, memory: Memory) -> Memory:
        """Make the keys, open the values."""
        place = None if self.place is None else StepProduct.open(self.place)
        keys = LocalKeys(self.scorer.keys(memory.comparands), place)
        return memory.with_products(keys, StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> LocalState:
        """Step 0."""
        first = super().start(memory)
        step = torch.zeros(len(memory.states), dtype=torch.long, device=memory.states.device)
        return LocalState(first.weights, first.context, step)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """The scorer's, the window's place, and a weighted sum of the words for each step."""
        place = 0 if self.place is None or self.vector is None else self.place.numel() + self.vector.numel()
        return self.scorer.multiply_adds(source, target, pairs) + target * place + pairs * self.width

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> Reading:
        """One step."""
        return one_step(self.read_all(query.unsqueeze(1), memory, state))

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """All steps in parallel: what is carried from one to the next is its number."""
        keys = memory.keys
        assert isinstance(state, LocalState) and isinstance(keys, LocalKeys)
        scores = self.scorer(queries, keys.words)
        scores = scores.to(exact_dtype(scores.dtype))
        middle = self._middle(queries, memory, keys, state.step).to(scores.dtype)  # (B, T)
        positions = torch.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)
        distance = positions - middle.unsqueeze(-1)  # (B, T, S)
        inside = (distance.abs() <= self.window) & memory.mask.unsqueeze(1)
        weights = self.map(scores, mask=inside)
        if self.place is not None:
            weights = weights * torch.exp(-(distance**2) / (2 * (self.window / 2) ** 2))
        after = state.step + queries.shape[1]
        return expectation(weights, memory, lambda last, context: LocalState(last, context, after))

    def _middle(
        self, queries: Float[Tensor, "B T Q"], memory: Memory, keys: LocalKeys, step: Int[Tensor, "B"]
    ) -> Tensor:
        """p_t: [B, T]."""
        words = memory.mask.sum(-1, keepdim=True)
        if keys.place is not None and self.vector is not None:
            hidden = torch.tanh(keys.place(queries))
            exact = hidden.to(exact_dtype(hidden.dtype))
            with torch.autocast(exact.device.type, enabled=False):  # in half precision p_t would jump
                return words * torch.sigmoid(exact @ self.vector.to(exact.dtype))
        steps = step.unsqueeze(1) + torch.arange(queries.shape[1], device=queries.device)
        # Beyond this the window would hold no word.
        return torch.minimum(steps, words - 1 + self.window)
