"""Variational attention (Deng et al., 2018): attention as a latent variable, trained with a lower bound.

Each token is generated from one source position a_t, whose prior given the decoder state is the softmax of
soft attention, p_t(a). In training, an inference network that reads the whole target computes q_t(a). The
objective is a lower bound of the log-likelihood (Section 3), for each token

    sum_a q_t(a) log p(y_t | s_t, x_a) - KL(q_t || p_t)   <=   log sum_a p_t(a) p(y_t | s_t, x_a),

with equality if q_t is the posterior. The KL term is computed exactly. The other term depends on `estimator`:

    enumerate   summed over all positions
    reinforce   one position sampled from q_t. q_t is trained with REINFORCE; the baseline is the
                log-likelihood under the prior's expectation of x, as in the paper: a second context of
                log-weight -inf

q_t(a) is a softmax of bilinear scores between the states of a bidirectional LSTM over the target at t and the
encoder state at position a. Validation and search have no target and sum over the prior. In training, too,
the recurrence is fed the prior's expectation of x. A sample at step t therefore affects token t only, and the
bound applies to the likelihood that search uses.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch

from regard.attention.base import AttentionStep, Memory, Reference, State
from regard.attention.registry import register_attention
from regard.attention.scored import (
    ScorerAttention,
    gather_states,
    masked_log_softmax,
    posterior_over_positions,
    top_k_positions,
)
from regard.attention.scorers import SCORE_FUNCTION_HELP, BilinearScorer, ScoreFunction
from regard.config import configclass, option
from regard.functional.latent import sample_categorical
from regard.layers.recurrent import RecurrentLayer
from regard.types import Float, Int, Tensor


@configclass
class VariationalAttentionConfig:
    """Variational attention, a latent variable with an inference network."""

    kind: Literal["variational"] = option(
        default="variational",
        help="A mixture over source positions, trained with an inference network.",
    )
    estimator: Literal["enumerate", "reinforce"] = option(
        default="enumerate",
        help="Estimator of the expectation over positions in training: the exact sum (enumerate) or one "
        "sample (reinforce).",
    )
    top_k: int = option(
        default=0,
        help="Number K of source positions summed over in validation and search, by decreasing prior. 0 uses "
        "all positions.",
        ge=0,
        le=100_000,
    )
    score_function: ScoreFunction = option(default=None, help=SCORE_FUNCTION_HELP)


@dataclass(frozen=True)
class VariationalState(State):
    """A state with the inference network's distributions; its weights and context are the prior's.

    Its posterior is q in training, otherwise from Bayes' rule.

    Attributes:
        log_proposals: log q_t of the remaining steps, [B, S] each, -inf where masked. None without a
            reference.
    """

    log_proposals: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class VariationalStep(AttentionStep):
    """The attention step of one time step; its token determines the posterior."""

    def update(self, log_likelihood: Float[Tensor, "B K"]) -> State:
        """Apply Bayes' rule to the K positions, for analysis; in training the posterior is already q."""
        state = self.state
        assert isinstance(state, VariationalState)
        if state.posterior is not None:
            return state
        assert self.positions is not None
        posterior = posterior_over_positions(
            self.log_weights, log_likelihood, self.positions, state.weights.shape[-1]
        )
        return dataclasses.replace(state, posterior=posterior)


