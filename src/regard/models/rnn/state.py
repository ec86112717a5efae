"""The states of the recurrent decoder, and its parts during one forward pass."""

from dataclasses import dataclass

from regard.attention.base import AttentionStep, State
from regard.layers.batched_state import BatchedState
from regard.layers.cells import CellState
from regard.layers.step_linear import StepLinear
from regard.models.rnn.layers import OpenDecoder
from regard.models.rnn.readout import SourceReadout
from regard.types import Float, Tensor

__all__ = ["LstmState", "LstmStep", "PendingLstmState", "PreparedDecoder"]


@dataclass(frozen=True)
class LstmState(BatchedState):
    """The state of the decoder after a step: its layers, the attention state, and the next input feed."""

    layers: tuple[CellState, ...]
    attention: State
    input_feed: Tensor


@dataclass(frozen=True)
class PreparedDecoder:
    """The weights of the decoder, prepared for the steps of one forward pass."""

    layers: OpenDecoder
    combine: StepLinear | None
    source_readout: SourceReadout | None = None  # for a linear output layer with source positions as contexts


@dataclass(frozen=True)
class LstmStep:
    """The results of one step before its token is known."""

    layers: tuple[CellState, ...]
    top: Float[Tensor, "B D"]
    attention_step: AttentionStep
    outputs: Float[Tensor, "B C D"] | None  # the output layer's input for each context, where needed


@dataclass(frozen=True)
class PendingLstmState(BatchedState):
    """The state of the decoder before it is updated with the token of a step."""

    layers: tuple[CellState, ...]
    top: Float[Tensor, "B D"]
    output: Float[Tensor, "B D"] | None
