"""The interface of a translation model, as training and search use it.

Training calls the model with a batch (teacher forcing) and receives a `ForwardOutput`. Search calls `begin`
once, then alternates between `step`, which predicts the next token, and `update`, which updates the state
with the chosen tokens. Attention appears here only through its interface in `regard.attention.base`, so any
mechanism can be combined with any model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard.attention.base import AttentionStep, EosConstraint, Memory, Objective, Reward
from regard.data.batch import Batch, PaddedSequences
from regard.data.text import TextProcessor
from regard.data.vocabulary import BOS
from regard.errors import InfeasibleBoundsError
from regard.layers.batched_state import BatchedState
from regard.models.system import TrainableSystem
from regard.types import Bool, Float, Int, Tensor

__all__ = [
    "ForwardOutput",
    "GenerationConstraints",
    "Memories",
    "OutputAttentions",
    "Prediction",
    "TokenScorer",
    "TranslationModel",
    "marginalize",
    "name_infeasible_sentence",
    "target_step_mask",
]

Memories = tuple[Memory, ...]  # one per layer that attends to the source
TokenScorer = Callable[[Int[Tensor, "N"], Int[Tensor, "N"]], Float[Tensor, "N K"]]
OutputAttentions = Literal["nothing", "source", "all"]
"""The attention weights to return: none, cross-attention only, or cross-attention and self-attention."""


def marginalize(
    log_weights: Float[Tensor, "*B K"], log_likelihoods: Float[Tensor, "*B K"]
) -> Float[Tensor, "*B"]:
    """Return log p(y) = logsumexp_k (log w_k + log p(y | context k)), in nats."""
    # With one context logsumexp is the identity.
    if log_weights.shape[-1] == 1:
        return (log_weights + log_likelihoods).squeeze(-1)
    return torch.logsumexp(log_weights + log_likelihoods, dim=-1)


@dataclass(frozen=True)
class ForwardOutput:
    """The result of teacher forcing. All log-probabilities are in nats.

    Attributes:
        log_likelihoods: [B, T, K], log p(y_t | y_<t, context k) of the reference. Zero at target padding;
            may be zero for contexts that are padding.
        mean_log_probs: [B, T, K], the mean of the log-probabilities over the vocabulary, for label smoothing.
            Zero at padding, and everywhere if it was not requested.
        log_weights: [B, T, K], the log-weights of the contexts.
        log_policy: [B, T, K], the log-probability of the sampled source positions.
        penalty: [B, T], the mechanism's penalty, e.g. a KL divergence.
        mask: [B, T], True at real target tokens, the end symbol included.
        cross_attentions: For each layer with cross-attention, [B, T, H, S]: the attention weights before the
            target token is known. May be empty if attention was not requested.
        posteriors: For each layer with cross-attention, [B, T, H, S]: the posterior attention weights, given
            the target token (`State.posteriors`).
        advantage: [B, T], the return of the sampled action minus its baseline, under the objective
            `reinforce`. If None, the reward is log p(y_t | context).
        top_tokens: [B, T], the top-scoring token of each step. Computed only in training, if the model's
            reward needs it.
        baseline: [B, T], the mechanism's estimate of the return from each step (a learned baseline), or None.
        encoder_attentions: For each encoder layer with self-attention, [B, H, S, S], if all attention was
            requested; [b, h, i, j] is the weight of key j for query i.
        decoder_attentions: The same for the decoder's self-attention, [B, H, T, T].
    """

    log_likelihoods: Float[Tensor, "B T K"]
    mean_log_probs: Float[Tensor, "B T K"]
    log_weights: Float[Tensor, "B T K"]
    log_policy: Float[Tensor, "B T K"]
    penalty: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    cross_attentions: tuple[Float[Tensor, "B T _ S"], ...]  # the number of heads may differ between layers
    posteriors: tuple[Float[Tensor, "B T _ S"], ...]
    advantage: Float[Tensor, "B T"] | None = None
    top_tokens: Int[Tensor, "B T"] | None = None
    baseline: Float[Tensor, "B T"] | None = None
    encoder_attentions: tuple[Float[Tensor, "B _ S S"], ...] = ()
    decoder_attentions: tuple[Float[Tensor, "B _ T T"], ...] = ()

    @property
    def log_likelihood(self) -> Float[Tensor, "B T"]:
        """The log-probability log p(y_t | y_<t, source), marginalized over the contexts; zero at padding."""
        return marginalize(self.log_weights, self.log_likelihoods).masked_fill(~self.mask, 0.0)


@dataclass(frozen=True)
class Prediction:
    """The distribution over the next token at one time step.

    Attributes:
        log_probs: [B, V], the log-probabilities, marginalized over the contexts, in nats. With several
            contexts, values are clamped to the log of the smallest normal number (-87 in float32).
        context_log_probs: A function of rows [N] and tokens [N] that returns log p(token | context k), [N,
            K], clamped in the same way. None if there is only one context.
        attention_steps: One attention step per layer with cross-attention.
        state: The decoder's state before it is updated with the chosen token.
        eos_constraint: Where the end symbol is required or allowed. If None, it is allowed everywhere.
    """

    log_probs: Float[Tensor, "B V"]
    context_log_probs: TokenScorer | None
    attention_steps: tuple[AttentionStep, ...]
    state: BatchedState
    eos_constraint: EosConstraint | None = None

    def token_log_probs(self, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> Float[Tensor, "N K"]:
        """Return log p(token | context k) of the given tokens, each in the given row."""
        if self.context_log_probs is None:
            return self.log_probs[rows, tokens].unsqueeze(1)
        return self.context_log_probs(rows, tokens)


@dataclass(frozen=True)
class GenerationConstraints:
    """Constraints on the generated tokens that a model directory prescribes. All tokens are our ids.

    Attributes:
        prefix: The prefix of every translation; search starts with its last token.
        suppressed: Tokens that are never generated.
        suppressed_first: Tokens that are never generated at the first time step.
        banned_sequences: Sequences of two or more tokens that are never generated.
    """

    prefix: tuple[int, ...] = (BOS,)
    suppressed: tuple[int, ...] = ()
    suppressed_first: tuple[int, ...] = ()
    banned_sequences: tuple[tuple[int, ...], ...] = ()


class TranslationModel(nn.Module, TrainableSystem, ABC):
    """The base class of models of p(target | source).

    Attributes:
        objective: The training objective.
        reward: The reward of the objective `reinforce`; see `Attention`.
    """

    objective: Objective = "marginal"
    reward: Reward | None = None

    @classmethod
    def build(cls, config: Any, text: TextProcessor, model_dir: Path | None = None) -> "TranslationModel":
        """Call the class with the config and the sizes of both vocabularies; see `TrainableSystem.build`."""
        return cls(config, len(text.source.vocabulary), len(text.target.vocabulary))

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens per sentence, including a sink or end symbol. None means no maximum."""
        return None

    @property
    def constraints(self) -> GenerationConstraints:
        """The prefix of every translation, and the tokens that must not be generated."""
        return GenerationConstraints()

    def pretrained_layers(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the pre-trained parameters, grouped by layer, from the output to the input.

        Empty for a model that has no pre-trained parameters.
        """
        return ()

    @abstractmethod
    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the log-likelihoods of the targets (teacher forcing).

        Args:
            batch: Sources and targets.
            mean_log_probs: Whether to compute `ForwardOutput.mean_log_probs`.
            output_attentions: The attention weights to return. A model may return more.
        """

    @abstractmethod
    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, BatchedState]:
        """Encode the source sentences for search.

        Args:
            source: B sentences with at least one token each.
            upper: [B, S], the maximum total attention of each source token (its fertility), for mechanisms
                with bounds.
            lower: [B, S], the minimum total attention that each source token should receive.

        Returns:
            The prepared memories, one row per sentence, and the decoder's initial state.
        """

    @abstractmethod
    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Predict the token that follows `tokens`.

        Args:
            tokens: The last token of each hypothesis (the start symbol at the first step).
            memories: The memories from `begin`, one row per hypothesis.
            state: The decoder's state after the previous step.
        """

    @abstractmethod
    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> BatchedState:
        """Return the decoder's state of the hypotheses that are continued.

        Args:
            prediction: The result of `step`.
            rows: The row of the prediction that each hypothesis extends.
            tokens: The token that each hypothesis is extended with.
        """

    @abstractmethod
    def flops(self, batch: Batch) -> float:
        """Return the floating-point operations of one training step (forward and backward) on a batch."""


def target_step_mask(batch: Batch) -> Bool[Tensor, "B T"] | None:
    """Return the target mask for `Memory.target_mask`, or None if no fertilities bound the attention."""
    return None if batch.upper_bounds is None or batch.target is None else batch.target.mask


def name_infeasible_sentence(
    batch: Batch, error: InfeasibleBoundsError, step: int | None = None
) -> InfeasibleBoundsError:
    """Return the error with a message that names the sentence.

    Args:
        batch: The batch in which the error occurred.
        error: The error; its `row` is a row of the batch.
        step: The time step of the error, counted from 0, or None if unknown.
    """
    # `batch.rows` maps rows of the batch to the prepared text; messages count sentences from 1.
    sentence = int(batch.rows[error.row[0]]) + 1 if error.row else "?"
    place = "" if step is None else f", time step {step} (counted from 0)"
    return InfeasibleBoundsError(
        f"sentence {sentence} of the prepared text{place}: the remaining fertilities of the source words sum "
        "to less than one; set data.fertility.sink = true, or increase the fertilities",
        error.row,
    )