@register_attention("variational", VariationalAttentionConfig)
class VariationalAttention(ScorerAttention):
    """Variational attention."""

    observes_tokens = True
    uses_reference = True

    def __init__(
        self, config: VariationalAttentionConfig, query_size: int, memory_size: int, target_size: int
    ) -> None:
        """Build the scorer and the inference network."""
        super().__init__(query_size, memory_size, config.score_function)
        self.config = config
        self.objective = "reinforce" if config.estimator == "reinforce" else "bound"
        self.attends_to_single_positions = config.estimator == "enumerate"
        hidden_size = memory_size + memory_size % 2  # each direction of the LSTM has half of it
        self.inference_lstm = RecurrentLayer(target_size, hidden_size)
        self.inference_scorer = BilinearScorer(hidden_size, memory_size)

    def start(self, memory: Memory, target: Reference | None = None) -> VariationalState:
        """Return the initial state; with a reference, it holds log q of every step."""
        first = super().start(memory)
        proposals = None if target is None else self.compute_log_proposals(memory, target).unbind(1)
        return VariationalState(first.weights, first.context, proposals)

    def compute_log_proposals(self, memory: Memory, target: Reference) -> Float[Tensor, "B T S"]:
        """Compute log q of every step, in nats; -inf where masked."""
        target_states, _ = self.inference_lstm(target.embeddings, target.mask.sum(-1))
        scores = self.inference_scorer(target_states, self.inference_scorer.compute_keys(memory.states))
        return masked_log_softmax(scores, memory.mask.unsqueeze(1))

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> VariationalStep:
        """Attend for one time step, under q if there is a reference and under the prior otherwise."""
        assert isinstance(state, VariationalState) and memory.keys is not None and memory.values is not None
        log_prior = masked_log_softmax(self.scorer(query.unsqueeze(1), memory.keys)[:, 0], memory.mask)
        prior = log_prior.exp()
        # Fed to the recurrence in training as in search, so that a sample affects its own token only.
        expected = memory.values(prior.unsqueeze(1))[:, 0]
        after = VariationalState(prior.unsqueeze(1), expected)
        if state.log_proposals is None:
            # A mixture over all positions, or over the top K with their weights renormalized.
            log_weights, positions = log_prior, None
            if self.config.top_k:
                top_log_probs, positions = top_k_positions(log_prior, self.config.top_k)
                log_weights = top_log_probs - top_log_probs.logsumexp(-1, keepdim=True)
            return _step_of_positions(memory, positions, log_weights, log_prior.new_zeros(len(prior)), after)
        # One distribution per step was computed in `start`; the state carries the remaining ones.
        log_proposal, *remaining = state.log_proposals
        proposal = log_proposal.exp()
        after = dataclasses.replace(after, log_proposals=tuple(remaining), posterior=proposal)
        # Masked positions have -inf in both distributions, and -inf - (-inf) would be NaN.
        masked = ~memory.mask
        difference = log_proposal.masked_fill(masked, 0.0) - log_prior.masked_fill(masked, 0.0)
        penalty = (proposal * difference).sum(-1)  # KL(q || p)
        if self.config.estimator == "enumerate":
            return _step_of_positions(memory, None, log_proposal, penalty, after)
        return _step_of_sample(memory, log_proposal, expected, penalty, after)


def _step_of_positions(
    memory: Memory,
    positions: Int[Tensor, "B K"] | None,
    log_weights: Float[Tensor, "B K"],
    penalty: Float[Tensor, "B"],
    state: VariationalState,
) -> VariationalStep:
    """Build an attention step in which each context is a source position; None means all, in order."""
    contexts = memory.states if positions is None else gather_states(memory, positions)
    if positions is None:
        positions = torch.arange(log_weights.shape[1], device=log_weights.device).expand(log_weights.shape)
    zeros = torch.zeros_like(log_weights)
    return VariationalStep(contexts, log_weights, state.weights, zeros, penalty, state, positions=positions)


def _step_of_sample(
    memory: Memory,
    log_proposal: Float[Tensor, "B S"],
    expected: Float[Tensor, "B D"],
    penalty: Float[Tensor, "B"],
    state: VariationalState,
) -> VariationalStep:
    """Build an attention step with one sampled position; the prior's mean is a second context (baseline)."""
    sample = sample_categorical(log_proposal).unsqueeze(1)  # (B, 1)
    state_context = gather_states(memory, sample)
    contexts = torch.cat([state_context, expected.unsqueeze(1).to(state_context.dtype)], dim=1)
    log_policy = log_proposal.gather(1, sample)
    zero = torch.zeros_like(log_policy)
    # With log-weight -inf the second context has no share in the mixture.
    log_weights = torch.cat([zero, zero - torch.inf], dim=1)
    log_policy = torch.cat([log_policy, zero], dim=1)
    return VariationalStep(contexts, log_weights, state.weights, log_policy, penalty, state)
