"""Posterior attention: what a step believes of where it looked, once its token is known (Bayes' rule).

Attention is a variable, not an average: a token is read from one source word a_t, and its probability is the
mixture over where it may have been read from (Shankar & Sarawagi 2019). With x_a the source words, s_t the
state of the decoder,

    Prior_t(a) = sum_a' P(a | s_t, a') Postr_{t-1}(a')                                   (Eq. 14)
    P(y_t) = sum over the K likeliest a of Prior_t(a) P(y_t | s_t, x_a)                  (Eq. 7)
    Postr_t(a) proportional to Prior_t(a) P(y_t | s_t, x_a), over those K                (Eq. 13)

and what is passed on, m Postr_t + (1 - m) Prior_t, is the state: its expectation of x is the context that the
recurrence is fed, and it is the Postr_{t-1} of the next step's coupling. Couplings P(a | s_t, a'):

    none        softmax(z_t), whatever a'                     Postr-Joint; with `passes = "prior"` Prior-Joint
    proximity   z_ta + delta_{a-a'} for |a - a'| < 3          Prox-Postr-Joint
    monotonic   z_ta + delta^(a-a'-1) for a > a', 0 < delta < 1  Mono-Postr-Joint
    forward     z_ta for a >= a' alone                        hard monotonic, Wu & Cotterell (2019)

the first three normalised over all words. At the first step nothing is coupled. With all positions, m = 1 and
nothing fed to the recurrence, the product of P(y_t) is the exact sum over all alignments
(`regard.functional.chain`).

As printed (`beyond = "drop"`), Eq. 7 loses the prior of the words R beyond the K. Unless told otherwise
they are read as soft attention would, together (in no paper), so that the mixture's weights sum to 1 and
every word has a gradient:

    P(y_t) = sum over the K of Prior_t(a) P(y_t | s_t, x_a) + Prior_t(R) P(y_t | s_t, x_R)
    x_R = sum over a in R of Prior_t(a) x_a / Prior_t(R)

and what Bayes' rule gives to R is shared among its words as their prior is.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Attention, Likelihood, Memory, Reading, Reference, State
from regard.attention.scorers import HIDDEN_HELP, SCORER_HELP, ScorerKind, build_scorer
from regard.attention.words import bayes, likeliest, masked_log_softmax, words_at
from regard.config import config, option
from regard.functional.chain import chain_prior, forward_prior
from regard.layers.steps import StepProduct
from regard.types import Bool, Float, Int, Tensor

__all__ = ["Coupling", "PosteriorAttention", "PosteriorAttentionConfig", "PosteriorState"]

Coupling = Literal["none", "proximity", "monotonic", "forward"]
NEAR = 3
"""Proximity: distances below this have a bias of their own."""
LEAST = 1e-20
"""Words beyond the K that have no more prior than this together are not read."""


@config
class PosteriorAttentionConfig:
    """Posterior attention."""

    kind: Literal["posterior"] = option(
        default="posterior", help="The mechanism: a mixture over words, corrected by the token it produced."
    )
    passes: Literal["posterior", "prior"] = option(
        default="posterior", help="What a step passes on: Postr-Joint, or Prior-Joint."
    )
    coupling: Coupling = option(
        default="none", help="How a step hangs on where the one before it looked, beside its scores."
    )
    contexts: int = option(
        default=6,
        help="K: a token is read from so many words, the likeliest first; 0: from all.",
        ge=0,
        le=100_000,
    )
    beyond: Literal["mean", "renormalise", "drop"] = option(
        default="mean",
        help="The prior of words beyond the K: read from their mean, given to the K, or lost (Eq. 7).",
    )
    mix: float = option(
        default=0.5,
        help="m: the posterior's share in what is passed on, the prior's being the rest.",
        ge=0,
        le=1,
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)

    def __post_init__(self) -> None:
        """Refuse a chain that goes only forward in belief but not in what it passes on."""
        if self.coupling == "forward" and (self.passes == "prior" or self.mix < 1 or self.contexts):
            raise ValueError("coupling 'forward' is exact: passes = 'posterior', mix = 1 and contexts = 0")


@dataclass(frozen=True)
class PosteriorState(State):
    """The state, and what is known of the step.

    Attributes:
        passed: [B, S], the belief that the next step's coupling starts from; none before the first.
        posterior: [B, S], where the token was read from, not mixed with the prior; none before the first, and
            where the prior is passed on.
    """

    passed: Float[Tensor, "B S"] | None = None
    posterior: Float[Tensor, "B S"] | None = None

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """The posterior, not mixed with the prior; of Prior-Joint the prior."""
        return self.weights if self.posterior is None else self.posterior.unsqueeze(1)


@dataclass(frozen=True)
class PosteriorReading(Reading):
    """A reading that waits for its token.

    Attributes:
        others: [B, S], what share each word has of the context after those that are one word; none: all are.
        values: The words, opened for weighted sums.
        mix: m; none: the prior is passed on.
    """

    others: Float[Tensor, "B S"] | None
    values: StepProduct
    mix: float | None

    def observe(self, log_likelihood: Float[Tensor, "B K"]) -> PosteriorState:
        """Bayes' rule over the K words, and the mean of the others where it is read."""
        assert self.positions is not None
        prior = self.weights[:, 0]
        if self.mix is None:
            return PosteriorState(self.weights, self.values(self.weights)[:, 0], prior)
        posterior = bayes(self.log_weights, log_likelihood, self.positions, prior.shape[1], self.others)
        passed = torch.lerp(prior, posterior, self.mix)
        weights = passed.unsqueeze(1)
        return PosteriorState(weights, self.values(weights)[:, 0], passed, posterior)


