"""Ensembles: the mean of the probabilities of several models at every time step.

    log p(y_t | y_<t, x) = log (1/n sum_i p_i(y_t | y_<t, x))

The attention of an ensemble is the attention of all its models, not averaged. If all models have the same
number of attention layers, layer l of the ensemble contains the heads of layer l of the first model, then of
the second, and so on. Otherwise the layers of all models are concatenated, the first model's first.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.attention.base import AttentionStep, EosConstraint
from regard.data.batch import Batch, PaddedSequences
from regard.layers.batched_state import BatchedState
from regard.models.base import (
    ForwardOutput,
    GenerationConstraints,
    Memories,
    OutputAttentions,
    Prediction,
    TranslationModel,
)
from regard.types import Float, Int, Tensor


@dataclass(frozen=True)
class _EnsembleState(BatchedState):
    """Decoder state of each model, and the number of memories of each model."""

    states: tuple[BatchedState, ...]
    num_memories: tuple[int, ...]


@dataclass(frozen=True)
class _PendingState(BatchedState):
    """Prediction of each model, before the next token is known."""

    predictions: tuple[Prediction, ...]
    num_memories: tuple[int, ...]


class Ensemble(TranslationModel):
    """Ensemble of models that share their vocabularies."""

    def __init__(self, models: Sequence[TranslationModel]) -> None:
        """Store the models."""
        super().__init__()
        self.models = nn.ModuleList(models)
        self.scales_embeddings = all(model.scales_embeddings for model in models)

    @property
    def members(self) -> list[Any]:
        """Return the models."""
        return list(self.models)

    @property
    def config(self) -> Any:
        """Return the configuration of the first model."""
        return self.members[0].config

    @property
    def max_length(self) -> int | None:
        """Return the smallest maximum length of the models, or None if none has a limit."""
        limits = [model.max_length for model in self.members]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def constraints(self) -> GenerationConstraints:
        """Return the constraints of the first model, whose search settings the ensemble uses."""
        return self.members[0].constraints

    def begin(
        self,
        source: PaddedSequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, _EnsembleState]:
        """Encode with every model; see `TranslationModel.begin`."""
        begun = [model.begin(source, upper, lower) for model in self.members]
        counts = tuple(len(memories) for memories, _ in begun)
        flat = tuple(memory for memories, _ in begun for memory in memories)
        return flat, _EnsembleState(tuple(state for _, state in begun), counts)

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: BatchedState) -> Prediction:
        """Average the models' probabilities of the next token; see `TranslationModel.step`."""
        assert isinstance(state, _EnsembleState)
        predictions: list[Prediction] = []
        # The memories of all models are concatenated; each model receives its own part.
        start = 0
        for model, member_state, count in zip(self.members, state.states, state.num_memories, strict=True):
            predictions.append(model.step(tokens, memories[start : start + count], member_state))
            start += count
        log_probs = _log_mean([prediction.log_probs for prediction in predictions])
        attention_steps = _combine_attention_steps([prediction.attention_steps for prediction in predictions])
        eos_constraint = EosConstraint.combine([prediction.eos_constraint for prediction in predictions])
        # Each model applies the token to its own contexts in `update`, so the ensemble has none.
        return Prediction(
            log_probs,
            None,
            attention_steps,
            _PendingState(tuple(predictions), state.num_memories),
            eos_constraint,
        )

    def update(
        self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]
    ) -> _EnsembleState:
        """Pass the chosen tokens to every model; see `TranslationModel.update`."""
        pending = prediction.state
        assert isinstance(pending, _PendingState)
        pairs = zip(self.members, pending.predictions, strict=True)
        return _EnsembleState(
            tuple(model.update(member_prediction, rows, tokens) for model, member_prediction in pairs),
            pending.num_memories,
        )

    def forward(
        self, batch: Batch, mean_log_probs: bool = False, output_attentions: OutputAttentions = "source"
    ) -> ForwardOutput:
        """Compute the ensemble's log-probabilities of given targets; see `TranslationModel.forward`."""
        outcomes: list[ForwardOutput] = [
            model(batch, output_attentions=output_attentions) for model in self.members
        ]
        first = outcomes[0]
        log_likelihoods = _log_mean([outcome.log_likelihood for outcome in outcomes]).unsqueeze(2)
        zeros = torch.zeros_like(log_likelihoods)
        weights = _combine_layers([outcome.cross_attentions for outcome in outcomes])
        # Subtracting log n from the sum of n ones may leave rounding errors at padding.
        log_likelihoods = log_likelihoods.masked_fill(~first.mask.unsqueeze(2), 0.0)
        posteriors = _combine_layers([outcome.posteriors for outcome in outcomes])
        return ForwardOutput(
            log_likelihoods, zeros, zeros, zeros, zeros.squeeze(2), first.mask, weights, posteriors
        )


def _log_mean(log_probs: list[Tensor]) -> Tensor:
    """Return the logarithm of the mean of the models' probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))


def _combine_layers(weights: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Combine several models' weights, [..., H, S] per layer, as described in the module docstring."""
    if len({len(layers) for layers in weights}) > 1:
        return tuple(layer for layers in weights for layer in layers)
    return tuple(torch.cat(layer, dim=-2) for layer in zip(*weights, strict=True))


def _combine_attention_steps(
    attention_steps: Sequence[tuple[AttentionStep, ...]],
) -> tuple[AttentionStep, ...]:
    """Return one `AttentionStep` per combined layer. Only its weights are meaningful for an ensemble."""
    steps = [step for member_steps in attention_steps for step in member_steps]
    weights = _combine_layers([tuple(step.weights for step in layers) for layers in attention_steps])
    # Only the weights are used, so the other fields can come from any step.
    return tuple(dataclasses.replace(steps[i], weights=layer) for i, layer in enumerate(weights))
