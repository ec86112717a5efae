"""Several models as one: the mean of their probabilities at every step.

    log p(y_t | y_<t, x) = log (1/n sum_i p_i(y_t | y_<t, x))

The attention of an ensemble is that of all its models, unaveraged: where they have as many layers each, the
heads of a layer are those of the first model, then of the second...; else it is all layers of the first, then
of the next.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from regard.attention.base import Ending, Reading
from regard.data.batch import Batch, Sequences
from regard.errors import UsageError
from regard.layers.rows import Rows
from regard.models.base import Constraints, Look, Memories, Outcome, Prediction, TranslationModel
from regard.types import Float, Int, Tensor

__all__ = ["Ensemble"]


@dataclass(frozen=True)
class _States(Rows):
    """The decoder state of each model, and how many memories each has."""

    states: tuple[Rows, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class _Pending(Rows):
    """What each model predicted, until the token is known."""

    predictions: tuple[Prediction, ...]
    counts: tuple[int, ...]


class Ensemble(TranslationModel):
    """Models of the same vocabularies that vote.

    Args:
        models: One or more.

    Raises:
        UsageError: if there is none.
    """

    def __init__(self, models: Sequence[TranslationModel]) -> None:
        """Take the models in."""
        super().__init__()
        if not models:
            raise UsageError("an ensemble needs at least one model")
        self.models = nn.ModuleList(models)

    def _members(self) -> list[TranslationModel]:
        return list(self.models)  # type: ignore[arg-type]

    @property
    def longest(self) -> int | None:
        """The least of its models'."""
        found = [model.longest for model in self._members()]
        return min((one for one in found if one is not None), default=None)

    @property
    def constraints(self) -> Constraints:
        """The first model's, whose search settings are the ensemble's."""
        return self._members()[0].constraints

    def begin(
        self,
        source: Sequences,
        upper: Float[Tensor, "B S"] | None = None,
        lower: Float[Tensor, "B S"] | None = None,
    ) -> tuple[Memories, _States]:
        """Encode with every model; see `TranslationModel.begin`."""
        begun = [model.begin(source, upper, lower) for model in self._members()]
        counts = tuple(len(memories) for memories, _ in begun)
        flat = tuple(memory for memories, _ in begun for memory in memories)
        return flat, _States(tuple(state for _, state in begun), counts)

    def step(self, tokens: Int[Tensor, "B"], memories: Memories, state: Rows) -> Prediction:
        """Average what the models predict; see `TranslationModel.step`."""
        assert isinstance(state, _States)
        predictions: list[Prediction] = []
        start = 0
        for model, own, count in zip(self._members(), state.states, state.counts, strict=True):
            predictions.append(model.step(tokens, memories[start : start + count], own))
            start += count
        log_probs = _mean_log([prediction.log_probs for prediction in predictions])
        readings = _joined([prediction.readings for prediction in predictions])
        ending = Ending.of_all([prediction.ending for prediction in predictions])
        return Prediction(log_probs, None, readings, _Pending(tuple(predictions), state.counts), ending)

    def observe(self, prediction: Prediction, rows: Int[Tensor, "N"], tokens: Int[Tensor, "N"]) -> _States:
        """Tell every model; see `TranslationModel.observe`."""
        pending = prediction.state
        assert isinstance(pending, _Pending)
        pairs = zip(self._members(), pending.predictions, strict=True)
        return _States(tuple(model.observe(own, rows, tokens) for model, own in pairs), pending.counts)

    def forward(self, batch: Batch, average: bool = False, look: Look = "source") -> Outcome:
        """The ensemble's probability of given targets; see `TranslationModel.forward`.

        `Outcome.average` is not known of an ensemble and stays zero: it is not trained.
        """
        outcomes: list[Outcome] = [model(batch, look=look) for model in self.models]
        first = outcomes[0]
        found = _mean_log([outcome.log_likelihood for outcome in outcomes]).unsqueeze(2)
        zeros = torch.zeros_like(found)
        weights = _side_by_side([outcome.weights for outcome in outcomes])
        found = found.masked_fill(~first.mask.unsqueeze(2), 0.0)
        beliefs = _side_by_side([outcome.beliefs for outcome in outcomes])
        return Outcome(found, zeros, zeros, zeros, zeros.squeeze(2), first.mask, weights, beliefs)

    def flops(self, batch: Batch) -> float:
        """The sum of the models'."""
        return sum(model.flops(batch) for model in self._members())


def _mean_log(log_probs: list[Tensor]) -> Tensor:
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))


def _side_by_side(weights: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Several models' weights, [..., H, S] for each of their layers, as one model's."""
    if len({len(layers) for layers in weights}) > 1:
        return tuple(layer for layers in weights for layer in layers)
    return tuple(torch.cat(layer, dim=-2) for layer in zip(*weights, strict=True))


def _joined(readings: Sequence[tuple[Reading, ...]]) -> tuple[Reading, ...]:
    """A reading for each layer of `_side_by_side`; what else it holds, nobody asks an ensemble for."""
    every = [reading for own in readings for reading in own]
    weights = _side_by_side([tuple(reading.weights for reading in own) for own in readings])
    return tuple(
        dataclasses.replace(reading, weights=layer)
        for reading, layer in zip(every[: len(weights)], weights, strict=True)
    )
