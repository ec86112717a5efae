"""REINFORCE, its baseline, and samples of discrete choices.

For a reward f of a choice a sampled from q, REINFORCE estimates the gradient of E_q f(a) = sum_a q(a) f(a).

    REINFORCE (Williams, 1992): (f(a) - b) d log q(a). Its mean is the exact gradient for any baseline b that
    does not depend on a; a good b reduces the variance.
    Gumbel-max: argmax_a (log q(a) + g_a), with g_a = -log(-log u_a) and u_a uniform, is a sample from q.

Choices with log q = -inf are never sampled and have no gradient.
"""

import torch

from regard.functional.dispatch import accumulation_dtype
from regard.types import Bool, Float, Int, Tensor

__all__ = ["leave_one_out", "reinforce_objective", "sample_bernoulli", "sample_categorical"]


def reinforce_objective(
    log_policy: Float[Tensor, "*B"],
    reward: Float[Tensor, "*#B"],
    baseline: Float[Tensor, "*#B"] | float = 0.0,
) -> Float[Tensor, "*B"]:
    """Compute the surrogate objective to maximize: (reward - baseline) log_policy, with the factor detached.

    Its gradient is the REINFORCE estimate; its value has no meaning.

    Args:
        log_policy: Log-probability of the sampled choice, in nats.
        reward: The reward f(a), or the return of a sequence from this step onward.
        baseline: The expected reward; must not depend on the sampled choice.
    """
    return (reward - baseline).detach() * log_policy


def leave_one_out(
    rewards: Float[Tensor, "*B"], mask: Bool[Tensor, "*B"] | None = None, dim: int = 0
) -> Float[Tensor, "*B"]:
    """Compute a baseline: the mean reward of the other samples along `dim`; 0 if there are no others.

    A mean that includes the sample itself would shrink the expected gradient by a factor (n - 1) / n.

    Args:
        rewards: Rewards of samples that are independent along `dim`.
        mask: True where there is a reward.
        dim: The dimension of the samples.
    """
    real = torch.ones_like(rewards) if mask is None else mask.to(rewards.dtype)
    masked = rewards if mask is None else rewards.masked_fill(~mask, 0.0)
    # The number of others is 0 where a sample is alone; its numerator is 0 then, too.
    others = real.sum(dim, keepdim=True) - real
    return (masked.sum(dim, keepdim=True) - masked) / others.clamp_min(1.0)


def sample_categorical(
    log_probs: Float[Tensor, "*B S"], *, generator: torch.Generator | None = None
) -> Int[Tensor, "*B"]:
    """Sample one index per row, with the Gumbel-max trick.

    Args:
        log_probs: Log-probabilities in nats, up to a constant per row.
        generator: Random generator. None means the device's default generator.
    """
    exact = log_probs.detach().to(accumulation_dtype(log_probs.dtype))
    exponential = torch.empty_like(exact).exponential_(generator=generator)
    # Minus the logarithm of an exponential variable has a Gumbel distribution.
    return (exact - exponential.clamp_min(torch.finfo(exact.dtype).tiny).log()).argmax(-1)


def sample_bernoulli(
    log_odds: Float[Tensor, "*B"], *, generator: torch.Generator | None = None
) -> Bool[Tensor, "*B"]:
    """Sample each element, True with probability sigmoid(log_odds).

    Args:
        log_odds: log p - log (1 - p).
        generator: Random generator. None means the device's default generator.
    """
    exact = log_odds.detach().to(accumulation_dtype(log_odds.dtype))
    uniform = torch.empty_like(exact).uniform_(generator=generator)
    return uniform < torch.sigmoid(exact)
