"""Rewards of sampled attention: the gain in BLEU of the predicted tokens (Indurthi et al. 2019).

    r_t = R(y'_1..t) - R(y'_1..t-1),   G_t = sum of r_t' for t' >= t                            (Eq. 8)

y' is the top-scoring token of each step under teacher forcing, and R is the BLEU of a prefix; see
`regard.metrics.prefix_bleu`. The advantage is w (G_t - b_t). The baseline b_t is the mean G_t of the other
sentences of the batch, or the output of a baseline network. That network is trained on the squared error,
which is added to the loss with the weight `EXPECTATION`.
"""

import dataclasses

import torch

from regard.attention.base import Reward
from regard.data.batch import Sequences
from regard.data.vocabulary import EOS, UNK
from regard.functional.estimators import leave_one_out
from regard.metrics.prefix_bleu import prefix_bleu
from regard.models.base import Outcome
from regard.types import Float, Int, Tensor

__all__ = ["returns_of", "rewarded"]

EXPECTATION = 1e-3
"""The weight of the baseline network's squared error relative to the log-likelihood.

Returns grow with the length of the sentence, and their errors are squared. With a weight of 1 they would
dominate the norm of the gradient, and clipping would remove nearly all of the model's own gradient. The
weight does not affect the baseline network itself, because Adam is invariant to the scale of the gradient.
"""


def returns_of(tokens: Int[Tensor, "B T"], reference: Sequences) -> Float[Tensor, "B T"]:
    """Return the returns G_t as float32, zero at padding.

    Args:
        tokens: y', of the same lengths as the references.
        reference: The reference y.
    """
    predicted, wanted, lengths = (x.cpu().numpy() for x in (tokens, reference.tokens, reference.lengths))
    scores = torch.from_numpy(prefix_bleu(predicted, lengths, wanted, lengths, EOS, UNK)).to(
        tokens.device, torch.float32
    )
    last = scores.gather(1, reference.lengths.unsqueeze(1) - 1)
    before = torch.cat([torch.zeros_like(last), scores[:, :-1]], dim=1)
    return (last - before).masked_fill(~reference.mask, 0.0)


def rewarded(outcome: Outcome, reference: Sequences, reward: Reward) -> Outcome:
    """Return the outcome of a training batch with the advantage of the sampled attention.

    Args:
        outcome: The result of teacher forcing, with the top-scoring tokens.
        reference: The target sentences.
        reward: The options of the reward: its weight and its baseline.
    """
    assert outcome.likeliest is not None
    found = returns_of(outcome.likeliest, reference)
    penalty = outcome.penalty
    if outcome.expected is not None:
        baseline = outcome.expected.detach()
        penalty = penalty + EXPECTATION * (outcome.expected - found) ** 2
    elif reward.of_others:
        baseline = leave_one_out(found, reference.mask)
    else:
        baseline = torch.zeros_like(found)
    return dataclasses.replace(outcome, advantage=reward.weight * (found - baseline), penalty=penalty)
