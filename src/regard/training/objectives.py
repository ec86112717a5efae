"""What training minimises: the loss of what teacher forcing gave.

A loss is a sum over the real target tokens, in nats; the trainer divides it by the tokens, or sentences, of
all processes and micro-batches of the update. A mechanism's config names its objective; a new objective is a
function here and a line in `OBJECTIVES`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from regard.attention.base import Objective
from regard.errors import ConfigError
from regard.models.base import Outcome
from regard.types import Float, Tensor

__all__ = ["OBJECTIVES", "Loss", "loss_of", "marginal"]


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, in nats.

    Attributes:
        total: What is minimised.
        nll: -log p(reference), without smoothing or penalties, and without a gradient.
    """

    total: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def marginal(outcome: Outcome, smoothing: float = 0.0) -> Loss:
    """The negative log-likelihood with label smoothing, and the mechanism's penalty.

        (1 - e) * -log p(y_t) - e * mean_v log p(v) + penalty_t, summed over t,

    p(y) = sum_k w_k p(y | context k) (Szegedy et al. 2016, Section 7, for e). With several contexts the mean
    over the vocabulary is that of each context's log-probabilities, weighted by w_k: by Jensen's inequality
    at most that of log p.

    Args:
        outcome: What teacher forcing gave, with `average` where `smoothing` is not 0.
        smoothing: e, in [0, 1).
    """
    nll = -outcome.log_likelihood.sum()
    total = nll
    if smoothing:
        average = (outcome.log_weights.exp() * outcome.average).sum(-1)
        total = (1 - smoothing) * nll - smoothing * average.masked_fill(~outcome.mask, 0.0).sum()
    total = total + outcome.penalty.masked_fill(~outcome.mask, 0.0).sum()
    return Loss(total, nll.detach())


OBJECTIVES: dict[Objective, Callable[[Outcome, float], Loss]] = {"marginal": marginal}


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
