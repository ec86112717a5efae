"""Variational attention (Deng et al. 2018): where a token is read from is a variable, learned by a bound.

A token is read from one source word a_t, whose prior given the decoder's state is soft attention's softmax,
p_t(a). In training an inference network that reads the whole target proposes q_t(a), and what is maximised is
a lower bound of the log-likelihood (their Section 3), for each token

    sum_a q_t(a) log p(y_t | s_t, x_a) - KL(q_t || p_t)   <=   log sum_a p_t(a) p(y_t | s_t, x_a),

equal where q_t is the posterior. KL is exact. Its other term, by `estimator`:

    enumerate   summed over all words
    reinforce   one word drawn from q_t; the gradient of q_t by REINFORCE, its baseline the log-likelihood
                under the prior's expectation of x (as theirs): a second context, of log-weight -inf
    gumbel      under a Gumbel-softmax draw: one context, a mean of words (Jang et al. 2017)

q_t(a) is a softmax of bilinear scores between the states of a bidirectional LSTM over the target at t and the
encoder's state of word a. Validation and search know no target: they sum over the prior. The recurrence is
fed the prior's expectation of x in training too, so that a draw at t touches token t alone, and the bound is
one of what search uses.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch

from regard.attention.base import Attention, Memory, Reading, Reference, State
from regard.attention.scorers import HIDDEN_HELP, SCORER_HELP, GeneralScorer, ScorerKind, build_scorer
from regard.attention.words import bayes, likeliest, masked_log_softmax, words_at
from regard.config import config, option
from regard.functional.estimators import gumbel_softmax, sample_categorical
from regard.layers.recurrent import RecurrentLayer
from regard.layers.steps import StepProduct
from regard.types import Bool, Float, Int, Tensor

__all__ = ["VariationalAttention", "VariationalAttentionConfig", "VariationalState"]


@config
class VariationalAttentionConfig:
    """Variational attention."""

    kind: Literal["variational"] = option(
        default="variational", help="The mechanism: a mixture over words, trained by what knows the target."
    )
    estimator: Literal["enumerate", "reinforce", "gumbel"] = option(
        default="enumerate", help="How training sums over words: all of them, one drawn, or a relaxed draw."
    )
    temperature: float = option(
        default=1.0, help="Of the relaxed draws: the lower, the nearer to one word.", gt=0, le=1e6
    )
    straight_through: bool = option(
        default=False, help="Read from the word drawn, and let the gradient be that of the relaxed draw."
    )
    contexts: int = option(
        default=0,
        help="K: validation and search sum over so many words, the likeliest; 0: over all.",
        ge=0,
        le=100_000,
    )
    inference: int | None = option(
        default=None,
        help="Width of the network that reads the target, even; the encoder's if absent.",
        ge=2,
        le=16_384,
    )
    scorer: ScorerKind | None = option(default=None, help=SCORER_HELP)
    hidden: int | None = option(default=None, help=HIDDEN_HELP, ge=1, le=16_384)

    def __post_init__(self) -> None:
        """Refuse a width that two directions cannot share, and settings of draws where none is made."""
        for name, plain in (("straight_through", False), ("temperature", 1.0)):
            if self.estimator != "gumbel" and (value := getattr(self, name)) != plain:
                raise ValueError(f"{name} = {str(value).lower()} is of relaxed draws: estimator = 'gumbel'")
        if self.inference is not None and self.inference % 2:
            raise ValueError(f"inference must be even: each direction has half of it; got {self.inference}")


@dataclass(frozen=True)
class VariationalState(State):
    """The state; its weights and context are the prior's.

    Attributes:
        proposals: log q_t of the steps to come, [B, S] each, -inf where masked; none without a reference.
        posterior: [B, S], where the token was read from: q in training, else by Bayes' rule; none before the
            first step.
    """

    proposals: tuple[Tensor, ...] | None = None
    posterior: Float[Tensor, "B S"] | None = None

    @property
    def belief(self) -> Float[Tensor, "B H S"]:
        """The posterior."""
        return self.weights if self.posterior is None else self.posterior.unsqueeze(1)


@dataclass(frozen=True)
class VariationalReading(Reading):
    """A reading whose token tells where it was read from."""

    def observe(self, log_likelihood: Float[Tensor, "B K"]) -> State:
        """Bayes' rule over the K words, for analyses; in training q is known already."""
        state = self.state
        assert isinstance(state, VariationalState)
        if state.posterior is not None:
            return state
        assert self.positions is not None
        posterior = bayes(self.log_weights, log_likelihood, self.positions, state.weights.shape[-1])
        return dataclasses.replace(state, posterior=posterior)


