"""Gradients of an expectation over discrete choices: REINFORCE and its baselines, Gumbel-max, Gumbel-softmax.

For a reward f of a choice a drawn from q, what is wanted is the gradient of E_q f(a) = sum_a q(a) f(a).

    REINFORCE (Williams 1992): (f(a) - b) d log q(a), whose mean is that gradient for any baseline b that does
    not depend on a; a good b lessens its variance.
    Gumbel-max: argmax_a (log q(a) + g_a), g_a = -log(-log u_a) with u_a uniform, is a draw from q.
    Gumbel-softmax (Jang et al. 2017; Maddison et al. 2017): softmax((log q + g) / temperature), a point of
    the simplex through which the gradient flows. As the temperature goes to 0 it is Gumbel-max's choice; at
    any other, its gradient is that of another function, biased but of small variance.

Where log q is -inf nothing is ever drawn, and no gradient flows.
"""

import torch
from torch.nn import functional as F

from regard.functional.masking import exact_dtype
from regard.types import Bool, Float, Int, Tensor

__all__ = ["gumbel_softmax", "leave_one_out", "reinforce", "sample_bernoulli", "sample_categorical"]


def reinforce(
    log_policy: Float[Tensor, "*B"],
    reward: Float[Tensor, "*#B"],
    baseline: Float[Tensor, "*#B"] | float = 0.0,
) -> Float[Tensor, "*B"]:
    """What to maximise: (reward - baseline) log_policy, the former held fixed.

    Its gradient is the REINFORCE estimate; its value means nothing.

    Args:
        log_policy: Log-probability of what was drawn, in nats.
        reward: What it brought: f(a), or a sequence's return from there on.
        baseline: What was expected; it must not depend on what was drawn.
    """
    return (reward - baseline).detach() * log_policy


def leave_one_out(
    rewards: Float[Tensor, "*B"], mask: Bool[Tensor, "*B"] | None = None, dim: int = 0
) -> Float[Tensor, "*B"]:
    """A baseline: the mean reward of the others along `dim`; 0 where there are none.

    With the mean of all of n, itself included, the mean gradient would be short by a factor (n - 1) / n.

    Args:
        rewards: Of draws that are independent along `dim`.
        mask: True where there is a reward.
        dim: The dimension along which others are looked for.
    """
    real = torch.ones_like(rewards) if mask is None else mask.to(rewards.dtype)
    kept = rewards if mask is None else rewards.masked_fill(~mask, 0.0)
    others = real.sum(dim, keepdim=True) - real
    return (kept.sum(dim, keepdim=True) - kept) / others.clamp_min(1.0)


def sample_categorical(
    log_probs: Float[Tensor, "*B S"], *, generator: torch.Generator | None = None
) -> Int[Tensor, "*B"]:
    """A draw from each row, by Gumbel-max.

    Args:
        log_probs: In nats; a constant may be added to a row.
        generator: Where randomness comes from; the device's own if absent.
    """
    exact = log_probs.detach().to(exact_dtype(log_probs.dtype))
    return (exact + _gumbel(exact, generator)).argmax(-1)


def sample_bernoulli(
    log_odds: Float[Tensor, "*B"], *, generator: torch.Generator | None = None
) -> Bool[Tensor, "*B"]:
    """A draw of each, True with probability sigmoid(log_odds).

    Args:
        log_odds: log p - log (1 - p).
        generator: Where randomness comes from; the device's own if absent.
    """
    exact = log_odds.detach().to(exact_dtype(log_odds.dtype))
    drawn = torch.empty_like(exact).uniform_(generator=generator)
    return drawn < torch.sigmoid(exact)


def gumbel_softmax(
    log_probs: Float[Tensor, "*B S"],
    temperature: float = 1.0,
    *,
    hard: bool = False,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*B S"]:
    """A relaxed draw from each row: weights that sum to 1, with a gradient.

    Args:
        log_probs: In nats; a constant may be added to a row. Some word of each row is above -inf.
        temperature: Above 0; the lower, the nearer the weights to one word, and the noisier their gradient.
        hard: Straight through (Jang et al. 2017, Section 2.2): the value is all on the word that Gumbel-max
            draws, the gradient that of the relaxed weights.
        generator: Where randomness comes from; the device's own if absent.

    Raises:
        ValueError: if the temperature is not above 0.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0; got {temperature}")
    exact = log_probs.to(exact_dtype(log_probs.dtype))
    relaxed = torch.softmax((exact + _gumbel(exact, generator)) / temperature, dim=-1)
    if hard:
        chosen = F.one_hot(relaxed.argmax(-1), relaxed.shape[-1]).to(relaxed.dtype)
        # The difference first: a weight of exactly 0 or 1 comes out.
        relaxed = chosen + (relaxed - relaxed.detach())
    return relaxed.to(log_probs.dtype)


def _gumbel(like: Float[Tensor, "*B"], generator: torch.Generator | None) -> Float[Tensor, "*B"]:
    """Standard Gumbel noise: -log of an exponential variable, which is kept from being 0."""
    drawn = torch.empty_like(like, requires_grad=False).exponential_(generator=generator)
    return -drawn.clamp_min(torch.finfo(like.dtype).tiny).log()
