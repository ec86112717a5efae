"""Training objectives: functions from the result of teacher forcing to a loss.

A loss is a sum over the real target tokens, in nats. The trainer divides it by the number of tokens, or of
sentences, in all processes and micro-batches of the step. The config of an attention mechanism names its
objective. To add an objective, write a function and register it in `OBJECTIVES`.

The reward of sampled attention is the gain in BLEU of the predicted tokens (Indurthi et al. 2019):

    r_t = R(y'_1..t) - R(y'_1..t-1),   G_t = sum of r_t' for t' >= t                            (Eq. 8)

y' is the top-scoring token of each step under teacher forcing, and R is the BLEU of a prefix; see
`regard.metrics.translation`. The advantage is w (G_t - b_t), where w is the weight of the reward. The
baseline b_t is the mean G_t of the other sentences of the batch, or 0.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard.attention.base import Objective, Reward
from regard.data.batch import PaddedSequences
from regard.functional.latent import leave_one_out
from regard.functional.latent import reinforce_objective as estimate
from regard.metrics.translation import prefix_bleu
from regard.models.base import ForwardOutput
from regard.text.vocabulary import EOS, UNK
from regard.types import Float, Int, Tensor


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, in nats.

    Attributes:
        total: The loss to minimize.
        nll: -log p(reference), without label smoothing and penalties, detached. If the mechanism samples
            attention or uses an inference network in training, the likelihood is conditioned on the samples
            or on the inference network.
    """

    total: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def marginal(outcome: ForwardOutput, label_smoothing: float = 0.0) -> Loss:
    """Return the negative log-likelihood with label smoothing, plus the penalty of the mechanism.

        (1 - e) * -log p(y_t) - e * mean_v log p(v) + penalty_t, summed over t,

    where p(y) = sum_k w_k p(y | context k); e is the label smoothing of Szegedy et al. (2016), Section 7. The
    weights w_k sum to W, which is less than 1 if only the top contexts are used. For the smoothing term,
    log p(v) is approximated by log W + sum_k w_k / W log p(v | context k), a lower bound by Jensen's
    inequality.

    Args:
        outcome: The result of teacher forcing, with `mean_log_probs` if `label_smoothing` is not 0.
        label_smoothing: e, in [0, 1).
    """
    nll = -outcome.log_likelihood.sum()
    total = nll
    if label_smoothing:
        mass = outcome.log_weights.logsumexp(-1)
        shares = (outcome.log_weights - mass.unsqueeze(-1)).exp()
        average = mass + (shares * outcome.mean_log_probs).sum(-1)
        # A product with the mask would not remove infinite values at padding: 0 times infinity is NaN.
        total = (1 - label_smoothing) * nll - label_smoothing * average.masked_fill(~outcome.mask, 0.0).sum()
    total = total + outcome.penalty.masked_fill(~outcome.mask, 0.0).sum()
    return Loss(total, nll.detach())


def bound(outcome: ForwardOutput, label_smoothing: float = 0.0) -> Loss:
    """Return the negative evidence lower bound (Deng et al. 2018); the log-weights are those of q.

        - sum_k q_k log p(y_t | context k) + penalty_t, summed over t,

    where the penalty is KL(q || prior). Label smoothing applies to log p(y_t | context k) as in `marginal`.

    Args:
        outcome: The result of teacher forcing, with `mean_log_probs` if `label_smoothing` is not 0.
        label_smoothing: e, in [0, 1).
    """
    gained = (outcome.log_weights.exp() * _smoothed(outcome, label_smoothing)).sum(-1) - outcome.penalty
    return Loss(-gained.masked_fill(~outcome.mask, 0.0).sum(), -outcome.log_likelihood.sum().detach())


def reinforce_loss(outcome: ForwardOutput, label_smoothing: float = 0.0) -> Loss:
    """Return the REINFORCE loss of sampled attention: likelihood and policy-gradient term, plus the penalty.

        - sum_k w_k (log p(y_t | context k) + advantage_tk log policy_tk) + penalty_t, summed over t,

    where w_k are the weights. No gradient flows through the advantage. If `ForwardOutput.advantage` is set,
    the advantage is that value: a return minus its baseline. Otherwise the reward of a sample is
    log p(y_t | context k), which is correct if the sample affects y_t alone. Its baseline is then the highest
    log p(y_t | context) of the contexts with a log-weight of -inf, which are scored but not used for the
    prediction, or zero if there are none. Label smoothing applies to log p(y_t | context k) as in `marginal`.

    Args:
        outcome: The result of teacher forcing, with `mean_log_probs` if `label_smoothing` is not 0.
        label_smoothing: e, in [0, 1).
    """
    log_likelihoods = _smoothed(outcome, label_smoothing)
    if outcome.advantage is None:
        unused = torch.isneginf(outcome.log_weights)
        best = log_likelihoods.masked_fill(~unused, -torch.inf).amax(-1, keepdim=True)
        policy = estimate(outcome.log_policy, log_likelihoods, torch.where(torch.isneginf(best), 0.0, best))
    else:
        policy = estimate(outcome.log_policy, outcome.advantage.unsqueeze(-1))
    gained = (outcome.log_weights.exp() * (log_likelihoods + policy)).sum(-1) - outcome.penalty
    return Loss(-gained.masked_fill(~outcome.mask, 0.0).sum(), -outcome.log_likelihood.sum().detach())


def _smoothed(outcome: ForwardOutput, smoothing: float) -> Float[Tensor, "B T K"]:
    """Return (1 - e) log p(y_t | context k) + e mean_v log p(v | context k)."""
    if not smoothing:
        return outcome.log_likelihoods
    return (1 - smoothing) * outcome.log_likelihoods + smoothing * outcome.mean_log_probs


OBJECTIVES: dict[Objective, Callable[[ForwardOutput, float], Loss]] = {
    "marginal": marginal,
    "bound": bound,
    "reinforce": reinforce_loss,
}


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
    # The rewards are gains in BLEU. Their sum from t on is the final BLEU minus that of the prefix before t.
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
    returns = compute_returns(outcome.top_tokens, reference)
    if reward.batch_baseline:
        returns = returns - leave_one_out(returns, reference.mask)
    return dataclasses.replace(outcome, advantage=reward.weight * returns)