class VariationalAttention(Attention):
    """Variational attention.

    Args:
        config: The estimator, the scorer, the inference network.
        query: Width of the decoder's state.
        width: Width of the memory's states.
        target: Width of the target embeddings.
    """

    observes = True
    reads_reference = True

    def __init__(self, config: VariationalAttentionConfig, query: int, width: int, target: int) -> None:
        """Build the scorer and the inference network."""
        super().__init__()
        self.config = config
        self.width = width
        self.objective = "reinforce" if config.estimator == "reinforce" else "bound"
        self.reads_words = config.estimator == "enumerate"
        self.scorer = build_scorer(config.scorer, query, width, config.hidden)
        inner = width + width % 2 if config.inference is None else config.inference
        self.reader = RecurrentLayer("lstm", target, inner, "both")
        self.proposer = GeneralScorer(inner, width)

    @classmethod
    def build(
        cls, config: VariationalAttentionConfig, query: int, width: int, target: int, heads: int = 1
    ) -> "VariationalAttention":
        """The mechanism of a config; see `Attention.build`."""
        return cls(config, query, width, target)

    def prepare(self, memory: Memory) -> Memory:
        """Make the keys, open the values."""
        return memory.with_products(self.scorer.keys(memory.comparands), StepProduct.open(memory.states))

    def start(self, memory: Memory, target: Reference | None = None) -> VariationalState:
        """Nothing has been read; with a reference, what the inference network proposes for every step."""
        first = super().start(memory)
        proposals = None if target is None else self.propose(memory, target).unbind(1)
        return VariationalState(first.weights, first.context, proposals)

    def propose(self, memory: Memory, target: Reference) -> Float[Tensor, "B T S"]:
        """Log q of every step, in nats; -inf where masked.

        Args:
            memory: What is attended.
            target: The reference.
        """
        read, _ = self.reader(target.embedded, target.mask.sum(-1))
        scores = self.proposer(read, self.proposer.keys(memory.states))
        return masked_log_softmax(scores, memory.mask.unsqueeze(1))

    def multiply_adds(self, source: int, target: int, pairs: int) -> int:
        """Both scorers', the inference network's, and a weighted sum of the words for each step."""
        cell = self.reader.recurrence
        network = target * (cell.input_weight.numel() + cell.hidden_weight.numel())
        scorers = (self.scorer, self.proposer)
        return network + sum(s.multiply_adds(source, target, pairs) for s in scorers) + pairs * self.width

    def read(self, query: Float[Tensor, "B Q"], memory: Memory, state: State) -> VariationalReading:
        """One step: the words as the proposal weighs or draws them; without it, as the prior does."""
        assert isinstance(state, VariationalState) and memory.keys is not None and memory.values is not None
        log_prior = masked_log_softmax(self.scorer(query.unsqueeze(1), memory.keys)[:, 0], memory.mask)
        prior = log_prior.exp()
        expected = memory.values(prior.unsqueeze(1))[:, 0]
        after = VariationalState(prior.unsqueeze(1), expected)
        if state.proposals is None:
            return self._mixture(memory, log_prior, after)
        log_proposal, *rest = state.proposals
        proposal = log_proposal.exp()
        after = dataclasses.replace(after, proposals=tuple(rest), posterior=proposal)
        penalty = _divergence(proposal, log_proposal, log_prior, memory.mask)
        if self.config.estimator == "enumerate":
            return _of_all(memory, log_proposal, penalty, after)
        if self.config.estimator == "reinforce":
            return _of_a_draw(memory, log_proposal, expected, penalty, after)
        drawn = gumbel_softmax(log_proposal, self.config.temperature, hard=self.config.straight_through)
        zeros = torch.zeros_like(penalty).unsqueeze(1)
        contexts = memory.values(drawn.unsqueeze(1))
        return VariationalReading(contexts, zeros, after.weights, zeros, penalty, after)

    def _mixture(
        self, memory: Memory, log_prior: Float[Tensor, "B S"], after: VariationalState
    ) -> VariationalReading:
        """A reading of all words, or of the K likeliest, their weights summing to 1."""
        penalty = log_prior.new_zeros(len(log_prior))
        if not self.config.contexts:
            return _of_all(memory, log_prior, penalty, after)
        found, positions = likeliest(log_prior, self.config.contexts)
        log_weights = found - found.logsumexp(-1, keepdim=True)
        return _of_words(words_at(memory, positions), positions, log_weights, penalty, after)


def _divergence(
    proposal: Float[Tensor, "B S"],
    log_proposal: Float[Tensor, "B S"],
    log_prior: Float[Tensor, "B S"],
    mask: Bool[Tensor, "B S"],
) -> Float[Tensor, "B"]:
    """KL(proposal || prior), in nats."""
    difference = log_proposal.masked_fill(~mask, 0.0) - log_prior.masked_fill(~mask, 0.0)
    return (proposal * difference).sum(-1)


def _of_words(
    contexts: Float[Tensor, "B K D"],
    positions: Int[Tensor, "B K"],
    log_weights: Float[Tensor, "B K"],
    penalty: Float[Tensor, "B"],
    after: VariationalState,
) -> VariationalReading:
    """A reading of words, each a context."""
    zeros = torch.zeros_like(log_weights)
    return VariationalReading(
        contexts, log_weights, after.weights, zeros, penalty, after, positions=positions
    )


def _of_all(
    memory: Memory, log_weights: Float[Tensor, "B S"], penalty: Float[Tensor, "B"], after: VariationalState
) -> VariationalReading:
    """A reading of all words, in their order."""
    places = torch.arange(log_weights.shape[1], device=log_weights.device).expand(log_weights.shape)
    return _of_words(memory.states, places, log_weights, penalty, after)


def _of_a_draw(
    memory: Memory,
    log_proposal: Float[Tensor, "B S"],
    expected: Float[Tensor, "B D"],
    penalty: Float[Tensor, "B"],
    after: VariationalState,
) -> VariationalReading:
    """A reading of one word drawn; beside it the prior's expectation, scored as a baseline and not read."""
    drawn = sample_categorical(log_proposal).unsqueeze(1)  # (B, 1)
    word = words_at(memory, drawn)
    contexts = torch.cat([word, expected.unsqueeze(1).to(word.dtype)], dim=1)
    log_policy = log_proposal.gather(1, drawn)
    zero = torch.zeros_like(log_policy)
    log_weights = torch.cat([zero, zero - torch.inf], dim=1)
    log_policy = torch.cat([log_policy, zero], dim=1)
    return VariationalReading(contexts, log_weights, after.weights, log_policy, penalty, after)
