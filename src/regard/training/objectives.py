"""What training minimises: the loss of what teacher forcing gave.

A loss is a sum over the real target tokens, in nats; the trainer divides it by the tokens, or sentences, of
all processes and micro-batches of the update. A mechanism's config names its objective; a new objective is a
function here and a line in `OBJECTIVES`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import Objective
from regard.errors import ConfigError
from regard.functional.estimators import reinforce as estimate
from regard.models.base import Outcome
from regard.types import Float, Tensor

__all__ = ["OBJECTIVES", "Loss", "bound", "loss_of", "marginal", "reinforce"]


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, in nats.

    Attributes:
        total: What is minimised.
        nll: -log p(reference), without smoothing or penalties, and without a gradient; under what was drawn
            or proposed, where the mechanism does that in training.
    """

    total: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def marginal(outcome: Outcome, smoothing: float = 0.0) -> Loss:
    """The negative log-likelihood with label smoothing, and the mechanism's penalty.

        (1 - e) * -log p(y_t) - e * mean_v log p(v) + penalty_t, summed over t,

    p(y) = sum_k w_k p(y | context k) (Szegedy et al. 2016, Section 7, for e). With several contexts,
    whose w_k sum to W (less than 1 where only the best are read), log p(v) is taken as log W + sum_k w_k / W
    log p(v | context k): by Jensen's inequality at most log p(v).

    Args:
        outcome: What teacher forcing gave, with `average` where `smoothing` is not 0.
        smoothing: e, in [0, 1).
    """
    nll = -outcome.log_likelihood.sum()
    total = nll
    if smoothing:
        mass = outcome.log_weights.logsumexp(-1)
        shares = (outcome.log_weights - mass.unsqueeze(-1)).exp()
        average = mass + (shares * outcome.average).sum(-1)
        total = (1 - smoothing) * nll - smoothing * average.masked_fill(~outcome.mask, 0.0).sum()
    total = total + outcome.penalty.masked_fill(~outcome.mask, 0.0).sum()
    return Loss(total, nll.detach())


def bound(outcome: Outcome, smoothing: float = 0.0) -> Loss:
    """The negative evidence lower bound (Deng et al. 2018), where the log-weights are those of q.

        - sum_k q_k log p(y_t | context k) + penalty_t, summed over t,

    the penalty being KL(q || prior); log p(y_t | context k) is smoothed as in `marginal`.

    Args:
        outcome: What teacher forcing gave, with `average` where `smoothing` is not 0.
        smoothing: e, in [0, 1).
    """
    gained = (outcome.log_weights.exp() * _smoothed(outcome, smoothing)).sum(-1) - outcome.penalty
    return Loss(-gained.masked_fill(~outcome.mask, 0.0).sum(), -outcome.log_likelihood.sum().detach())


def reinforce(outcome: Outcome, smoothing: float = 0.0) -> Loss:
    """REINFORCE: the likelihood under what was drawn, and the policy that drew it, less the penalty.

        - sum_k w_k (log p(y_t | context k) + advantage_tk log policy_tk) + penalty_t, summed over t,

    w_k being the weights; no gradient flows through the advantage. It is `Outcome.advantage` where there is
    one: a return less its baseline. Else what a draw brought is log p(y_t | context k) itself, which is right
    where the draw bears on y_t alone, and its baseline the best log p(y_t | context) of the contexts whose
    log-weight is -inf, which are scored but not read; zero where there are none. Log p(y_t | context k) is
    smoothed as in `marginal`.

    Args:
        outcome: What teacher forcing gave, with `average` where `smoothing` is not 0.
        smoothing: e, in [0, 1).
    """
    found = _smoothed(outcome, smoothing)
    if outcome.advantage is None:
        unread = torch.isneginf(outcome.log_weights)
        best = found.masked_fill(~unread, -torch.inf).amax(-1, keepdim=True)
        policy = estimate(outcome.log_policy, found, torch.where(torch.isneginf(best), 0.0, best))
    else:
        policy = estimate(outcome.log_policy, outcome.advantage.unsqueeze(-1))
    gained = (outcome.log_weights.exp() * (found + policy)).sum(-1) - outcome.penalty
    return Loss(-gained.masked_fill(~outcome.mask, 0.0).sum(), -outcome.log_likelihood.sum().detach())


def _smoothed(outcome: Outcome, smoothing: float) -> Float[Tensor, "B T K"]:
    """(1 - e) log p(y_t | context k) + e mean_v log p(v | context k)."""
    if not smoothing:
        return outcome.log_likelihoods
    return (1 - smoothing) * outcome.log_likelihoods + smoothing * outcome.average


OBJECTIVES: dict[Objective, Callable[[Outcome, float], Loss]] = {
    "marginal": marginal,
    "bound": bound,
    "reinforce": reinforce,
}


def loss_of(objective: Objective) -> Callable[[Outcome, float], Loss]:
    """The function of an objective.

    Raises:
        ConfigError: if there is none of that name.
    """
    try:
        return OBJECTIVES[objective]
    except KeyError:
        known = ", ".join(OBJECTIVES)
        raise ConfigError(f"no training objective {objective!r}; there are: {known}") from None
