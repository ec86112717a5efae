"""The layers of a decoder without recurrence: their interface, and the choice of their attention mechanisms.

A mechanism with several contexts, or one that samples, is allowed only in the last layer. Tokens are scored
for each of its contexts, so all computation above it is repeated per context.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from regard.attention.base import Attention
from regard.attention.registry import AttentionConfig, attention_class
from regard.attention.soft import SoftAttentionConfig
from regard.errors import ConfigError
from regard.layers.batched_state import BatchedState
from regard.text.vocabulary import PAD
from regard.types import Float, Tensor

__all__ = [
    "ATTENTION_HELP",
    "LAYER_ATTENTION_HELP",
    "LayerQuery",
    "OpenLayer",
    "StackLayer",
    "check_exclusive",
    "check_mechanisms",
    "expand_mechanisms",
    "normal_embedding",
]

ATTENTION_HELP = (
    "Attention mechanism of every decoder layer. `posterior`, `variational` and `hard` are used only in the "
    "last layer, with soft attention in the layers below."
)
LAYER_ATTENTION_HELP = (
    "Attention mechanisms of the decoder layers, lowest first, with exactly one table per layer, instead of "
    "[model.attention]."
)


@dataclass(frozen=True)
class LayerQuery:
    """The first half of a layer, before cross-attention.

    Attributes:
        residual: The residual input of `finish`.
        queries: The queries of the mechanism.
        finish: A function that computes the layer's output from `residual` (whose leading axes may be 1) and
            the contexts.
        self_attention: The layer's self-attention weights, if it has any and they were requested.
    """

    residual: Float[Tensor, "*B D"]
    queries: Float[Tensor, "*B Q"]
    finish: Callable[[Tensor, Tensor], Tensor]
    self_attention: Float[Tensor, "B _ T T"] | None = None


class OpenLayer(Protocol):
    """A decoder layer, prepared for one forward pass or one search."""

    def query(self, x: Tensor, embedded: Tensor, output_attentions: bool) -> LayerQuery:
        """Compute the first half of the layer for a whole target.

        Args:
            x: [B, T, D], the output of the layer below.
            embedded: [B, T, E], the embeddings of the previous tokens.
            output_attentions: Whether to return the self-attention.
        """
        ...

    def step(self, x: Tensor, cache: BatchedState, embedded: Tensor) -> tuple[LayerQuery, BatchedState]:
        """Compute the first half of the layer for one more token, from [B, D], and the updated cache."""
        ...

    def empty_cache(self, batch: int) -> BatchedState:
        """Return the cache of `batch` rows before the first token."""
        ...


class StackLayer(nn.Module, ABC):
    """A decoder layer with attention to the source."""

    cross_attention: Attention

    @abstractmethod
    def open(self) -> OpenLayer:
        """Prepare the layer for one forward pass or one search."""


def expand_mechanisms(
    attention: AttentionConfig,
    layer_attention: tuple[AttentionConfig, ...],
    num_layers: int,
    lower: AttentionConfig,
) -> tuple[AttentionConfig, ...]:
    """Return the mechanism of each layer, lowest layer first.

    Args:
        attention: The mechanism of all layers, or of the last layer if it is allowed only there.
        layer_attention: One mechanism per layer. If it is empty, `attention` is used.
        num_layers: Number of layers.
        lower: The mechanism of the lower layers if `attention` is allowed only in the last layer.
    """
    if layer_attention:
        return layer_attention
    # A mechanism that is allowed only in the last layer is replaced by `lower` in the others.
    return (*(lower if _only_in_last_layer(attention) else attention,) * (num_layers - 1), attention)


def check_exclusive(attention: AttentionConfig, layer_attention: tuple[AttentionConfig, ...]) -> None:
    """Check that `attention` and `layer_attention` are not both set.

    Raises:
        ValueError: if both are set.
    """
    # An explicit default cannot be distinguished from an absent table, so it is accepted.
    if layer_attention and attention != SoftAttentionConfig():
        raise ValueError("attention and layer_attention are both set: remove attention, or layer_attention")


def check_mechanisms(mechanisms: tuple[AttentionConfig, ...], num_layers: int) -> None:
    """Check that the mechanisms fit the layers of the decoder.

    Args:
        mechanisms: The mechanism of each layer.
        num_layers: Number of layers.

    Raises:
        ConfigError: if the number of mechanisms is wrong, or a mechanism is not allowed in its layer.
    """
    if len(mechanisms) != num_layers:
        raise ConfigError(
            f"model.layer_attention has {len(mechanisms)} mechanisms, but the decoder has {num_layers} "
            "layers: list one mechanism per layer"
        )
    for number, config in enumerate(mechanisms):
        if _only_in_last_layer(config) and number < num_layers - 1:
            raise ConfigError(
                f"model.layer_attention: {config.kind!r} is in layer {number}, but it is allowed only in "
                f"the last layer ({num_layers - 1}, counted from 0)"
            )
        if attention_class(config).needs_advance:
            raise ConfigError(f"attention {config.kind!r} needs a recurrent decoder: set model.kind = 'rnn'")


def _only_in_last_layer(config: AttentionConfig) -> bool:
    kind = attention_class(config)
    return kind.observes_tokens or kind.objective != "marginal"


def normal_embedding(size: int, width: int, std: float) -> nn.Embedding:
    """Return embeddings from N(0, std^2), with zeros for padding."""
    embedding = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(embedding.weight, 0, std)
    with torch.no_grad():
        # `normal_` also overwrites the zero vector of the padding symbol.
        embedding.weight[PAD] = 0
    return embedding
