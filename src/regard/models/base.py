"""What a translation model offers to training and to search.

Training calls the model with a batch (teacher forcing) and gets an `Outcome`; search calls `begin` once and
then `step` and `observe` in turn. Both speak of attention through its contract alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention.base import Ending, Memory, Objective, Reading, Reward
from regard.data.batch import Batch, Sequences
from regard.data.vocabulary import BOS
from regard.errors import InfeasibleBounds
from regard.layers.rows import Rows
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "Chosen",
    "Constraints",
    "Look",
    "Memories",
    "Outcome",
    "Prediction",
    "TranslationModel",
    "marginalise",
    "real_steps",
    "used_up",
]

Memories = tuple[Memory, ...]  # one for each layer that attends to the source
Chosen = Callable[[Int[Tensor, "N"], Int[Tensor, "N"]], Float[Tensor, "N K"]]
Look = Literal["nothing", "source", "all"]
"""Which attention is wanted: none, that of the target to the source, or that of texts to themselves too."""


def marginalise(
    log_weights: Float[Tensor, "*B K"], log_likelihoods: Float[Tensor, "*B K"]
) -> Float[Tensor, "*B"]:
    """Log p(y) = logsumexp_k (log w_k + log p(y | context k)), in nats."""
    if log_weights.shape[-1] == 1:
        return (log_weights + log_likelihoods).squeeze(-1)
    return torch.logsumexp(log_weights + log_likelihoods, dim=-1)


@dataclass(frozen=True)
class Outcome:
    """What teacher forcing gives; all log-probabilities in nats.

    Attributes:
        log_likelihoods: [B, T, K], log p(y_t | y_<t, context k) of the reference; zero at padding, and it
            may be where a context is padding.
        average: [B, T, K], the mean over the vocabulary of those log-probabilities, where it was asked for
            (label smoothing); zero at padding.
        log_weights: [B, T, K], of the contexts.
        log_policy: [B, T, K], of what was sampled.
        penalty: [B, T].
        mask: [B, T], True at real target tokens, end symbol included.
        weights: For each attending layer [B, T, H, S], before the token is known, where somebody looks.
        beliefs: The same, now that it is (`State.belief`).
        advantage: [B, T], what was sampled brought, less what was expected, under the objective `reinforce`;
            none: log p(y_t | context) is what it brought.
        likeliest: [B, T], the likeliest token of each step, in training where the model's reward needs it.
        expected: [B, T], what a mechanism expects the rewards from each step on to come to; or none.
        encoder: Of a model with self-attention, for each layer of its encoder [B, H, S, S], where all is
            looked at; [b, h, i, j] is what word i gives to word j.
        decoder: The same of its decoder, [B, H, T, T].
    """

    log_likelihoods: Float[Tensor, "B T K"]
    average: Float[Tensor, "B T K"]
    log_weights: Float[Tensor, "B T K"]
    log_policy: Float[Tensor, "B T K"]
    penalty: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    weights: tuple[Float[Tensor, "B T _ S"], ...]  # layers may have other numbers of heads
    beliefs: tuple[Float[Tensor, "B T _ S"], ...]
    advantage: Float[Tensor, "B T"] | None = None
    likeliest: Int[Tensor, "B T"] | None = None
    expected: Float[Tensor, "B T"] | None = None
    encoder: tuple[Float[Tensor, "B _ S S"], ...] = ()
    decoder: tuple[Float[Tensor, "B _ T T"], ...] = ()

    @property
    def log_likelihood(self) -> Float[Tensor, "B T"]:
        """Log p(y_t | y_<t, source), the contexts marginalised; zero at padding."""
        return marginalise(self.log_weights, self.log_likelihoods).masked_fill(~self.mask, 0.0)


@dataclass(frozen=True)
class Prediction:
    """One step's distribution over the next token.

    Attributes:
        log_probs: [B, V], the contexts marginalised, in nats. Of several contexts nothing is below the
            logarithm of the least number (-87 in float32).
        by_context: Log p(token | context k), [N, K], of the tokens chosen for some rows, [N] each; none:
            there is one context. The same holds.
        readings: One for each attending layer.
        state: The decoder's state, before it knows the token.
        ending: Where the end symbol must or may not follow; none: it may everywhere.
    """

    log_probs: Float[Tensor, "B V"]
    by_context: Chosen | None
    readings: tuple[Reading, ...]
    state: Rows
    ending: Ending | None = None

    def likelihood(self, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> Float[Tensor, "N K"]:
        """Log p(token | context k) of the tokens chosen for some rows."""
        if self.by_context is None:
            return self.log_probs[rows, tokens].unsqueeze(1)
        return self.by_context(rows, tokens)


@dataclass(frozen=True)
class Constraints:
    """What a model's directory prescribes for its translations; all tokens are ids of ours.

    Attributes:
        before: The tokens that stand before every translation; the last one is what search starts with.
        never: Tokens that are never generated.
        never_first: Tokens that are never generated first.
        sequences: Sequences of two or more tokens that are never generated.
    """

    before: tuple[int, ...] = (BOS,)
    never: tuple[int, ...] = ()
    never_first: tuple[int, ...] = ()
    sequences: tuple[tuple[int, ...], ...] = ()


class TranslationModel(nn.Module, ABC):
    """A model of p(target | source).

    Attributes:
        objective: What training maximises.
        reward: What the objective `reinforce` rewards a draw by; see `Attention`.
    """

    objective: Objective = "marginal"
    reward: Reward | None = None

    @property
    def longest(self) -> int | None:
        """The most tokens that a sentence may have, a sink or end symbol included; none: any number."""
        return None

    @property
    def constraints(self) -> Constraints:
        """What stands before every translation, and what none may hold."""
        return Constraints()

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """The names of the parameters that are pre-trained, a layer in each group, from the output down.

        None for a model whose parameters all are new.
        """
        return ()

    @abstractmethod
    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """Teacher forcing.

        Args:
            batch: Sources and targets.
            average: Whether `Outcome.average` is wanted.
            look: Which attention is wanted; a model may give more.
        """

    @abstractmethod
    def begin(
        self,
        source: Sequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, Rows]:
        """Encode the sources of a search.

        Args:
            source: B sentences, each of at least one word.
            upper: The most attention each word may receive (its fertility), for mechanisms that bound it.
            lower: The least each word should receive.

        Returns:
            The prepared memories, one row a sentence, and the decoder's first state.
        """

    @abstractmethod
    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: Rows) -> Prediction:
        """Predict the token after `tokens`.

        Args:
            tokens: The last token of each hypothesis (the start symbol at first).
            memories: As `begin` made them, one row a hypothesis.
            state: The decoder's state after the token before.
        """

    @abstractmethod
    def observe(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> Rows:
        """The decoder's state for hypotheses that go on.

        Args:
            prediction: What `step` gave.
            rows: The row of the prediction that each goes on from.
            tokens: The token chosen for each.
        """

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Floating-point operations of one training step (forward and backward products) on a batch."""


def real_steps(batch: Batch) -> Bool[Tensor, "B T"] | None:
    """What `Memory.steps` is of a batch: none where nothing bounds attention."""
    return None if batch.upper is None or batch.target is None else batch.target.mask


def used_up(batch: Batch, error: InfeasibleBounds, step: int | None = None) -> InfeasibleBounds:
    """The same error, naming the sentence.

    Args:
        batch: The sentences.
        error: Its row is one of them.
        step: The time step at which it came, from 0, where that is known.
    """
    sentence = int(batch.rows[error.row[0]]) + 1 if error.row else "?"
    place = "" if step is None else f", time step {step} (counted from 0)"
    return InfeasibleBounds(
        f"sentence {sentence} of the prepared text{place}: less than one unit of attention is left of its "
        "words' fertilities; set data.fertility.sink = true, or raise the fertilities",
        error.row,
    )
