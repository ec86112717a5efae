"""What a mechanism's draws brought: the BLEU that the tokens likeliest under them add (Indurthi et al. 2019).

    r_t = R(y'_1..t) - R(y'_1..t-1),   G_t = sum of r_t' for t' >= t                            (Eq. 8)

y' being the likeliest token of each step under teacher forcing and R as in `regard.metrics.prefix_bleu`. The
advantage is w (G_t - b_t), b_t the mean G_t of the batch's other sentences, or what a network of the
mechanism expects, which is trained by its squared error, as `EXPECTATION` of the loss.
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
"""What the squared error of an expected return weighs beside likelihood.

Returns are as large as sentences are long, and errors squared: at their full weight they are most of the
gradient's norm, and clipping it takes nearly all of the model's own. To the network that expects them, under
Adam, the weight makes no difference.
"""


def returns_of(tokens: Int[Tensor, "B T"], reference: Sequences) -> Float[Tensor, "B T"]:
    """G_t, float32; zero beyond the reference.

    Args:
        tokens: y', as long as the references.
        reference: y.
    """
    said, wanted, lengths = (x.cpu().numpy() for x in (tokens, reference.tokens, reference.lengths))
    scores = torch.from_numpy(prefix_bleu(said, lengths, wanted, lengths, EOS, UNK)).to(
        tokens.device, torch.float32
    )
    last = scores.gather(1, reference.lengths.unsqueeze(1) - 1)
    before = torch.cat([torch.zeros_like(last), scores[:, :-1]], dim=1)
    return (last - before).masked_fill(~reference.mask, 0.0)


def rewarded(outcome: Outcome, reference: Sequences, reward: Reward) -> Outcome:
    """The outcome of a training batch with the advantage of what was drawn.

    Args:
        outcome: Of teacher forcing, with its likeliest tokens.
        reference: The targets.
        reward: What counts.
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
