"""Rewards of sampled attention: the gain in BLEU of the predicted tokens (Indurthi et al. 2019).

    r_t = R(y'_1..t) - R(y'_1..t-1),   G_t = sum of r_t' for t' >= t                            (Eq. 8)

y' is the top-scoring token of each step under teacher forcing, and R is the BLEU of a prefix; see
`regard.metrics.utility.prefix_bleu`. The advantage is w (G_t - b_t), where w is the weight of the reward. The
baseline b_t is the mean G_t of the other sentences of the batch, or the output of a baseline network. That
network is trained on the squared error, which is added to the loss with the weight `BASELINE_LOSS_WEIGHT`.
"""

import dataclasses

import torch

from regard.attention.base import Reward
from regard.data.batch import PaddedSequences
from regard.data.vocabulary import EOS, UNK
from regard.functional.estimators import leave_one_out
from regard.metrics.utility import prefix_bleu
from regard.models.base import ForwardOutput
from regard.types import Float, Int, Tensor

__all__ = ["add_advantage", "compute_returns"]

BASELINE_LOSS_WEIGHT = 1e-3
"""The weight of the baseline network's squared error relative to the log-likelihood.

Returns grow with the length of the sentence, and their errors are squared. With a weight of 1 they would
dominate the norm of the gradient, and clipping would remove nearly all of the model's own gradient. The
weight does not affect the baseline network itself, because Adam is invariant to the scale of the gradient.
"""


def compute_returns(tokens: Int[Tensor, "B T"], reference: PaddedSequences) -> Float[Tensor, "B T"]:
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


def add_advantage(outcome: ForwardOutput, reference: PaddedSequences, reward: Reward) -> ForwardOutput:
    """Return the outcome of a training batch with the advantage of the sampled attention.

    Args:
        outcome: The result of teacher forcing, with the top-scoring tokens.
        reference: The target sentences.
        reward: The options of the reward: its weight and its baseline.
    """
    assert outcome.top_tokens is not None
    found = compute_returns(outcome.top_tokens, reference)
    penalty = outcome.penalty
    if outcome.baseline is not None:
        baseline = outcome.baseline.detach()
        penalty = penalty + BASELINE_LOSS_WEIGHT * (outcome.baseline - found) ** 2
    elif reward.batch_baseline:
        baseline = leave_one_out(found, reference.mask)
    else:
        baseline = torch.zeros_like(found)
    return dataclasses.replace(outcome, advantage=reward.weight * (found - baseline), penalty=penalty)
