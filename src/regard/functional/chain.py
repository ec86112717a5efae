"""First-order Markov chains over source positions: the attention of a step depends on the previous one.

With a_t the source position of token t, scores z_t, and a bias b that depends on two positions only,

    P(a_t = i | s_t, a_{t-1} = j) = exp(z_ti + b_ij) / sum_i' exp(z_ti' + b_i'j),
    Prior_t(i) = sum_j P(a_t = i | s_t, a_{t-1} = j) Postr_{t-1}(j)     Shankar & Sarawagi (2019), Eq. 14,
    Postr_t(i) = Prior_t(i) P(y_t | s_t, x_i) / P(y_t | y_<t)           (ibid., Eq. 13).

The product of the P(y_t | y_<t) = sum_i Prior_t(i) P(y_t | s_t, x_i) is the likelihood summed over all
sequences of positions. This is the forward algorithm (ibid., Section 2.5; Wu & Cotterell, 2019, for hard
attention). If b_ij = -inf for i < j, the chain never moves backward; a position without a successor is
absorbing.
"""

import torch

from regard.functional.dispatch import accumulation_dtype, shift_to_zero_max, usable_positions
from regard.types import Bool, Float, Tensor

__all__ = ["chain_prior", "forward_prior"]


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
