"""Hard attention learned by reward (Indurthi et al. 2019): each source word is selected, or it is not.

With Y the decoder's state before it reads the source and Z the encoder's states,

    Y~ = tanh(W2 (W1 Y + b1) + b2),   Z~ likewise,   Z^ likewise with weights of its own    (Z^: Eq. 5)
    S = Y~ Z~^T / sqrt(d),   beta_tj ~ Bernoulli(sigmoid(S_tj)),   context_t = sum_j beta_tj Z^_j

(Eq. 3, 4 and 6).

The weights of a step are its selection, 0 or 1 each. Where the step attended is sigmoid(S): analyses and word
links read that (`State.belief`), as all selected words would be alike otherwise.

At test a word is selected where sigmoid(S) >= 0.5, and the most probable one where none is. Eq. 3 has no
scale: at the paper's widths most probabilities would then start below 0.01 or above 0.99; `scale = 1` is
that.

Selection has no gradient. What it is learned from is a reward of the translation (`Reward`), by REINFORCE:
minimised is -(J1 + w (J2 + lambda H)), J1 the log-likelihood under the sampled selection, J2 the return of
each step times the log-probability of its selection, H the selection's entropy; w = 1. J2 and H train the
projections Y~ and Z~ alone: the states they read are held fixed.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import (
    Attention,
    Likelihood,
    Memory,
    Objective,
    Reading,
    Reward,
    State,
    one_step,
)
from regard.config import config, option
from regard.functional.estimators import sample_bernoulli
from regard.functional.masking import exact_dtype
from regard.layers.linear import Linear
from regard.layers.rows import Rows
from regard.layers.steps import StepProduct
from regard.types import Bool, Float, Tensor

__all__ = ["HardAttention", "HardAttentionConfig"]


@config
class HardAttentionConfig:
    """Hard attention, learned by reward."""

    kind: Literal["hard"] = option(
        default="hard", help="The mechanism: each word is read or not; learned from rewards."
    )
    scale: float | None = option(
        default=None, help="Times the scores; absent: 1 / sqrt(width); in print: 1.", gt=0, le=1e6
    )
    entropy: float = option(
        default=1e-3, help="Lambda: what selections that are not sure are worth.", ge=0, le=1e6
    )
    weight: float = option(
        default=1.0, help="w: what reward and entropy weigh beside likelihood.", ge=0, le=1e6
    )
    baseline: Literal["batch", "learned", "none"] = option(
        default="batch",
        help="The return that is expected: the mean of the other sentences', what a network makes of the "
        "decoder's state, or 0.",
    )


@dataclass(frozen=True)
class HardKeys(Rows):
    """Z~, scaled and opened for the steps."""

    words: StepProduct


@dataclass(frozen=True)
class HardState(State):
    """The state with the probability of each word's selection.

    Attributes:
        probabilities: [B, S], sigmoid(S) of the step; none before the first.
    """

    probabilities: Float[Tensor, "B S"] | None = None

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """The probabilities of selection."""
        return self.weights if self.probabilities is None else self.probabilities.unsqueeze(1)


class Projection(nn.Module):
    """tanh(W2 (W1 x + b1) + b2).

    Args:
        inputs: Width of x.
        outputs: Width of the result, and between the two maps.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        """Make the parameters."""
        super().__init__()
        self.first, self.second = Linear(inputs, outputs), Linear(outputs, outputs)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """Apply it."""
        return torch.tanh(self.second(self.first(x)))


class HardAttention(Attention):
    """Hard attention.

    Args:
        config: Scale, entropy, baseline.
        query: Width of the decoder's state.
        width: Width of the memory's states, and of the contexts.
    """

    projects = True
    moves_queries = False
    objective: Objective = "reinforce"

    def __init__(self, config: HardAttentionConfig, query: int, width: int) -> None:
        """Make the projections."""
        super().__init__()
        self.config = config
        self.scale = query**-0.5 if config.scale is None else config.scale
        self.widths = query + width
        self.asking = Projection(query, query)
        self.offering = Projection(width, query)
        self.values = Projection(width, width)
        self.expecting = Linear(query, 1) if config.baseline == "learned" else None
        self.reward = Reward(config.weight, config.baseline == "batch")

    @property
    def has_posterior(self) -> bool:
        """It does: the probabilities behind the selection."""
        return True

    def prepare(self, memory: Memory) -> Memory:
        """Make Z~ and Z^, and open them."""
        offered = self.offering(memory.states.detach()) * self.scale
        keys = HardKeys(StepProduct.open(offered.transpose(1, 2)))
        return memory.with_products(keys, StepProduct.open(self.values(memory.states)))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """The projections', the scores, and the sum of what is selected."""
        made = 0
        for part, count in ((self.asking, target), (self.offering, source), (self.values, source)):
            made += count * (part.first.weight.numel() + part.second.weight.numel())
        return made + pairs * self.widths

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
        """All steps in parallel: a selection in training is drawn, in search it is the probable one."""
        assert isinstance(memory.keys, HardKeys) and memory.values is not None
        fixed = queries.detach()
        scores = memory.keys.words(self.asking(fixed))
        scores = scores.to(exact_dtype(scores.dtype))
        mask = memory.mask.unsqueeze(1)
        if self.training:
            selected = sample_bernoulli(scores) & mask
            log_policy = torch.where(selected, F.logsigmoid(scores), F.logsigmoid(-scores))
            log_policy = log_policy.masked_fill(~mask, 0.0).sum(-1, keepdim=True)
            entropy = F.softplus(scores) - scores * torch.sigmoid(scores)
            penalty = -self.config.weight * self.config.entropy * entropy.masked_fill(~mask, 0.0).sum(-1)
        else:
            selected = _probable(scores, mask)
            log_policy = scores.new_zeros(*scores.shape[:2], 1)
            penalty = log_policy.squeeze(-1)
        weights, likely = selected.to(scores.dtype), torch.sigmoid(scores).masked_fill(~mask, 0.0)
        contexts = memory.values(weights)
        return Reading(
            contexts=contexts.unsqueeze(2),
            log_weights=torch.zeros_like(log_policy),
            weights=weights.unsqueeze(2),
            log_policy=log_policy,
            penalty=penalty,
            state=HardState(weights[:, -1:], contexts[:, -1], likely[:, -1]),
            beliefs=likely.unsqueeze(2),
            expected=self.expecting(fixed).squeeze(-1) if self.training and self.expecting else None,
        )


def _probable(scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B #T S"]) -> Bool[Tensor, "B T S"]:
    """The words that are more probably selected than not; the most probable one where there is none."""
    selected = (scores >= 0) & mask
    best = scores.masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
    alone = torch.zeros_like(selected).scatter(-1, best, True) & mask
    return torch.where(selected.any(-1, keepdim=True), selected, alone)
