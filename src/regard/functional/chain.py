"""A first-order chain over source positions: where attention was says where it may go.

With a_t the position that token t is read from, scores z_t, and a bias b that depends on two positions alone,

    P(a_t = i | s_t, a_{t-1} = j) = exp(z_ti + b_ij) / sum_i' exp(z_ti' + b_i'j),
    Prior_t(i) = sum_j P(a_t = i | s_t, a_{t-1} = j) Postr_{t-1}(j)     (Shankar & Sarawagi 2019, Eq. 14),
    Postr_t(i) = Prior_t(i) P(y_t | s_t, x_i) / P(y_t | y_<t)           (their Eq. 13),

and the product of the P(y_t | y_<t) = sum_i Prior_t(i) P(y_t | s_t, x_i) is the likelihood summed over all
sequences of positions: the forward algorithm (their Section 2.5; Wu & Cotterell 2019 for hard attention).
Where b_ij = -inf for i < j the chain never goes back; a position from which it could go nowhere stays.
"""

import torch

from regard.functional.masking import attendable, exact_dtype, shifted
from regard.types import Bool, Float, Tensor

__all__ = ["chain_log_likelihood", "chain_prior", "chain_transitions", "forward_prior"]


def chain_prior(
    scores: Float[Tensor, "B S"],
    passed: Float[Tensor, "B S"],
    bias: Float[Tensor, "S S"],
    mask: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Log Prior_t, from where the step before was believed to be.

    Two products with the S x S matrix exp(b): no array of S x S a sentence is made.

    Args:
        scores: z_t.
        passed: Postr_{t-1}, each row summing to 1; zero where masked.
        bias: b_ij for i to and j from, finite: a chain that never goes back is `forward_prior`'s.
        mask: True where a position may be attended, at least once a row.

    Returns:
        [B, S], in nats; -inf where masked.
    """
    dtype = exact_dtype(scores.dtype)
    scores, passed, bias = scores.to(dtype), passed.to(dtype), bias.to(dtype)
    usable = attendable(scores, mask)
    # Relative to the best score, so that no sum below is less than the exponential of the least bias.
    relative = shifted(scores, usable)
    moves = bias.exp()
    with torch.autocast(scores.device.type, enabled=False):
        normaliser = relative.exp().masked_fill(~usable, 0.0) @ moves  # [b, j] = sum over i
        arriving = (passed / normaliser) @ moves.t()  # [b, i] = sum over j
    return (relative + arriving.log()).masked_fill(~usable, -torch.inf)


def forward_prior(
    scores: Float[Tensor, "B S"],
    passed: Float[Tensor, "B S"],
    mask: Bool[Tensor, "B S"] | None = None,
) -> Float[Tensor, "B S"]:
    """Log Prior_t of a chain that never goes back: b_ij = 0 for i >= j, else -inf (Wu & Cotterell 2019).

    Args:
        scores: z_t.
        passed: Postr_{t-1}, each row summing to 1; zero where masked.
        mask: True where a position may be attended; in each row the first ones.

    Returns:
        [B, S], in nats; -inf where masked or before every position that is believed in.
    """
    dtype = exact_dtype(scores.dtype)
    scores, passed = scores.to(dtype), passed.to(dtype)
    usable = attendable(scores, mask)
    relative = shifted(scores, usable).masked_fill(~usable, torch.finfo(dtype).min)
    onward = relative.flip(-1).logcumsumexp(-1).flip(-1)  # [b, j] = log of the sum over i >= j
    known = passed > 0
    log_passed = passed.masked_fill(~known, 1.0).log().masked_fill(~known, -torch.inf)
    leaving = torch.where(known, log_passed - onward, torch.finfo(dtype).min)
    arrived = leaving.logcumsumexp(-1)  # [b, i] = log of the sum over j <= i
    reached = known.long().cumsum(-1) > 0
    return (relative + arrived).masked_fill(~(usable & reached), -torch.inf)


def chain_transitions(
    scores: Float[Tensor, "B T S"], bias: Float[Tensor, "S S"], mask: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, "B T S S"]:
    """Log P(a_t = i | s_t, a_{t-1} = j), written out: [..., i, j].

    Args:
        scores: z_t.
        bias: b_ij; -inf where the chain may not go.
        mask: True where a position may be attended.
    """
    dtype = exact_dtype(scores.dtype)
    logits = scores.to(dtype).unsqueeze(-1) + bias.to(dtype)
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, :, None], -torch.inf)
    nowhere = torch.isneginf(logits).all(-2, keepdim=True)
    stay = torch.eye(logits.shape[-1], dtype=torch.bool, device=logits.device)
    logits = torch.where(nowhere & stay, torch.zeros_like(logits), logits)
    return logits.log_softmax(-2)


def chain_log_likelihood(
    log_start: Float[Tensor, "B S"],
    log_transitions: Float[Tensor, "B T S S"],
    log_emissions: Float[Tensor, "B T S"],
    mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, "B"]:
    """Log of the probability of all tokens, summed over all sequences of positions, in nats.

    Args:
        log_start: Log P(a_1 = i).
        log_transitions: Log P(a_t = i | a_{t-1} = j) as [..., i, j]; the first step's is not looked at.
        log_emissions: Log P(y_t | s_t, x_i).
        mask: True at real tokens, the first ones of each row; none: all are real.
    """
    forward = log_start + log_emissions[:, 0]
    for t in range(1, log_emissions.shape[1]):
        paths = log_transitions[:, t] + forward.unsqueeze(1)
        # A position that no path reaches has a log of zero whose gradient is zero, not NaN.
        reached = ~torch.isneginf(paths).all(-1)
        arrived = torch.where(reached.unsqueeze(-1), paths, 0.0).logsumexp(-1)
        new = arrived.masked_fill(~reached, -torch.inf) + log_emissions[:, t]
        forward = new if mask is None else torch.where(mask[:, t : t + 1], new, forward)
    return forward.logsumexp(-1)
