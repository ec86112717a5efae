"""The encoder and the decoder of `regard.models.rnn.model`, and the decoder's states.

The recurrent encoder has several layers, which run forward, backward (Sutskever et al., 2014) or in both
directions (Bahdanau et al., 2015). The decoder has several layers; the attention result is fed back into the
first one (input feeding; Luong et al., 2015, Section 3.3).
"""

from dataclasses import dataclass

import torch
from torch import nn

from regard.attention.base import AttentionStep, State
from regard.kernels.dropout import dropout
from regard.layers.batched_state import BatchedState
from regard.layers.linear import StepLinear
from regard.layers.recurrent import CellState, RecurrentLayer, RecurrentWeights, lstm_cell
from regard.models.rnn.config import RnnConfig, RnnEncoderConfig
from regard.types import Float, Int, Tensor


class RecurrentEncoder(nn.Module):
    """A recurrent encoder of several layers, with dropout between them."""

    def __init__(self, config: RnnEncoderConfig, inputs: int, dropout: float) -> None:
        """Build the layers."""
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(
            RecurrentLayer(config.hidden_size if i else inputs, config.hidden_size, config.direction)
            for i in range(config.num_layers)
        )

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B S D"], list[CellState]]:
        """Return the top layer's states, and each layer's final state."""
        finals: list[CellState] = []
        for i, layer in enumerate(self.layers):
            if i:
                x = dropout(x, self.dropout, self.training)
            x, final = layer(x, lengths)
            finals.append(final)
        return x, finals


class StateInit(nn.Module):
    """Computes the decoder's initial state.

    It consists of the final states of the encoder (copy), a tanh layer of them (dense), or learned vectors
    (s_0 = w; Martins, 2020).
    """

    def __init__(self, config: RnnConfig) -> None:
        """Create the parameters that the kind of state needs."""
        super().__init__()
        decoder = config.decoder
        self.kind, self.num_layers, width = decoder.state_init, decoder.num_layers, decoder.hidden_size
        self.dense = nn.ModuleList(
            nn.Linear(config.encoder.hidden_size, width)
            for _ in range(2 * self.num_layers if self.kind == "dense" else 0)
        )
        self.learned = None
        if self.kind == "learned":
            self.learned = nn.Parameter(torch.zeros(self.num_layers, 2, width))

    def forward(self, finals: list[CellState]) -> list[CellState]:
        """Return the initial state of each decoder layer, given the final states of the encoder's layers.

        If the decoder has more layers, the last state is used for these.
        """
        first: list[CellState] = []
        for i in range(self.num_layers):
            hidden, cell = final = finals[min(i, len(finals) - 1)]
            if self.learned is not None:
                hidden, cell = self.learned[i].unsqueeze(1).expand(-1, len(hidden), -1)
            elif self.kind == "dense":
                # The cell state is in float32 even if the weights are not.
                inputs = hidden, cell.to(hidden.dtype)
                hidden, cell = (torch.tanh(self.dense[2 * i + k](x)) for k, x in enumerate(inputs))
            first.append((hidden.to(final[0].dtype), cell.to(final[1].dtype)))
        return first


@dataclass(frozen=True)
class OpenDecoder:
    """The weights of the decoder, prepared for the steps of one forward pass.

    Attributes:
        feed: That of the input-feeding vector in the first layer.
        inputs: Those of the inputs of all layers except the first.
        hidden: Those of the hidden states of all layers.
        combine: That of [context; state] before the output layer.
    """

    feed: StepLinear | None
    inputs: tuple[StepLinear, ...]
    hidden: tuple[StepLinear, ...]
    combine: StepLinear | None


class RecurrentDecoder(nn.Module):
    """The decoder's recurrent layers, with an input-feeding vector of size `feed`; 0 disables it."""

    def __init__(self, config: RnnConfig, feed: int) -> None:
        """Build the layers."""
        super().__init__()
        self.embedding, self.feed, self.dropout = config.embedding_size, feed, config.dropout
        decoder = config.decoder
        self.layers = nn.ModuleList(
            RecurrentWeights(decoder.hidden_size if i else self.embedding + feed, decoder.hidden_size)
            for i in range(decoder.num_layers)
        )

    def _layer(self, i: int) -> RecurrentWeights:
        layer = self.layers[i]
        assert isinstance(layer, RecurrentWeights)
        return layer

    def open(self, combine: Tensor | None) -> OpenDecoder:
        """Prepare the weights for the steps of one forward pass; see `OpenDecoder` for `combine`."""
        count = len(self.layers)
        return OpenDecoder(
            feed=StepLinear.prepare(self._layer(0).input_weight[self.embedding :]) if self.feed else None,
            inputs=tuple(StepLinear.prepare(self._layer(i).input_weight) for i in range(1, count)),
            hidden=tuple(StepLinear.prepare(self._layer(i).hidden_weight[0]) for i in range(count)),
            combine=None if combine is None else StepLinear.prepare(combine),
        )

    def project(self, embedded: Float[Tensor, "*B E"]) -> Float[Tensor, "*B G"]:
        """Compute the embeddings' part of the first layer's gates, for any number of steps at once."""
        return self._layer(0).project_inputs(embedded)

    def advance(
        self,
        opened: OpenDecoder,
        gates: Float[Tensor, "B G"],
        feed: Float[Tensor, "B F"] | None,
        states: tuple[CellState, ...],
    ) -> tuple[tuple[CellState, ...], Float[Tensor, "B D"]]:
        """Run one step, and return the layers' states and the top layer's hidden state.

        `gates` is the embeddings' part of the first layer's gates, `feed` the input-feeding vector.
        """
        # The first layer's input is [embedding; feed]; the two parts are multiplied separately.
        if opened.feed is not None and feed is not None:
            gates = gates + opened.feed(feed)
        new: list[CellState] = []
        for i, state in enumerate(states):
            # The bias of the first layer is already in `gates`.
            layer = self._layer(i)
            if i:
                below = dropout(new[-1][0], self.dropout, self.training)
                gates = opened.inputs[i - 1](below) + layer.bias.to(below.dtype)
            new.append(lstm_cell(gates, opened.hidden[i](state[0]), state))
        return tuple(new), new[-1][0]


@dataclass(frozen=True)
class RnnState(BatchedState):
    """The state of the decoder after a step: its layers, the attention state, and the next input feed."""

    layers: tuple[CellState, ...]
    attention: State
    input_feed: Tensor


@dataclass(frozen=True)
class RnnStep(BatchedState):
    """The results of one step before its token is known; `outputs` is the output layer's input."""

    layers: tuple[CellState, ...]
    top: Float[Tensor, "B D"]
    attention_step: AttentionStep
    outputs: Float[Tensor, "B C D"] | None


def initialize_uniform(model: nn.Module, limit: float) -> None:
    """Initialize all parameters uniformly from (-limit, limit), including embeddings of padding.

    Parameters that a plugin's class defines itself, such as a temperature, keep their values. These are the
    direct parameters of modules whose class is neither regard's nor PyTorch's.
    """
    excluded = {
        id(parameter)
        for part in model.modules()
        if type(part).__module__.partition(".")[0] not in ("regard", "torch")
        for parameter in part.parameters(recurse=False)
    }
    for parameter in model.parameters():
        if id(parameter) not in excluded:
            nn.init.uniform_(parameter, -limit, limit)
