"""Gradient estimators for expectations over discrete choices: REINFORCE, Gumbel-max and Gumbel-softmax.

For a reward f of a choice a sampled from q, they estimate the gradient of E_q f(a) = sum_a q(a) f(a).

    REINFORCE (Williams, 1992): (f(a) - b) d log q(a). Its mean is the exact gradient for any baseline b that
    does not depend on a; a good b reduces the variance.
    Gumbel-max: argmax_a (log q(a) + g_a), with g_a = -log(-log u_a) and u_a uniform, is a sample from q.
    Gumbel-softmax (Jang et al., 2017; Maddison et al., 2017): softmax((log q + g) / temperature), a point of
    the simplex that is differentiable. As the temperature approaches 0, it approaches the Gumbel-max choice.
    At other temperatures its gradient is that of a different function, biased but with low variance.

Choices with log q = -inf are never sampled and have no gradient.
"""

import torch
from torch.nn import functional as F

from regard.functional.dispatch import accumulation_dtype
from regard.types import Bool, Float, Int, Tensor

__all__ = ["gumbel_softmax", "leave_one_out", "reinforce_objective", "sample_bernoulli", "sample_categorical"]


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
    return (exact + _gumbel(exact, generator)).argmax(-1)


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


def gumbel_softmax(
    log_probs: Float[Tensor, "*B S"],
    temperature: float = 1.0,
    *,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*B S"]:
    """Compute a relaxed one-hot sample per row: weights that sum to 1 and are differentiable.

    Args:
        log_probs: Log-probabilities in nats, up to a constant per row; at least one per row is above -inf.
        temperature: Positive; lower values give weights closer to one-hot and a gradient with more variance.
        hard: Straight-through estimator (Jang et al. (2017), Section 2.2): the value is the one-hot
            Gumbel-max sample, and the gradient is that of the relaxed weights.
        generator: Random generator. None means the device's default generator.

    Raises:
        ValueError: The temperature is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}, but must be positive")
    exact = log_probs.to(accumulation_dtype(log_probs.dtype))
    relaxed = torch.softmax((exact + _gumbel(exact, generator)) / temperature, dim=-1)
    if hard:
        chosen = F.one_hot(relaxed.argmax(-1), relaxed.shape[-1]).to(relaxed.dtype)
        # In this order the difference is exactly 0, so the value is exactly one-hot.
        relaxed = chosen + (relaxed - relaxed.detach())
    return relaxed.to(log_probs.dtype)


def _gumbel(like: Float[Tensor, "*B"], generator: torch.Generator | None) -> Float[Tensor, "*B"]:
    """Sample standard Gumbel noise as -log of an exponential variable, which is clamped away from 0."""
    exponential = torch.empty_like(like, requires_grad=False).exponential_(generator=generator)
    return -exponential.clamp_min(torch.finfo(like.dtype).tiny).log()
