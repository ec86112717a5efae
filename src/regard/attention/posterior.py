"""Posterior attention: Bayes' rule updates the attention after each token (Shankar & Sarawagi, 2019).

Attention is a latent variable: each token is generated from one source position a_t, and its probability is a
mixture over positions. With x_a the encoder state at position a and s_t the decoder state,

    Prior_t(a) = sum_a' P(a | s_t, a') Postr_{t-1}(a')                                   (Eq. 14)
    P(y_t) = sum over the top K positions a of Prior_t(a) P(y_t | s_t, x_a)              (Eq. 7)
    Postr_t(a) proportional to Prior_t(a) P(y_t | s_t, x_a), over the same K             (Eq. 13)

The next step receives the distribution m Postr_t + (1 - m) Prior_t. Its expectation of x is the context that
is fed to the recurrence, and it takes the place of Postr_{t-1} in the coupling of the next step. The
couplings P(a | s_t, a') are softmax distributions with these logits:

    none            z_ta, independent of a'                   Postr-Joint
                                                              (Prior-Joint: `state_attention = "prior"`)
    proximity       z_ta + delta_{a-a'} for |a - a'| < 3      Prox-Postr-Joint
    monotonic       z_ta + delta^(a-a'-1) for a > a', 0 < delta < 1  Mono-Postr-Joint
    hard_monotonic  z_ta, only for a >= a'                    Wu & Cotterell (2019)

The first three are normalized over all positions: where the condition does not hold, the logit is z_ta. The
first step has no coupling. With all positions, m = 1 and no context fed to the recurrence, the product of the
P(y_t) is the exact sum over all alignments (`regard.functional.latent`).

As printed (`tail = "drop"`), Eq. 7 loses the prior mass of the set R of positions beyond the top K. By
default (`tail = "mean"`, our extension) R contributes one more context, its mean under the prior, so that
the weights of the mixture sum to 1 and every position has a gradient:

    P(y_t) = sum over the K of Prior_t(a) P(y_t | s_t, x_a) + Prior_t(R) P(y_t | s_t, x_R)
    x_R = sum over a in R of Prior_t(a) x_a / Prior_t(R)

The posterior mass of R is distributed over its positions in proportion to their prior.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import AttentionStep, Likelihood, Memory, State
from regard.attention.registry import register_attention
from regard.attention.scored import (
    ScorerAttention,
    gather_states,
    masked_log_softmax,
    posterior_over_positions,
    top_k_positions,
)
from regard.attention.scorers import SCORE_FUNCTION_HELP, ScoreFunction
from regard.config import configclass, option
from regard.functional.latent import chain_prior, forward_prior
from regard.layers.linear import StepLinear
from regard.types import Bool, Float, Int, Tensor

Coupling = Literal["none", "proximity", "monotonic", "hard_monotonic"]
PROXIMITY_RADIUS = 3
"""Proximity coupling: distances below this have a bias of their own."""
MIN_TAIL_MASS = 1e-20
"""Minimum prior mass of the positions beyond the top K; below it they are ignored."""


@configclass
class PosteriorAttentionConfig:
    """Posterior attention, with Bayes' rule after each token."""

    kind: Literal["posterior"] = option(
        default="posterior",
        help="A mixture over source positions, updated by Bayes' rule after each token.",
    )
    state_attention: Literal["posterior", "prior"] = option(
        default="posterior",
        help="Distribution passed to the next step, for input feeding and `coupling`: the posterior, mixed "
        "with the prior by `posterior_weight` (posterior; Postr-Joint), or the prior (prior; "
        "Prior-Joint).",
    )
    coupling: Coupling = option(
        default="none",
        help="Dependence of the prior on the previous position a', or none. proximity: one learned bias for "
        "each distance from -2 to 2 (Prox). monotonic: a learned bias that favors positions after a' "
        "and decays with the distance (Mono). hard_monotonic: no position before a'; requires "
        "posterior_weight = 1 and top_k = 0.",
    )
    top_k: int = option(
        default=6,
        help="Number K of source positions in the mixture, by decreasing prior. 0 uses all positions.",
        ge=0,
        le=100_000,
    )
    tail: Literal["mean", "renormalize", "drop"] = option(
        default="mean",
        help="Use of the source positions beyond the top K. mean: their mean under the prior is one more "
        "context. renormalize: none; the prior of the K is renormalized. drop: none, as in Shankar & "
        "Sarawagi (2019), Eq. 7.",
    )
    posterior_weight: float = option(
        default=0.5,
        help='With state_attention = "posterior": weight m of the posterior in the distribution passed to '
        "the next step; the prior has 1 - m. 1 passes on the posterior alone.",
        ge=0,
        le=1,
    )
    score_function: ScoreFunction = option(default=None, help=SCORE_FUNCTION_HELP)

    def __post_init__(self) -> None:
        """Check that `hard_monotonic` coupling is exact: an approximation could move backward."""
        if self.coupling == "hard_monotonic" and (
            self.state_attention == "prior" or self.posterior_weight < 1 or self.top_k
        ):
            raise ValueError(
                "coupling 'hard_monotonic' requires exact inference: set state_attention = 'posterior', "
                "posterior_weight = 1 and top_k = 0"
            )


