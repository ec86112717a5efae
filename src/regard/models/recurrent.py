"""The recurrent encoder and decoder behind `regard.models.lstm`.

Encoder: deep, forward, reversed (Sutskever et al. 2014) or both ways (Bahdanau et al. 2015). Decoder: deep,
with what attention found fed back into its first layer (input feeding, Luong et al. 2015, Section 3.3).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.config import config, option
from regard.layers.cells import CellKind, CellState
from regard.layers.dropout import dropout
from regard.layers.recurrent import Direction, Recurrence, RecurrentLayer
from regard.layers.steps import StepProduct
from regard.types import Float, Int, Tensor

__all__ = [
    "Bridge",
    "BridgeKind",
    "DecoderLayers",
    "EncoderConfig",
    "OpenLayers",
    "RecurrentEncoder",
]

BridgeKind = Literal["copy", "dense", "learned", "zero"]


@config
class EncoderConfig:
    """The recurrent encoder."""

    kind: Literal["recurrent"] = option(default="recurrent", help="The encoder: a recurrent one.")
    layers: int = option(default=2, help="How many layers.", ge=1, le=256)
    width: int = option(
        default=500, help="Width of its states; with both directions each has half of it.", ge=2, le=16_384
    )
    direction: Direction = option(
        default="both", help="The order in which it reads: forward, reversed (last word first), or both."
    )
    cell: CellKind = option(default="lstm", help="The recurrent cell.")


class RecurrentEncoder(nn.Module):
    """A deep recurrent encoder, with dropout between its layers.

    Args:
        config: Its sizes.
        inputs: Width of the embeddings.
        dropout: Probability of dropping an input of a layer above the first.
    """

    def __init__(self, config: EncoderConfig, inputs: int, dropout: float) -> None:
        """Build the layers."""
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(
            RecurrentLayer(config.cell, config.width if i else inputs, config.width, config.direction)
            for i in range(config.layers)
        )

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B S D"], list[CellState]]:
        """The top layer's states, and each layer's state after the last word."""
        finals: list[CellState] = []
        for i, layer in enumerate(self.layers):
            if i:
                x = dropout(x, self.dropout, self.training)
            x, final = layer(x, lengths)
            finals.append(final)
        return x, finals


class Bridge(nn.Module):
    """The decoder's first state.

    Args:
        kind: `copy` the encoder's last states; a `dense` tanh layer of them; `learned` vectors (s_0 = w,
            Martins 2020); or `zero`.
        encoder: The encoder's layers and width.
        decoder: The decoder's layers and width.
        states: State tensors of a decoder layer.

    Raises:
        ValueError: if `copy` is asked for between different shapes.
    """

    def __init__(
        self, kind: BridgeKind, encoder: tuple[int, int], decoder: tuple[int, int], states: int
    ) -> None:
        """Make the parameters that the kind needs."""
        super().__init__()
        self.kind = kind
        self.layers, self.width = decoder
        if kind == "copy" and encoder != decoder:
            raise ValueError(
                f"bridge 'copy' needs encoder and decoder of one shape; got {encoder}, {decoder}"
            )
        self.dense = nn.ModuleList(
            nn.Linear(encoder[1], self.width) for _ in range(self.layers * states if kind == "dense" else 0)
        )
        shape = (self.layers, states, self.width) if kind == "learned" else (0,)
        self.learned = nn.Parameter(torch.zeros(shape)) if kind == "learned" else None

    def forward(self, finals: list[CellState], zeros: list[CellState]) -> list[CellState]:
        """The first state of each decoder layer.

        Args:
            finals: The encoder's last states, [B, D] each, its last layers standing for missing ones.
            zeros: Zero states of the decoder's layers, which give shapes and dtypes.
        """
        if self.kind == "zero":
            return zeros
        first: list[CellState] = []
        for i, layer in enumerate(zeros):
            tensors: list[Tensor] = []
            for k, like in enumerate(layer):
                if self.kind == "copy":
                    value = finals[i][min(k, len(finals[i]) - 1)]
                elif self.learned is not None:
                    value = self.learned[i, k].expand_as(like)
                else:
                    final = finals[min(i, len(finals) - 1)]
                    dense = self.dense[i * len(layer) + k]
                    value = torch.tanh(dense(final[min(k, len(final) - 1)].to(like.dtype)))
                tensors.append(value.to(like.dtype))
            first.append(tuple(tensors))
        return first


@dataclass(frozen=True)
class OpenLayers:
    """The decoder's products, opened for the steps of one forward pass."""

    feed: StepProduct | None
    inputs: tuple[StepProduct, ...]  # of the layers above the first
    hidden: tuple[StepProduct, ...]


class DecoderLayers(nn.Module):
    """The decoder's recurrent layers.

    Args:
        cell: The recurrent cell.
        layers: How many.
        embedding: Width of the target embeddings.
        feed: Width of what is fed back beside them; 0 for nothing.
        width: Width of the states.
        dropout: Probability of dropping an input of a layer above the first.
    """

    def __init__(
        self, cell: CellKind, layers: int, embedding: int, feed: int, width: int, dropout: float
    ) -> None:
        """Build the layers."""
        super().__init__()
        self.embedding, self.feed, self.width, self.dropout = embedding, feed, width, dropout
        self.layers = nn.ModuleList(
            Recurrence(cell, width if i else embedding + feed, width) for i in range(layers)
        )

    def _layer(self, i: int) -> Recurrence:
        layer = self.layers[i]
        assert isinstance(layer, Recurrence)
        return layer

    def open(self) -> OpenLayers:
        """Open the weights for the steps of one forward pass."""
        count = len(self.layers)
        return OpenLayers(
            feed=self._layer(0).open_inputs(self.embedding, self.feed) if self.feed else None,
            inputs=tuple(self._layer(i).open_inputs(0, self.width) for i in range(1, count)),
            hidden=tuple(self._layer(i).open_hidden() for i in range(count)),
        )

    def project(self, embedded: Float[Tensor, "*B E"]) -> Float[Tensor, "*B G"]:
        """The embeddings' share of the first layer's gates, for as many steps as are known."""
        return self._layer(0).project(embedded)

    def zeros(self, batch: int, like: Tensor) -> list[CellState]:
        """Zero states of every layer."""
        return [self._layer(i).zeros(batch, like=like) for i in range(len(self.layers))]

    def advance(
        self,
        opened: OpenLayers,
        gates: Float[Tensor, "B G"],
        feed: Float[Tensor, "B F"] | None,
        states: tuple[CellState, ...],
    ) -> tuple[tuple[CellState, ...], Float[Tensor, "B D"]]:
        """One step.

        Args:
            opened: The opened weights.
            gates: The embeddings' share of the first layer's gates.
            feed: What is fed back.
            states: The layers' states after the step before.

        Returns:
            The layers' states, and the top layer's hidden state.
        """
        if opened.feed is not None and feed is not None:
            gates = gates + opened.feed(feed)
        new: list[CellState] = []
        for i, state in enumerate(states):
            layer = self._layer(i)
            if i:
                below = dropout(new[-1][0], self.dropout, self.training)
                gates = opened.inputs[i - 1](below) + layer.bias.to(below.dtype)
            new.append(layer.step(gates, opened.hidden[i](state[0]), state))
        return tuple(new), new[-1][0]
