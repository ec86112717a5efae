"""Latent alignments: Markov chains over source positions, REINFORCE and its baseline, and samples.

In a first-order Markov chain, the attention of a step depends on the previous one. With a_t the source
position of token t, scores z_t, and a bias b that depends on two positions only,

    P(a_t = i | s_t, a_{t-1} = j) = exp(z_ti + b_ij) / sum_i' exp(z_ti' + b_i'j),
    Prior_t(i) = sum_j P(a_t = i | s_t, a_{t-1} = j) Postr_{t-1}(j)     Shankar & Sarawagi (2019), Eq. 14,
    Postr_t(i) = Prior_t(i) P(y_t | s_t, x_i) / P(y_t | y_<t)           (ibid., Eq. 13).

The product of the P(y_t | y_<t) = sum_i Prior_t(i) P(y_t | s_t, x_i) is the likelihood summed over all
sequences of positions. This is the forward algorithm (ibid., Section 2.5; Wu & Cotterell, 2019, for hard
attention). If b_ij = -inf for i < j, the chain never moves backward; a position without a successor is
absorbing.

For a reward f of a choice a sampled from q, REINFORCE estimates the gradient of E_q f(a) = sum_a q(a) f(a).

    REINFORCE (Williams, 1992): (f(a) - b) d log q(a). Its mean is the exact gradient for any baseline b that
    does not depend on a; a good b reduces the variance.
    Gumbel-max: argmax_a (log q(a) + g_a), with g_a = -log(-log u_a) and u_a uniform, is a sample from q.

Choices with log q = -inf are never sampled and have no gradient.
"""

import torch

from regard.functional.dispatch import accumulation_dtype, shift_to_zero_max, usable_positions
from regard.types import Bool, Float, Int, Tensor


def chain_prior(
    scores: Float[Tensor, "B S"],
    previous_posterior: Float[Tensor, "B S"],
    bias: Float[Tensor, "S S"],
    mask: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Compute log Prior_t from the posterior of the previous step.

    The computation needs two multiplications by the S x S matrix exp(b), and no S x S array per sentence.

    Args:
        scores: z_t.
        previous_posterior: Postr_{t-1}, each row summing to 1; zero where masked.
        bias: b_ij from position j to position i. It must be finite; use `forward_prior` for chains that never
            move backward.
        mask: True where a position may be attended, at least once per row.

    Returns:
        [B, S], in nats; -inf where masked.
    """
    dtype = accumulation_dtype(scores.dtype)
    scores, previous_posterior, bias = scores.to(dtype), previous_posterior.to(dtype), bias.to(dtype)
    usable = usable_positions(scores, mask)
    # With the best score shifted to 0, no sum below is smaller than the exponential of the minimum bias.
    relative = shift_to_zero_max(scores, usable)
    moves = bias.exp()
    with torch.autocast(scores.device.type, enabled=False):
        normalizer = relative.exp().masked_fill(~usable, 0.0) @ moves  # [b, j] = sum over i
        arriving = (previous_posterior / normalizer) @ moves.t()  # [b, i] = sum over j
    return (relative + arriving.log()).masked_fill(~usable, -torch.inf)


def forward_prior(
    scores: Float[Tensor, "B S"],
    previous_posterior: Float[Tensor, "B S"],
    mask: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Compute log Prior_t of a chain that never moves backward (Wu & Cotterell, 2019).

    Its bias is b_ij = 0 for i >= j, otherwise -inf.

    Args:
        scores: z_t.
        previous_posterior: Postr_{t-1}, each row summing to 1; zero where masked.
        mask: True where a position may be attended; these must be the first positions of each row.

    Returns:
        [B, S], in nats; -inf where masked and before every position with nonzero posterior.
    """
    dtype = accumulation_dtype(scores.dtype)
    scores, previous_posterior = scores.to(dtype), previous_posterior.to(dtype)
    usable = usable_positions(scores, mask)
    relative = shift_to_zero_max(scores, usable).masked_fill(~usable, torch.finfo(dtype).min)
    onward = relative.flip(-1).logcumsumexp(-1).flip(-1)  # [b, j] = log of the sum over i >= j
    possible = previous_posterior > 0
    # Two masks each, so that log(0) enters neither the value nor the gradient.
    log_passed = previous_posterior.masked_fill(~possible, 1.0).log().masked_fill(~possible, -torch.inf)
    leaving = torch.where(possible, log_passed - onward, torch.finfo(dtype).min)
    arrived = leaving.logcumsumexp(-1)  # [b, i] = log of the sum over j <= i
    reached = possible.long().cumsum(-1) > 0
    return (relative + arrived).masked_fill(~(usable & reached), -torch.inf)


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


def sample_categorical(log_probs: Float[Tensor, "*B S"]) -> Int[Tensor, "*B"]:
    """Sample one index per row, with the Gumbel-max trick.

    `log_probs` are log-probabilities in nats, up to a constant per row.
    """
    exact = log_probs.detach().to(accumulation_dtype(log_probs.dtype))
    exponential = torch.empty_like(exact).exponential_()
    # Minus the logarithm of an exponential variable has a Gumbel distribution.
    return (exact - exponential.clamp_min(torch.finfo(exact.dtype).tiny).log()).argmax(-1)