@dataclass(frozen=True)
class PosteriorState(State):
    """The state after a step. The coupling of the next step starts from its weights."""


@dataclass(frozen=True)
class PosteriorStep(AttentionStep):
    """The attention step of one time step, before its token is known.

    Attributes:
        tail_weights: The share of each position in the additional mean context, if there is one.
        values: The states, prepared for weighted sums.
        posterior_weight: m. None if the prior is passed on.
    """

    tail_weights: Float[Tensor, "B S"] | None
    values: StepLinear
    posterior_weight: float | None

    def update(self, log_likelihood: Float[Tensor, "B K"]) -> PosteriorState:
        """Apply Bayes' rule to the K positions and to the mean of the others, if there is one."""
        assert self.positions is not None
        prior = self.weights[:, 0]
        if self.posterior_weight is None:  # Prior-Joint: the token has no influence on the next step
            return PosteriorState(self.weights, self.values(self.weights)[:, 0])
        posterior = posterior_over_positions(
            self.log_weights, log_likelihood, self.positions, prior.shape[1], self.tail_weights
        )
        weights = torch.lerp(prior, posterior, self.posterior_weight).unsqueeze(1)
        return PosteriorState(weights, self.values(weights)[:, 0], posterior=posterior)


@register_attention("posterior", PosteriorAttentionConfig)
class PosteriorAttention(ScorerAttention):
    """Posterior attention."""

    observes_tokens = True
    attends_to_single_positions = True

    def __init__(self, config: PosteriorAttentionConfig, query_size: int, memory_size: int) -> None:
        """Build the scorer and the coupling."""
        super().__init__(query_size, memory_size, config.score_function)
        self.config = config
        # Proximity has one bias for each distance from -2 to 2; monotonic has the logit of delta.
        size = {"proximity": 2 * PROXIMITY_RADIUS - 1, "monotonic": 1}.get(config.coupling, 0)
        self.coupling = nn.Parameter(torch.zeros(size)) if size else None

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> PosteriorStep:
        """Compute the prior and the contexts of one time step."""
        assert memory.keys is not None and memory.values is not None
        scores = self.scorer(query.unsqueeze(1), memory.keys)[:, 0]
        # Before the first step there is no distribution to start from.
        carried = state.weights[:, 0] if isinstance(state, PosteriorState) else None
        log_prior = self._log_prior(scores, memory.mask, carried).unsqueeze(1)
        contexts, log_weights, positions, tail = (
            None if x is None else x[:, 0] for x in self._select_contexts(log_prior, memory)
        )
        assert contexts is not None and log_weights is not None
        zeros, passes_posterior = torch.zeros_like(log_weights), self.config.state_attention == "posterior"
        return PosteriorStep(
            contexts,
            log_weights,
            log_prior.exp(),
            zeros,
            zeros[:, 0],
            state,
            positions=positions,
            tail_weights=tail,
            values=memory.values,
            posterior_weight=self.config.posterior_weight if passes_posterior else None,
        )

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> AttentionStep:
        """Attend for all steps; in parallel for Prior-Joint without coupling, whose steps are independent."""
        # The posterior and the coupling make a step depend on the previous one.
        if self.config.state_attention == "posterior" or self.config.coupling != "none":
            return super().read_all(queries, memory, state, likelihood)
        assert memory.keys is not None and memory.values is not None
        log_prior = masked_log_softmax(self.scorer(queries, memory.keys), memory.mask.unsqueeze(1))
        contexts, log_weights, positions, _ = self._select_contexts(log_prior, memory)
        zeros, weights = torch.zeros_like(log_weights), log_prior.exp().unsqueeze(2)
        last = weights[:, -1]
        after = PosteriorState(last, memory.values(last)[:, 0])
        return AttentionStep(contexts, log_weights, weights, zeros, zeros[..., 0], after, positions=positions)

    def _select_contexts(
        self, log_prior: Float[Tensor, "B T S"], memory: Memory
    ) -> tuple[
        Float[Tensor, "B T C D"], Float[Tensor, "B T C"], Int[Tensor, "B T K"], Float[Tensor, "B T S"] | None
    ]:
        """Return the contexts, log-weights, top-K positions, and the shares of the others in their mean."""
        log_weights, positions = top_k_positions(log_prior, self.config.top_k)
        contexts = gather_states(memory, positions.flatten(1)).view(*positions.shape, -1)
        if self.config.tail == "renormalize":
            log_weights = log_weights - log_weights.logsumexp(-1, keepdim=True)
        if self.config.tail != "mean" or not self.config.top_k:
            return contexts, log_weights, positions, None
        # The mass of the other positions is summed directly, as 1 minus the top-K sum would cancel.
        tail = log_prior.exp().scatter(-1, positions, 0.0)
        mass = tail.sum(-1, keepdim=True)
        present = mass > MIN_TAIL_MASS
        # The gradient of log 0 is not finite, even if its value is masked afterward.
        log_mass = torch.where(present, mass, torch.ones_like(mass)).log().masked_fill(~present, -torch.inf)
        tail = tail / mass.clamp_min(MIN_TAIL_MASS)
        assert memory.values is not None
        mean = memory.values(tail).unsqueeze(2)
        contexts = torch.cat([contexts, mean.to(contexts.dtype)], dim=2)
        return contexts, torch.cat([log_weights, log_mass], dim=-1), positions, tail

    def _log_prior(
        self, scores: Float[Tensor, "B S"], mask: Bool[Tensor, "B S"], carried: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B S"]:
        """Compute log Prior_t over all positions; -inf where masked."""
        # At the first step `carried` is None, and the prior has no coupling.
        if carried is not None and self.config.coupling == "hard_monotonic":
            return forward_prior(scores, carried, mask)
        if carried is not None and self.coupling is not None:
            return chain_prior(scores, carried, self.coupling_bias(scores.shape[1]), mask)
        return masked_log_softmax(scores, mask)

    def coupling_bias(self, size: int) -> Float[Tensor, "S S"]:
        """Return the coupling bias [i, j]: added to the score of position i after attention to position j."""
        assert self.coupling is not None
        positions = torch.arange(size, device=self.coupling.device)
        distance = positions.unsqueeze(1) - positions
        if self.config.coupling == "proximity":
            near = distance.abs() < PROXIMITY_RADIUS
            bias = self.coupling[(distance + PROXIMITY_RADIUS - 1).clamp(0, 2 * PROXIMITY_RADIUS - 2)]
            return torch.where(near, bias, torch.zeros_like(bias))
        after = distance >= 1
        # The sigmoid keeps delta between 0 and 1, so that the bias decays with the distance.
        delta = torch.sigmoid(self.coupling)
        powers = delta ** (distance - 1).clamp_min(0).to(delta.dtype)
        return torch.where(after, powers, torch.zeros_like(powers))