class PosteriorAttention(Attention):
    """Posterior attention.

    Args:
        config: What is passed on, the coupling, the scorer.
        query: Width of the decoder's state.
        width: Width of the memory's states.
    """

    observes = True
    reads_words = True

    def __init__(self, config: PosteriorAttentionConfig, query: int, width: int) -> None:
        """Build the scorer and the coupling."""
        super().__init__()
        self.config = config
        self.width = width
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)
        # Proximity: a bias for each distance -2 to 2. Monotonic: the logit of delta.
        size = {"proximity": 2 * NEAR - 1, "monotonic": 1}.get(config.coupling, 0)
        self.coupling = nn.Parameter(torch.zeros(size)) if size else None

    def prepare(self, memory: Memory) -> Memory:
        """Make the keys, open the values."""
        return memory.with_products(self.scorer.keys(memory.comparands), StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> PosteriorState:
        """Nothing has been read."""
        first = super().start(memory)
        return PosteriorState(first.weights, first.context)

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """The scorer's, and weighted sums of words for each step: what is passed on, the mean of others."""
        sums = 2 if self.config.beyond == "mean" and self.config.contexts else 1
        return self.scorer.multiply_adds(source, target, pairs) + sums * pairs * self.width

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> PosteriorReading:
        """One step: the prior, and the words the token may be read from."""
        assert isinstance(state, PosteriorState) and memory.keys is not None and memory.values is not None
        scores = self.scorer(query.unsqueeze(1), memory.keys)[:, 0]
        log_prior = self._log_prior(scores, memory.mask, state.passed)
        log_weights, positions, others = self._words(log_prior)
        zeros = torch.zeros_like(log_weights)
        contexts = words_at(memory, positions)
        if others is not None:
            mean = memory.values(others.unsqueeze(1))
            contexts = torch.cat([contexts, mean.to(contexts.dtype)], dim=1)
        return PosteriorReading(
            contexts=contexts,
            log_weights=log_weights,
            weights=log_prior.exp().unsqueeze(1),
            log_policy=zeros,
            penalty=zeros[:, 0],
            state=state,
            positions=positions,
            others=others,
            values=memory.values,
            mix=self.config.mix if self.config.passes == "posterior" else None,
        )

    def read_all(
        self,
        queries: Float[Tensor, "B T Q"],
        memory: Memory,
        state: State,
        likelihood: Likelihood | None = None,
    ) -> Reading:
        """Of Prior-Joint without coupling, where no step hangs on another, all in parallel."""
        if self.config.passes == "posterior" or self.config.coupling != "none":
            return super().read_all(queries, memory, state, likelihood)
        assert memory.keys is not None and memory.values is not None
        log_prior = masked_log_softmax(self.scorer(queries, memory.keys), memory.mask.unsqueeze(1))
        log_weights, positions, others = self._words(log_prior.flatten(0, 1))
        log_weights, positions = (x.view(*queries.shape[:2], -1) for x in (log_weights, positions))
        contexts = words_at(memory, positions.flatten(1)).view(*positions.shape, -1)  # (B, T, K, D)
        if others is not None:
            mean = memory.values(others.view_as(log_prior)).unsqueeze(2)
            contexts = torch.cat([contexts, mean.to(contexts.dtype)], dim=2)
        zeros, weights = torch.zeros_like(log_weights), log_prior.exp().unsqueeze(2)
        last = weights[:, -1]
        after = PosteriorState(last, memory.values(last)[:, 0], last[:, 0])
        return Reading(contexts, log_weights, weights, zeros, zeros[..., 0], after, positions=positions)

    def _words(
        self, log_prior: Float[Tensor, "N S"]
    ) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N K"], Float[Tensor, "N S"] | None]:
        """Log-weights of the contexts, places of those that are words, shares of the others in their mean."""
        log_weights, positions = likeliest(log_prior, self.config.contexts)
        if self.config.beyond == "renormalise":
            log_weights = log_weights - log_weights.logsumexp(-1, keepdim=True)
        if self.config.beyond != "mean" or not self.config.contexts:
            return log_weights, positions, None
        others = log_prior.exp().scatter(1, positions, 0.0)
        mass = others.sum(-1, keepdim=True)
        present = mass > LEAST
        log_mass = torch.where(present, mass, torch.ones_like(mass)).log().masked_fill(~present, -torch.inf)
        return torch.cat([log_weights, log_mass], dim=-1), positions, others / mass.clamp_min(LEAST)

    def _log_prior(
        self, scores: Float[Tensor, "B S"], mask: Bool[Tensor, "B S"], passed: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B S"]:
        """Log Prior_t over all words; -inf where masked."""
        if passed is not None and self.config.coupling == "forward":
            return forward_prior(scores, passed, mask)
        if passed is not None and self.coupling is not None:
            return chain_prior(scores, passed, self.bias(scores.shape[1]), mask)
        return masked_log_softmax(scores, mask)

    def bias(self, size: int) -> Float[Tensor, "S S"]:
        """What the coupling adds to the score of word i where the step before looked at word j: [i, j].

        Args:
            size: S.
        """
        places = torch.arange(size, device=None if self.coupling is None else self.coupling.device)
        distance = places.unsqueeze(1) - places
        if self.coupling is None:
            return torch.zeros(size, size).to(distance.device)
        if self.config.coupling == "proximity":
            inner = distance.abs() < NEAR
            chosen = self.coupling[(distance + NEAR - 1).clamp(0, 2 * NEAR - 2)]
            return torch.where(inner, chosen, torch.zeros_like(chosen))
        onward = distance >= 1
        delta = torch.sigmoid(self.coupling)
        powers = delta ** (distance - 1).clamp_min(0).to(delta.dtype)
        return torch.where(onward, powers, torch.zeros_like(powers))
