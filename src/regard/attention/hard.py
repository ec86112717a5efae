"""Hard attention trained with a reward (Indurthi et al., 2019): each source token is selected or not.

With Y the decoder state before attention and Z the encoder states (Eq. 3 to 6),

    Y~ = tanh(W2 (W1 Y + b1) + b2),   Z~ likewise,   Z^ likewise with its own weights    (Z^: Eq. 5)
    S = Y~ Z~^T / sqrt(d),   beta_tj ~ Bernoulli(sigmoid(S_tj)),   context_t = sum_j beta_tj Z^_j.

The attention weights of a step are the selection, 0 or 1 for each source token. For analysis and word
alignment, `State.posteriors` holds the probabilities sigmoid(S) instead, because the selection does not rank
the selected tokens.

At test time a token is selected if sigmoid(S) >= 0.5; if there is no such token, the one with the highest
probability is selected. Eq. 3 has no factor 1 / sqrt(d). At the paper's widths most probabilities would then
start below 0.01 or above 0.99. Set `score_scale = 1` for Eq. 3 as printed.

The selection is not differentiable. It is trained with REINFORCE from a reward of the translation (`Reward`).
The loss is -(J1 + w (J2 + lambda H)), where J1 is the log-likelihood under the sampled selection, J2 the
return of each step times the log-probability of its selection, and H the entropy of the selection; by default
w = 1. J2 and H train only the projections to Y~ and Z~: the gradient stops at Y and Z.
"""

import dataclasses
from collections import OrderedDict
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.base import (
    Attention,
    AttentionStep,
    Likelihood,
    Memory,
    Objective,
    Reward,
    State,
    squeeze_step,
)
from regard.attention.registry import register_attention
from regard.config import configclass, option
from regard.functional.dispatch import accumulation_dtype
from regard.layers.linear import Linear, StepLinear
from regard.types import Bool, Float, Tensor


@configclass
class HardAttentionConfig:
    """Hard attention, trained with a reward."""

    kind: Literal["hard"] = option(
        default="hard",
        help="A selection of source tokens, trained with REINFORCE.",
    )
    score_scale: float | None = option(
        default=None,
        help="Factor of the scores; 1 in the paper. Default: 1 / sqrt(width of the decoder state).",
        gt=0,
        le=1e6,
    )
    entropy_bonus: float = option(
        default=1e-3, help="Weight lambda of the selection's entropy in the objective.", ge=0, le=1e6
    )
    reward_weight: float = option(
        default=1.0,
        help="Weight w of the reward and entropy terms relative to the log-likelihood.",
        ge=0,
        le=1e6,
    )
    baseline: Literal["batch", "none"] = option(
        default="batch",
        help="Baseline of the return: the mean return of the batch's other sentences (batch), or 0 (none).",
    )


@register_attention("hard", HardAttentionConfig)
class HardAttention(Attention):
    """Hard attention."""

    has_projections = True
    trains_queries = False
    objective: Objective = "reinforce"

    def __init__(self, config: HardAttentionConfig, query_size: int, memory_size: int) -> None:
        """Create the projections."""
        super().__init__()
        self.config = config
        self.scale = query_size**-0.5 if config.score_scale is None else config.score_scale
        sizes = ((query_size, query_size), (memory_size, query_size), (memory_size, memory_size))
        self.query_proj, self.key_proj, self.value_proj = (
            # tanh(W2 (W1 x + b1) + b2)
            nn.Sequential(OrderedDict(first=Linear(size, out), second=Linear(out, out), tanh=nn.Tanh()))
            for size, out in sizes
        )
        self.reward = Reward(config.reward_weight, config.baseline == "batch")

    @property
    def has_posterior(self) -> bool:
        """Always True: the selection probabilities."""
        return True

    def prepare(self, memory: Memory) -> Memory:
        """Compute Z~ and Z^ and prepare them for the time steps."""
        # J2 and H must not train the encoder, so the keys get detached states; the values do not.
        scaled_keys = self.key_proj(memory.states.detach()) * self.scale
        keys = StepLinear.prepare(scaled_keys.transpose(1, 2))
        values = StepLinear.prepare(self.value_proj(memory.states))
        return dataclasses.replace(memory, keys=keys, values=values)

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
        """Attend for all steps in parallel; the selection is sampled in training and greedy otherwise."""
        assert isinstance(memory.keys, StepLinear) and memory.values is not None
        scores = memory.keys(self.query_proj(queries.detach()))
        scores = scores.to(accumulation_dtype(scores.dtype))
        mask = memory.mask.unsqueeze(1)
        if self.training:
            selected = (torch.rand_like(scores) < torch.sigmoid(scores)) & mask
            # log(1 - sigmoid(z)) = logsigmoid(-z), which does not cancel for large z.
            log_policy = torch.where(selected, F.logsigmoid(scores), F.logsigmoid(-scores))
            log_policy = log_policy.masked_fill(~mask, 0.0).sum(-1, keepdim=True)
            # Entropy of Bernoulli(sigmoid(z)): softplus(z) - z sigmoid(z).
            entropy = F.softplus(scores) - scores * torch.sigmoid(scores)
            bonus = self.config.reward_weight * self.config.entropy_bonus
            penalty = -bonus * entropy.masked_fill(~mask, 0.0).sum(-1)
        else:
            selected = _select_greedily(scores, mask)
            log_policy = scores.new_zeros(*scores.shape[:2], 1)
            penalty = log_policy.squeeze(-1)
        weights, probabilities = selected.to(scores.dtype), torch.sigmoid(scores).masked_fill(~mask, 0.0)
        contexts = memory.values(weights)
        return AttentionStep(
            contexts=contexts.unsqueeze(2),
            log_weights=torch.zeros_like(log_policy),
            weights=weights.unsqueeze(2),
            log_policy=log_policy,
            penalty=penalty,
            state=State(weights[:, -1:], contexts[:, -1], posterior=probabilities[:, -1]),
            posteriors=probabilities.unsqueeze(2),
        )


def _select_greedily(scores: Float[Tensor, "B T S"], mask: Bool[Tensor, "B #T S"]) -> Bool[Tensor, "B T S"]:
    """Select the tokens with probability at least 0.5, or the top-scoring token if there are none."""
    # sigmoid(z) >= 0.5 is equivalent to z >= 0.
    selected = (scores >= 0) & mask
    best = scores.masked_fill(~mask, -torch.inf).argmax(-1, keepdim=True)
    # If all positions are masked, `argmax` returns 0, which the mask removes again.
    best_only = torch.zeros_like(selected).scatter(-1, best, True) & mask
    return torch.where(selected.any(-1, keepdim=True), selected, best_only)
